"""Reasoning is left out of replies, however they come in pieces."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.chat.base import ReasoningFilter, strip_reasoning


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("", ""),
        ("Hello", "Hello"),
        ("  \n Hello ", "Hello "),
        ("<think>hm</think>Hello", "Hello"),
        (" <think>\nhm < 3\n</think>\n\nHello", "Hello"),
        ("<THINK>hm</Think>Hello", "Hello"),
        ("<thinking>hm</think></thinking>Hello", "Hello"),
        ("<think>a</think> <think>b</think> Hello", "Hello"),
        ("<think></think>Hello", "Hello"),
        ("<think>never closed", ""),
        ("<think>never closed </thi", ""),
        ("<thi", "<thi"),
        ("<thinker>Hello", "<thinker>Hello"),
        ("Say <think>x</think>", "Say <think>x</think>"),
        ("no opening </think> Hello", "no opening </think> Hello"),
    ],
)
def test_reasoning_is_left_out_at_the_start_only(text: str, kept: str) -> None:
    assert strip_reasoning(text) == kept


PARTS = st.lists(st.sampled_from(["<think>", "</think>", "<thinking>", "</thinking>", "<", "th", " ", "\n", "x", "文"]))


@given(parts=PARTS, cuts=st.lists(st.integers(0, 60)))
def test_reasoning_does_not_depend_on_how_the_text_is_cut(parts: list[str], cuts: list[int]) -> None:
    text = "".join(parts)
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    reasoning = ReasoningFilter()
    shown = [reasoning.feed(text[start:end]) for start, end in pairwise(places)]
    assert "".join(shown) + reasoning.finish() == strip_reasoning(text)


@given(text=st.text(max_size=20))
def test_text_without_reasoning_loses_only_space_before_it(text: str) -> None:
    if not text.lstrip().lower().startswith("<think"):
        assert strip_reasoning(text) == text.lstrip()


def test_pieces_after_the_reasoning_come_through_at_once() -> None:
    reasoning = ReasoningFilter()
    assert [reasoning.feed(piece) for piece in ("<think>", "hm", "</think>", "Hel", "<", "lo")] == [
        *("", "", ""),
        *("Hel", "<", "lo"),
    ]


def test_long_thoughts_are_not_held() -> None:
    reasoning = ReasoningFilter()
    for _ in range(100):
        reasoning.feed("<think>" + "x" * 1000)
    assert len(reasoning._held) < 20
