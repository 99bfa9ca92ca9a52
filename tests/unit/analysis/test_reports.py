from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from heliograph.analysis.inspection import (
    SEARCHING_MODES,
    checked_modes,
    compare_modes,
    comparison_of,
    coverage_of,
    inspect_coverage,
    inspect_keywords,
    inspect_tokens,
)
from heliograph.errors import InvalidRequestError
from heliograph.models import Mode
from heliograph.query.context.format import count_prompt_tokens
from heliograph.query.models import QueryParam
from heliograph.query.plan import make_plan
from heliograph.settings import Settings
from heliograph.sync import Heliograph
from heliograph.testing.fakes import FakeChatModel, FakeEmbeddingModel
from heliograph.text.tokens import count_tokens

from ..ingest.world import SpelledExtractor

QUESTION = "Whom does Ann lead in the town?"
KEYWORDS = QueryParam(mode="hybrid", hl_keywords=("leads", "lives in"), ll_keywords=("Ann", "Robert"))


def test_coverage_counts_what_each_mode_shows_and_of_all_modes(kb: Heliograph) -> None:
    report = inspect_coverage(kb, QUESTION, ("local", "naive", "local"), KEYWORDS)
    local, naive = report.modes
    assert (local.mode, naive.mode) == (Mode.LOCAL, Mode.NAIVE)
    assert local.entities.shown == len(local.entity_names) == report.entities
    assert local.entities.kept == 1.0
    assert naive.entities.share == 0.0
    assert naive.entities.kept == 1.0  # Nothing was found, so nothing was lost.
    assert max(local.chunks.share, naive.chunks.share) <= 1.0
    assert report.chunks >= max(local.chunks.shown, naive.chunks.shown)
    assert naive.documents.shown == len(naive.sources)
    assert all(chunk.found_by for chunk in naive.covered_chunks)


def test_coverage_tells_what_a_budget_cuts(kb: Heliograph) -> None:
    report = inspect_coverage(kb, QUESTION, ["local"], QueryParam(ll_keywords=("Ann",), max_entity_tokens=30))
    assert 0 < report.modes[0].entities.shown < report.modes[0].entities.found
    assert report.modes[0].entities.kept < 1


def test_reports_of_nothing_are_empty() -> None:
    assert coverage_of([]).modes == ()
    assert comparison_of([]).chunks == ()


@pytest.mark.parametrize("modes", [[], ["bypass"], ["mixed"]])
def test_modes_that_search_nothing_are_refused(modes: list[str]) -> None:
    with pytest.raises(InvalidRequestError, match="local"):
        checked_modes(modes)


def test_keywords_are_searched_one_by_one(kb: Heliograph) -> None:
    report = inspect_keywords(kb, QUESTION, KEYWORDS)
    assert [(item.keyword, item.level) for item in report.findings] == [
        ("leads", "high_level"),
        ("lives in", "high_level"),
        ("Ann", "low_level"),
        ("Robert", "low_level"),
    ]
    alone = kb.retrieve(QUESTION, QueryParam(mode="local", ll_keywords=("Ann",)))
    ann = report.findings[2]
    assert ann.entities == tuple(item.entity.name for item in alone.context.entities)
    whole = {item.entity.id for item in kb.retrieve(QUESTION, KEYWORDS).context.entities}
    found = {item.entity.id for item in alone.context.entities}
    assert ann.in_result == len(found & whole) / len(found)


def test_keywords_that_are_missing_or_many_are_told(kb: Heliograph) -> None:
    many = QueryParam(mode="local", ll_keywords=tuple(f"word {n}" for n in range(11)), hl_keywords=("a",) * 6)
    said = " ".join(inspect_keywords(kb, QUESTION, many).warnings)
    assert "11 low-level" in said
    assert "6 high-level" in said
    assert "no keywords" in " ".join(inspect_keywords(kb, QUESTION, QueryParam(mode="naive")).warnings)
    with pytest.raises(InvalidRequestError):
        inspect_keywords(kb, QUESTION, QueryParam(mode="bypass"))


