from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import AsyncGenerator
from random import Random
from uuid import uuid4

import pytest

pytest.importorskip("redis", reason="needs: pip install 'heliograph[redis]'")

from heliograph.stores.changeset import Changeset, Collection, TextEntry
from heliograph.stores.redis import text_search
from heliograph.stores.redis.connection import RedisConnection
from heliograph.stores.redis.session import Session
from heliograph.stores.redis.text import RedisTextStore
from heliograph.stores.redis.text_rows import read_numbers, scan_rows
from heliograph.stores.redis.text_search import Narrowing
from heliograph.stores.redis.text_write import text_commands
from tests.servers.redis import RedisServer

Rows = dict[str, tuple[str, ...]]
WORDS = [f"w{number}" for number in range(12)] + ["图谱", "a*b", 'quo"ted', "\udc80"]


@pytest.fixture
async def session(redis_server: RedisServer) -> AsyncGenerator[Session]:
    connection = RedisConnection(redis_server.url, f"w{uuid4().hex}", "store.url")
    yield Session(connection)
    await connection.close()


async def _write(session: Session, rows: Rows, gone: tuple[str, ...] = ()) -> None:
    entries = tuple(TextEntry(id_, terms) for id_, terms in rows.items())
    changeset = Changeset(texts={Collection.CHUNKS: entries}, removed_chunks=gone)
    await session.write(await text_commands(session, changeset, 1))


def _expected(rows: Rows, terms: list[str], limit: int) -> list[tuple[str, float]]:
    mean = sum(map(len, rows.values())) / len(rows)
    scores: dict[str, float] = defaultdict(float)
    for term in dict.fromkeys(terms):
        held = {id_: row.count(term) for id_, row in rows.items() if term in row}
        rarity = max(math.log(max(1e-9, len(rows) - len(held) + 0.5) / (len(held) + 0.5)), 1e-6)
        for id_, count in held.items():
            scores[id_] += rarity * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * len(rows[id_]) / mean))
    return sorted(scores.items(), key=lambda scored: (-round(scored[1], 9), scored[0]))[:limit]


async def test_search_and_phrases_are_exact_whatever_was_written_before(session: Session) -> None:
    random, store = Random(3), RedisTextStore(session)
    rows: Rows = {}
    for _ in range(60):
        put = {
            f"c{random.randrange(80):03}": tuple(random.choices(WORDS, k=random.randint(0, 12)))
            for _ in range(random.randint(1, 20))
        }
        gone = tuple({f"c{random.randrange(80):03}" for _ in range(8)} - put.keys())
        await _write(session, put, gone)
        rows = {id_: row for id_, row in (rows | put).items() if id_ not in gone}
        terms = random.choices([*WORDS, "never"], k=random.randint(1, 4))
        for limit in (1, 5, 100):
            hits = await store.search(Collection.CHUNKS, terms, limit)
            expected = _expected(rows, terms, limit)
            assert [hit.id for hit in hits] == [id_ for id_, _ in expected]
            assert [hit.score for hit in hits] == pytest.approx([score for _, score in expected])
        phrases = [tuple(random.choices(WORDS, k=size)) for size in (1, 2, 3)]
        found = await store.find_phrases(Collection.CHUNKS, phrases, 1000)
        for phrase, ids in zip(phrases, found, strict=True):
            assert sorted(ids) == sorted(id_ for id_, row in rows.items() if _holds(row, phrase))
        assert {id_: tuple(terms) async for id_, terms in scan_rows(session, Collection.CHUNKS)} == {
            id_: tuple(term.encode("utf-8", "surrogatepass") for term in row) for id_, row in rows.items()
        }


def _holds(row: tuple[str, ...], phrase: tuple[str, ...]) -> bool:
    return any(row[at : at + len(phrase)] == phrase for at in range(len(row)))


async def test_nothing_is_left_of_what_was_removed(session: Session) -> None:
    rows: Rows = {f"c{number}": ("common", f"own{number}", "common") for number in range(300)}
    await _write(session, rows)
    await _write(session, {}, tuple(rows)[:290])
    records = await session.read_one("STRLEN", session.keys.of("postings", "chunks", "common"))
    assert records < 12 * 110
    assert await session.read_one("EXISTS", session.keys.of("postings", "chunks", "own3")) == 0
    assert len(await RedisTextStore(session).search(Collection.CHUNKS, ["common", "own3"], 99)) == 10
    await _write(session, {}, tuple(rows))
    left = [key async for key in session.connection.client.scan_iter(f"{session.keys.prefix}*")]
    assert left == [session.keys.of("terms", "chunks", "size")]


async def test_rows_are_narrowed_by_number_and_by_id(session: Session) -> None:
    store = RedisTextStore(session)
    await _write(session, {f"c{number:03}": ("same", "words") for number in range(200)})
    wanted = ["c003", "c150", "none"]
    numbers = await read_numbers(session, Collection.CHUNKS, wanted)

    async def keep(ids: list[str]) -> set[str]:
        return set(ids) & set(wanted)

    for narrowing in (Narrowing(numbers), Narrowing(None, keep), Narrowing(numbers, keep)):
        hits = await store.search_among(Collection.CHUNKS, ["same"], 5, narrowing)
        assert [hit.id for hit in hits] == wanted[:2]
        found = await store.find_phrases_among(Collection.CHUNKS, [["same", "words"], ["words", "same"]], 5, narrowing)
        assert found == [wanted[:2], []]
        assert await store.find_phrases_among(Collection.CHUNKS, [["words"]], 1, narrowing) == [wanted[:1]]


async def test_frequent_terms_count_for_what_holds_rarer_ones(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RedisTextStore(session)
    rows: Rows = {f"c{number:03}": ("common", *["rare"] * (number % 40 == 0)) for number in range(400)}
    rows["c080"] = ("rare", "other", "other")
    await _write(session, rows)
    whole = await store.search(Collection.CHUNKS, ["common", "rare"], 9)
    monkeypatch.setattr(text_search, "_MOST_RECORDS", (50, 2_000_000_000))
    assert await store.search(Collection.CHUNKS, ["common", "rare"], 9) == whole
    assert len(await store.search(Collection.CHUNKS, ["common", "rare"], 30)) == 30
    assert len(await store.search(Collection.CHUNKS, ["common"], 30)) == 30


async def test_many_searches_run_beside_writes(session: Session) -> None:
    store = RedisTextStore(session)
    await _write(session, {f"c{number}": ("word",) for number in range(50)})

    async def search() -> None:
        for _ in range(20):
            assert len(await store.search(Collection.CHUNKS, ["word"], 100)) >= 45

    async def write() -> None:
        for number in range(40):
            await _write(session, {f"c{number}": ("word", "again")})

    await asyncio.gather(search(), search(), write())
