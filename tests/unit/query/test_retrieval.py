"""Modes and their rules on a small graph: what is found, in which order, with which counts."""

from __future__ import annotations

import json
import logging
from typing import Any, Literal

import pytest

from heliograph.errors import ModelTimeout, ModelUnavailable, StoreUnavailable
from heliograph.models import GraphPath, Relation
from heliograph.query.answers.models import AnswerKind
from heliograph.query.context.assembly import MAX_COUNTED_RELATIONS
from heliograph.query.context.format import context_format, fit_paths, paths_tokens
from heliograph.query.models import Failure, ProcessingInfo, QueryParam, Retrieval
from heliograph.testing.fakes import FakeReranker
from heliograph.text.tokens import count_tokens

from .world import World

GIVEN: dict[str, Any] = {"hl_keywords": ["theme"], "ll_keywords": ["name"]}


async def _fill(world: World) -> None:
    """Four entities in a row A-B-C-D, a hub H tied to all; passages p to t in two documents."""
    scores = {"p": 0.9, "q": 0.8, "r": 0.7, "s": 0.6, "t": 0.1}
    for name, source in zip("pqrst", ("a.md", "b.md", "b.md", "a.md", "c.md"), strict=True):
        await world.chunk(name, score=scores[name], source=source)
    for name, score, chunks in (
        ("A", 0.9, "p q"),
        ("B", 0.8, "q r"),
        ("C", 0.1, "r"),
        ("D", 0.1, "s"),
        ("H", 0.1, "t"),
    ):
        await world.entity(name, chunks, score=score)
    for ends, score, weight, chunks in (
        ("A-B", 0.3, 1.0, "q"),
        ("B-C", 0.7, 5.0, "r"),
        ("C-D", 0.9, 1.0, "s t"),
        ("A-H", 0.1, 2.0, "p"),
        ("B-H", 0.1, 3.0, "q"),
        ("C-H", 0.1, 1.0, "r"),
        ("D-H", 0.1, 1.0, "s"),
    ):
        await world.relation(ends, chunks, score=score, weight=weight)


async def _retrieve(world: World, mode: str, *, reranker: Any = None, settings: Any = None, **param: Any) -> Retrieval:
    engine = world.engine(reranker=reranker, **(settings or {}))
    return await engine.retrieve("What is this?", QueryParam(mode=mode, **(GIVEN | param)))


def _entities(found: Retrieval) -> str:
    return "".join(item.entity.name for item in found.context.entities)


def _relations(found: Retrieval) -> list[str]:
    return [f"{item.relation.source}{item.relation.target}" for item in found.context.relations]


def _chunks(found: Retrieval) -> str:
    return "".join(item.chunk.id.removeprefix("chunk-") for item in found.context.chunks)


@pytest.mark.parametrize("mode", ["local", "global", "hybrid", "mix", "fusion", "auto"])
@pytest.mark.parametrize("budget", ["max_entity_tokens", "max_relation_tokens"])
async def test_a_very_large_budget_takes_nothing_from_the_other(world: World, mode: str, budget: str) -> None:
    await _fill(world)
    usual, large = await _retrieve(world, mode), await _retrieve(world, mode, **{budget: 10**9})
    assert _entities(large) == _entities(usual) != ""
    assert _relations(large) == _relations(usual) != []


@pytest.mark.parametrize("mode", ["local", "global", "hybrid", "mix", "naive", "fusion", "auto"])
async def test_a_total_that_nothing_fits_is_told_in_every_mode(world: World, mode: str) -> None:
    await _fill(world)
    found = await _retrieve(world, mode, max_total_tokens=1)
    assert found.failure is Failure.EMPTY_CONTEXT
    assert "max_total_tokens=1 " in found.warnings[-1]


async def test_local_takes_near_entities_and_ranks_all_their_relations(world: World) -> None:
    await _fill(world)
    found = await _retrieve(world, "local")
    assert _entities(found) == "AB"
    # Degrees: A 2, B 3, C 3, D 2, H 4. BH 7, AH 6, BC 6 (weight 5 before 2), AB 5.
    assert _relations(found) == ["BH", "BC", "AH", "AB"]
    assert [item.degree for item in found.context.relations] == [7, 6, 6, 5]


async def test_global_takes_near_relations_and_their_ends_as_they_appear(world: World) -> None:
    await _fill(world)
    found = await _retrieve(world, "global")
    assert _relations(found) == ["CD", "BC", "AB"]
    assert _entities(found) == "CDBA"
    assert [item.degree for item in found.context.relations] == [5, 6, 5]


