"""Keeps what is made from the weights in a cache folder, so that it is made once and not at every start.

Each file carries the hash of its content: one that is cut short or changed is as good as absent. A file appears whole
or not at all (written under another name, then renamed), so any number of processes may make it at once and the last
one wins with the same content. A folder that cannot be written costs time at every start, never the result.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile

_LOGGER = logging.getLogger(__name__)
# Part of every file's name; raise it whenever the same weights are made into something else.
_RECIPE = "e5-small-3"
_MAGIC = b"heliograph\n"
_DIGEST_BYTES = 32


class ArtefactCache:
    """Named byte strings in a folder.

    Args:
        folder: Where they are; made when something is first written. None keeps nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._is_writable = folder is not None

    def get(self, name: str, make: Callable[[], bytes]) -> bytes:
        """Return an artefact, made now if it is absent, damaged or cannot be read."""
        kept = self.read(name)
        if kept is not None:
            return kept
        made = make()
        self.write(name, made)
        return made

    def read(self, name: str) -> bytes | None:
        """Return an artefact, or None if it is absent, damaged or cannot be read."""
        if self._folder is None:
            return None
        try:
            data = self._path(self._folder, name).read_bytes()
        except OSError:
            return None
        start = len(_MAGIC) + _DIGEST_BYTES
        content = data[start:]
        if data[:start] == _MAGIC + hashlib.sha256(content).digest():
            return content
        _LOGGER.warning("%s is damaged and will be made anew", self._path(self._folder, name))
        return None

    def write(self, name: str, content: bytes) -> None:
        """Keep an artefact; a folder that is full or may not be written is reported in the log once, and left alone."""
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
        # Not synced to disk: what a loss of power leaves half written is found by its hash.
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            try:
                file.write(_MAGIC + hashlib.sha256(content).digest())
                file.write(content)
                file.flush()
                Path(file.name).replace(path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise

    @staticmethod
    def _path(folder: Path, name: str) -> Path:
        return folder / f"{_RECIPE}-{name}.bin"
