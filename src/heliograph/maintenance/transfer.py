"""Export a workspace in a named format, and import what a path holds.

`export_workspace` writes an `ExportFormat` and leaves nothing half written under the name asked for.
`detect_import` finds out what a path holds (an archive, or a working directory of LightRAG or nano-graphrag) and
`import_path` takes it in.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from pathlib import Path

from heliograph.curation.curator import Curator
from heliograph.errors import ConflictError, InvalidRequestError, StoreUnavailable
from heliograph.ingest.pipeline import IngestPipeline
from heliograph.maintenance.archive import (
    Contents,
    ImportKind,
    ImportProgress,
    ImportReport,
    WholeDocumentIntake,
    export_archive,
    import_archive,
    is_archive,
)
from heliograph.maintenance.export_formats import (
    export_csv,
    export_graphml,
    export_lightrag,
    export_markdown,
    export_vault,
)
from heliograph.maintenance.lightrag_import import import_lightrag, is_lightrag
from heliograph.stores.base import Store

# The formats by name, and writing one so that nothing half written is ever left under the name asked for.


class ExportFormat(StrEnum):
    """What a workspace can be written as.

    `jsonl` holds everything, `lightrag` what LightRAG opens; both can be read back. The others are to be read.
    """

    JSONL = "jsonl"
    CSV = "csv"
    GRAPHML = "graphml"
    MARKDOWN = "markdown"
    OBSIDIAN = "obsidian"
    LIGHTRAG = "lightrag"


_WRITERS: Mapping[ExportFormat, Callable[[Contents, Path], Awaitable[int]]] = {
    ExportFormat.JSONL: export_archive,
    ExportFormat.CSV: export_csv,
    ExportFormat.GRAPHML: export_graphml,
    ExportFormat.MARKDOWN: export_markdown,
    ExportFormat.OBSIDIAN: export_vault,
    ExportFormat.LIGHTRAG: export_lightrag,
}


async def export_workspace(store: Store, path: Path, form: str | ExportFormat) -> int:
    """Write a workspace into a new file, or for all but `jsonl` and `graphml` a new folder; return how many things.

    Raises:
        ConflictError: There is something of that name.
        InvalidRequestError: There is no such format.
        StoreError: The store cannot be read.
        StoreUnavailable: The file cannot be written; nothing is left of it.
    """
    try:
        write = _WRITERS[ExportFormat(form)]
    except ValueError:
        known = ", ".join(ExportFormat)
        raise InvalidRequestError(f"there is no export format {form!r}; choose one of {known}") from None
    _check_free(path)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        count = await write(Contents(store), part)
        # Looked at again: a rename would replace what has come meanwhile.
        _check_free(path)
        part.rename(path)
    except OSError as error:
        raise StoreUnavailable(f"the export {str(path)!r} cannot be written ({error.strerror or error})") from error
    finally:
        _remove(part)
    return count


def _remove(part: Path) -> None:
    if part.is_dir():
        shutil.rmtree(part)
    elif part.exists():
        part.unlink()


def _check_free(path: Path) -> None:
    if path.exists() or path.is_symlink():
        raise ConflictError(f"{str(path)!r} is there already; choose another name for the export")


# Finding out what a path holds, and importing it.


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
    if len(workspaces) == 1:
        return ImportKind.LIGHTRAG
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
