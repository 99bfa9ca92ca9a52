from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.__main__ import plan_runs
from benchmarks.page import render_page, write_page
from benchmarks.registry import DEFAULT
from benchmarks.report import Environment, Figure, Report, format_table, read_reports, write_report


def _report(name: str = "bulk", *, is_quick: bool = False) -> Report:
    figures = (Figure("time", 7.25, "ms", at_most=8.0, note="range 7-9"), Figure("speed", 12.0, at_least=2500.0))
    return Report(name, "Bulk", "How it is measured.", figures, ("A note.",), is_quick, 1.5, Environment.current())


@pytest.mark.parametrize(
    ("figure", "good", "row"),
    [
        (Figure("a", 7.25, "ms", at_most=8.0), True, ("a", "7.25 ms", "<= 8", "yes")),
        (Figure("b", 2400.4, "tokens/s", at_least=2500.0), False, ("b", "2,400 tokens/s", ">= 2,500", "**no**")),
        (Figure("c", 3.0, note="of 3"), None, ("c", "3 (of 3)", "", "")),
    ],
)
def test_figure_compares_itself_with_its_bound(figure: Figure, good: bool | None, row: tuple[str, ...]) -> None:
    assert figure.is_good is good
    assert figure.row() == row


def test_reports_are_read_as_they_were_written(tmp_path: Path) -> None:
    report = _report()
    write_report(report, tmp_path)
    write_report(_report("kill", is_quick=True), tmp_path)
    assert read_reports(tmp_path) == {"bulk": report}


def test_page_holds_every_figure_and_how_it_was_taken(tmp_path: Path) -> None:
    report = _report()
    write_report(report, tmp_path)
    page = write_page(tmp_path, tmp_path / "docs" / "benchmarks.md").read_text("utf-8")
    assert page == render_page({"bulk": report})
    for part in (
        "## Bulk",
        "How it is measured.",
        "7.25 ms (range 7-9)",
        "**no**",
        "A note.",
        report.environment.line(),
    ):
        assert part in page


def test_page_without_results_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="python -m benchmarks"):
        write_page(tmp_path, tmp_path / "page.md")


def test_words_after_a_benchmark_are_its_arguments() -> None:
    assert plan_runs(["bulk", "retrieval", "a", "b"]) == [("bulk", ()), ("retrieval", ("a", "b"))]
    assert [name for name, _ in plan_runs([])] == list(DEFAULT)
    with pytest.raises(ValueError, match="'nonsense'"):
        plan_runs(["nonsense"])


def test_table_lines_up() -> None:
    assert format_table(("a", "b"), [("long", "x")]).splitlines() == ["| a    | b |", "| ---- | - |", "| long | x |"]


def test_page_keeps_sections_of_benchmarks_without_a_report(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text("# Old head\n\n## Starting the service\n\nKept.\n\n## Gone\n\nNo benchmark.\n", "utf-8")
    write_report(_report(), tmp_path / "results")
    text = write_page(tmp_path / "results", page).read_text("utf-8")
    assert text.index("## Bulk") < text.index("## Starting the service\n\nKept.\n")
    assert "Gone" not in text
    assert "Old head" not in text
    assert write_page(tmp_path / "results", page).read_text("utf-8") == text
