"""Text laid out for a terminal becomes Markdown: manual pages, change logs, RFCs; and headings of other markups."""

from __future__ import annotations

import pytest

from heliograph.documents.base import Limits, RawDocument
from heliograph.documents.registry import load_document
from heliograph.documents.terminal_text import drawn_tables, set_out_markdown, terminal_markdown
from heliograph.documents.web_page import html_to_markdown

_PAGE = """KEEPER(8)                    System Manager's Manual                    KEEPER(8)

NAME
       keeper - keeps the light

SYNOPSIS
       keeper [-q] -f file

DESCRIPTION
       The  keeper(8)  daemon lights the lamp at dusk and logs every ship that is dis-
       covered. It is well-known for its self-test. The log is
       kept for 14 days.

   To trim the wick:
       keeper -t

OPTIONS
       -f file
              Read the tide table from this file.

              Without it the default is used.

       -q     Say nothing.

       lamp_delay (30s)
              How long the lamp burns after dawn; the self-
              test is not counted.

       modes  The modes are:

              1      dim

              2      bright

EXAMPLES
       A table of tides:

              LABEL=bay   6:10   high

3.14                             2020-01-01                              KEEPER(8)
"""


def _text(name: str, text: str) -> str:
    return load_document(RawDocument(name, text.encode()), Limits()).text


@pytest.mark.parametrize(
    "lines",
    [
        "".join(f"{' ' * depth}term{depth}\n" for depth in range(7, 1200)),
        "       some words with an end-\n" * 20_000,
        "       - an item\n" * 20_000,
    ],
)
def test_hostile_text_is_read_to_its_end(lines: str) -> None:
    text = _text("a.txt", f"X(1)      Manual      X(1)\n\nNAME\n{lines}\nEND\n       the last words\n")
    assert text.endswith("## END\n\nthe last words\n")
    assert len(text) < 3 * len(lines)


def test_a_manual_page_gets_headings_paragraphs_and_terms() -> None:
    text = terminal_markdown(_PAGE) or ""
    assert text.startswith("# keeper(8)\n\n## NAME\n\nkeeper - keeps the light\n")
    assert "```\nkeeper [-q] -f file\n```" in text
    assert "lights the lamp at dusk and logs every ship that is discovered. It is well-known" in text
    assert "### To trim the wick:" in text
    assert "- `-f file`: Read the tide table from this file.\n\n  Without it the default is used." in text
    assert "`-q`: Say nothing." in text
    assert "- `modes`: The modes are:\n\n  - `1`: dim\n\n  - `2`: bright" in text
    assert "2020-01-01" not in text


def test_a_hyphen_stays_where_the_word_has_it_elsewhere() -> None:
    assert "the self-test is not counted" in (terminal_markdown(_PAGE) or "")


def test_code_of_a_manual_page_stays_as_it_is() -> None:
    assert "```\nLABEL=bay   6:10   high\n```" in (terminal_markdown(_PAGE) or "")


def test_a_manual_page_in_a_web_page_is_read_like_one() -> None:
    assert "`-q`: Say nothing." in html_to_markdown(f"<html><body><pre>{_PAGE}</pre></body></html>")


def test_entries_of_a_change_log_stand_under_their_version() -> None:
    entry = "lamp (2.1-1) unstable; urgency=low\n\n  * Trim the wick\n    at dawn.\n  * Oil it.\n\n"
    entry += " -- Ann <a@b.example>  Mon\n\n"
    text = _text("changelog.txt", entry + entry.replace("2.1", "2.0"))
    assert "## lamp (2.1-1) unstable; urgency=low\n\n- Trim the wick at dawn.\n\n- Oil it.\n\n" in text


def test_numbered_sections_of_an_rfc_are_headings_and_feet_of_pages_go() -> None:
    page = "1.  Lamps\n\n   A lamp MUST burn.\n\nDoe            Standards Track           [Page 1]\n\n"
    page += "2.  Oil\n\n   Oil SHOULD\n   be clean.\n"
    assert _text("rfc.txt", page) == "## 1. Lamps\n\nA lamp MUST burn.\n\n## 2. Oil\n\nOil SHOULD be clean.\n"


