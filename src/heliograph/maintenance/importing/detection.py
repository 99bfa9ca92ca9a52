"""Finding out what a path holds, and importing it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from heliograph.errors import InvalidRequestError
from heliograph.ingest.curation import Curator
from heliograph.ingest.pipeline import IngestPipeline
from heliograph.maintenance.archive import is_archive
from heliograph.maintenance.importing.archive import import_archive
from heliograph.maintenance.importing.lightrag import import_lightrag, is_lightrag
from heliograph.maintenance.importing.report import ImportKind, ImportProgress, ImportReport
from heliograph.maintenance.importing.whole import WholeDocumentIntake
from heliograph.stores.base import Store

__all__ = ["detect_import", "import_path"]


def detect_import(path: Path) -> ImportKind:
    """Return what a path holds.

    Raises:
        InvalidRequestError: Nothing that can be imported; says what can.
    """
    try:
        if path.is_file() and is_archive(path):
            return ImportKind.ARCHIVE
        if path.is_dir() and is_lightrag(path):
            return ImportKind.LIGHTRAG
        workspaces = sorted(item.name for item in path.iterdir() if is_lightrag(item)) if path.is_dir() else []
    except OSError as error:
        raise InvalidRequestError(f"{str(path)!r} cannot be read ({error.strerror or error}); check it") from error
    if workspaces:
        raise InvalidRequestError(
            f"{str(path)!r} holds several workspaces of LightRAG; name one of {', '.join(map(repr, workspaces))}"
        )
    if not path.exists():
        raise InvalidRequestError(f"there is no file or folder {str(path)!r}; check the path")
    raise InvalidRequestError(
        f"{str(path)!r} is neither an archive ('heliograph export FILE --format jsonl' writes one) nor a working "
        "directory of LightRAG or nano-graphrag; 'heliograph index' takes documents in, 'heliograph restore' a backup"
    )


async def import_path(
    store: Store, pipeline: IngestPipeline, curator: Curator, path: Path, progress: ImportProgress | None = None
) -> ImportReport:
    """Import an archive or a working directory of LightRAG; calls no model but the embedding.

    Each document is one commit. What is here already is left alone, so that an interrupted import can be run again.

    Args:
        store: The workspace, empty or not.
        pipeline: Writes documents.
        curator: Writes curations.
        path: The archive or the directory.
        progress: Told what is taken in and how many.

    Raises:
        InvalidRequestError: Nothing that can be imported, or it is broken; documents before the break are in.
        ModelError: The embedding failed; finished documents stay.
        StoreError: The store failed; finished documents stay.
    """
    kind = await asyncio.to_thread(detect_import, path)
    intake, told = WholeDocumentIntake(store, pipeline), progress or _tell_nobody
    if kind is ImportKind.ARCHIVE:
        return await import_archive(store, intake, curator, path, told)
    return await import_lightrag(intake, path, told)


def _tell_nobody(_kind: str, _count: int) -> None:
    """Take no notice."""
