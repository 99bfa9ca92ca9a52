"""Where a text may turn to another topic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.text.sentences import paragraph_starts


def _paragraphs(text: str) -> list[str]:
    return [text[start:].split("\n")[0] for start in paragraph_starts(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\n", []),
        ("\n One.\nstill one\n \n\n  Two.", ["One.", "Two."]),
        ("One:\n\n- a\n\n* b\n\n1. c\n\n2、丁\n\n| d |\n\n> e\n\n```\nf", ["One:"]),
        ("**Bold** one.\n\n1998 was two.", ["**Bold** one.", "1998 was two."]),
        ("# A\n\n## B\n\nText.\n## C\nMore.\n\nLast.", ["# A", "## C", "Last."]),
        ("- a\n\nText.", ["- a", "Text."]),
    ],
)
def test_headings_go_with_what_follows_and_lists_with_what_leads_to_them(text: str, expected: list[str]) -> None:
    assert _paragraphs(text) == expected


@given(st.text("# \n-a1.|", max_size=40))
def test_starts_rise_and_are_no_white_space(text: str) -> None:
    starts = paragraph_starts(text)
    assert starts == sorted(set(starts))
    assert all(not text[start].isspace() for start in starts)
    assert bool(starts) == bool(text.strip())
