"""Mode `auto`: a plain question is searched as in `fusion`, others by sides, by parts, further or more broadly."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from heliograph.embedding.base import EmbeddingKind, Embeddings
from heliograph.query.fusion import AutoSearch, FusedHits, SearchLimits, adapt_plan
from heliograph.query.models import FusedHit, Keywords, QueryParam
from heliograph.query.understanding import QuestionKind, Understanding
from heliograph.testing.fakes import FakeChatModel, FakeReranker

from .world import AxisEmbedding, World, plan

LIMITS = SearchLimits(hits=12)
VECTOR = np.ones(4, np.float32) / 2


class Search:
    """Finds for each question the chunks that it was made with, named by letters, and remembers what was asked."""

    def __init__(self, found: dict[str, str], documents: dict[str, str] | None = None) -> None:
        self._found = found
        self._documents = documents or {}
        self.asked: list[str] = []

    async def search(self, question: str, vector: NDArray[np.float32], limits: SearchLimits) -> FusedHits:
        self.asked.append(question)
        ids = self._found.get(question, "")
        hits = tuple(FusedHit(name, 1.0 - place / 100) for place, name in enumerate(ids))
        return FusedHits(hits, sources={name: self._documents.get(name, name) for name in ids})


async def _completed(hits: FusedHits) -> FusedHits:
    return hits


async def auto(world: World, search: Search, question: str, **understood: Any) -> FusedHits:
    engine: Any = AutoSearch(world.embedding, search)  # pyright: ignore[reportArgumentType]
    return await engine.search(question, VECTOR, LIMITS, Understanding(**understood))


def names(hits: FusedHits) -> str:
    return "".join(hits.chunk_ids)


@pytest.mark.parametrize("kind", [QuestionKind.FACT, QuestionKind.HOW_TO, QuestionKind.REASON, QuestionKind.AGGREGATE])
async def test_plain_question_is_the_fused_search(world: World, kind: QuestionKind) -> None:
    search = Search({"q": "abcdef"})
    found = await auto(world, search, "q", kind=kind)
    assert found == await search.search("q", VECTOR, LIMITS)
    assert search.asked == ["q", "q"]


async def test_sides_are_searched_too_and_interleaved_behind_the_first_hits(world: World) -> None:
    question = "Which is older, Foo or Bar?"
    search = Search({question: "abcdefgh", "Which is older, Foo?": "axy", "Which is older Bar?": "zuv"})
    found = await auto(world, search, question, kind=QuestionKind.COMPARE, sides=("Foo", "Bar"))
    assert set(search.asked[1:]) == {"Which is older, Foo?", "Which is older Bar?"}
    # `a` speaks for Foo already; Bar's best chunk takes the last of the first places.
    assert names(found) == "abcdzexuyvfg"
    assert found.leaders == ("a", "z")


async def test_parts_share_the_places_out(world: World) -> None:
    search = Search({"q": "abcdef", "one?": "xbc", "two?": "yzw"})
    found = await auto(world, search, "q", parts=("one?", "two?"))
    assert names(found) == "xyabzcwdef"
    assert found.leaders == ("x", "y")
    assert [hit.score for hit in found.hits] == sorted((hit.score for hit in found.hits), reverse=True)
    assert [(part.question, "".join(part.scores)) for part in found.parts] == [("one?", "xbc"), ("two?", "yzw")]


async def test_global_takes_turns_among_documents(world: World) -> None:
    search = Search({"q": "abcde"}, documents={"a": "one", "b": "one", "c": "two", "d": "one", "e": "three"})
    found = await auto(world, search, "q", kind=QuestionKind.GLOBAL)
    assert names(found) == "acebd"


async def test_account_is_searched_by_aspects_and_documents_come_first_that_these_agree_on(world: World) -> None:
    question = "Describe the reef, covering its age and the fish that live there."
    aspects = ("the reef", "the reef: its age", "the reef: the fish that live there")
    search = Search({question: "abc", aspects[0]: "a", aspects[1]: "xc", aspects[2]: "yc"})
    found = await auto(world, search, question, kind=QuestionKind.GLOBAL)
    assert search.asked == [question, *aspects]
    assert names(found) == "acbxy"
    assert [hit.score for hit in found.hits] == sorted((hit.score for hit in found.hits), reverse=True)


async def test_for_an_account_words_count_beside_vectors_whatever_they_weigh_for_a_chunk(world: World) -> None:
    hits = FusedHits(
        tuple(
            FusedHit(name, sum(scores), dict(zip(("vector", "keyword"), scores, strict=False)))
            for name, scores in {"a": (0.9, 0.001), "b": (0.8,), "c": (0.7, 0.003), "d": (0.6, 0.002)}.items()
        ),
        sources={name: name for name in "abcd"},
    )
    search = Search({})
    search.search = lambda *_: _completed(hits)  # pyright: ignore[reportAttributeAccessIssue]
    found = await auto(world, search, "q", kind=QuestionKind.GLOBAL)
    assert names(found) == "acdb"


@pytest.mark.parametrize(
    ("kind", "chunks", "entities"),
    [(QuestionKind.FACT, 20, 40), (QuestionKind.AGGREGATE, 40, 40), (QuestionKind.GLOBAL, 40, 80)],
)
def test_depths_follow_the_kind(kind: QuestionKind, chunks: int, entities: int) -> None:
    adapted = adapt_plan(plan(mode="auto"), Understanding(kind))
    assert (adapted.settings.chunk_top_k, adapted.settings.top_k) == (chunks, entities)


def test_what_the_caller_set_stays() -> None:
    given = plan(mode="auto", chunk_top_k=3, top_k=4, ll_keywords=["mine"])
    assert adapt_plan(given, Understanding(QuestionKind.GLOBAL, ("Theirs",), ("words",))) == given


def test_keywords_come_from_a_models_understanding() -> None:
    understood = Understanding(entities=("ESP32",), expansions=("connect", "ESP32"), by_model=True)
    assert adapt_plan(plan(mode="auto"), understood).keywords == Keywords(("connect",), ("ESP32",))
    only_names = adapt_plan(plan(mode="auto"), Understanding(entities=("ESP32",), by_model=True)).keywords
    assert only_names == Keywords(("ESP32",), ("ESP32",))
    assert adapt_plan(plan(mode="auto"), Understanding(by_model=True)).keywords is None
    assert adapt_plan(plan(mode="auto"), Understanding(entities=("ESP32",))).keywords is None


class SidedEmbedding(AxisEmbedding):
    """Finds what is far from all other questions for one that asks for Bar alone."""

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        embeddings = await super().embed(texts, kind)
        for row, text in enumerate(texts):
            if "Bar" in text and "Foo" not in text:
                embeddings.vectors[row] = [0, 1, 0, 0]
        return embeddings


async def _fill(world: World) -> None:
    await world.chunk("foo", "Foo is a lamp of 1990.", source="foo.md", score=0.9)
    await world.chunk("bar", "Bar is a lamp of 1980.", source="bar.md", score=0.3)
    for number in range(8):
        await world.chunk(f"n{number}", f"Filler number {number}.", source=f"n{number}.md", score=0.8 - number / 100)


async def test_result_says_what_was_understood(world: World) -> None:
    await _fill(world)
    found = await world.engine().query_data("Which is older, Foo or Bar?", QueryParam(mode="auto"))
    understood = found["metadata"]["understanding"]
    assert (understood["kind"], understood["sides"], understood["by_model"]) == ("compare", ["Foo", "Bar"], False)
    assert found["metadata"]["query_mode"] == "auto"
    assert found["metadata"]["timings"]["understanding"] >= 0


async def test_other_modes_understand_nothing(world: World) -> None:
    await _fill(world)
    found = await world.engine().query_data("Which is older, Foo or Bar?", QueryParam(mode="fusion"))
    assert "understanding" not in found["metadata"]


async def test_plain_question_finds_what_fusion_finds(world: World) -> None:
    await _fill(world)
    found = [await world.engine().query_data("Who made Foo?", QueryParam(mode=mode)) for mode in ("auto", "fusion")]
    assert found[0]["data"] == found[1]["data"]


async def test_chat_model_is_asked_once_for_kind_and_keywords(world: World) -> None:
    await _fill(world)
    chat = FakeChatModel(json.dumps({"type": "fact", "entities": ["Foo"], "expansions": ["maker"]}))
    retrieval = await world.engine(chat).retrieve("Who made Foo?", QueryParam(mode="auto"))
    assert len(chat.requests) == 1
    assert retrieval.understanding is not None
    assert retrieval.understanding.by_model
    assert retrieval.keywords == Keywords(("maker",), ("Foo",))
    assert retrieval.usage.input_tokens > 0


async def test_sides_outlive_the_reranker_and_the_budget(world: World) -> None:
    await _fill(world)
    world.embedding = SidedEmbedding()
    reranker = FakeReranker(lambda _, text: float("Filler" in text))
    param = QueryParam(mode="auto", chunk_top_k=4)
    found = await world.engine(reranker=reranker).query_data("Which is older, Foo or Bar?", param)
    chunks = {chunk["chunk_id"] for chunk in found["data"]["chunks"]}
    assert {"chunk-foo", "chunk-bar"} <= chunks
    assert len(chunks) == 4
