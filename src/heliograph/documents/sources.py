"""Finds files to load by folder and pattern, and reads sources of every kind, files and URLs, within limits."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import stat
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path, PurePath

from heliograph.documents.base import LoadedDocument, RawDocument
from heliograph.documents.isolation import DocumentReader, limits_of
from heliograph.documents.registry import is_read
from heliograph.errors import IngestError
from heliograph.settings import DocumentSettings

# Patterns for paths, as `.gitignore` has them.
#
# `*` and `?` stand for anything but `/`, `**` for any number of folders, `[ab]` for one of these characters. A
# pattern with a `/` that is not its last character is matched from the folder that is walked, others at any depth;
# one that matches a folder matches everything in it, and one that ends with `/` matches folders only.


def matches_any(path: str, patterns: Iterable[str]) -> bool:
    """Return whether a path below the folder, with `/` between its parts, matches one of the patterns."""
    return any(_compile(pattern).fullmatch(path) for pattern in patterns if pattern.strip("/"))


@lru_cache(maxsize=256)
def _compile(pattern: str) -> re.Pattern[str]:
    is_folder = pattern.endswith("/")
    below = "/.*" if is_folder else "(?:/.*)?"
    pattern = pattern.rstrip("/")
    expression = "" if "/" in pattern else "(?:.*/)?"
    pattern = pattern.lstrip("/")
    position = 0
    while position < len(pattern):
        rest = pattern[position:]
        if rest.startswith("**/"):
            expression, position = expression + "(?:.*/)?", position + 3
        elif rest.startswith("**"):
            expression, position = expression + ".*", position + 2
        elif rest[0] == "*":
            expression, position = expression + "[^/]*", position + 1
        elif rest[0] == "?":
            expression, position = expression + "[^/]", position + 1
        elif match := re.match(r"\[([!^]?)(\]?[^\]/]*)\]", rest):
            characters = match[2].replace("\\", "\\\\").replace("[", "\\[")
            expression += f"[{'^/' if match[1] else ''}{characters}]" if match[2] else re.escape(match[0])
            position += match.end()
        else:
            expression, position = expression + re.escape(rest[0]), position + 1
    return re.compile(expression + below, re.DOTALL)


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FileFilter:
    """Which files are taken from a folder; files that are given themselves are always taken.

    Patterns to include hold whatever the ending, none takes all whose ending is known; those to exclude go over them,
    of folders too.
    """

    include: Sequence[str] = ()
    exclude: Sequence[str] = ()

    def takes(self, path: str) -> bool:
        """Return whether a file is taken, given its path below the folder with `/` between its parts."""
        if matches_any(path, self.exclude):
            return False
        return matches_any(path, self.include) if self.include else is_read(path)

    def enters(self, path: str) -> bool:
        """Return whether a folder below the folder may hold files that are taken."""
        return not matches_any(path, self.exclude) and not matches_any(f"{path}/", self.exclude)


def find_files(
    paths: Iterable[str | os.PathLike[str]],
    files: FileFilter | None = None,
    passed_over: MutableMapping[str, int] | None = None,
) -> list[Path]:
    """Return the files that these paths lead to; a file reached twice is returned once, by its own path if by that too.

    Hidden files and folders, and files without a byte, are passed over unless they are given; links are followed, each
    folder once. A folder within that may not be read is skipped with a warning, as is a link that leads nowhere.
    Where no patterns say what to take, `passed_over` is told per ending how many files are of no known kind.

    Raises:
        IngestError: A given path does not exist, or cannot be one.
    """
    found: dict[str, Path] = {}
    for given in paths:
        # An empty path would be the working directory, and is mostly a variable that was never set.
        if not os.fspath(given):
            raise IngestError("a path is empty; give '.' for the working directory")
        path = Path(given)
        if error := find_path_error(path):
            raise error
        for file in _walk(path, files or FileFilter(), passed_over) if path.is_dir() else (path,):
            real = os.path.realpath(file)
            if real not in found or os.path.abspath(file) == real:  # noqa: PTH100 (the links in it stay)
                found[real] = file
    return list(found.values())


def find_path_error(path: str | os.PathLike[str]) -> IngestError | None:
    """Return why a path leads to nothing; None if there is something."""
    try:
        Path(path).stat()
    except FileNotFoundError:
        return IngestError(f"there is no file or folder {os.fspath(path)!r}; check the path")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        return IngestError(f"there is no file or folder {os.fspath(path)!r} ({why}); check the path")
    return None


def _walk(folder: Path, files: FileFilter, passed_over: MutableMapping[str, int] | None) -> Iterator[Path]:
    seen: set[str] = set()
    pending = [(folder, "")]
    while pending:
        path, below = pending.pop()
        if not path.is_dir():
            if files.takes(below):
                if _holds_something(path):
                    yield path
            elif passed_over is not None and not files.include and files.enters(below) and _holds_something(path):
                suffix = path.suffix.lower()
                passed_over[suffix] = passed_over.get(suffix, 0) + 1
            continue
        real = os.path.realpath(path)
        if real in seen or (below and not files.enters(below)):
            continue
        seen.add(real)
        try:
            # In reverse, as the last one pushed is taken first.
            children = sorted((child for child in path.iterdir() if not child.name.startswith(".")), reverse=True)
        except OSError as error:
            _log.warning("the folder %r is skipped: %s", str(path), error.strerror)
            continue
        pending.extend((child, f"{below}/{child.name}" if below else child.name) for child in children)


def _holds_something(path: Path) -> bool:
    """Return whether this is a file with something in it; empty ones mark folders and hold places."""
    try:
        return path.is_file() and path.stat().st_size > 0
    except OSError:
        return False


def is_url(source: str) -> bool:
    """Return whether a source is a URL, of whatever scheme, and not a path."""
    scheme, mark, _ = source.partition("://")
    return bool(mark) and scheme[:1].isalpha() and scheme.replace("+", "").replace("-", "").replace(".", "").isalnum()


def read_file(path: str | os.PathLike[str], max_bytes: int, name: str = "") -> RawDocument:
    """Return a file's bytes; blocks. Links are followed; a longer file is refused unread.

    `name` is what the document is called, here and in messages; empty takes the path.

    Raises:
        IngestError: It is missing, unreadable, no regular file, or too long.
    """
    name = name or os.fspath(path)
    try:
        status = Path(path).stat()
        # A pipe or a device would never end.
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            raise IngestError(f"{name!r} is {kind}; give files, or folders that hold them")
        with Path(path).open("rb") as file:
            # One byte more, so that a file that grows meanwhile is noticed.
            data = file.read(max_bytes + 1) if status.st_size <= max_bytes else b""
    except OSError as error:
        raise IngestError(f"{name!r} cannot be read ({error.strerror}); check the path and its permissions") from error
    except ValueError as error:
        raise IngestError(f"{name!r} is not a path ({error})") from error
    if status.st_size > max_bytes or len(data) > max_bytes:
        size = max(status.st_size, len(data))
        raise IngestError(
            f"{name!r} has {size:,} bytes, more than {max_bytes:,}; split it, or raise documents.max_file_bytes"
        )
    return RawDocument(name, data)


class SourceReader:
    """Reads files and URLs; its methods block and may be called from any thread but that of an event loop."""

    def __init__(self, settings: DocumentSettings, max_characters: int) -> None:
        """Start nothing yet."""
        self._settings = settings
        self._reader = DocumentReader(limits_of(settings, max_characters), isolate=settings.isolate)

    def read(self, source: str, name: str = "") -> LoadedDocument:
        """Return what a file or URL says; it is called `name` if that ends as the path does, else by the path.

        Raises:
            IngestError: It cannot be read or fetched; says why and what to do.
            MissingDependencyError: The package that reads it is not installed.
        """
        return self.load(self.fetch(source, name))

    def fetch(self, source: str, name: str = "") -> RawDocument:
        """Return the bytes of a file or URL, or raise `IngestError`; see `read`."""
        if is_url(source):
            # Imported on use: a process that asks questions needs no HTTP client.
            return asyncio.run(import_module("heliograph.documents.fetching").fetch(source, self._settings))
        # Of what kind a file is shows by how its name ends.
        is_kind_kept = PurePath(name).suffix == PurePath(source).suffix
        return read_file(source, self._settings.max_file_bytes, name if is_kind_kept else "")

    def load(self, raw: RawDocument) -> LoadedDocument:
        """Return what the bytes of a source say; raises as `read`."""
        return self._reader.load(raw)

    def draw_page(self, path: str | os.PathLike[str], name: str, number: int, width: int) -> bytes:
        """Return a page of a PDF file, which is called `name` in messages, as PNG; see `DocumentReader.draw_page`."""
        return self._reader.draw_page(read_file(path, self._settings.max_file_bytes, name), number, width)

    def close(self) -> None:
        """Stop reading and end the reading process; the reader may be used again."""
        self._reader.close()


def find_sources(
    sources: Iterable[str | os.PathLike[str]],
    files: FileFilter | None = None,
    passed_over: MutableMapping[str, int] | None = None,
) -> list[str]:
    """Return the files and URLs that these lead to, in order and without repeats; folders are walked (`find_files`).

    One of several that does not exist is returned as it is: its reader says so, and the others go on.

    Raises:
        IngestError: None of them exists, or a path is empty.
    """
    given = list(sources)
    missing = {
        source: error for source in given if not is_url(os.fspath(source)) and (error := find_path_error(source))
    }
    if missing and all(source in missing for source in given):
        raise next(iter(missing.values()))
    found: dict[str, None] = {}
    paths: list[str | os.PathLike[str]] = []
    for source in given:
        if is_url(os.fspath(source)) or source in missing:
            found.update(dict.fromkeys(map(str, find_files(paths, files, passed_over))))
            found[os.fspath(source)] = None
            paths = []
        else:
            paths.append(source)
    found.update(dict.fromkeys(map(str, find_files(paths, files, passed_over))))
    return list(found)
