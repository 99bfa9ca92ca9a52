from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from heliograph import AsyncHeliograph, Heliograph, ModeName, NewDocument, Outcome, QueryParam, Settings
from heliograph.errors import (
    IngestError,
    InvalidRequestError,
    ModelUnavailable,
    SchemaMismatch,
    SettingsError,
    StoreUnavailable,
)
from heliograph.models import DocumentStatus
from heliograph.stores.base import DocumentQuery
from heliograph.testing.fakes import FakeChatModel, FakeEmbeddingModel

NOTES = "# Gateway\n\nThe Lantern forwards readings over MQTT. Daniel Okafor approves every TLS Certificate."


@pytest.fixture
def embedding() -> FakeEmbeddingModel:
    return FakeEmbeddingModel(dimension=32)


@pytest.fixture
async def kb(tmp_path: Path, embedding: FakeEmbeddingModel):
    async with AsyncHeliograph(tmp_path, embedding=embedding) as kb:
        yield kb


async def test_documents_are_found_by_id_and_by_chunk_in_order(kb: AsyncHeliograph) -> None:
    await kb.insert(["Ann rows.", "Bo swims.", "Ann rows."], ids=["a", "b", "c"])
    assert [item.id for item in await kb.documents_by_id(["b", "none", "a"])] == ["b", "a"]
    (first,), (second,) = [await kb.chunks(id_) for id_ in ("a", "b")]
    found = await kb.documents_of([second.id, "none", first.id, second.id])
    assert [item.id for item in found] == ["b", "a"]
    assert [await kb.document_text(id_) for id_ in ("b", "c", "none")] == ["Bo swims.", "Ann rows.", None]


async def test_document_goes_in_and_answers_come_out(kb: AsyncHeliograph) -> None:
    report = await kb.insert(NOTES, sources=["gateway.md"], metadata=[{"team": "north"}])
    assert [result.outcome for result in report.results] == [Outcome.PROCESSED]
    (document,) = (await kb.documents()).documents
    assert (document.source, document.title) == ("gateway.md", "Gateway")
    assert document.metadata == {"team": "north", "language": "en"}
    answer = await kb.query("Who approves every TLS Certificate?")
    assert "Daniel Okafor" in answer.text
    assert [reference.source for reference in answer.references] == ["gateway.md"]
    data = await kb.query_data("What does the Lantern use?", QueryParam(mode="local"))
    assert "MQTT" in {entity["entity_name"] for entity in data["data"]["entities"]}


async def test_graph_is_looked_up_by_any_spelling(kb: AsyncHeliograph) -> None:
    await kb.insert(NOTES, sources=["gateway.md"])
    entity = await kb.entity(" mqtt ")
    assert entity is not None
    assert entity.name == "MQTT"
    around = await kb.neighbours("MQTT")
    other = next(item for item in around.entities if item.name != "MQTT")
    relation = await kb.relation(other.name, "mqtt")
    assert relation is not None
    assert {relation.source, relation.target} == {"MQTT", other.name}
    (path, *_) = await kb.paths("MQTT", other.name)
    assert [item.name for item in path.entities] == ["MQTT", other.name]
    assert await kb.entity("nobody") is None
    assert await kb.relation("nobody", "MQTT") is None


async def test_delete_takes_everything_with_it(kb: AsyncHeliograph) -> None:
    report = await kb.insert([NOTES, "Gwen Tully visits Aldermoor."], sources=["a.md", "b.md"])
    deleted = await kb.delete([report.results[0].id, "doc-missing"])
    assert deleted.missing == ("doc-missing",)
    assert await kb.entity("MQTT") is None
    assert await kb.entity("Gwen Tully") is not None
    await kb.delete(report.results[1].id)
    stats = await kb.stats()
    assert (dict(stats.documents), stats.chunks, stats.entities, stats.relations) == ({}, 0, 0, 0)


async def test_files_are_read_and_bad_ones_reported(kb: AsyncHeliograph, tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "good.md").write_text(NOTES)
    (folder / "bad.md").write_bytes(b"\x00\x01\x02" * 500)
    report = await kb.insert_files([folder])
    assert [result.outcome for result in report.results] == [Outcome.FAILED, Outcome.PROCESSED]
    again = await kb.insert_files([folder / "good.md"])
    assert again.results[0].outcome is Outcome.UNCHANGED


async def test_chat_model_extracts_and_answers(tmp_path: Path, embedding: FakeEmbeddingModel) -> None:
    def reply(request) -> str:
        if request.purpose == "extract":
            return (
                '{"entities": [{"name": "Lantern", "type": "artifact", "description": "A gateway."}], "relations": []}'
            )
        if request.purpose == "keywords":
            return '{"high_level_keywords": ["gateway"], "low_level_keywords": ["Lantern"]}'
        return "The Lantern is a gateway [1]."

    chat = FakeChatModel(reply)
    async with AsyncHeliograph(tmp_path, embedding=embedding, chat=chat) as kb:
        await kb.insert(NOTES, sources=["gateway.md"])
        answer = await kb.query("What is the Lantern?")
        assert answer.is_generated
        assert answer.text == "The Lantern is a gateway [1].\n\n### References\n\n- [1] gateway.md"
        assert [entity.name for entity in await kb.entities()] == ["Lantern"]
        assert kb.usage().total.calls == len(chat.requests)
        cached = await kb.query("What is the Lantern?")
        assert cached.from_cache
        await kb.insert("News of the Lantern.", sources=["news.md"])
        assert not (await kb.query("What is the Lantern?")).from_cache


