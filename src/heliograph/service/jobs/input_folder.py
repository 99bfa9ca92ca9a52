"""The input folder of one workspace, for uploads and scans: safe file names, and its files.

A name that came from outside is checked before it becomes a path, and no path created here leads out of the folder.
Names that begin with a dot are unfinished uploads, or hidden; they are never read.
"""

from __future__ import annotations

import filecmp
import os
import re
import shutil
import time
import unicodedata
from contextlib import suppress
from pathlib import Path, PurePath
from typing import BinaryIO

from heliograph.documents.markdown import clean_text
from heliograph.documents.registry import is_read, known_suffixes
from heliograph.documents.sources import FileFilter, find_files
from heliograph.errors import ConflictError, InvalidRequestError, StoreUnavailable

_MOST_NAME_BYTES = 240
_PART = ".upload-"
_PART_SECONDS = 86_400
_RESERVED = frozenset({"con", "prn", "aux", "nul"}) | {f"{kind}{n}" for kind in ("com", "lpt") for n in "0123456789¹²³"}
# Joiners are part of words in some scripts; other invisible characters could make two names look the same.
_JOINERS = "\u200c\u200d"
# Endings of manual pages (".3perl") and of parts of Info files, which are many.
_OF_SECTIONS = re.compile(r"\.(?:info-)?\d")
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def checked_name(name: str) -> str:
    """Return the name of an uploaded file if it is safe as a file name.

    Raises:
        InvalidRequestError: It is empty, too long or reserved, holds forbidden characters, or has the ending of an
            unsupported format.
    """
    name = unicodedata.normalize("NFC", name).strip()
    if why := _fault_of(name):
        raise InvalidRequestError(f"{name!r:.120} is no name for an upload: it {why}; rename the file")
    if not is_read(name, given=True):
        known = ", ".join(sorted(ending for ending in known_suffixes(given=True) if not _OF_SECTIONS.match(ending)))
        raise InvalidRequestError(f"{name!r} is of a kind that is not read; known endings: {known}, .1 to .9")
    return name


def _fault_of(name: str) -> str:
    # Compared in normalised form: some characters stand for dots and slashes.
    plain = unicodedata.normalize("NFKC", name)
    if not name or not plain.strip(" ."):
        return "is empty"
    if any(mark in text for mark in '/\\:*?"<>|' for text in (name, plain)):
        return 'holds one of / \\ : * ? " < > |'
    if any(unicodedata.category(item) in _UNSEEN and item not in _JOINERS for item in name):
        return "holds characters that cannot be seen"
    if plain.startswith(".") or plain.endswith((".", " ")):
        return "begins or ends with a dot"
    if len(name.encode()) > _MOST_NAME_BYTES:
        return f"has more than {_MOST_NAME_BYTES} bytes"
    return "is reserved by an operating system" if plain.split(".")[0].strip().lower() in _RESERVED else ""


class InputFolder:
    """One workspace's folder; methods block."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def find(self, source: str) -> Path | None:
        """Return the path of a source, or None if it is not a file of this folder."""
        if not source or "\0" in source or PurePath(source).is_absolute() or ".." in PurePath(source).parts:
            return None
        path = self.path / source
        try:
            return path if path.is_file() and path.resolve().is_relative_to(self.path.resolve()) else None
        except OSError:
            return None

    def files(self) -> dict[str, tuple[Path, tuple[int, int]]]:
        """Return all readable files, by name below the folder, with modification time in ns and size.

        Links to files outside the folder are ignored.

        Raises:
            IngestError: The folder cannot be read.
        """
        if not self.path.is_dir():
            return {}
        found: dict[str, tuple[Path, tuple[int, int]]] = {}
        inside = self.path.resolve()
        for path in find_files([self.path], FileFilter()):
            if path.resolve().is_relative_to(inside) and (stamp := self.stamp(path)) is not None:
                found[clean_text(path.relative_to(self.path).as_posix())] = path, stamp
        return found

    @staticmethod
    def stamp(path: Path) -> tuple[int, int] | None:
        """Return modification time in ns and size of a file; None if it does not exist."""
        try:
            found = path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size

    def begin(self, name: str) -> BinaryIO:
        """Return a new temporary file for an upload that will get this name when complete.

        Raises:
            ConflictError: The name is taken by something other than a file.
            StoreUnavailable: The folder cannot be created or written to.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            _check_free(self.path / name)
            # Remove partial uploads of processes that died.
            for path in self.path.glob(f"{_PART}*"):
                if (stamp := self.stamp(path)) is not None and time.time() - stamp[0] / 1e9 > _PART_SECONDS:
                    path.unlink(missing_ok=True)
            return (self.path / f"{_PART}{os.urandom(8).hex()}").open("xb")
        except OSError as error:
            raise StoreUnavailable(f"the input folder {self.path.name!r} cannot be made: {error.strerror}") from error

    def finish(self, part: BinaryIO, name: str) -> bool:
        """Rename a complete upload durably, replacing a file of this name; return whether that changed anything.

        Raises:
            ConflictError: The name has been taken by something other than a file.
            StoreUnavailable: It cannot be done.
        """
        target = self.path / name
        _check_free(target)
        try:
            part.flush()
            os.fsync(part.fileno())
            if target.is_file() and filecmp.cmp(part.name, target, shallow=False):
                return False
            Path(part.name).replace(target)
            descriptor = os.open(self.path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StoreUnavailable(f"the upload {name!r} cannot be kept: {error.strerror}; check the disk") from error
        return True

    @staticmethod
    def end(part: BinaryIO) -> None:
        """Close an upload's temporary file, and remove it unless it was renamed."""
        # A full disk has been reported by now.
        with suppress(OSError):
            part.close()
        Path(part.name).unlink(missing_ok=True)

    def remove(self, source: str) -> bool:
        """Remove the file of a source; return whether it was a file of this folder."""
        path = self.find(source)
        if path is None:
            return False
        path.unlink(missing_ok=True)
        return True

    def clear(self) -> int:
        """Remove all files except uploads in progress; return how many could be read. Raises `StoreUnavailable`."""
        count = len(self.files())
        try:
            for path in list(self.path.iterdir()) if self.path.is_dir() else []:
                if path.name.startswith(_PART):
                    continue
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreUnavailable(f"a file of the input folder cannot be removed: {error.strerror}") from error
        return count


def _check_free(path: Path) -> None:
    if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
        raise ConflictError(f"{path.name!r} is a folder or a link in the input folder; give the upload another name")
