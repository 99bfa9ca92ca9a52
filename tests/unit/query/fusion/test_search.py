"""Fused search over a workspace filled by real ingest: what each channel brings, and that scores explain the order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from heliograph import AsyncHeliograph, NewDocument, QueryParam
from heliograph.chat.base import Purpose
from heliograph.embedding.base import USUAL_SCALE, CosineScale, EmbeddingInfo, EmbeddingKind, Embeddings
from heliograph.extraction.local import LocalExtractor
from heliograph.query.fusion import FusedSearch
from heliograph.query.plan import Channel, FusionParameters
from heliograph.settings import Settings
from heliograph.testing.fakes import FakeChatModel, FakeEmbeddingModel

DOCUMENTS = {
    "song": ("Hello Love", 'Hello Love is a single by Hank Marlow. "Hello Love" was his last number one.'),
    "singer": ("Hank Marlow", "Hank Marlow moved to Riverton in 1949 and died there after a long illness."),
    "town": ("Riverton", "Riverton is a town in Umbria County. Its river floods every spring."),
    "other": ("Goodbye Love", "Goodbye Love is a novel about a lighthouse keeper and his dog."),
    "noise": ("Bread", "Bread is baked from flour, water and salt."),
}
QUESTION = "Where did the performer of Hello Love die?"


@pytest.fixture
async def kb(tmp_path: Path) -> AsyncIterator[AsyncHeliograph]:
    async with AsyncHeliograph(tmp_path, embedding=FakeEmbeddingModel()) as kb:
        await kb.insert([NewDocument(text, source=name, title=title) for name, (title, text) in DOCUMENTS.items()])
        yield kb


async def _chunks(kb: AsyncHeliograph, question: str = QUESTION, **param: object) -> list[dict[str, object]]:
    found = await kb.query_data(question, QueryParam(**({"mode": "fusion"} | param)))  # pyright: ignore[reportArgumentType]
    return found["data"]["chunks"]


async def test_second_hop_is_found_over_a_bridge(kb: AsyncHeliograph) -> None:
    chunks = await _chunks(kb)
    assert {chunk["file_path"] for chunk in chunks[:2]} == {"song", "singer"}
    scores = next(chunk["scores"] for chunk in chunks if chunk["file_path"] == "singer")
    assert isinstance(scores, dict)
    assert scores["bridge"] > 0


@pytest.mark.parametrize("param", [QueryParam(mode="fusion"), QueryParam(mode="naive", channels=["keyword", "bridge"])])
async def test_way_over_bridges_is_explained(kb: AsyncHeliograph, param: QueryParam) -> None:
    trace = (await kb.retrieve(QUESTION, replace(param, explain=True))).trace
    assert trace is not None
    sources = {chunk.chunk_id: chunk.source for chunk in trace.chunks}
    paths = {chunk.source: [sources[id_] for id_ in chunk.path] for chunk in trace.chunks}
    assert paths["singer"] == ["song"]


async def test_scores_by_channel_add_up_to_the_order(kb: AsyncHeliograph) -> None:
    chunks = await _chunks(kb)
    totals = [sum(chunk["scores"].values()) for chunk in chunks]  # pyright: ignore[reportAttributeAccessIssue]
    assert totals == sorted(totals, reverse=True)


async def test_entity_named_in_the_question_lifts_the_chunk_about_it(kb: AsyncHeliograph) -> None:
    chunks = await _chunks(kb, "What is Goodbye Love about?")
    assert chunks[0]["file_path"] == "other"
    assert chunks[0]["scores"]["entity"] > 0  # pyright: ignore[reportIndexIssue]


async def test_fusion_by_rank_finds_the_same_chunks(kb: AsyncHeliograph) -> None:
    by_score = {chunk["chunk_id"] for chunk in await _chunks(kb)}
    by_rank = await _chunks(kb, fusion="rank")
    assert {chunk["chunk_id"] for chunk in by_rank} == by_score


async def test_paths_between_named_entities_are_told(kb: AsyncHeliograph) -> None:
    found = await kb.query_data("How is Hank Marlow tied to Riverton?", QueryParam(mode="fusion"))
    names = [path["entities"] for path in found["data"]["paths"]]
    assert ["Hank Marlow", "Riverton"] in names or ["Riverton", "Hank Marlow"] in names
    answer = await kb.query("How is Hank Marlow tied to Riverton?", QueryParam(mode="fusion", only_need_context=True))
    assert " -> " in answer.text


async def test_entities_and_relations_are_those_of_the_evidence(kb: AsyncHeliograph) -> None:
    found = (await kb.query_data(QUESTION, QueryParam(mode="fusion")))["data"]
    names = [entity["entity_name"] for entity in found["entities"]]
    assert set(names[:2]) == {"Hello Love", "Hank Marlow"}
    assert names.index("Riverton") < names.index("Bread")
    assert found["relationships"]
    assert {end for item in found["relationships"] for end in (item["src_id"], item["tgt_id"])} <= set(names)


async def test_top_k_bounds_the_entities_of_the_evidence(kb: AsyncHeliograph) -> None:
    found = (await kb.query_data(QUESTION, QueryParam(mode="fusion", top_k=1)))["data"]
    assert len(found["entities"]) == 1
    assert found["relationships"] == []


async def test_names_that_were_linked_are_told_as_keywords(kb: AsyncHeliograph) -> None:
    found = await kb.query_data(QUESTION, QueryParam(mode="fusion"))
    assert found["metadata"]["keywords"] == {"high_level": [], "low_level": ["Hello Love"]}


async def test_given_keywords_are_searched_beside_the_evidence(kb: AsyncHeliograph) -> None:
    found = await kb.query_data(QUESTION, QueryParam(mode="fusion", ll_keywords=["Bread"]))
    assert found["metadata"]["keywords"] == {"high_level": [], "low_level": ["Bread"]}
    assert {"Bread", "Hank Marlow"} <= {entity["entity_name"] for entity in found["data"]["entities"]}


async def test_chat_model_is_not_asked_for_keywords(tmp_path: Path) -> None:
    chat = FakeChatModel()
    async with AsyncHeliograph(tmp_path, embedding=FakeEmbeddingModel(), chat=chat, extractor=LocalExtractor()) as kb:
        await kb.insert([NewDocument(text, source=name, title=title) for name, (title, text) in DOCUMENTS.items()])
        await kb.query_data(QUESTION, QueryParam(mode="fusion"))
        assert not chat.requests
        await kb.query_data(QUESTION, QueryParam(mode="mix"))
        assert [request.purpose for request in chat.requests] == [Purpose.KEYWORDS]


async def test_more_chunks_are_taken_where_more_are_wanted(tmp_path: Path) -> None:
    async with AsyncHeliograph(tmp_path, embedding=FakeEmbeddingModel()) as kb:
        await kb.insert([NewDocument(f"Lamp number {place} stands here.", source=f"{place}") for place in range(170)])
        found = await kb.query_data("Which lamp stands here?", QueryParam(mode="fusion", chunk_top_k=170))
        assert len(found["data"]["chunks"]) == 170


async def test_other_modes_tell_neither_scores_nor_paths(kb: AsyncHeliograph) -> None:
    found = await kb.query_data(QUESTION, QueryParam(mode="mix"))
    assert "paths" not in found["data"]
    assert all("scores" not in chunk for chunk in found["data"]["chunks"])


async def test_added_channel_only_adds_to_a_mode(kb: AsyncHeliograph) -> None:
    plain = await _chunks(kb, mode="naive")
    added = await _chunks(kb, mode="naive", channels=["keyword", "bridge"])
    assert {chunk["chunk_id"] for chunk in plain} <= {chunk["chunk_id"] for chunk in added}
    assert any("keyword" in chunk["scores"] for chunk in added)  # pyright: ignore[reportOperatorIssue]


@pytest.mark.parametrize("channel", list(Channel))
async def test_every_channel_may_be_asked_for_beside_naive(kb: AsyncHeliograph, channel: Channel) -> None:
    if channel in (Channel.ENTITY, Channel.RELATION):
        pytest.skip("these belong to the modes")
    assert await _chunks(kb, mode="naive", channels=[channel.value])


async def test_misspelt_name_is_read_as_the_one_in_the_documents(kb: AsyncHeliograph) -> None:
    wrong = await kb.query(
        "Where did the performer of Helo Love move, and who is Hank Marlwo?", QueryParam(mode="fusion")
    )
    assert wrong.retrieval.respelt == "Where did the performer of Helo Love move, and who is Hank Marlow?"
    assert "'Marlwo' stands in no document that was searched and is read as 'Marlow'" in wrong.warnings
    assert "Hank Marlow" in wrong.retrieval.keywords.low_level
    right = await kb.query(wrong.retrieval.respelt, QueryParam(mode="fusion"))
    assert right.retrieval.respelt is None
    assert [item.chunk.id for item in right.retrieval.context.chunks] == [
        item.chunk.id for item in wrong.retrieval.context.chunks
    ]


@pytest.mark.parametrize(
    "question",
    [
        "Who is Marlow?",  # stands in a document
        "Who is Larlow?",  # another first letter
        "Who is Maorlw, and where is Ryvertown?",  # two slips, which may be another name
        "Where is Marlow-X and what is MARLW01?",  # identifiers
        "what does the writer drinkk?",  # no document holds anything near
        "马洛是谁?",
        "Riverton在哪里?",  # writing that goes on without a space
    ],
)
async def test_question_is_left_as_it_is(kb: AsyncHeliograph, question: str) -> None:
    found = await kb.query(question, QueryParam(mode="fusion"))
    assert found.retrieval.respelt is None


async def test_mode_auto_tells_how_it_read_a_question(kb: AsyncHeliograph) -> None:
    found = await kb.query_data("Compare Hank Marlow and Rivertown", QueryParam(mode="auto"))
    assert found["metadata"]["respelt"] == "Compare Hank Marlow and Riverton"
    assert any("Rivertown" in warning for warning in found["metadata"]["warnings"])


async def test_modes_of_lightrag_read_a_question_as_it_is(kb: AsyncHeliograph) -> None:
    found = await kb.query_data("Who is Hank Marlwo?", QueryParam(mode="mix"))
    assert "respelt" not in found["metadata"]


async def test_word_beside_writing_without_spaces_is_read_alone(kb: AsyncHeliograph) -> None:
    found = await kb.query("Rivertn在哪里?", QueryParam(mode="fusion"))
    assert found.retrieval.respelt == "Riverton在哪里?"


class _Crowded(FakeEmbeddingModel):
    """Gives the same vectors, but for one direction that all of them share: cosines from 0 to 1 become 0.7 to 1."""

    _SHARE = 0.7

    @property
    def info(self) -> EmbeddingInfo:
        scale = CosineScale(self._crowded(USUAL_SCALE.unrelated), self._crowded(USUAL_SCALE.related))
        return replace(super().info, dimension=65, scale=scale)

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        known = await super().embed(texts, kind)
        shared = np.full((len(texts), 1), self._SHARE**0.5, np.float32)
        vectors = np.concatenate([(1.0 - self._SHARE) ** 0.5 * known.vectors[:, :64], shared], axis=1)
        return Embeddings(vectors.astype(np.float32), known.usage)

    def _crowded(self, cosine: float) -> float:
        return self._SHARE + (1.0 - self._SHARE) * cosine


async def test_scores_are_the_same_whatever_band_the_cosines_of_a_model_lie_in(
    kb: AsyncHeliograph, tmp_path: Path
) -> None:
    async with AsyncHeliograph(tmp_path / "crowded", embedding=_Crowded()) as crowded:
        await crowded.insert([NewDocument(text, source=name, title=title) for name, (title, text) in DOCUMENTS.items()])
        found = await _chunks(crowded)
    expected = await _chunks(kb)
    assert [chunk["file_path"] for chunk in found] == [chunk["file_path"] for chunk in expected]
    for one, other in zip(found, expected, strict=True):
        assert one["scores"] == pytest.approx(other["scores"], abs=1e-4)


SITE_QUESTION = "What does the Lantern gateway forward to the harbour?"


def _pages(number: int, sections: int) -> list[NewDocument]:
    """Pages of one site: all name the same thing in the same words, section by section."""
    return [
        NewDocument(
            "\n\n".join(
                f"# Part {page}.{part}\n\nThe Lantern gateway forwards reading {page * 100 + part} to the harbour. "
                f"{'It is kept for a while and sent on. ' * 12}"
                for part in range(sections)
            ),
            source=f"page-{page}",
        )
        for page in range(number)
    ]


async def test_one_long_page_does_not_take_the_places_of_all_others(tmp_path: Path) -> None:
    model = FakeEmbeddingModel()
    settings = Settings.load(ingest={"chunk_tokens": 100, "overlap_tokens": 0})
    async with AsyncHeliograph(tmp_path, embedding=model, settings=settings) as kb:
        await kb.insert([*_pages(1, 24), *(replace(page, source=f"note-{page.source}") for page in _pages(8, 1))])
        (vector,) = (await model.embed([SITE_QUESTION], "query")).vectors
        found = {
            again: await FusedSearch(kb.store, model, FusionParameters(again=again)).search(SITE_QUESTION, vector)
            for again in (1.0, 0.97)
        }
        sources = {again: await kb.store.records.get_sources(hits.chunk_ids) for again, hits in found.items()}
        order = {again: [sources[again][id_] for id_ in hits.chunk_ids] for again, hits in found.items()}
    assert set(found[1.0].chunk_ids) == set(found[0.97].chunk_ids)  # nothing is lost, only the order is another
    places = {again: [pages.index(page) for page in set(pages)] for again, pages in order.items()}
    assert sum(places[0.97]) < sum(places[1.0])


@pytest.mark.parametrize(("pages", "sections", "counts_less"), [(2, 24, True), (48, 1, False)])
async def test_words_and_names_count_less_where_the_near_chunks_are_of_few_pages(
    tmp_path: Path, pages: int, sections: int, counts_less: bool
) -> None:
    model = FakeEmbeddingModel()
    settings = Settings.load(ingest={"chunk_tokens": 100, "overlap_tokens": 0})
    async with AsyncHeliograph(tmp_path, embedding=model, settings=settings) as kb:
        await kb.insert(_pages(pages, sections))
        (vector,) = (await model.embed([SITE_QUESTION], "query")).vectors
        worth = [
            (await FusedSearch(kb.store, model, FusionParameters(within_pages=share)).search(SITE_QUESTION, vector))
            .hits[0]
            .scores["keyword"]
            for share in (1.0, 0.3)
        ]
    assert (worth[1] < worth[0]) == counts_less


async def test_words_find_what_says_them_in_another_language(tmp_path: Path) -> None:
    texts = {
        "queue": "Messages wait in the queue for five days by default, then they are returned to the sender.",
        "bread": "Bread is baked from flour, water and salt, and it is eaten on the day it was made.",
        "zh": "面包用面粉、水和盐烤成，最好当天吃完。灯塔的看守人每天早上都去买面包。",
    }
    async with AsyncHeliograph(tmp_path, embedding=FakeEmbeddingModel()) as kb:
        await kb.insert([NewDocument(text, source=name) for name, text in texts.items()])
        asked, shown = "邮件默认在队列里停留几天？", {"queue": True, "zh": False}
        scores = {str(chunk["file_path"]): chunk["scores"] for chunk in await _chunks(kb, asked)}
        assert {name: "keyword" in scores[name] for name in shown} == shown  # pyright: ignore[reportOperatorIssue]


async def test_question_of_stop_words_that_have_renderings_finds_what_is_near(tmp_path: Path) -> None:
    async with AsyncHeliograph(tmp_path, embedding=FakeEmbeddingModel()) as kb:
        await kb.insert([NewDocument("Bread needs flour, and dough requires an hour of rest.", source="bread")])
        [chunk] = await _chunks(kb, "需要？")
        assert "keyword" not in chunk["scores"]  # pyright: ignore[reportOperatorIssue]