async def test_outage_is_an_error_not_an_answer(tmp_path: Path, embedding: FakeEmbeddingModel) -> None:
    chat = FakeChatModel("unused")
    async with AsyncHeliograph(tmp_path, embedding=embedding, chat=chat, settings=_local()) as kb:
        await kb.insert(NOTES, sources=["gateway.md"])
        chat.fail_next(*[ModelUnavailable("the service is down; start it")] * 9)
        with pytest.raises(ModelUnavailable):
            await kb.query("What is the Lantern?")
        embedding.fail_next(ModelUnavailable("the embedding is down; start it"))
        with pytest.raises(ModelUnavailable):
            await kb.query_data("Anything of the Lantern?", QueryParam(mode="naive"))


def _local() -> Settings:
    return Settings.load(ingest={"extractor": "local"})


async def test_workspaces_are_walls(tmp_path: Path, embedding: FakeEmbeddingModel) -> None:
    async with AsyncHeliograph(tmp_path, workspace="one", embedding=embedding) as one:
        await one.insert(NOTES, sources=["gateway.md"])
        async with AsyncHeliograph(tmp_path, workspace="two", embedding=embedding) as two:
            assert (await two.documents()).total == 0
            assert (await two.query_data("Who approves TLS Certificates?"))["status"] == "failure"


@pytest.mark.parametrize("workspace", ["../other", "", "a/b", ".hidden/", "x" * 65])
def test_workspace_names_cannot_leave_the_folder(tmp_path: Path, workspace: str) -> None:
    with pytest.raises(SettingsError, match=r"workspace: .*(letters, digits|at most 64)"):
        AsyncHeliograph(tmp_path, workspace=workspace)


async def test_other_embedding_is_refused(tmp_path: Path, kb: AsyncHeliograph) -> None:
    await kb.insert(NOTES, sources=["gateway.md"])
    with pytest.raises(SchemaMismatch):
        await AsyncHeliograph(tmp_path, embedding=FakeEmbeddingModel(dimension=64)).open()


async def test_what_belongs_to_a_single_text_needs_no_list(kb: AsyncHeliograph) -> None:
    report = await kb.insert("The gateway speaks MQTT.", sources="a.md", ids="one", metadata={"team": "red"})
    document = await kb.document(report.results[0].id)
    assert document is not None
    assert (document.id, document.source, document.metadata) == ("one", "a.md", {"team": "red", "language": "en"})
    with pytest.raises(InvalidRequestError, match=r"sources must be a list of 2 values.*got 'a\.md'"):
        await kb.insert(["a", "b"], sources="a.md")


async def test_lists_must_match_the_documents(kb: AsyncHeliograph) -> None:
    with pytest.raises(InvalidRequestError, match="sources must be a list of 2 values"):
        await kb.insert(["a", "b"], sources=["only one"])
    with pytest.raises(InvalidRequestError, match="must be a text"):
        await kb.insert([b"bytes"])  # pyright: ignore[reportArgumentType]


async def test_first_calls_open_once_and_only_a_closed_engine_has_to_be_opened_again(
    tmp_path: Path, embedding: FakeEmbeddingModel
) -> None:
    kb = AsyncHeliograph(tmp_path, embedding=embedding)
    for ask in (lambda: kb.store, lambda: kb.view({"team": "red"}), kb.usage, kb.pause):
        with pytest.raises(StoreUnavailable, match="not open yet; await open"):
            ask()
    found = await asyncio.gather(kb.insert("Lantern speaks MQTT."), kb.stats(), kb.curations(), kb.entity("MQTT"))
    assert found[0].results[0].error is None
    opened = kb.store
    await asyncio.gather(kb.open(), kb.stats())
    assert kb.store is opened
    await asyncio.gather(kb.close(), kb.close())
    for call in (kb.stats, kb.curations, lambda: kb.query("Anything?"), lambda: anext(kb.watch(tmp_path))):
        with pytest.raises(StoreUnavailable, match="was closed; open"):
            await call()
    with pytest.raises(StoreUnavailable, match="was closed; open"):
        kb.usage()
    async with kb:
        assert (await kb.stats()).chunks == 1


def test_chat_extractor_needs_a_chat_model(tmp_path: Path, embedding: FakeEmbeddingModel) -> None:
    settings = Settings.load(ingest={"extractor": "chat"})
    with pytest.raises(SettingsError, match=r"chat\.model"):
        Heliograph(tmp_path, embedding=embedding, settings=settings).open()


