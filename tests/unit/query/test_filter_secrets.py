"""Nothing of a document that a filter leaves out shows anywhere, and what is left is as if it had never come."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from heliograph.curation.curator import Curator
from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import InvalidRequestError
from heliograph.filters import DocumentIds, Filter, parse_filter
from heliograph.ids import document_id, name_to_entity_id
from heliograph.ingest.merging import EvidenceFold
from heliograph.ingest.resolution import find_entity_ids
from heliograph.models import Mode
from heliograph.query.models import Failure, QueryParam
from heliograph.settings import IngestSettings, StoreSettings
from heliograph.stores.base import DocumentQuery, Store, StoreView
from heliograph.stores.changeset import Collection
from heliograph.stores.registry import open_store
from heliograph.testing.fakes import FakeChatModel
from tests.memory_store import MemoryStore

from .filter_world import DIMENSION, OPEN, QUESTION, THINGS, echo, engine, everything, fill, secrets_in

FOLD = EvidenceFold.of(IngestSettings())


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    opened = await open_store(
        StoreSettings(data_dir=tmp_path, durability="normal"), EmbeddingInfo("fake", DIMENSION, 512)
    )
    yield opened
    await opened.close()


@pytest.fixture
async def filled(store: Store) -> Store:
    await fill(store)
    return store


@pytest.fixture
async def only_open() -> Store:
    store = MemoryStore()
    await fill(store, with_closed=False)
    return store


def open_view(store: Store) -> StoreView:
    return store.view(parse_filter(OPEN), FOLD)


async def ask_everything(store: Store, chat: FakeChatModel | None, mode: Mode, **more: Any) -> list[object]:
    """All that a caller can get for a question in one mode."""
    asked = engine(store, chat)
    param = everything(mode, include_chunk_content=True, return_structured=True, **more)
    shown: list[object] = [await asked.query_data(QUESTION, param)]
    for extra in ({}, {"only_need_context": True}, {"only_need_prompt": True}, {"hl_keywords": (), "ll_keywords": ()}):
        param_ = dataclasses.replace(param, **extra)
        answer = await asked.query(QUESTION, param_)
        again = await asked.query(QUESTION, param_)
        shown += [answer, again, answer.payload(param_)]
    stream = await asked.stream(QUESTION, param)
    return [*shown, stream.retrieval, stream.references, [piece async for piece in stream], stream.answer]


async def kept_replies(store: Store) -> str:
    """What the cache holds of answers and keywords."""
    if isinstance(store, MemoryStore):
        return repr(store._replies.replies)
    rows = await store._database.fetch("SELECT key, text FROM reply")  # pyright: ignore[reportAttributeAccessIssue]
    return repr(rows)


@pytest.mark.parametrize(("has_chat", "context_format"), [(True, "json"), (False, "csv")])
@pytest.mark.parametrize("mode", list(Mode))
async def test_secrets_show_nowhere(filled: Store, mode: Mode, has_chat: bool, context_format: str) -> None:
    if mode is Mode.BYPASS and not has_chat:
        with pytest.raises(InvalidRequestError):
            await engine(filled, None).query(QUESTION, QueryParam(mode=mode, filter=OPEN))
        return
    chat = FakeChatModel(echo) if has_chat else None
    shown = await ask_everything(filled, chat, mode, filter=OPEN, context_format=context_format)
    requests = chat.requests if chat else []
    assert not secrets_in(*shown, *requests, await kept_replies(filled))
    assert mode is Mode.BYPASS or "open/report-1.md" in repr(shown)


@pytest.mark.parametrize("mode", [mode for mode in Mode if mode is not Mode.BYPASS])
async def test_secrets_show_without_the_filter(filled: Store, mode: Mode) -> None:
    """The test above would find them."""
    shown = await engine(filled, None).query_data(QUESTION, everything(mode))
    assert len(secrets_in(shown)) == len(secrets_in("zqx Zqx closed", *(thing.upper() for thing in THINGS)))


@pytest.mark.parametrize("picking", ["vector", "weight", "shared_relations"])
@pytest.mark.parametrize("mode", [mode for mode in Mode if mode is not Mode.BYPASS])
async def test_filtered_retrieval_equals_that_of_a_store_without_the_rest(
    filled: Store, only_open: Store, mode: Mode, picking: str
) -> None:
    found = await engine(filled, None).query_data(QUESTION, everything(mode, filter=OPEN, chunk_picking=picking))
    expected = await engine(only_open, None).query_data(QUESTION, everything(mode, chunk_picking=picking))
    assert found["metadata"].get("processing_info") == expected["metadata"].get("processing_info")
    for part, keys in (
        ("entities", ("entity_name", "entity_type", "description", "source_id", "file_path")),
        ("relationships", ("src_id", "tgt_id", "description", "keywords", "weight", "source_id", "file_path")),
        ("chunks", ("content", "file_path", "chunk_id", "document_id", "start", "end", "headings")),
        ("references", ("file_path", "count")),
    ):
        rows, wanted = ([{key: row[key] for key in keys} for row in data["data"][part]] for data in (found, expected))
        assert sorted(rows, key=str) == sorted(wanted, key=str)
        assert rows or part in ("entities", "relationships")


async def test_graph_under_a_filter_equals_that_of_a_store_without_the_rest(filled: Store, only_open: Store) -> None:
    view = open_view(filled)
    entities = await only_open.graph.list_entities(0, 1000)
    ids = [entity.id for entity in entities]
    assert [timeless(entity) for entity in await view.graph.list_entities(0, 1000)] == list(map(timeless, entities))
    for offset, limit in ((0, 3), (3, 4), (20, 50), (34, 1000), (1000, 5), (0, 0)):
        page = await view.graph.list_entities(offset, limit)
        assert [entity.id for entity in page] == ids[offset : offset + limit]
    ranked = await view.graph.rank_incident_relations(ids[:4])
    assert ranked == await only_open.graph.rank_incident_relations(ids[:4])
    relation_ids = [item.id for item in ranked]
    found, expected = [await graph.get_relations(relation_ids) for graph in (view.graph, only_open.graph)]
    assert list(map(timeless, found)) == list(map(timeless, expected))
    evidence, wanted = [await part.records.get_evidence(ids, relation_ids, 5) for part in (view, only_open)]
    for kind in (0, 1):
        assert [dataclasses.replace(item, version=0) for item in evidence[kind]] == [
            dataclasses.replace(item, version=0) for item in wanted[kind]
        ]
    for depth, most in ((0, 5), (1, 100), (2, 7), (3, 1000)):
        around, expected_around = [
            await graph.get_neighbourhood(ids[0], depth, most) for graph in (view.graph, only_open.graph)
        ]
        assert list(map(timeless, around.entities)) == list(map(timeless, expected_around.entities))
        assert {item.id for item in around.relations} == {item.id for item in expected_around.relations}
        assert around.is_truncated == expected_around.is_truncated
    for target in (*ids[1:4], ids[-1], ids[0]):
        paths, expected_paths = [
            await graph.find_shortest_paths(ids[0], target, 4, 3) for graph in (view.graph, only_open.graph)
        ]
        assert [[entity.id for entity in path.entities] for path in paths] == [
            [entity.id for entity in path.entities] for path in expected_paths
        ]


def timeless(item: Any) -> Any:
    return dataclasses.replace(item, created_at=0)


async def test_excluded_documents_do_not_exist_in_any_role(filled: Store) -> None:
    view = open_view(filled)
    closed = document_id("closed/zqxsource-1.md")
    (chunk, *_) = await filled.records.get_document_chunks(closed)
    hidden = name_to_entity_id("Zqxthing1")
    assert await view.records.get_documents([closed]) == []
    assert await view.records.get_document_text(closed) is None
    assert await view.records.get_document_chunks(closed) == []
    assert await view.records.get_chunks([chunk.id]) == []
    assert await view.records.get_sources([chunk.id]) == {}
    assert await view.records.get_extractions([chunk.id]) == []
    assert await view.records.get_evidence([hidden], [], 5) == ([], [])
    assert await view.graph.get_entities([hidden]) == []
    assert (await view.graph.get_neighbourhood(hidden, 1, 5)).entities == ()
    assert await view.vectors.get_vectors(Collection.CHUNKS, [chunk.id]) == {}
    assert await view.vectors.get_vectors(Collection.ENTITIES, [hidden]) == {}
    assert (await view.records.find_documents(DocumentQuery())).total == 30
    assert (await view.records.find_documents(DocumentQuery(source_prefix="closed/"))).total == 0


async def test_entities_are_not_found_by_names_that_only_excluded_documents_give(store: Store) -> None:
    await fill(store)
    view = open_view(store)
    assert [hit.id for hit in await view.text.search(Collection.ENTITIES, ["gateway"], 5)] == [
        name_to_entity_id("Gateway")
    ]
    assert await view.text.search(Collection.ENTITIES, ["zqxthing1"], 5) == []
    assert await view.text.search(Collection.CHUNKS, ["zqxfact1-0"], 5) == []
    assert len(await view.text.search(Collection.CHUNKS, ["gateway"], 5)) == 5
    assert (
        len(await view.text.search(Collection.CHUNKS, ["gateway", "hall"], 1000))
        == len(
            [
                chunk
                for n in range(30)
                for chunk in await view.records.get_document_chunks(document_id(f"open/report-{n}.md"))
            ]
        )
        - 30
    )


@pytest.mark.parametrize("filter_", [{"team": "nobody"}, {"document_id": []}, DocumentIds(("doc-none",))])
@pytest.mark.parametrize("mode", [mode for mode in Mode if mode is not Mode.BYPASS])
async def test_filter_that_leaves_nothing_finds_nothing(filled: Store, mode: Mode, filter_: Filter) -> None:
    data = await engine(filled, None).query_data(QUESTION, everything(mode, filter=filter_))
    assert data["metadata"]["failure_reason"] == Failure.NO_RESULTS.value
    answer = await engine(filled, FakeChatModel(echo)).query(QUESTION, everything(mode, filter=filter_))
    assert not answer.references
    assert answer.retrieval.failure is Failure.NO_RESULTS


@pytest.mark.parametrize("mode", [mode for mode in Mode if mode is not Mode.BYPASS])
async def test_what_people_say_does_not_show(store: Store, mode: Mode) -> None:
    curator = Curator(store, (await fill(store, with_closed=False)).committer)
    link: Any = {"keywords": ["zqxword"], "weight": 9.0, "author": "ann"}
    await curator.edit_entity("Gateway", type="zqxtype", description="Zqxedit of the Gateway.", author="ann")
    await curator.rename_entity("Lantern", "Zqxlantern", author="ann")
    await curator.create_entity("Zqxmade", type="zqxtype", description="Zqxmade by hand.", author="ann")
    await curator.create_relation("Gateway", "Zqxmade", **link, description="Zqxlink by hand.")
    await curator.edit_relation("Gateway", "Broker", **link, description="Zqxlink of two.")
    found = await engine(store, None).query_data(QUESTION, everything(mode))
    assert mode is Mode.NAIVE or secrets_in(found)
    found = await engine(store, None).query_data(QUESTION, everything(mode, filter=OPEN))
    assert found["data"]["chunks"]
    assert not secrets_in(found)


async def test_merges_and_deletions_by_people_hold_under_a_filter(store: Store) -> None:
    curator = Curator(store, (await fill(store)).committer)
    await curator.merge_entities(["Broker"], "Beacon", author="ann")
    await curator.delete_entity("Turbine", author="ann")
    graph = open_view(store).graph
    (beacon,) = await graph.get_entities(await find_entity_ids(store, ["Beacon"]))
    assert (beacon.name, beacon.aliases, beacon.type) == ("Beacon", ("Broker",), "device")
    assert {"Broker hums.", "Beacon hums."} <= set(beacon.description.split("<SEP>"))
    assert await graph.get_entities(await find_entity_ids(store, ["Turbine"])) == []
    ranked = await graph.rank_incident_relations([beacon.id])
    relations = await graph.get_relations([item.id for item in ranked])
    assert beacon.degree == len(relations)
    assert not any(relation.source_id == relation.target_id for relation in relations)
    assert not any("Turbine" in (relation.source, relation.target) for relation in relations)
    assert not secrets_in(beacon, relations)