async def test_hybrid_alternates_between_both(world: World) -> None:
    await _fill(world)
    found = await _retrieve(world, "hybrid")
    assert _entities(found) == "ACBD"
    assert _relations(found) == ["BH", "CD", "BC", "AH", "AB"]
    assert (found.info.total_entities_found, found.info.total_relations_found) == (4, 5)


async def test_naive_takes_near_chunks_only(world: World) -> None:
    await _fill(world)
    found = await _retrieve(world, "naive")
    assert (_entities(found), _relations(found), _chunks(found)) == ("", [], "pqrs")
    assert found.keywords.high_level == found.keywords.low_level == ()
    assert found.info == ProcessingInfo(merged_chunks_count=4, final_chunks_count=4, ranked_chunks_count=4)
    assert world.embedding.calls == [("query", ("What is this?",))]


async def test_mix_merges_chunks_of_three_channels_and_marks_them(world: World, caplog: Any) -> None:
    await _fill(world)
    with caplog.at_level(logging.INFO, logger="heliograph.query.context.assembly"):
        found = await _retrieve(world, "mix", settings={"related_chunks": 1})
    # VECTOR picks int(1 * 4 / 2) = 2 of the entities' chunks; of the relations' it leaves out p and q.
    assert [(item.chunk.id, " ".join(map(str, item.marks))) for item in found.context.chunks] == [
        ("chunk-p", "C1/1 E1/1"),
        ("chunk-r", "C1/3 R1/1"),
        ("chunk-q", "C1/2 E2/2"),
        ("chunk-s", "C1/4"),
    ]
    assert "final chunks: E1/1 R1/1 E2/2 C1/4" in caplog.text


async def test_all_texts_are_embedded_in_one_call(world: World) -> None:
    await _fill(world)
    await _retrieve(world, "mix", hl_keywords=["x", "y"], ll_keywords=["a", "b"])
    assert world.embedding.calls == [("query", ("What is this?", "a, b", "x, y"))]
    world.embedding.calls.clear()
    await _retrieve(world, "local", chunk_picking="weight")
    assert world.embedding.calls == [("query", ("name",))]


async def test_weight_picking_takes_quotas_by_place(world: World) -> None:
    await _fill(world)
    found = await _retrieve(world, "local", chunk_picking="weight", settings={"related_chunks": 1})
    # Two entities: one chunk each; A's most listed chunk is q, B's only own one is r. Relations add p, which is left.
    assert [" ".join(map(str, item.marks)) for item in found.context.chunks] == ["E2/1", "R1/1", "E1/2"]
    assert _chunks(found) == "qpr"


async def test_a_chunk_without_a_vector_is_not_picked_by_vector(world: World) -> None:
    await _fill(world)
    await world.chunk("u", score=None)
    await world.entity("E", "u", score=0.7)
    assert "u" not in _chunks(await _retrieve(world, "local", settings={"related_chunks": 1}))
    assert "u" in _chunks(await _retrieve(world, "local", chunk_picking="weight", settings={"related_chunks": 1}))


async def test_vector_picking_falls_back_to_weight_when_there_is_no_vector(world: World, caplog: Any) -> None:
    await world.chunk("u", score=None)
    await world.entity("E", "u", score=0.7)
    assert _chunks(await _retrieve(world, "local", settings={"related_chunks": 1})) == "u"
    assert "picked by weight" in caplog.text


async def test_shared_relations_order_chunks_by_neighbours_that_list_them(world: World) -> None:
    for name in "xyz":
        await world.chunk(name)
    await world.entity("A", "x y z", score=0.9)
    await world.entity("B", "y", score=0.1)
    await world.entity("C", "z y", score=0.1)
    await world.relation("A-B")
    await world.relation("A-C")
    found = await _retrieve(world, "local", chunk_picking="shared_relations")
    assert _chunks(found) == "yzx"
    assert MAX_COUNTED_RELATIONS > 2


async def test_relations_bring_what_entities_left_in_their_order_by_shared_relations(world: World) -> None:
    for name in "xyz":
        await world.chunk(name)
    await world.entity("A", "y")
    await world.entity("B")
    await world.relation("A-B", "z y x", score=0.9)
    found = await _retrieve(world, "global", chunk_picking="shared_relations")
    assert [f"{item.chunk.id[-1]} {item.marks[0]}" for item in found.context.chunks] == ["y E1/1", "z R1/1", "x R1/2"]