async def test_no_extractor_leaves_the_graph_empty(tmp_path: Path, embedding: FakeEmbeddingModel) -> None:
    settings = Settings.load(ingest={"extractor": "none"})
    async with AsyncHeliograph(tmp_path, embedding=embedding, settings=settings) as kb:
        await kb.insert(NOTES, sources=["gateway.md"])
        assert (await kb.stats()).entities == 0
        assert "Okafor" in (await kb.query("Who approves every TLS Certificate?", QueryParam(mode="naive"))).text


async def test_documents_carry_their_own_fields(kb: AsyncHeliograph) -> None:
    await kb.insert(NewDocument("Some text about Aldermoor.", source="x.md", title="Mine", id="doc-own"))
    document = await kb.document("doc-own")
    assert document is not None
    assert document.title == "Mine"
    assert [chunk.text for chunk in await kb.chunks("doc-own")] == ["Some text about Aldermoor."]


async def test_questions_may_be_asked_while_documents_go_in(kb: AsyncHeliograph) -> None:
    await kb.insert(NOTES, sources=["gateway.md"])
    texts = [f"Report {number} about Plant {number} and the Lantern." for number in range(30)]
    inserting = asyncio.ensure_future(kb.insert(texts, sources=[f"{number}.md" for number in range(30)]))
    for _ in range(10):
        assert (await kb.query_data("What does the Lantern forward?"))["status"] == "success"
    assert (await inserting).count(Outcome.PROCESSED) == 30


async def test_deletion_by_a_filter_that_says_nothing_deletes_nothing(kb: AsyncHeliograph) -> None:
    await kb.insert([NOTES, "Gwen Tully visits Aldermoor."], metadata=[{"team": "north"}, {"team": "south"}])
    for nothing in ({}, {"and": []}, [], "team=north"):
        with pytest.raises(InvalidRequestError):
            await kb.delete_matching(filter=nothing)  # pyright: ignore[reportArgumentType]
    assert (await kb.stats()).documents[DocumentStatus.PROCESSED] == 2
    deleted = await kb.delete_matching(filter={"team": "south"})
    assert len(deleted.deleted) == 1


@pytest.mark.parametrize("mode", ["naive", "local", "mix", "fusion", "auto"])
async def test_question_under_a_condition_on_chunks_finds_only_such_chunks(kb: AsyncHeliograph, mode: ModeName) -> None:
    pages = [f"{NOTES} " * 40, "Gwen Tully approves every Lantern in Aldermoor. " * 40]
    starts = (0, len(pages[0]))
    await kb.insert([NewDocument("".join(pages), "book.pdf", page_starts=starts), NewDocument(NOTES, "other.md")])
    param = QueryParam(mode=mode, filter={"chunk": {"page": 2}})
    found = await kb.retrieve("Who approves every Lantern?", param)
    assert {(item.source, item.chunk.page) for item in found.context.chunks} == {("book.pdf", 2)}
    assert "MQTT" not in {item.entity.name for item in found.context.entities}
    assert len((await kb.delete_matching(filter={"chunk": {"page": {"gte": 2}}})).deleted) == 1


@pytest.mark.parametrize(
    "conditions",
    [{"filter": {"a": 1}}, {"filter": {}}, {"sort": "size"}, {"offset": -1}, {"limit": -1}, {"source_prefix": 5}],
)
def test_document_query_refuses_what_cannot_be_served(conditions: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError):
        DocumentQuery(**conditions)


async def test_url_that_is_a_path_reads_no_file(kb: AsyncHeliograph, tmp_path: Path) -> None:
    file = tmp_path / "private.md"
    file.write_text("A secret.", encoding="utf-8")
    for path in (str(file), "", "private.md"):
        with pytest.raises(InvalidRequestError, match="is not a URL"):
            await kb.insert_url(path)
    (result,) = (await kb.insert_url(f"file://{file}")).results
    assert isinstance(result.error, IngestError)
    (kept,) = (await kb.documents()).documents
    assert (kept.status, kept.error) == (DocumentStatus.FAILED, str(result.error))
    assert (await kb.stats()).chunks == 0


async def test_empty_path_is_not_the_working_directory(kb: AsyncHeliograph) -> None:
    with pytest.raises(IngestError, match="a path is empty"):
        await kb.insert_files([""])


@pytest.mark.parametrize("documents", [None, 5, {}, {"text": "A tide."}])
async def test_documents_of_no_known_kind_are_refused(kb: AsyncHeliograph, documents: Any) -> None:
    with pytest.raises(InvalidRequestError, match="documents must be"):
        await kb.insert(documents)


async def test_metadata_of_several_documents_must_be_in_a_list(kb: AsyncHeliograph) -> None:
    with pytest.raises(InvalidRequestError, match="metadata must be a list of 2 values"):
        await kb.insert(["A tide.", "A wave."], metadata={"team": "north"})
