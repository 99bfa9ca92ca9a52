from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from benchmarks.evaluation_page import BEGIN, END, PAGE, render_figures, write_evaluation_page
from benchmarks.report import read_reports

from heliograph.evaluation.reports import to_json
from heliograph.evaluation.results import (
    Configuration,
    Cost,
    EvaluationRun,
    IndexInfo,
    QuestionOutcome,
    SetReport,
    compare,
    summarize,
)


def _run() -> EvaluationRun:
    def outcome(recall: float) -> QuestionOutcome:
        return QuestionOutcome("q", "why?", "", ("g",), (("g",),), {"recall@5": recall}, 0.1, 0.05)

    runs = tuple(
        summarize(Configuration.parse(name), [outcome(recall)], Cost())
        for name, recall in (("naive", 0.5), ("mix", 1.0))
    )
    index = IndexInfo("folder", "print", False, 1.0, 1, 1, 1, 1)
    report = SetReport("harbour", 4, 5, index, runs, (compare(*runs),))
    return EvaluationRun(datetime(2026, 1, 2, tzinfo=UTC), "1.0", "fake", "", (report,))


def test_figures_have_a_row_a_mode_with_its_interval() -> None:
    lines = render_figures(_run()).splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:4]]
    assert cells[0] == ["harbour", "naive", "", "50.0", "", "", "", "", "", "", "50"]
    assert cells[1][-2:] == ["+50.0 [+50.0, +50.0]", "50"]
    assert "4 passages joined by 5, 1 questions" in lines[-1]


def test_figures_go_between_the_marks_and_nothing_else_changes(tmp_path: Path) -> None:
    (tmp_path / "eval.json").write_text(to_json(_run()), "utf-8")
    page = tmp_path / "evaluation.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", "utf-8")
    for _ in range(2):
        text = write_evaluation_page(tmp_path, page).read_text("utf-8")
        assert text == f"before\n{BEGIN}\n\n{render_figures(_run())}\n\n{END}\nafter\n"
    assert read_reports(tmp_path) == {}


def test_page_without_marks_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "evaluation.md"
    page.write_text("no place", "utf-8")
    with pytest.raises(ValueError, match="no place for the figures"):
        write_evaluation_page(tmp_path, page)


def test_page_of_the_documentation_has_its_marks() -> None:
    text = PAGE.read_text("utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
