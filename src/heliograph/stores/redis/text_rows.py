"""Rows of full text in Redis, by number and by id: what is found, and which terms it has."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heliograph.stores.changeset import Collection
from heliograph.stores.redis.session import Session
from heliograph.stores.redis.text_scripts import NUMBERS, ROWS
from heliograph.stores.redis.text_write import encode

__all__ = [
    "TextRow",
    "ask",
    "decode",
    "read_ids",
    "read_numbers",
    "read_rows",
    "read_rows_of",
    "scan_numbered",
    "scan_rows",
]

# Id and terms.
TextRow = tuple[str, list[bytes]]

# Rows in one command, so that none keeps Redis or the event loop busy for long.
_PAGE = 1_000


async def ask(session: Session, script: str, collection: Collection, *arguments: str | bytes | int) -> Any:
    """Return what a script answers, texts as bytes."""
    command = ("EVAL", script, 0, session.keys.prefix, collection.value, *arguments)
    return (await session.read_bytes([command]))[0]


async def read_ids(session: Session, collection: Collection, numbers: NDArray[np.int64]) -> list[str | None]:
    """Return the ids of the rows with these numbers, None for one that is gone."""
    rows = await _read(session, collection, numbers, has_terms=0)
    return [decode(row) if row else None for row in rows]


async def read_rows(session: Session, collection: Collection, numbers: NDArray[np.int64]) -> list[TextRow | None]:
    """Return the rows with these numbers, None for one that is gone."""
    rows = await _read(session, collection, numbers, has_terms=1)
    return [_row(row) if row else None for row in rows]


async def read_numbers(session: Session, collection: Collection, ids: Iterable[str]) -> NDArray[np.int64]:
    """Return the numbers of those of the ids that have a row, in no order."""
    wanted = list(ids)
    parts = [wanted[start : start + _PAGE] for start in range(0, len(wanted), _PAGE)]
    packed = [await ask(session, NUMBERS, collection, *map(encode, part)) for part in parts]
    return np.frombuffer(b"".join(packed), "<u4").astype(np.int64)


async def read_rows_of(session: Session, collection: Collection, ids: Sequence[str]) -> list[tuple[str, bytes]]:
    """Return, of those of the ids that have a row, its terms joined by spaces; the row must be its id's own."""
    numbers, rows = (session.keys.of("terms", collection.value, name) for name in ("numbers", "rows"))
    (found,) = await session.read_bytes([("HMGET", numbers, *map(encode, ids))])
    held = [(id_, number) for id_, number in zip(ids, found, strict=True) if number is not None]
    if not held:
        return []
    (texts,) = await session.read_bytes([("HMGET", rows, *(number for _, number in held))])
    split = [(id_, (text or b"").partition(b"\0")) for (id_, _), text in zip(held, texts, strict=True)]
    return [(id_, terms) for id_, (own, _, terms) in split if decode(own) == id_]


async def scan_rows(session: Session, collection: Collection) -> AsyncGenerator[TextRow]:
    """Yield all rows, in no order, those twice that are written meanwhile."""
    async for _, row in scan_numbered(session, collection):
        yield row


async def scan_numbered(session: Session, collection: Collection) -> AsyncGenerator[tuple[int, TextRow]]:
    """Yield what `scan_rows` does, with the number of each row."""
    key = session.keys.of("terms", collection.value, "rows")
    cursor = 0
    while True:
        ((cursor, page),) = await session.read_bytes([("HSCAN", key, cursor, "COUNT", _PAGE)])
        for number, row in page.items():
            yield int(number), _row(row)
        if int(cursor) == 0:
            return


async def _read(session: Session, collection: Collection, numbers: NDArray[np.int64], has_terms: int) -> list[bytes]:
    rows: list[bytes] = []
    for start in range(0, len(numbers), _PAGE):
        rows += await ask(session, ROWS, collection, has_terms, *numbers[start : start + _PAGE].tolist())
    return rows


def _row(row: bytes) -> TextRow:
    id_, _, terms = row.partition(b"\0")
    return decode(id_), terms.split(b" ") if terms else []


def decode(id_: bytes) -> str:
    """Return an id, or any text that `encode` made bytes of."""
    return id_.decode("utf-8", "surrogatepass")
