from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from heliograph.errors import InvalidRequestError
from heliograph.evaluation.harness import EvaluationPlan, check_questions, evaluate
from heliograph.evaluation.results import Configuration
from heliograph.evaluation.sets import EvaluationSet, Question, read_set
from heliograph.settings import Settings
from heliograph.testing.fakes import FakeEmbeddingModel

NAIVE = Configuration.parse("naive")


def with_question(harbour: Path, text: str) -> EvaluationSet:
    given = read_set(harbour)
    return replace(given, questions=(*given.questions, Question("q5", text, {"p1": 1.0})))


@pytest.mark.parametrize(("text", "said"), [("?", "too short"), ("Where " * 20_000, "119,999 characters")])
def test_a_question_that_is_refused_is_named_with_the_reason(harbour: Path, text: str, said: str) -> None:
    sets = [read_set(harbour), with_question(harbour, text)]
    with pytest.raises(InvalidRequestError, match=f"'q5' in queries.jsonl of the set 'harbour' .* 'naive': .*{said}"):
        check_questions(sets, [NAIVE], Settings.load())


async def test_nothing_is_indexed_for_a_question_that_is_refused(harbour: Path, tmp_path: Path) -> None:
    sets = [read_set(harbour), with_question(harbour, "?")]
    folder = tmp_path / "indexes"
    with pytest.raises(InvalidRequestError, match="'q5'"):
        await evaluate(sets, Settings.load(), EvaluationPlan((NAIVE,), folder), embedding=FakeEmbeddingModel())
    assert not folder.exists()


async def test_a_question_that_is_not_asked_may_be_any(harbour: Path, tmp_path: Path) -> None:
    plan = EvaluationPlan((NAIVE,), tmp_path / "indexes", most_questions=1)
    found = await evaluate([with_question(harbour, "?")], Settings.load(), plan, embedding=FakeEmbeddingModel())
    assert [item.id for item in found.sets[0].runs[0].questions] == ["q1"]


def test_an_option_that_no_question_takes_is_told(harbour: Path) -> None:
    with pytest.raises(InvalidRequestError, match="'naive:top_k=many': top_k must be a whole number"):
        check_questions([read_set(harbour)], [Configuration.parse("naive:top_k=many")], Settings.load())
