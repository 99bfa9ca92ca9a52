"""Sources of every kind behind one method: files and URLs, each read within limits."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import PurePath

from heliograph.documents.addresses import Resolver, resolve
from heliograph.documents.base import LoadedDocument, RawDocument
from heliograph.documents.fetching import fetch, is_url
from heliograph.documents.files import FileFilter, find_files, find_path_error
from heliograph.documents.isolation import DocumentReader, limits_of
from heliograph.documents.reading import read_file
from heliograph.settings import DocumentSettings

__all__ = ["SourceReader", "find_sources"]


class SourceReader:
    """Reads files and URLs; its methods block and may be called from any thread but that of an event loop."""

    def __init__(self, settings: DocumentSettings, max_characters: int, resolver: Resolver = resolve) -> None:
        """Start nothing yet.

        Args:
            settings: Limits, and which addresses may be reached.
            max_characters: A longer text is refused.
            resolver: Gives the addresses of a host.
        """
        self._settings = settings
        self._resolver = resolver
        self._reader = DocumentReader(limits_of(settings, max_characters), isolate=settings.isolate)

    def read(self, source: str, name: str = "") -> LoadedDocument:
        """Return what a file or URL says.

        Args:
            source: A path or URL.
            name: What the document is called, here and in messages, if it ends as the path does; else the path.

        Raises:
            IngestError: It cannot be read or fetched; says why and what to do.
            MissingDependencyError: The package that reads it is not installed.
        """
        return self.load(self.fetch(source, name))

    def fetch(self, source: str, name: str = "") -> RawDocument:
        """Return the bytes of a file or URL; see `read`.

        Raises:
            IngestError: It cannot be read or fetched.
        """
        if is_url(source):
            return asyncio.run(fetch(source, self._settings, self._resolver))
        # Of what kind a file is shows by how its name ends.
        is_kind_kept = PurePath(name).suffix == PurePath(source).suffix
        return read_file(source, self._settings.max_file_bytes, name if is_kind_kept else "")

    def load(self, raw: RawDocument) -> LoadedDocument:
        """Return what the bytes of a source say; raises as `read`."""
        return self._reader.load(raw)

    def close(self) -> None:
        """End what is being read, and the process that reads; the reader may be used again."""
        self._reader.close()


def find_sources(sources: Iterable[str | os.PathLike[str]], files: FileFilter | None = None) -> list[str]:
    """Return the files and URLs that these lead to, in order and without repeats; folders are walked.

    One of several that does not exist is returned as it is: its reader says so, and the others go on.

    Args:
        sources: Files, folders and URLs.
        files: Which files are taken from folders.

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
            found.update(dict.fromkeys(map(str, find_files(paths, files))))
            found[os.fspath(source)] = None
            paths = []
        else:
            paths.append(source)
    found.update(dict.fromkeys(map(str, find_files(paths, files))))
    return list(found)
