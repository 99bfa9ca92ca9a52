"""Finds files to load by folder and pattern, and reads files and URLs within limits."""

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

from heliograph.documents.base import Limits, LoadedDocument, RawDocument
from heliograph.documents.isolation import DocumentReader
from heliograph.documents.registry import is_read
from heliograph.errors import IngestError
from heliograph.settings import DocumentSettings

# Patterns for paths, like those of `.gitignore`.
#
# `*` and `?` match anything but `/`, `**` any number of folders, `[ab]` one of these characters. A pattern with a `/`
# that is not its last character is matched from the folder that is walked, others at any depth; one that matches a
# folder matches everything in it, and one that ends with `/` matches folders only.


def matches_any(path: str, patterns: Iterable[str]) -> bool:
    """Return whether a path relative to the folder, with `/` between its parts, matches one of the patterns."""
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
    """Which files are taken from a folder; files that are named themselves are always taken.

    Include patterns apply whatever the suffix; without any, all files with a known suffix are taken. Exclude patterns
    override them, for folders too.
    """

    include: Sequence[str] = ()
    exclude: Sequence[str] = ()

    def takes(self, path: str) -> bool:
        """Return whether a file is taken, given its path relative to the folder with `/` between its parts."""
        if matches_any(path, self.exclude):
            return False
        return matches_any(path, self.include) if self.include else is_read(path)

    def enters(self, path: str) -> bool:
        """Return whether a subfolder may hold files that are taken."""
        return not matches_any(path, self.exclude) and not matches_any(f"{path}/", self.exclude)


def find_files(
    paths: Iterable[str | os.PathLike[str]],
    files: FileFilter | None = None,
    passed_over: MutableMapping[str, int] | None = None,
) -> list[Path]:
    """Return the files at and below these paths, each once; a file that is also named itself keeps that path.

    Hidden files and folders, and empty files, are skipped unless they are named; links are followed, each folder once.
    An unreadable subfolder is skipped with a warning, as is a dangling link. Without include patterns, `passed_over`
    counts skipped files of unknown kind per suffix.

    Raises:
        IngestError: A given path does not exist, or cannot be one.
    """
    found: dict[str, Path] = {}
    for given in paths:
        # An empty path would mean the working directory, and usually comes from an unset variable.
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
    """Return the error of a path that leads to nothing; None if it exists."""
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
            # In reverse, because the last one pushed is popped first.
            children = sorted((child for child in path.iterdir() if not child.name.startswith(".")), reverse=True)
        except OSError as error:
            _log.warning("the folder %r is skipped: %s", str(path), error.strerror)
            continue
        pending.extend((child, f"{below}/{child.name}" if below else child.name) for child in children)


def _holds_something(path: Path) -> bool:
    """Return whether this is a non-empty file; empty ones mark folders or are placeholders."""
    try:
        return path.is_file() and path.stat().st_size > 0
    except OSError:
        return False


def is_url(source: str) -> bool:
    """Return whether a source is a URL, of any scheme, and not a path."""
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
    """Reads files and URLs; its methods block and may be called from any thread except that of an event loop."""

    def __init__(self, settings: DocumentSettings, max_characters: int) -> None:
        """Start nothing yet."""
        self._settings = settings
        limits = Limits(
            max_bytes=settings.max_file_bytes,
            max_characters=max_characters,
            max_pages=settings.max_pages,
            max_unpacked_bytes=settings.max_unpacked_bytes,
            max_archive_entries=settings.max_archive_entries,
            max_compression_ratio=settings.max_compression_ratio,
            max_memory_bytes=settings.max_memory_bytes,
            timeout_seconds=settings.timeout_seconds,
        )
        self._reader = DocumentReader(limits, isolate=settings.isolate)

    def read(self, source: str, name: str = "") -> LoadedDocument:
        """Read a file or URL; its name is `name` if that has the path's suffix, else the path.

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
        # The suffix decides a file's format.
        is_kind_kept = PurePath(name).suffix == PurePath(source).suffix
        return read_file(source, self._settings.max_file_bytes, name if is_kind_kept else "")

    def load(self, raw: RawDocument) -> LoadedDocument:
        """Read a source from its bytes; raises as `read`."""
        return self._reader.load(raw)

    def draw_page(self, path: str | os.PathLike[str], name: str, number: int, width: int) -> bytes:
        """Return a page of a PDF file, which is called `name` in messages, as PNG; see `DocumentReader.draw_page`."""
        return self._reader.draw_page(read_file(path, self._settings.max_file_bytes, name), number, width)

    def close(self) -> None:
        """Stop reading and kill the reading process; the reader may be used again."""
        self._reader.close()


def find_sources(
    sources: Iterable[str | os.PathLike[str]],
    files: FileFilter | None = None,
    passed_over: MutableMapping[str, int] | None = None,
) -> list[str]:
    """Return the files and URLs of these sources, in order and without repeats; folders are walked (`find_files`).

    A missing path among several is returned as it is: reading it fails with an error, and the others continue.

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
