from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import pytest

from heliograph.errors import InvalidRequestError
from heliograph.evaluation.reports import (
    diff_runs,
    diff_to_markdown,
    ragas_lines,
    read_run,
    to_json,
    to_markdown,
    to_svg,
)
from heliograph.evaluation.results import (
    AnswerOutcome,
    Configuration,
    Cost,
    EvaluationRun,
    IndexInfo,
    QuestionOutcome,
    RunReport,
    SetReport,
    compare,
    score_ranking,
    summarize,
)

GOLD = {"g": 1.0}


def outcome(id_: str, rank: int, *, type_: str = "", answer: AnswerOutcome | None = None) -> QuestionOutcome:
    found = tuple((("g",) if place == rank else (f"x{place}",)) for place in range(1, 9))
    scores = score_ranking(found, GOLD)
    return QuestionOutcome(id_, f"Why | {id_}?", type_, ("g",), found, scores, 0.02, 0.01, ("Ada",), answer, ("text",))


def report(name: str, *outcomes: QuestionOutcome) -> RunReport:
    return summarize(Configuration.parse(name), outcomes, Cost())


def run_of(*runs: RunReport, name: str = "harbour", join: int = 1) -> EvaluationRun:
    index = IndexInfo("folder", "print", False, 1.5, 4, 4, 9, 7)
    comparisons = tuple(compare(runs[0], other) for other in runs[1:])
    reports = (SetReport(name, 4, join, index, runs, comparisons),)
    return EvaluationRun(datetime(2026, 1, 2, tzinfo=UTC), "1.0", "fake", "", reports)


def bare(run: EvaluationRun) -> EvaluationRun:
    (one,) = run.sets
    runs = tuple(
        replace(ran, questions=tuple(replace(item, contexts=()) for item in ran.questions)) for ran in one.runs
    )
    return replace(run, sets=(replace(one, runs=runs),))


def test_run_is_read_as_it_was_written_but_for_the_texts_of_chunks(tmp_path: Path) -> None:
    answer = AnswerOutcome("Ada.", "extractive", is_hit=True, in_context=True)
    run = run_of(report("naive", outcome("a", 1, answer=answer), outcome("b", 9)), report("mix", outcome("a", 2)))
    path = tmp_path / "run.json"
    path.write_text(to_json(run), "utf-8")
    assert read_run(path) == bare(run)


@pytest.mark.parametrize("content", [None, "", "{}", "[1, 2]"])
def test_file_that_is_no_run_is_named(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "run.json"
    if content is not None:
        path.write_text(content, "utf-8")
    with pytest.raises(InvalidRequestError, match=r"run\.json"):
        read_run(path)


def test_markdown_has_a_row_a_configuration_and_a_type() -> None:
    first = report("naive", outcome("a", 1, type_="one"), outcome("b", 9, type_="two"))
    text = to_markdown(run_of(first, report("mix", outcome("a", 1), outcome("b", 3))))
    assert "| naive | 2 | 50.0 | 50.0 |" in text
    assert "| mix | 2 | 50.0 | 100.0 |" in text
    assert "| naive, two | 1 | 0.0 |" in text
    assert "| mix - naive | +0.0 [+0.0, +0.0] | +50.0 [+0.0, +100.0] |" in text
    assert "one passage a place" not in text
    assert "one passage a place" in to_markdown(run_of(first, join=5))


def test_markdown_of_questions_without_gold_counts_them() -> None:
    lost = replace(outcome("a", 9), gold=(), scores={}, contexts=())
    assert "| naive | 1 | 1 |  |" in to_markdown(run_of(report("naive", lost)))


def test_ragas_lines_have_its_columns() -> None:
    answer = AnswerOutcome("Ada.", "extractive")
    (line,) = ragas_lines(report("naive", outcome("a", 1, answer=answer)))
    assert json.loads(line) == {
        "user_input": "Why | a?",
        "retrieved_contexts": ["text"],
        "response": "Ada.",
        "reference": "Ada",
    }


def test_plot_is_well_formed_and_names_every_set_and_configuration() -> None:
    run = run_of(report("naive", outcome("a", 1)), report("mix", outcome("a", 4)), name="<harbour>", join=5)
    root = ElementTree.fromstring(to_svg(run))
    words = "".join(root.itertext())
    assert "<harbour> (x5)" in words
    assert "naive" in words
    assert len(root.findall(".//{*}polyline")) == 2


def test_plot_without_gold_is_empty_but_well_formed() -> None:
    lost = replace(outcome("a", 9), gold=(), scores={})
    assert ElementTree.fromstring(to_svg(run_of(report("naive", lost)))).findall(".//{*}polyline") == []


def test_diff_lists_what_moved_most_gained_first() -> None:
    before = run_of(report("naive", outcome("a", 1), outcome("b", 7), outcome("c", 2), outcome("d", 3)))
    after = run_of(report("naive", outcome("a", 6), outcome("b", 1), outcome("c", 2), outcome("d", 4)))
    (diff,) = diff_runs(before, after)
    assert [(item.id, item.gain, item.ranks_before, item.ranks_after) for item in diff.questions] == [
        ("b", 1.0, (7,), (1,)),
        ("d", 0.0, (3,), (4,)),
        ("a", -1.0, (1,), (6,)),
    ]
    assert diff.comparison.differences["recall@5"].mean == 0.0
    text = diff_to_markdown([diff])
    assert "1 questions gained in R@5, 1 lost, 3 moved at all." in text
    assert "| b: Why \\| b? |  | +100 | 7 | 1 |" in text


def test_diff_pairs_configurations_by_name_else_in_order() -> None:
    before = run_of(report("naive", outcome("a", 1)), report("mix", outcome("a", 2)))
    assert [item.comparison.other for item in diff_runs(before, run_of(report("mix", outcome("a", 2))))] == ["mix"]
    (diff,) = diff_runs(before, run_of(report("local", outcome("a", 2), outcome("z", 2))))
    assert (diff.comparison.base, diff.comparison.other, diff.unmatched) == ("naive", "local", 1)


def test_diff_of_runs_without_a_common_set_is_refused() -> None:
    one = report("naive", outcome("a", 1))
    for other in (run_of(one, name="mill"), run_of(one, join=5)):
        with pytest.raises(InvalidRequestError, match="no set in common"):
            diff_runs(run_of(one), other)


def test_comparison_leaves_out_what_only_one_of_them_has() -> None:
    answered = outcome("a", 1, answer=AnswerOutcome("Ada.", "extractive", is_hit=True))
    found = compare(report("naive", answered, outcome("b", 1)), report("mix", outcome("a", 2), outcome("c", 1)))
    assert found.differences["mrr"].questions == 1
    assert found.differences["mrr"].mean == pytest.approx(-0.5)
    assert "answer_hit" not in found.differences
