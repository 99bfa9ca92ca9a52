"""Plans of PostgreSQL: what a document, a question and a deletion run looks rows up, and reads no large table whole.

And how often an answer of the server is waited for meanwhile, whatever there is to be found.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from heliograph import AsyncHeliograph, QueryParam
from heliograph.settings import Settings
from heliograph.stores.postgres import search
from heliograph.stores.postgres.database import Connection, Database, Session, Statement, connect, parse_address
from heliograph.stores.postgres.schema import TABLES
from heliograph.testing.fakes import FakeEmbeddingModel

from ....servers.postgres import PostgresServer

_DIMENSION = 12
# A table with as many rows is one that a plan should not read whole.
_LARGE = 2_000
# Of each row. Tables whose rows are small need more of them: a few pages are rightly read from end to end.
_COPIES = 250
_COPIES_OF_SMALL = 1_000
_WIDE = ("lightrag_", "heliograph_posting", "heliograph_chunks_terms", "heliograph_entities_terms")
# What makes a copied row another one. Postings are of other terms; what is numbered gets a number of its own.
_NAMED = (
    "id",
    "chunk_id",
    "full_doc_id",
    "entity_id",
    "relation_id",
    "source_id",
    "target_id",
    "twin_of",
    "term",
    "name_id",
)
_TEXTS = {
    f"{name}.md": f"{name} Okafor approves every renewal of a certificate in {town}. The {town} gateway forwards it."
    for name, town in zip(
        ("Daniel", "Mira", "Jonas", "Selma", "Tariq", "Ingrid", "Pavel", "Ngozi", "Hana", "Oskar"),
        ("Bergen", "Tromso", "Oslo", "Molde", "Bodo", "Alta", "Narvik", "Hamar", "Skien", "Moss"),
        strict=True,
    )
}
_MODES = ("naive", "local", "global", "hybrid", "mix", "fusion")
# A condition that leaves a workspace whole.
_OF_WORKSPACE = re.compile(r"\(*(?:\w+\.)?workspace = [^()]+\)*")
_MARK = re.compile("%(s|%)")


class _Recorder:
    """Every statement that sessions run, while it is on, and whether its plan may be kept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.statements: dict[tuple[str, bool], Sequence[Any]] = {}
        self.is_on = False
        fetch, run = Session.fetch, Session.run

        async def noting_fetch(
            session: Session, query: str, values: Sequence[Any] = (), *, is_planned_anew: bool = False
        ) -> Any:
            self._note(Statement(query, values, is_planned_anew))
            return await fetch(session, query, values, is_planned_anew=is_planned_anew)

        async def noting_run(session: Session, *statements: Statement) -> Any:
            for statement in statements:
                self._note(statement)
            return await run(session, *statements)

        monkeypatch.setattr(Session, "fetch", noting_fetch)
        monkeypatch.setattr(Session, "run", noting_run)

    def _note(self, statement: Statement) -> None:
        if self.is_on and statement.query.split()[0] in ("SELECT", "WITH", "INSERT", "UPDATE", "DELETE"):
            self.statements.setdefault((statement.query, statement.is_planned_anew), statement.values)


def _multiply(database: str) -> None:
    """Have every table hold many times its rows, of the same workspace."""
    with psycopg.connect(database, autocommit=True) as connection:
        for table in TABLES:
            query = """SELECT column_name FROM information_schema.columns
                       WHERE table_name = %s AND is_identity = 'NO' ORDER BY ordinal_position"""
            names = [name for (name,) in connection.execute(query, (table,)).fetchall()]
            copies = _COPIES if table.startswith(_WIDE) else _COPIES_OF_SMALL
            values = [f"known.{name} || '-' || copy" if name in _NAMED else f"known.{name}" for name in names]
            connection.execute(
                f"""INSERT INTO {table} ({", ".join(names)}) SELECT {", ".join(values)} FROM {table} AS known
                    CROSS JOIN generate_series(1, {copies}) AS copy ON CONFLICT DO NOTHING""".encode()
            )
        connection.execute("ANALYZE")


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from _nodes(part)


def _is_whole(node: dict[str, Any], sizes: dict[str, float]) -> bool:
    """Whether a part of a plan reads all rows of a large table, or all that the workspace has in it."""
    if not node["Node Type"].endswith("Scan") or sizes.get(node.get("Relation Name", ""), 0) <= _LARGE:
        return False
    condition = node.get("Index Cond", node.get("Recheck Cond"))
    is_ordered = "Order By" in node  # The nearest vectors, of which a limit takes the first.
    return not is_ordered and (condition is None or _OF_WORKSPACE.fullmatch(condition) is not None)


