from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.text.tokens import count_tokens, cut_to_tokens, encode, token_ends

TEXTS = st.text(st.sampled_from("ab \n　。，中文字😀👨‍👩‍👧é'<|>") | st.characters(), max_size=200)


@settings(deadline=None)
@given(TEXTS)
def test_ends_of_tokens_go_up_to_the_end_of_the_text(text: str) -> None:
    ends = token_ends(text).tolist()
    assert len(ends) == count_tokens(text)
    assert [0, *ends][-1] == len(text)
    assert all(before <= after for before, after in pairwise([0, *ends]))


@settings(deadline=None)
@given(TEXTS, st.integers(0, 60))
def test_cut_is_a_start_of_at_most_so_many_tokens(text: str, limit: int) -> None:
    cut = cut_to_tokens(text, limit)
    assert text.startswith(cut)
    assert len(cut) == len(text) or len(cut) <= (token_ends(text)[limit - 1] if limit else 0)


@pytest.mark.parametrize("gap", [" ", "\n", ", ", "。"])
def test_long_text_encodes_as_its_parts_do(gap: str) -> None:
    rng = random.Random(7)
    words = [rng.choice(["alpha", "Beta", "don't", "字典", "x" * 50]) for _ in range(12_000)]
    text = gap.join(words)
    assert len(text) > 100_000
    halves = text.rindex(gap, 0, 39_000)
    assert encode(text)[: len(encode(text[:halves]))] == encode(text[:halves])
    assert token_ends(text)[-1] == len(text)


def test_text_of_millions_of_characters_is_counted() -> None:
    assert count_tokens("a" * 2_000_000) > 100_000
    assert count_tokens("word " * 600_000) >= 600_000


def test_special_markup_is_plain_text() -> None:
    assert count_tokens("<|endoftext|>") > 1