@pytest.mark.parametrize("mode", SEARCHING_MODES)
def test_tokens_add_up_to_what_the_model_would_read(kb: Heliograph, mode: Mode) -> None:
    param = QueryParam(mode=mode)
    report = inspect_tokens(kb, QUESTION, param)
    found = kb.retrieve(QUESTION, param)
    plan = make_plan(QUESTION, param, kb.settings.query)
    read = count_tokens(found.context.text) + count_prompt_tokens(plan) + count_tokens(QUESTION)
    references = count_tokens("\n".join(f"[{item.reference_id}] {item.source}" for item in found.context.references))
    # Rows joined cost a token or so more or less than rows alone.
    assert abs(read - references - report.total_tokens) <= 12
    assert report.total_tokens + report.buffer_tokens <= report.max_total_tokens
    assert all(section.cut_by_budget == 0 for section in report.sections)
    assert report.advice == ()


def test_what_budgets_cut_is_named(kb: Heliograph) -> None:
    param = QueryParam(mode="local", ll_keywords=("Ann", "Bob"), max_entity_tokens=30)
    report = inspect_tokens(kb, QUESTION, param)
    entities = report.sections[0]
    assert entities.tokens <= entities.budget == 30
    assert entities.cut_by_budget == entities.found - entities.shown == len(entities.first_cut) > 0
    shown = {item.entity.name for item in kb.retrieve(QUESTION, param).context.entities}
    assert shown.isdisjoint(entities.first_cut)
    assert "max_entity_tokens" in report.advice[0]


@pytest.mark.parametrize("mode", ["mix", "fusion", "auto", "local"])
def test_a_total_too_small_for_any_row_is_what_is_to_be_raised(kb: Heliograph, mode: str) -> None:
    report = inspect_tokens(kb, QUESTION, QueryParam(mode=mode, ll_keywords=("Ann", "Bob"), max_total_tokens=300))
    entities = report.sections[0]
    assert (entities.shown, entities.budget) == (0, 0)
    assert entities.found == len(entities.first_cut) > 0
    assert report.advice
    assert all(advice.endswith("raise max_total_tokens") for advice in report.advice)


def test_a_window_bounds_what_is_told_of_only_where_a_chat_model_is_open(tmp_path: Path) -> None:
    settings = Settings.load(chat={"context_tokens": 600})
    for chat, total in ((None, settings.query.max_total_tokens), (FakeChatModel(), 300)):
        models: dict[str, Any] = {"embedding": FakeEmbeddingModel(16), "extractor": SpelledExtractor(), "chat": chat}
        with Heliograph(tmp_path, settings=settings, **models) as kb:
            kb.insert(["Ann (person): leads the team."], sources=["team.md"])
            report = inspect_tokens(kb, QUESTION, QueryParam(mode="naive"))
            assert report.max_total_tokens == kb.retrieve(QUESTION).max_total_tokens == total
            assert ("chat.context_tokens" in " ".join(report.advice)) == (chat is not None)


def test_chunks_cut_by_number_are_told_from_those_cut_by_tokens(kb: Heliograph) -> None:
    by_tokens = inspect_tokens(kb, QUESTION, QueryParam(mode="naive", max_total_tokens=620)).sections[0]
    assert by_tokens.cut_by_count == 0
    assert by_tokens.cut_by_budget == by_tokens.found - by_tokens.shown > 0
    assert by_tokens.tokens <= by_tokens.budget
    by_count = inspect_tokens(kb, QUESTION, QueryParam(mode="mix", chunk_top_k=1)).sections[2]
    assert by_count.cut_by_count == by_count.found - 1
    assert by_count.cut_by_budget == 0


def test_modes_stand_side_by_side(kb: Heliograph) -> None:
    report = compare_modes(kb, QUESTION, ["naive", "mix", "local"], KEYWORDS)
    assert [row.mode for row in report.modes] == [Mode.NAIVE, Mode.MIX, Mode.LOCAL]
    assert [(row.mode, row.other) for row in report.overlaps] == [
        (Mode.NAIVE, Mode.MIX),
        (Mode.NAIVE, Mode.LOCAL),
        (Mode.MIX, Mode.LOCAL),
    ]
    for row, mode in zip(report.modes, ("naive", "mix", "local"), strict=True):
        found = kb.retrieve(
            QUESTION, QueryParam(mode, hl_keywords=("leads", "lives in"), ll_keywords=("Ann", "Robert"))
        )
        assert row.chunks == len(found.context.chunks)
        assert row.context_tokens == count_tokens(found.context.text)
        assert row.seconds > 0
    assert {item.places.get(Mode.NAIVE) for item in report.chunks} - {None} == set(range(1, report.modes[0].chunks + 1))
    assert compare_modes(kb, QUESTION, ["naive"]).overlaps == ()
