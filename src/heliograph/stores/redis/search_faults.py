"""What may be wrong with what is searched in Redis: postings, ids of vectors, what mentions count for; and its repair.

Whether full text and vectors are those of the chunks and entities there are, a check of any store tells.
"""

from __future__ import annotations

from collections import Counter

from heliograph.stores.changeset import Collection
from heliograph.stores.inspection import ScanKind
from heliograph.stores.redis.changes import forget_changes
from heliograph.stores.redis.codec import load_entity_mention, load_relation_mention
from heliograph.stores.redis.session import Command, Session
from heliograph.stores.redis.text_rows import ask, scan_rows
from heliograph.stores.redis.text_scripts import COUNT
from heliograph.stores.redis.text_write import SEARCHED, put_rows
from heliograph.stores.redis.vector_index import VECTOR_SCANS
from heliograph.stores.redis.view_write import counted_line

__all__ = ["count_commands", "find_search_faults", "text_commands_anew", "vector_commands_anew"]

_PAGE = 500


async def find_search_faults(session: Session) -> list[str]:
    """Return what is wrong, one sentence each; meaningful if nothing was committed meanwhile."""
    texts = [fault for collection in SEARCHED for fault in await _text_faults(session, collection)]
    return [*texts, *await _vector_faults(session), *await _count_faults(session)]


async def _text_faults(session: Session, collection: Collection) -> list[str]:
    held, rows, length = Counter[bytes](), 0, 0
    async for _, terms in scan_rows(session, collection):
        held.update(set(terms))
        rows, length = rows + 1, length + len(terms)
    wrong, asked = 0, list(held)
    for start in range(0, len(asked), _PAGE):
        part = asked[start : start + _PAGE]
        counts = await ask(session, COUNT, collection, *part)
        wrong += sum(held[term] != count for term, count in zip(part, counts, strict=True))
    name, of = collection.value, session.keys.of
    sums, numbers = await session.read(
        [("HMGET", of("terms", name, "size"), "rows", "terms"), ("HLEN", of("terms", name, "numbers"))]
    )
    counted = [int(value or 0) for value in sums]
    faults = {
        f"{wrong} terms of {name} occur in other rows than their postings say": wrong,
        f"full text of {name} counts {counted} rows and terms, but there are {[rows, length]}": counted
        != [rows, length],
        f"full text of {name} has {rows} rows, but {numbers} ids": rows != numbers,
    }
    return [fault for fault, is_there in faults.items() if is_there]


async def _vector_faults(session: Session) -> list[str]:
    faults: list[str] = []
    for collection, kind in VECTOR_SCANS.items():
        listed, there = await session.read(
            [("ZCARD", session.keys.ids(kind)), ("HLEN", session.keys.vectors(collection))]
        )
        if listed != there:
            faults.append(f"{listed} vectors of {collection.value} are listed, but there are {there}")
    return faults


async def _count_faults(session: Session) -> list[str]:
    wrong, count = 0, 0
    async for ids in session.scan_pages(ScanKind.EXTRACTIONS, _PAGE):
        stored = await session.read_one("HMGET", session.keys.counted, *ids)
        wrong += sum(line != found for line, found in zip(stored, await _lines(session, ids), strict=True))
        count += len(ids)
    held = await session.read_one("HLEN", session.keys.counted)
    faults = {
        f"of {wrong} chunks it is not noted what their mentions count for": wrong,
        f"of {held} chunks it is noted what their mentions count for, but {count} were read": held != count,
    }
    return [fault for fault, is_there in faults.items() if is_there]


async def text_commands_anew(session: Session) -> list[Command]:
    """Return what makes postings and counts from the rows there are; what was there is removed before."""
    commands: list[Command] = []
    for collection in SEARCHED:
        rows = [row async for row in scan_rows(session, collection)]
        for start in range(0, len(rows), _PAGE):
            part = {id_: b" ".join(terms) for id_, terms in rows[start : start + _PAGE]}
            commands.append(put_rows(session.keys, collection, (), part))
    return commands


async def vector_commands_anew(session: Session, version: int) -> list[Command]:
    """Return what lists the vectors there are, and has every process read them again."""
    commands: list[Command] = []
    for collection, kind in VECTOR_SCANS.items():
        ids = await session.read_one("HKEYS", session.keys.vectors(collection))
        commands.append(("DEL", session.keys.ids(kind)))
        parts = (ids[start : start + _PAGE] for start in range(0, len(ids), _PAGE))
        commands += [("ZADD", session.keys.ids(kind), *(item for id_ in part for item in (0, id_))) for part in parts]
    return [*commands, *forget_changes(session.keys, version)]


async def count_commands(session: Session) -> list[Command]:
    """Return what notes of all chunks what their mentions count for."""
    commands: list[Command] = [("DEL", session.keys.counted)]
    async for ids in session.scan_pages(ScanKind.EXTRACTIONS, _PAGE):
        pairs = zip(ids, await _lines(session, ids), strict=True)
        commands.append(("HSET", session.keys.counted, *(item for pair in pairs for item in pair)))
    return commands


async def _lines(session: Session, chunk_ids: list[str]) -> list[str]:
    keys = session.keys
    said = await session.read(
        [("LRANGE", keys.said(kind, id_), 0, -1) for id_ in chunk_ids for kind in ("entities", "relations")]
    )
    return [
        counted_line(
            [load_entity_mention(id_, text) for text in entities],
            [load_relation_mention(id_, text) for text in relations],
        )
        for id_, entities, relations in zip(chunk_ids, said[::2], said[1::2], strict=True)
    ]
