"""CSV: one file each of documents, chunks, entities and relations.

Cells that a spreadsheet would run as a formula get an apostrophe in front.
"""

from __future__ import annotations

import csv
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from heliograph.maintenance.export.contents import Contents
from heliograph.models import FIELD_SEPARATOR

__all__ = ["export_csv"]

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")

Row = Sequence[Any]


async def export_csv(contents: Contents, folder: Path) -> int:
    """Write the four files into a new folder; return how many rows there are."""
    folder.mkdir(parents=True)  # noqa: ASYNC240 (once)
    return (
        await _write(folder / "documents.csv", _DOCUMENTS, _documents(contents))
        + await _write(folder / "chunks.csv", _CHUNKS, _chunks(contents))
        + await _write(folder / "entities.csv", _ENTITIES, _entities(contents))
        + await _write(folder / "relations.csv", _RELATIONS, _relations(contents))
    )


_DOCUMENTS = (
    "id",
    "source",
    "title",
    "status",
    "error",
    "metadata",
    "length",
    "chunk_count",
    "created_at",
    "updated_at",
)
_CHUNKS = ("id", "document_id", "source", "position", "page", "headings", "start", "end", "token_count", "text")
_ENTITIES = ("id", "name", "type", "description", "aliases", "degree", "sources", "chunk_ids")
_RELATIONS = (
    *("id", "source", "target", "source_id", "target_id", "keywords", "description", "weight", "sources", "chunk_ids"),
)


async def _write(path: Path, header: Row, rows: AsyncIterator[Row]) -> int:
    count = 0
    with path.open("x", encoding="utf-8", errors="backslashreplace", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        async for row in rows:
            writer.writerow([_cell(value) for value in row])
            count += 1
    return count


async def _documents(contents: Contents) -> AsyncIterator[Row]:
    async for whole in contents.documents():
        item = whole.document
        moments = item.created_at.isoformat(), item.updated_at.isoformat()
        metadata = json.dumps(dict(item.metadata), ensure_ascii=False)
        counts = item.length, item.chunk_count
        yield (item.id, item.source, item.title, item.status.value, item.error, metadata, *counts, *moments)


async def _chunks(contents: Contents) -> AsyncIterator[Row]:
    async for whole in contents.documents():
        for chunk in whole.chunks:
            place = chunk.position, chunk.page, " > ".join(chunk.headings), chunk.start, chunk.end
            yield (chunk.id, chunk.document_id, whole.document.source, *place, chunk.token_count, chunk.text)


async def _entities(contents: Contents) -> AsyncIterator[Row]:
    async for item in contents.entities():
        sources = FIELD_SEPARATOR.join(await contents.sources(item.chunk_ids))
        aliases, chunk_ids = FIELD_SEPARATOR.join(item.aliases), FIELD_SEPARATOR.join(item.chunk_ids)
        yield (item.id, item.name, item.type, item.description, aliases, item.degree, sources, chunk_ids)


async def _relations(contents: Contents) -> AsyncIterator[Row]:
    async for item in contents.relations():
        sources = FIELD_SEPARATOR.join(await contents.sources(item.chunk_ids))
        keywords, chunk_ids = FIELD_SEPARATOR.join(item.keywords), FIELD_SEPARATOR.join(item.chunk_ids)
        ends = item.source, item.target, item.source_id, item.target_id
        yield (item.id, *ends, keywords, item.description, item.weight, sources, chunk_ids)


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_STARTS) else value