@pytest.mark.parametrize(
    "text",
    [
        "Plain words.\n\nMore words.\n",
        "key:\n  value\nother:\n  value\n",
        "# A\n\n    code\n    more\n",
        "",
        "- a\n  b\n- c\n  d\n",
    ],
)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert terminal_markdown(text) is None


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        (
            "a.rst",
            "======\nLamps\n======\n\nWick\n----\n\nIt burns.\n\nOil\n~~~\n\nClean.\n",
            ["# Lamps\n", "## Wick\n", "### Oil\n"],
        ),
        ("a.adoc", "= Lamps\n\n== Wick\n\nIt burns.\n", ["# Lamps\n", "## Wick\n"]),
        ("a.org", "* Lamps\n** Wick\nIt burns.\n", ["# Lamps\n", "## Wick\n"]),
        ("a.tex", "\\section{Lamps}\nIt burns.\n\\subsection*{Wick}\n", ["## Lamps\n", "### Wick\n"]),
    ],
)
def test_headings_of_other_markups_are_headings(name: str, text: str, wanted: list[str]) -> None:
    loaded = _text(name, text)
    assert all(heading in loaded for heading in wanted)
    assert "It burns." in loaded


def test_a_note_beside_an_icon_is_no_table() -> None:
    icon = "<td rowspan='2'><img alt='[Tip]' src='t.png'></td>"
    note = f"<table><tr>{icon}<th>Tip</th></tr><tr><td><p>Oil it.</p></td></tr></table>"
    assert html_to_markdown(f"<html><body><p>Before.</p>{note}</body></html>") == "Before.\n\nTip\n\nOil it."


def test_days_that_a_change_log_names_again_and_again_head_their_entries() -> None:
    days = ["2016-03-11  Ann <a@b.example>", *["2016-03-10  Ann <a@b.example>"] * 5, "2016-03-08  Bob <b@b.example>"]
    text = _text(
        "changelog.txt",
        "".join(f"{day}\n\n\t* wick.c: Trim {at}.\n\t* oil.c: Clean it.\n\n" for at, day in enumerate(days)),
    )
    assert [line for line in text.split("\n") if line.startswith("#")] == [
        "## 2016-03-11 Ann <a@b.example>",
        "## 2016-03-10 Ann <a@b.example>",
        "## 2016-03-08 Bob <b@b.example>",
    ]
    assert text.index("Trim 5") < text.index("2016-03-08")


def test_line_that_begins_with_a_number_sign_is_no_heading() -> None:
    assert list(set_out_markdown("# echo lamps | nc\n\nIt burns.")) == ["\\# echo lamps | nc", "It burns."]


@pytest.mark.parametrize(
    "drawn",
    [
        "┌────┬───────┐\n│ a  │ b     │\n├────┼───────┤\n│ -x │ burns │\n│    │ oil   │\n"
        "├────┼───────┤\n│ -y │ stops │\n└────┴───────┘\n",
        "+----+-------+\n| a  | b     |\n+====+=======+\n| -x | burns |\n|    | oil   |\n"
        "| -y | stops |\n+----+-------+\n",
    ],
)
def test_table_that_is_drawn_in_a_text_is_a_table(drawn: str) -> None:
    text = _text("lamp.txt", f"How it is called:\n{drawn}It burns.\n")
    table = "| a | b |\n| --- | --- |\n| -x | burns oil |\n| -y | stops |"
    assert text == f"How it is called:\n\n{table}\n\nIt burns.\n"


@pytest.mark.parametrize("row", ["| a    b |", "| a | b | c |"])
def test_table_whose_cells_span_others_stays_as_it_is_drawn(row: str) -> None:
    drawn = f"+---+---+\n{row}\n+---+---+\n| 1 | 2 |\n+---+---+\n"
    assert _text("lamp.txt", drawn) == drawn


def test_long_drawn_table_is_read_once() -> None:
    rows = "| a | b |\n+---+---+\n" * 100_000
    text = drawn_tables(f"+---+---+\n{rows}")
    assert text.count("| a | b |") == 100_000
