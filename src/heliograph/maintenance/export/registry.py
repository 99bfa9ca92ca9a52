"""The formats by name, and writing one so that nothing half written is ever left under the name asked for."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from pathlib import Path

from heliograph.errors import ConflictError, InvalidRequestError, StoreUnavailable
from heliograph.maintenance.archive import export_archive
from heliograph.maintenance.export.contents import Contents
from heliograph.maintenance.export.graphml import export_graphml
from heliograph.maintenance.export.notes import export_markdown, export_vault
from heliograph.maintenance.export.tables import export_csv
from heliograph.stores.base import Store

__all__ = ["ExportFormat", "export_workspace"]


class ExportFormat(StrEnum):
    """What a workspace can be written as: `jsonl` holds everything and can be read back, the others are to be read."""

    JSONL = "jsonl"
    CSV = "csv"
    GRAPHML = "graphml"
    MARKDOWN = "markdown"
    OBSIDIAN = "obsidian"


_WRITERS: Mapping[ExportFormat, Callable[[Contents, Path], Awaitable[int]]] = {
    ExportFormat.JSONL: export_archive,
    ExportFormat.CSV: export_csv,
    ExportFormat.GRAPHML: export_graphml,
    ExportFormat.MARKDOWN: export_markdown,
    ExportFormat.OBSIDIAN: export_vault,
}


async def export_workspace(store: Store, path: Path, form: str | ExportFormat) -> int:
    """Write a workspace into a new file, or for `csv`, `markdown` and `obsidian` a new folder; return how many things.

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