async def test_entity_budget_keeps_a_prefix_and_counts_the_rest(world: World) -> None:
    await _fill(world)
    one = (await world.store.graph.get_entities([item.id for item in world.store.graph.entities.values()]))[0]
    found = await _retrieve(world, "local", max_entity_tokens=one.token_count)
    assert _entities(found) == "A"
    assert found.info.total_entities_found == 2
    assert found.info.entities_after_truncation == 1
    none = await _retrieve(world, "local", max_entity_tokens=1, max_relation_tokens=1)
    assert (_entities(none), _relations(none)) == ("", [])
    assert none.failure is Failure.EMPTY_CONTEXT


async def test_relations_are_read_page_by_page_until_the_budget_is_full(world: World, monkeypatch: Any) -> None:
    await world.entity("Hub", score=0.9)
    for number in range(400):
        await world.relation(f"Hub-Spoke {number}", weight=float(number), score=0.1)
    read: list[int] = []
    get_relations = world.store.graph.get_relations

    async def counted(ids: list[str]) -> list[Relation]:
        read.append(len(ids))
        return await get_relations(ids)

    monkeypatch.setattr(world.store.graph, "get_relations", counted)
    found = await _retrieve(world, "local", max_relation_tokens=500)
    assert found.info.total_relations_found == 400
    assert read == [160]
    assert found.info.relations_after_truncation < 30
    rows = "\n".join(line for line in found.context.text.splitlines() if "entity1" in line)
    assert count_tokens(rows) <= 500
    assert _relations(found)[:2] == ["HubSpoke 399", "HubSpoke 398"]
    await _retrieve(world, "local", max_relation_tokens=10**9)
    assert sum(read[1:]) == 400


async def test_chunks_fill_what_the_rest_leaves_and_a_tiny_budget_keeps_none(world: World) -> None:
    await _fill(world)
    assert _chunks(await _retrieve(world, "naive")) == "pqrs"
    sizes = []
    for budget in range(500, 760, 4):
        found = await _retrieve(world, "naive", max_total_tokens=budget)
        sizes.append(len(_chunks(found)))
        assert "pqrs".startswith(_chunks(found))
    assert sizes == sorted(sizes)
    assert set(sizes) == {0, 1, 2, 3, 4}
    tiny = await _retrieve(world, "mix", max_total_tokens=1)
    assert (tiny.context.is_empty, tiny.failure) == (True, Failure.EMPTY_CONTEXT)
    assert tiny.info.total_entities_found == 4
    assert "max_total_tokens=1" in tiny.warnings[-1]


async def test_budgets_of_the_graph_shrink_where_the_total_is_too_small_for_them(world: World) -> None:
    await _fill(world)
    whole = await _retrieve(world, "mix")
    kept: list[tuple[int, int, int]] = []
    for total in range(560, 1100, 20):
        context = (await _retrieve(world, "mix", max_total_tokens=total)).context
        kept.append((len(context.entities), len(context.relations), len(context.chunks)))
    assert min(kept) == kept[0]
    assert all(entities < 4 for entities, _, chunks in kept if not chunks)
    assert kept[-1] == (len(whole.context.entities), len(whole.context.relations), len(whole.context.chunks))


@pytest.mark.parametrize("form", ["json", "csv"])
async def test_a_total_holds_whatever_is_found(world: World, form: str) -> None:
    await _fill(world)
    for name in range(60):
        await world.entity(f"Entity {name}", "p", score=0.9, description="A long description of it, again. " * 5)
    for total in range(900, 2400, 300):
        param = QueryParam(max_total_tokens=total, only_need_prompt=True, context_format=form, **GIVEN)
        answer = await world.engine().query("What is this?", param)
        assert count_tokens(answer.text) <= total
        assert answer.context.entities
        assert answer.context.chunks


async def test_paths_that_do_not_fit_are_left_out(world: World) -> None:
    form = context_format("json")
    ends = [await world.entity(name * 20) for name in "ABCD"]
    paths = (GraphPath((ends[0], ends[1]), ()), GraphPath((ends[2], ends[3]), ()))
    both, one = paths_tokens(form, paths), paths_tokens(form, paths[:1])
    assert fit_paths(form, paths, both + 7) == (paths, 7)
    assert fit_paths(form, paths, both - 1) == (paths[:1], both - 1 - one)
    assert fit_paths(form, paths, -5) == ((), -5)
    assert fit_paths(form, None, -5) == (None, -5)


async def test_what_does_not_fit_is_not_said_to_be_nothing(world: World) -> None:
    await _fill(world)
    await world.chunk("t", text="It is this thing, at length. " * 400, score=0.99)
    param = QueryParam(mode="mix", max_total_tokens=1500, chunk_top_k=1, **GIVEN)
    answer = await world.engine().query("What is this?", param)
    assert (answer.context.entities != (), answer.context.chunks) == (True, ())
    assert answer.kind is AnswerKind.NOTHING_FOUND
    assert "token budget" in answer.text


