"""Imports from servers that LightRAG has written to, laid out by hand as it does it, and from GraphRAG's output.

What the real package writes itself is imported by `tests/congruence/test_servers.py`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from heliograph.engine import AsyncHeliograph
from heliograph.errors import HeliographError, InvalidRequestError, StoreUnavailable
from heliograph.maintenance.whole_documents import Contents, ImportKind, ImportReport, NoteKind
from heliograph.testing.fakes import FakeEmbeddingModel

TEXT = "Scrooge keeps a counting-house. Marley was his partner."
CHUNKS = {"c1": "Scrooge keeps a counting-house.", "c2": "Marley was his partner."}
NODES = {"Scrooge": ("person", "A miser.", "c1"), "Marley": ("person", "A ghost.<SEP>A partner.", "c1<SEP>c2")}
EDGE = {"weight": 2.0, "description": "Marley was Scrooge's partner.", "keywords": "trade", "source_id": "c2"}


@pytest.fixture
async def kb(tmp_path: Path) -> AsyncIterator[AsyncHeliograph]:
    async with AsyncHeliograph(tmp_path / "kb", embedding=FakeEmbeddingModel()) as opened:
        yield opened


async def check_story(kb: AsyncHeliograph, *places: str | Path) -> ImportReport:
    """Import twice, check what is there, and return the first report."""
    report = await kb.import_from(places)
    assert (report.added, report.chunks, report.graph.entities, report.graph.weight) == (1, 2, 2, 2.0)
    entities = {item.name: item async for item in Contents(kb.store).entities()}
    assert (entities["Marley"].type, entities["Marley"].description) == ("person", "A ghost.<SEP>A partner.")
    (relation,) = [item async for item in Contents(kb.store).relations()]
    assert (relation.description, relation.weight) == ("Marley was Scrooge's partner.", 2.0)
    assert (await kb.import_from(places)).unchanged == 1
    assert (await kb.check()).is_clean
    return report


def noted(report: ImportReport, kind: NoteKind, text: str) -> int:
    return sum(note.count for note in report.notes if note.kind is kind and text in note.text)


def write_files(folder: Path) -> Path:
    folder.mkdir()
    documents = {"doc-1": {"content": TEXT, "file_path": "carol.md"}}
    chunks = {
        id_: {"content": text, "full_doc_id": "doc-1", "chunk_order_index": place}
        for place, (id_, text) in enumerate(CHUNKS.items())
    }
    (folder / "kv_store_full_docs.json").write_text(json.dumps(documents))
    (folder / "kv_store_text_chunks.json").write_text(json.dumps(chunks))
    return folder


async def make_age(url: str, workspaces: tuple[str, ...]) -> None:
    """Lay out a workspace as LightRAG does, its graph as Apache AGE keeps it: `agtype` reads as its text."""
    import psycopg

    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        for statement in (
            "CREATE TABLE LIGHTRAG_DOC_FULL (id text, workspace text, doc_name text, content text)",
            "CREATE TABLE LIGHTRAG_DOC_CHUNKS (id text, workspace text, full_doc_id text, chunk_order_index int,"
            " content text)",
            "CREATE SCHEMA team_chunk_entity_relation",
            "CREATE TABLE team_chunk_entity_relation.base (id bigint, properties text)",
            'CREATE TABLE team_chunk_entity_relation."DIRECTED" (start_id bigint, end_id bigint, properties text)',
        ):
            await connection.execute(statement.encode())
        for workspace in workspaces:
            given: Any = (workspace, TEXT)
            await connection.execute("INSERT INTO LIGHTRAG_DOC_FULL VALUES ('doc-1', %s, 'carol.md', %s)", given)
            for place, (id_, text) in enumerate(CHUNKS.items()):
                row = (id_, workspace, place, text)
                await connection.execute("INSERT INTO LIGHTRAG_DOC_CHUNKS VALUES (%s, %s, 'doc-1', %s, %s)", row)
        for number, (name, (type_, description, chunk_ids)) in enumerate(NODES.items()):
            said = {"entity_id": name, "entity_type": type_, "description": description, "source_id": chunk_ids}
            vertex = (number, json.dumps(said))
            await connection.execute("INSERT INTO team_chunk_entity_relation.base VALUES (%s, %s)", vertex)
        edge = (json.dumps(EDGE),)
        await connection.execute('INSERT INTO team_chunk_entity_relation."DIRECTED" VALUES (0, 1, %s)', edge)


async def test_graph_of_age_is_read_from_its_tables(kb: AsyncHeliograph, postgres_server: Any) -> None:
    url = postgres_server.make_database()
    await make_age(url, ("team", "other"))
    with pytest.raises(InvalidRequestError, match=r"several workspaces.*'other', 'team'"):
        await kb.import_from(url)
    with pytest.raises(InvalidRequestError, match="no workspace 'x'"):
        await kb.import_from(f"{url}#x")
    report = await check_story(kb, f"{url}#team")
    assert report.path.endswith("#team")


async def test_database_without_lightrag_is_told(kb: AsyncHeliograph, postgres_server: Any) -> None:
    with pytest.raises(InvalidRequestError, match="holds nothing of LightRAG"):
        await kb.import_from(postgres_server.make_database())


async def test_graph_in_neo4j_goes_with_files(kb: AsyncHeliograph, neo4j_server: Any, tmp_path: Path) -> None:
    from neo4j import AsyncGraphDatabase

    auth = ("neo4j", neo4j_server.password)
    async with AsyncGraphDatabase.driver(f"bolt://127.0.0.1:{neo4j_server.port}", auth=auth) as driver:
        for name, (type_, description, chunk_ids) in NODES.items():
            said = {"entity_id": name, "entity_type": type_, "description": description, "source_id": chunk_ids}
            await driver.execute_query("CREATE (n:`rag``1`) SET n = $said", said=said)
        ends = "MATCH (a:`rag``1`), (b:`rag``1`) WHERE a.entity_id < b.entity_id"
        statement = f"{ends} CREATE (a)-[r:DIRECTED]->(b) SET r = $said"
        await driver.execute_query(statement, said=EDGE)
        try:
            await check_story(kb, write_files(tmp_path / "rag"), f"{neo4j_server.url}#rag%601")
        finally:
            await driver.execute_query("MATCH (n:`rag``1`) DETACH DELETE n")


async def test_vectors_in_qdrant_are_kept_and_those_of_another_embedding_are_told(
    kb: AsyncHeliograph, tmp_path: Path
) -> None:
    models = pytest.importorskip("qdrant_client.models", reason="needs: pip install 'heliograph[qdrant]'")
    from qdrant_client import QdrantClient

    embedding = FakeEmbeddingModel()
    contents = [f"{name}\n{said[1]}" for name, said in NODES.items()]
    made = (await embedding.embed(contents, "document")).vectors
    client = QdrantClient(path=str(tmp_path / "qdrant"))
    for collection, count in (("lightrag_vdb_entities_new", 2), ("lightrag_vdb_entities_old", 1)):
        size = made.shape[1]
        client.create_collection(collection, vectors_config=models.VectorParams(size=size, distance="Cosine"))
        client.upsert(
            collection,
            [
                models.PointStruct(
                    id=number,
                    vector=made[number].tolist(),
                    payload={"id": f"ent-{name}", "entity_name": name, "content": content, "workspace_id": "_"},
                )
                for number, (name, content) in enumerate(zip(NODES, contents, strict=True))
            ][:count],
        )
    client.close()
    folder = write_files(tmp_path / "rag")
    report = await kb.import_from([folder, f"qdrant://{tmp_path / 'qdrant'}"])
    assert noted(report, NoteKind.LEFT_OUT, "another embedding") == 1
    assert noted(report, NoteKind.REMARK, "vectors are kept") == 2
    assert report.graph.entities == 2


@pytest.mark.parametrize(
    ("places", "message"),
    [
        (["mongodb://host/db"], "nothing is imported from mongodb://"),
        ([], "no place is named"),
        (["nowhere"], "no file or folder"),
        (["redis://host:port"], "no address of Redis"),
    ],
)
async def test_place_that_cannot_be_read_is_told(kb: AsyncHeliograph, places: list[str], message: str) -> None:
    with pytest.raises(HeliographError, match=message):
        await kb.import_from(places)


async def test_server_out_of_reach_is_told_without_its_password(kb: AsyncHeliograph) -> None:
    with pytest.raises(StoreUnavailable) as raised:
        await kb.import_from("redis://:secret@127.0.0.1:1/0")
    assert "secret" not in str(raised.value)


def write_graphrag(folder: Path, *, is_old: bool) -> Path:
    """Write an output of GraphRAG, today's or that of version 0.3."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    output = folder / "output" / "20240801" / "artifacts" if is_old else folder / "output"
    output.mkdir(parents=True)
    units = [{"id": id_, "text": text, "document_ids": ["d1"]} for id_, text in CHUNKS.items()]
    entities = [
        {
            ("name" if is_old else "title"): name.upper(),
            "type": type_.upper(),
            "description": said.replace("<SEP>", "\n"),
            "text_unit_ids": ids.split("<SEP>"),
        }
        for name, (type_, said, ids) in NODES.items()
    ]
    ends = {"source": "SCROOGE", "target": "MARLEY", "text_unit_ids": ["c2"]}
    tables = {
        "documents": [{"id": "d1", "title": "carol.txt", ("raw_content" if is_old else "text"): TEXT}],
        "text_units": units,
        "entities": entities,
        "relationships": [{**ends, "description": EDGE["description"], "weight": 2.0}],
        "community_reports": [{"id": "r1", "title": "Trade"}],
    }
    for name, rows in tables.items():
        parquet.write_table(arrow.Table.from_pylist(rows), output / f"{'create_final_' * is_old}{name}.parquet")
    return folder


@pytest.mark.parametrize("is_old", [False, True])
async def test_output_of_graphrag_is_imported(kb: AsyncHeliograph, tmp_path: Path, *, is_old: bool) -> None:
    folder = write_graphrag(tmp_path / "project", is_old=is_old)
    report = await kb.import_from(folder)
    assert (report.kind, report.added, report.chunks) == (ImportKind.GRAPHRAG, 1, 2)
    marley = await kb.entity("Marley")
    assert marley is not None
    assert (marley.name, marley.type, marley.description) == ("Marley", "person", "A ghost.\nA partner.")
    assert (await kb.documents()).documents[0].source == "carol.txt"
    assert noted(report, NoteKind.LEFT_OUT, "community reports") == 1
    assert (await kb.import_from(folder)).unchanged == 1
    assert (await kb.check()).is_clean


async def test_table_of_graphrag_that_is_cut_short_is_told(kb: AsyncHeliograph, tmp_path: Path) -> None:
    folder = write_graphrag(tmp_path / "project", is_old=False)
    (folder / "output" / "entities.parquet").write_bytes(b"PAR1")
    with pytest.raises(InvalidRequestError, match="cannot be read as Parquet"):
        await kb.import_from(folder)
    assert (await kb.documents()).total == 0
