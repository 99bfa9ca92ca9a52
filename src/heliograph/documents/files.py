"""Finding the files to load: folders are walked, files are taken as given.

Paths go in; a list without repeats comes out, in the order given and sorted within each folder. Hidden files and
folders are passed over unless they were named themselves; links are followed, each folder once.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from heliograph.errors import IngestError

__all__ = ["TEXT_SUFFIXES", "find_files"]

TEXT_SUFFIXES = frozenset({".md", ".markdown", ".txt"})

_log = logging.getLogger(__name__)


def find_files(paths: Iterable[str | os.PathLike[str]], suffixes: frozenset[str] = TEXT_SUFFIXES) -> list[Path]:
    """Return the files that these paths lead to; a file reached twice is returned once.

    A folder within that may not be read is skipped with a warning, as is a link that leads nowhere.

    Args:
        paths: Files, taken whatever their ending, and folders.
        suffixes: Endings, in lower case and with the dot, of the files taken from folders.

    Raises:
        IngestError: A given path does not exist.
    """
    found: dict[str, Path] = {}
    for given in paths:
        path = Path(given)
        if not path.exists():
            raise IngestError(f"there is no file or folder {str(path)!r}; check the path")
        for file in _walk(path, suffixes, set()) if path.is_dir() else (path,):
            found.setdefault(os.path.realpath(file), file)
    return list(found.values())


def _walk(folder: Path, suffixes: frozenset[str], seen: set[str]) -> Iterator[Path]:
    pending = [folder]
    while pending:
        path = pending.pop()
        if path.is_dir():
            # Children in reverse, as the last one pushed is taken first.
            pending.extend(reversed(_children(path, seen)))
        elif path.suffix.lower() in suffixes and path.is_file():
            yield path


def _children(folder: Path, seen: set[str]) -> list[Path]:
    real = os.path.realpath(folder)
    if real in seen:
        return []
    seen.add(real)
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        _log.warning("the folder %r is skipped: %s", str(folder), error.strerror)
        return []