@pytest.mark.parametrize("mode", ["naive", "mix", "fusion"])
@pytest.mark.parametrize(("language", "said"), [("en", "reranker"), ("zh", "重排序"), ("de", "Reranker")])
async def test_what_a_reranker_scores_too_low_is_not_said_to_be_too_large(
    world: World, mode: Literal["naive", "mix", "fusion"], language: str, said: str
) -> None:
    question = {"en": "What is this?", "zh": "这是什么东西？", "de": "Was ist das für ein Ding?"}[language]
    await _fill(world)
    engine = world.engine(reranker=FakeReranker(lambda _, __: 0.3), min_rerank_score=0.5)
    answer = await engine.query(question, QueryParam(mode=mode, **GIVEN))
    assert answer.kind is AnswerKind.NOTHING_FOUND
    assert said in answer.text
    assert "rerank.min_score" in answer.text
    assert "max_total_tokens" not in answer.text
    found = answer.retrieval
    assert found.info.below_threshold_count == found.info.merged_chunks_count > 0
    assert "below rerank.min_score=0.5, the best 0.3" in found.warnings[-1]
    # The graph has no threshold: what it shows is a context.
    assert found.failure is (Failure.BELOW_THRESHOLD if mode == "naive" else None)


async def test_a_threshold_that_leaves_some_is_no_reason_to_warn(world: World) -> None:
    await _fill(world)
    engine = world.engine(reranker=FakeReranker(lambda _, text: 0.9 if "p" in text[-3:] else 0.3), min_rerank_score=0.5)
    found = await engine.retrieve("What is this?", QueryParam(mode="naive"))
    assert (_chunks(found), found.failure, found.warnings) == ("p", None, ())
    assert (found.info.below_threshold_count, found.is_below_threshold) == (3, False)


@pytest.mark.parametrize("reranker", [None, FakeReranker(lambda _, text: float(ord(text[-2])))])
@pytest.mark.parametrize("fusion", ["score", "rank"])
@pytest.mark.parametrize("channels", [(), ("keyword",)])
@pytest.mark.parametrize("mode", ["local", "mix", "naive", "fusion", "auto"])
async def test_chunks_are_ordered_by_their_score_in_every_mode(
    world: World, mode: str, channels: tuple[str, ...], fusion: str, reranker: FakeReranker | None
) -> None:
    await _fill(world)
    found = await _retrieve(world, mode, reranker=reranker, channels=channels, fusion=fusion)
    scores = [item.score for item in found.context.chunks]
    assert len(scores) > 1
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] > 0.0
    if reranker:
        assert scores == [item.rerank_score for item in found.context.chunks]


async def test_a_score_is_the_cosine_or_the_place_where_nothing_is_fused(world: World) -> None:
    await _fill(world)
    naive, mixed = await _retrieve(world, "naive"), await _retrieve(world, "mix")
    assert [item.score for item in naive.context.chunks] == pytest.approx([0.9, 0.8, 0.7, 0.6])
    assert [item.score for item in mixed.context.chunks][:3] == [1.0, 1 / 2, 1 / 3]
    assert [item.channel_total for item in mixed.context.chunks][:1] == [0.0]


async def test_chunk_top_k_limits_search_and_result(world: World) -> None:
    await _fill(world)
    assert _chunks(await _retrieve(world, "naive", chunk_top_k=2)) == "pq"
    mixed = await _retrieve(world, "mix", chunk_top_k=1)
    assert _chunks(mixed) == "p"
    assert mixed.info.merged_chunks_count > 1
    assert _entities(await _retrieve(world, "local", top_k=1)) == "A"
    assert _entities(await _retrieve(world, "local", top_k=10_000)) == "AB"


async def test_reranker_sees_all_chunks_and_decides_their_order(world: World) -> None:
    await _fill(world)
    reranker = FakeReranker(lambda _, text: ord(text[-2]))
    found = await _retrieve(world, "mix", reranker=reranker, chunk_top_k=2)
    assert len(reranker.calls[0][1]) == found.info.merged_chunks_count > 2
    assert reranker.calls[0][2] == 2
    assert [item.rerank_score for item in found.context.chunks] == sorted(
        (item.rerank_score for item in found.context.chunks), reverse=True
    )
    assert (await _retrieve(world, "mix", reranker=reranker, enable_rerank=False)).context.chunks[
        0
    ].chunk.id == "chunk-p"


