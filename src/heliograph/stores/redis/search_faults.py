"""What may be wrong with what is searched in Redis: postings, ids of vectors, what mentions count for; and its repair.

Whether full text and vectors are those of the chunks and entities there are, a check of any store tells.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
from numpy.typing import NDArray

from heliograph.stores.changeset import Collection
from heliograph.stores.inspection import ScanKind
from heliograph.stores.redis.changes import forget_changes
from heliograph.stores.redis.codec import load_entity_mention, load_relation_mention
from heliograph.stores.redis.session import Command, Session
from heliograph.stores.redis.text_rows import ask, scan_numbered, scan_rows
from heliograph.stores.redis.text_scripts import COUNT
from heliograph.stores.redis.text_write import SEARCHED, encode, put_rows
from heliograph.stores.redis.vector_index import VECTOR_SCANS
from heliograph.stores.redis.view_write import counted_line
from heliograph.stores.text_scoring import read_records

__all__ = ["count_commands", "find_search_faults", "find_text_faults", "text_commands_anew", "vector_commands_anew"]

_PAGE = 500
# Postings read at once: of a frequent term there are megabytes.
_TERMS = 50
_MASK = (1 << 64) - 1


async def find_search_faults(session: Session) -> list[str]:
    """Return what is wrong, one sentence each; meaningful if nothing was committed meanwhile."""
    texts = [fault for collection in SEARCHED for fault in await find_text_faults(session, collection)]
    return [*texts, *await _vector_faults(session), *await _count_faults(session)]


async def find_text_faults(session: Session, collection: Collection) -> list[str]:
    """Return what is wrong with postings and counts of a collection, given its rows."""
    sums, numbered, rows, length = defaultdict[bytes, int](int), set[int](), 0, 0
    async for number, (_, terms) in scan_numbered(session, collection):
        if number in numbered:  # It came twice.
            continue
        numbered.add(number)
        counts = Counter(terms)
        records = np.array([(number, count, len(terms)) for count in counts.values()], np.uint32).reshape(-1, 3)
        for term, digest in zip(counts, _digest(records).tolist(), strict=True):
            sums[term] = (sums[term] + digest) & _MASK
        rows, length = rows + 1, length + len(terms)
    wrong, asked = 0, list(sums)
    for start in range(0, len(asked), _TERMS):
        part = asked[start : start + _TERMS]
        keys = [b"%spostings:%s:%s" % (encode(session.keys.prefix), encode(collection.value), term) for term in part]
        postings = await session.read_bytes([("GETRANGE", key, 12, -1) for key in keys])
        wrong += sum(sums[term] != _sum(data) for term, data in zip(part, postings, strict=True))
        # What counts as void is what the first record says.
        counted = await ask(session, COUNT, collection, *part)
        wrong += sum(count != len(read_records(data)) for count, data in zip(counted, postings, strict=True) if data)
    beginning = session.keys.of("postings", collection.value, "")
    async for page in session.connection.pages():
        terms = (encode(key.removeprefix(beginning)) for key in page if key.startswith(beginning))
        wrong += sum(term not in sums for term in terms)
    name, of = collection.value, session.keys.of
    totals, numbers = await session.read(
        [("HMGET", of("terms", name, "size"), "rows", "terms"), ("HLEN", of("terms", name, "numbers"))]
    )
    held = [int(value or 0) for value in totals]
    faults = {
        f"{wrong} terms of {name} occur otherwise than their postings say": wrong,
        f"full text of {name} counts {held} rows and terms, but there are {[rows, length]}": held != [rows, length],
        f"full text of {name} has {rows} rows, but {numbers} ids": rows != numbers,
    }
    return [fault for fault, is_there in faults.items() if is_there]


def _sum(postings: bytes) -> int:
    if len(postings) % 12:
        return -1
    return int(_digest(read_records(postings)).sum(dtype=np.uint64))


def _digest(records: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Return a number for each record, `(n,)`, that tells records apart also when the numbers of many are added up."""
    mixed = np.zeros(len(records), np.uint64)
    for column in records.T.astype(np.uint64):
        # The finish of SplitMix64.
        mixed = (mixed + column) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(27)
    return mixed


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
