from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from benchmarks.declining import render_curve
from benchmarks.marked_tables import TABLES, USUAL, put_between, render_answers, render_parameters
from benchmarks.report import Environment, Figure, Report
from benchmarks.versus_lightrag import render_versus, render_versus_plot

from heliograph.query.plan import FusionParameters


def _report(name: str, *figures: Figure) -> Report:
    return Report(name, "", "", figures, (), is_quick=False, seconds=1.0, environment=Environment.current())


def test_every_table_has_its_place_on_its_page() -> None:
    for table in TABLES:
        text = table.page.read_text("utf-8")
        assert text.count(table.begin) == text.count(table.end) == 1


def test_parameters_have_a_row_each_with_what_they_mean() -> None:
    figures = (
        Figure(f"a: {USUAL}", 50.0),
        Figure("a: bridge_weight halved", 40.0),
        Figure("a: bridge_weight doubled", 45.25),
    )
    lines = render_parameters(_report("sensitivity", *figures)).splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    assert rows[0][:3] == ["parameter", "value", "a"]
    (row,) = (item for item in rows if item[0] == "`bridge_weight`")
    assert row[2:] == ["40.0 / 45.2", "Weight of the gain over a bridge."]
    assert len(rows) == 3 + len(FusionParameters.__dataclass_fields__)


def test_answers_have_a_row_a_set() -> None:
    figures = (
        Figure("a: in the first quote", 12.0, "%", note="25 questions"),
        Figure("a: without an answer, told so", 40.0),
        Figure("b: in the first quote", 20.0),
    )
    lines = render_answers(_report("answers", *figures)).splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:4]]
    assert rows == [["a", "12.0 of 25", "40.0"], ["b", "20.0", ""]]


def test_page_without_marks_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("text", "utf-8")
    with pytest.raises(ValueError, match="no place for the figures"):
        put_between(page, "<!-- a -->", "<!-- b -->", lambda: "table")
    assert page.read_text("utf-8") == "text"


def test_curve_of_what_is_declined_is_a_picture_and_no_row_of_the_table() -> None:
    figures = (
        Figure("a: others, declined", 90.0, "%"),
        Figure("curve: -0.02: lost", 1.0, "%"),
        Figure("curve: -0.02: declined", 70.0, "%"),
        Figure("curve: 0.00: lost", 4.0, "%"),
        Figure("curve: 0.00: declined", 80.0, "%"),
    )
    assert "curve" not in render_answers(_report("declining", *figures))
    picture = render_curve(figures)
    assert 'points="70.0,130.0 100.0,100.0"' in picture
    assert '<circle cx="100.0" cy="100.0"' in picture


def test_both_sides_stand_beside_each_other_and_in_the_plot() -> None:
    figures = (
        Figure("one more document, 50 stored, LightRAG", 300.0, "ms"),
        Figure("one more document, 50 stored, Heliograph", 20.0, "ms"),
        Figure("recall among five, mix, LightRAG", 40.0, "%"),
        Figure("recall among five, mix, Heliograph", 50.0, "%"),
        Figure("recall among five, fusion, Heliograph", 60.0, "%"),
    )
    lines = render_versus(figures, ("how", "| outages |")).splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    assert rows[0] == ["", "LightRAG", "Heliograph"]
    assert rows[2:] == [
        ["one more document, 50 stored", "300 ms", "20 ms"],
        ["recall among five, mix", "40 %", "50 %"],
        ["recall among five, fusion", "", "60 %"],
        ["outages"],
    ]
    bars = [
        item.get("height") for item in ElementTree.fromstring(render_versus_plot(figures)).iter() if "rect" in item.tag
    ]
    assert bars[:5] == ["180.0", "12.0", "120.0", "150.0", "180.0"]