async def _plans(connection: Connection, query: str, values: Sequence[Any], *, is_kept: bool) -> list[dict[str, Any]]:
    """Return the plan for these values, and where plans are kept the one that serves any."""
    shown = "EXPLAIN (FORMAT JSON) "
    cursors = [await connection.execute(f"{shown}{query}".encode(), values, prepare=False)]
    if is_kept:
        places = iter(range(1, len(values) + 1))
        numbered = _MARK.sub(lambda mark: "%" if mark[1] == "%" else f"${next(places)}", query)
        await connection.execute(f"PREPARE kept AS {numbered}".encode())
        given = f"({', '.join(['NULL'] * len(values))})" if values else ""
        cursors.append(await connection.execute(f"{shown}EXECUTE kept{given}".encode()))
        await connection.execute("DEALLOCATE kept")
    return [(await cursor.fetchall())[0][0][0]["Plan"] for cursor in cursors]


@pytest.fixture
async def large(
    postgres_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[tuple[AsyncHeliograph, str]]:
    """A workspace with large tables and indexes of its vectors, and the database that it is in."""
    database = postgres_server.make_database()
    settings = Settings.load(store={"url": database, "workspace": "plans", "data_dir": tmp_path})
    embedding = FakeEmbeddingModel(_DIMENSION)
    async with AsyncHeliograph(settings=settings, embedding=embedding) as kb:
        await kb.insert(list(_TEXTS.values()), sources=list(_TEXTS))
        await kb.insert(_TEXTS["Mira.md"], sources=["twin.md"])
    _multiply(database)
    monkeypatch.setattr(search, "_WORTH_AN_INDEX", _LARGE)
    async with AsyncHeliograph(settings=settings, embedding=embedding) as kb:
        await kb.insert("Runa Vik signs the first page in Voss.", sources=["first.md"])
        yield kb, database


async def test_no_statement_on_the_way_reads_a_large_table_whole(
    large: tuple[AsyncHeliograph, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kb, database = large
    recorder = _Recorder(monkeypatch)
    recorder.is_on = True
    await kb.insert("Liv Dahl audits the Bergen gateway and its certificate.", sources=["audit.md"])
    report = await kb.insert("Liv Dahl audits the Tromso gateway and its certificate.", sources=["audit.md"])
    for mode in _MODES:
        await kb.query_data("Who approves a renewal of the certificate in Bergen?", QueryParam(mode=mode))
    assert (await kb.delete(report.results[0].id)).missing == ()
    recorder.is_on = False
    assert len(recorder.statements) > 40
    connection = await connect(parse_address(database))
    whole: list[tuple[str, dict[str, Any]]] = []
    try:
        await connection.execute("SET plan_cache_mode = force_generic_plan")
        cursor = await connection.execute("SELECT relname, reltuples FROM pg_class WHERE relkind = 'r'")
        sizes = {str(name): float(rows) for name, rows in await cursor.fetchall()}
        assert sizes["lightrag_chunks"] > _LARGE
        for (query, is_planned_anew), values in recorder.statements.items():
            for plan in await _plans(connection, query, values, is_kept=not is_planned_anew):
                whole += [(query, node) for node in _nodes(plan) if _is_whole(node, sizes)]
    finally:
        await connection.close()
    assert whole == []


async def _trips(kb: AsyncHeliograph, work: Awaitable[object]) -> int:
    database: Database = kb.store._database  # pyright: ignore[reportAttributeAccessIssue]
    before = database.round_trips
    await work
    return database.round_trips - before


async def test_round_trips_grow_neither_with_what_is_found_nor_with_the_document(
    large: tuple[AsyncHeliograph, str],
) -> None:
    kb, _ = large
    question = "Who approves a renewal of the certificate in Bergen?"
    most = {"naive": 4, "local": 9, "global": 8, "hybrid": 14, "mix": 16, "fusion": 25, "insert": 13, "delete": 13}
    taken = {
        (mode, top_k): await _trips(kb, kb.query_data(question, QueryParam(mode=mode, top_k=top_k, chunk_top_k=top_k)))
        for mode in _MODES
        for top_k in (5, 160)
    }
    sections = [f"## Part {number}\n\nLiv Dahl audits the gateway {number} in Bergen.\n" for number in range(200)]
    for text in (sections[0], "\n".join(sections)):
        taken["insert", len(text)] = await _trips(kb, kb.insert(text, sources=["part.md"], ids=["part"]))
        taken["delete", len(text)] = await _trips(kb, kb.delete("part"))
    assert {asked: count for asked, count in taken.items() if count > most[asked[0]]} == {}