async def test_failing_reranker_is_a_warning(world: World) -> None:
    await _fill(world)
    reranker = FakeReranker()
    reranker.fail_next(ModelTimeout("too slow"))
    found = await _retrieve(world, "naive", reranker=reranker)
    assert _chunks(found) == "pqrs"
    assert "too slow" in found.warnings[0]


async def test_references_count_the_chunks_that_are_left(world: World) -> None:
    await _fill(world)
    found = await _retrieve(world, "naive", chunk_top_k=3)
    assert [(item.reference_id, item.source, item.count) for item in found.context.references] == [
        ("1", "b.md", 2),
        ("2", "a.md", 1),
    ]
    assert [item.reference_id for item in found.context.chunks] == ["2", "1", "1"]


async def test_entities_and_relations_name_their_sources(world: World) -> None:
    await _fill(world)
    found = await _retrieve(world, "local")
    assert [(item.sources, item.reference_id) for item in found.context.entities] == [
        (("a.md", "b.md"), "1"),
        (("b.md",), "1"),
    ]


@pytest.mark.parametrize(("mode", "param"), [("local", {"ll_keywords": []}), ("global", {"hl_keywords": []})])
async def test_mode_without_its_keywords_finds_nothing(world: World, mode: str, param: dict[str, Any]) -> None:
    await _fill(world)
    found = await _retrieve(world, mode, **param)
    assert found.failure is Failure.NO_RESULTS
    assert found.warnings
    assert not world.embedding.calls


@pytest.mark.parametrize("mode", ["local", "global", "hybrid", "mix", "naive"])
async def test_empty_store_finds_nothing(world: World, mode: str) -> None:
    found = await _retrieve(world, mode)
    assert (found.failure, found.context.text) == (Failure.NO_RESULTS, "")


async def test_hits_below_the_threshold_are_not_found(world: World) -> None:
    await _fill(world)
    assert _chunks(await _retrieve(world, "naive", settings={"min_cosine": 0.75})) == "pq"
    assert _chunks(await _retrieve(world, "naive", settings={"min_cosine": -1})) == "pqrst"


async def test_context_text_is_made_of_what_was_kept(world: World) -> None:
    await _fill(world)
    found = await _retrieve(world, "mix")
    lines = [json.loads(line) for line in found.context.text.splitlines() if line.startswith("{")]
    assert [line["entity"] for line in lines if "entity" in line] == list(_entities(found))
    assert [line["entity1"] + line["entity2"] for line in lines if "entity1" in line] == _relations(found)
    assert [line["content"] for line in lines if "content" in line] == [i.chunk.text for i in found.context.chunks]
    assert "[1] a.md" in found.context.text
    assert "id,entity,type" in (await _retrieve(world, "mix", context_format="csv")).context.text


async def test_total_of_prompt_and_context_stays_within_the_budget(world: World) -> None:
    await _fill(world)
    engine = world.engine()
    for budget in range(700, 2000, 100):
        param = QueryParam(mode="mix", max_total_tokens=budget, only_need_prompt=True, **GIVEN)
        answer = await engine.query("What is this?", param)
        assert count_tokens(answer.text) <= budget


async def test_progress_names_the_stages_in_order(world: World) -> None:
    await _fill(world)
    stages: list[str] = []
    engine = world.engine(reranker=FakeReranker())
    await engine.retrieve("What is this?", QueryParam("mix", **GIVEN), stages.append)
    assert stages == [
        "extracting_keywords",
        "retrieving_entities",
        "retrieving_relations",
        "retrieving_chunks",
        "reranking",
    ]


async def test_embedding_outage_is_raised(world: World) -> None:
    await _fill(world)
    world.embedding.failure = ModelUnavailable("no embedding")
    with pytest.raises(ModelUnavailable, match="no embedding"):
        await _retrieve(world, "mix")


async def test_store_outage_in_one_channel_is_raised_as_it_is(world: World, monkeypatch: Any) -> None:
    await _fill(world)

    async def broken(*_: Any) -> Any:
        raise StoreUnavailable("disk gone")

    monkeypatch.setattr(world.store.graph, "rank_incident_relations", broken)
    with pytest.raises(StoreUnavailable, match="disk gone"):
        await _retrieve(world, "mix")


async def test_what_vanishes_while_it_is_read_is_left_out(world: World, monkeypatch: Any) -> None:
    await _fill(world)

    async def nothing(_: Any) -> list[Any]:
        return []

    monkeypatch.setattr(world.store.records, "get_chunks", nothing)
    monkeypatch.setattr(world.store.graph, "get_relations", nothing)
    found = await _retrieve(world, "local")
    assert (_entities(found), _relations(found), _chunks(found)) == ("AB", [], "")
