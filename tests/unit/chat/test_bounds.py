"""Replies that go round in circles are told from those that are long."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.chat.base import ReplyBounds, without_repeats

PAGES = sorted((Path(__file__).parents[3] / "docs").glob("*.md"))


@given(
    st.text(max_size=300),
    st.text(min_size=1, max_size=80),
    st.integers(0, 30),
    st.lists(st.integers(1, 70), min_size=1, max_size=50),
)
def test_loops_are_seen_however_they_come_and_said_twice(before: str, unit: str, more: int, cuts: list[int]) -> None:
    times = 600 // len(unit) + 4 + more
    text = before + unit * times
    assert without_repeats(text) in {text[:length] for length in range(len(before) + 2 * len(unit) + 1)}
    assert without_repeats(without_repeats(text)) == without_repeats(text)
    bounds, place, passed = ReplyBounds(None), 0, False
    for size in cuts * (len(text) + 400):
        if place >= len(text) + 400:
            break
        passed = passed or bounds.passes((text + unit * 400)[place : place + size], "")
        place += size
    assert passed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_written_pages_are_no_loops(page: Path) -> None:
    text = page.read_text("utf-8")
    bounds = ReplyBounds(len(text))
    assert not any(bounds.passes(text[start : start + 7], text[start : start + 7]) for start in range(0, len(text), 7))
    assert without_repeats(text) == text
