"""Plans of PostgreSQL: what a document, a question and a deletion run looks rows up, and reads no large table whole."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from heliograph import AsyncHeliograph, QueryParam
from heliograph.settings import Settings
from heliograph.stores.postgres import search
from heliograph.stores.postgres.database import Session, Statement, connect, parse_address
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
_NAMED = ("id", "chunk_id", "full_doc_id", "entity_id", "relation_id", "source_id", "target_id", "term", "name_id")
_TEXTS = {
    f"{name}.md": f"{name} Okafor approves every renewal of a certificate in {town}. The {town} gateway forwards it."
    for name, town in zip(
        ("Daniel", "Mira", "Jonas", "Selma", "Tariq", "Ingrid", "Pavel", "Ngozi", "Hana", "Oskar"),
        ("Bergen", "Tromso", "Oslo", "Molde", "Bodo", "Alta", "Narvik", "Hamar", "Skien", "Moss"),
        strict=True,
    )
}
_MODES = ("naive", "local", "global", "hybrid", "mix", "fusion")


class _Recorder:
    """Every statement that sessions run, while it is on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.statements: dict[str, Sequence[Any]] = {}
        self.is_on = False
        fetch, run = Session.fetch, Session.run

        async def noting_fetch(session: Session, query: str, values: Sequence[Any] = (), **kwargs: Any) -> Any:
            self._note(query, values)
            return await fetch(session, query, values, **kwargs)

        async def noting_run(session: Session, *statements: Statement) -> Any:
            for statement in statements:
                self._note(statement.query, statement.values)
            return await run(session, *statements)

        monkeypatch.setattr(Session, "fetch", noting_fetch)
        monkeypatch.setattr(Session, "run", noting_run)

    def _note(self, query: str, values: Sequence[Any]) -> None:
        if self.is_on and query.split()[0] in ("SELECT", "WITH", "INSERT", "UPDATE", "DELETE"):
            self.statements.setdefault(query, values)


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
    for mode in _MODES:
        await kb.query_data("Who approves a renewal of the certificate in Bergen?", QueryParam(mode=mode))
    await kb.delete("audit.md")
    recorder.is_on = False
    assert len(recorder.statements) > 40
    connection = await connect(parse_address(database))
    whole: dict[str, str] = {}
    try:
        cursor = await connection.execute("SELECT relname, reltuples FROM pg_class WHERE relkind = 'r'")
        sizes = {str(name): float(rows) for name, rows in await cursor.fetchall()}
        assert sizes["lightrag_chunks"] > _LARGE
        for query, values in recorder.statements.items():
            cursor = await connection.execute(f"EXPLAIN (FORMAT JSON) {query}".encode(), values, prepare=False)
            ((plans,),) = await cursor.fetchall()
            for node in _nodes(plans[0]["Plan"]):
                if node["Node Type"] == "Seq Scan" and sizes.get(node["Relation Name"], 0) > _LARGE:
                    whole[query] = node["Relation Name"]
    finally:
        await connection.close()
    assert whole == {}
