"""Export a workspace in a named format, and import from a path or a server.

`export_workspace` writes an `ExportFormat` and leaves no partial output under the requested name. `detect_import` finds
out the format of a place (an archive, or output of LightRAG, nano-graphrag or GraphRAG) and `import_places` imports it.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from heliograph.curation.curator import Curator
from heliograph.errors import ConflictError, InvalidRequestError, StoreUnavailable
from heliograph.ingest.pipeline import IngestPipeline
from heliograph.maintenance.archive import (
    Contents,
    ExportFormat,
    ImportKind,
    ImportReport,
    NoteList,
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
from heliograph.maintenance.lightrag_files import find_graphrag, is_lightrag, read_files, read_graphrag
from heliograph.maintenance.lightrag_import import import_lightrag
from heliograph.maintenance.lightrag_layout import LightragRows, join_rows
from heliograph.maintenance.lightrag_servers import check_scheme, read_server
from heliograph.observing import TellCount
from heliograph.stores.base import Store

# The formats by name, and writing one so that no partial output is ever left under the requested name.


_WRITERS: Mapping[ExportFormat, Callable[[Contents, Path], Awaitable[int]]] = {
    ExportFormat.JSONL: export_archive,
    ExportFormat.CSV: export_csv,
    ExportFormat.GRAPHML: export_graphml,
    ExportFormat.MARKDOWN: export_markdown,
    ExportFormat.OBSIDIAN: export_vault,
    ExportFormat.LIGHTRAG: export_lightrag,
}


async def export_workspace(store: Store, path: Path, form: str | ExportFormat) -> int:
    """Export a workspace into a new file, or folder for formats but `jsonl` and `graphml`; return the item count.

    Raises:
        ConflictError: The name is taken.
        InvalidRequestError: There is no such format.
        StoreError: The store cannot be read.
        StoreUnavailable: The file cannot be written; no partial file is left.
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
        # Checked again: a rename would replace a file created meanwhile.
        _check_free(path)
        part.rename(path)
    except OSError as error:
        raise StoreUnavailable(f"the export {str(path)!r} cannot be written ({error.strerror or error})") from error
    finally:
        if part.is_dir():
            shutil.rmtree(part)
        elif part.exists():
            part.unlink()
    return count


def _check_free(path: Path) -> None:
    if path.exists() or path.is_symlink():
        raise ConflictError(f"{str(path)!r} is there already; choose another name for the export")


# Detecting the format of a place, and importing it.

Place = str | Path


def detect_import(places: Sequence[Place]) -> ImportKind:
    """Return the format at some places: paths, or URLs of servers with LightRAG's data. No server is contacted.

    Raises:
        InvalidRequestError: There is nothing to import, or the places do not go together; says what can be imported.
    """
    kinds = [_detect(place) for place in places]
    if not kinds:
        raise InvalidRequestError("no place is named to import from; name a path or a URL")
    if len(kinds) > 1 and set(kinds) != {ImportKind.LIGHTRAG}:
        raise InvalidRequestError("several places are imported together only if they are LightRAG's; name one")
    return kinds[0]


def _detect(place: Place) -> ImportKind:
    if _is_url(place):
        check_scheme(str(place))
        return ImportKind.LIGHTRAG
    path = Path(place)
    try:
        if path.is_file() and is_archive(path):
            return ImportKind.ARCHIVE
        if path.is_dir() and is_lightrag(path):
            return ImportKind.LIGHTRAG
        if path.is_dir() and find_graphrag(path):
            return ImportKind.GRAPHRAG
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
        "directory of LightRAG or nano-graphrag, nor GraphRAG's output; 'heliograph index' takes documents in, "
        "'heliograph restore' a backup"
    )


def _is_url(place: Place) -> bool:
    return isinstance(place, str) and "://" in place


async def import_places(
    store: Store,
    pipeline: IngestPipeline,
    curator: Curator,
    places: Sequence[Place],
    progress: TellCount | None = None,
) -> ImportReport:
    """Import an archive, or LightRAG's data from one or several places; calls no model except the embedding.

    Each document is one commit. Documents that exist already are left alone, so that an interrupted import can be run
    again.

    Raises:
        InvalidRequestError: There is nothing to import, or it is broken; documents before the break are imported.
        MissingDependencyError: A package to read it is missing.
        ModelError: The embedding failed; finished documents stay.
        StoreError: The store failed, or a server that is read; finished documents stay.
    """
    kind = await asyncio.to_thread(detect_import, places)
    told: TellCount = progress or (lambda _kind, _count: None)
    intake, notes = WholeDocumentIntake(store, pipeline), NoteList()
    if kind is ImportKind.ARCHIVE:
        return await import_archive(store, intake, curator, Path(places[0]), told)
    found: list[LightragRows] = []
    for place in places:
        if _is_url(place):
            found.append(await read_server(str(place), notes))
        else:
            read = read_graphrag if kind is ImportKind.GRAPHRAG else read_files
            found.append(await asyncio.to_thread(read, Path(place), notes))
    return await import_lightrag(intake, kind, join_rows(found, notes), notes, told)
