from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heliograph.embedding.base import EmbeddingKind
from heliograph.embedding.e5.model import MAX_TEXT_TOKENS, MAX_WINDOWS, E5Tokenizer, E5Weights
from heliograph.embedding.e5.weights import ArtefactCache

START, END, UNKNOWN = 0, 2, 3


def _windows(tokenizer: E5Tokenizer, text: str, kind: EmbeddingKind = "document") -> list[list[int]]:
    return [window.tolist() for window in tokenizer.windows(text, kind)]


def _content(tokenizer: E5Tokenizer, text: str) -> list[int]:
    head = len(_windows(tokenizer, "")[0]) - 1
    return [token for window in _windows(tokenizer, text) for token in window[head:-1]]


def test_windows_hold_prefix_text_and_marks(tokenizer: E5Tokenizer) -> None:
    # XLM-RoBERTa's own ids of "query: hello" and "passage: hello".
    assert _windows(tokenizer, "hello", "query") == [[START, 41, 1294, 12, 33600, 31, END]]
    assert _windows(tokenizer, "hello") == [[START, 46692, 12, 33600, 31, END]]


@pytest.mark.parametrize("text", ["", " ", "\n\t", "\0\0", "\ud800", "\u200b\ufeff"])
def test_text_without_content_is_one_bare_window(tokenizer: E5Tokenizer, text: str) -> None:
    assert _windows(tokenizer, text) == _windows(tokenizer, "")


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a\0b", "ab"),
        ("a\ud83db", "ab"),
        ("a\r\n\tb", "a b"),
        ("  a   b ", "a b"),
        ("ｆｕｌｌ　ｗｉｄｔｈ", "full width"),
        ("a\u200bb", "a b"),
        ("café", "cafe\u0301"),
        ("a▁b", "a b"),
    ],
)
def test_characters_are_normalised(tokenizer: E5Tokenizer, text: str, same: str) -> None:
    assert _content(tokenizer, text) == _content(tokenizer, same)


def test_languages_have_no_unknown_tokens(tokenizer: E5Tokenizer) -> None:
    for text in (
        "The quick brown fox",
        "敏捷的棕色狐狸",
        "быстрая лиса",
        "سريع",
        "빠른 여우",
        "はやい狐",
        "tcp://10.0.0.1:80",
    ):
        assert UNKNOWN not in _content(tokenizer, text)


def test_long_text_is_cut_into_equal_windows(tokenizer: E5Tokenizer) -> None:
    words = "word " * (MAX_TEXT_TOKENS + 1)
    lengths = [len(window) for window in tokenizer.windows(words, "query")]
    assert len(lengths) == 2
    assert max(lengths) - min(lengths) <= 1
    assert max(len(window) for window in tokenizer.windows("word " * 5000, "query")) <= 512
    assert len(tokenizer.windows("word " * MAX_TEXT_TOKENS, "query")) == 1


def test_windows_lose_and_change_no_token(tokenizer: E5Tokenizer) -> None:
    text = "The harbour office keeps a green book. " * 200
    assert _content(tokenizer, text) == _content(tokenizer, text[: len(text) // 2]) * 2


@pytest.mark.parametrize("text", ["x" * 2_000_000, "天气" * 1_000_000, "word " * 400_000, "\n" * 2_000_000])
def test_huge_line_gives_a_bounded_number_of_windows(tokenizer: E5Tokenizer, text: str) -> None:
    assert len(tokenizer.windows(text, "document")) <= MAX_WINDOWS


@pytest.fixture(scope="session")
def pair(weights: E5Weights, cache_folder: Path) -> tuple[E5Tokenizer, E5Tokenizer]:
    """One that cuts short texts by itself, and one that has loaded sentencepiece for a long one."""
    cache = ArtefactCache(cache_folder)
    alone, loaded = E5Tokenizer(weights, cache), E5Tokenizer(weights, cache)
    loaded.windows("word " * 5_000, "query")
    return alone, loaded


@pytest.mark.parametrize(
    "text",
    [
        *(
            "The quick brown fox jumps over the lazy dog.",
            "望江钟是哪一年铸的，敲几声代表涨水？",
            "быстрая лиса",
            "はやい狐",
        ),
        *(
            "tcp://10.0.0.1:80",
            "a  b",
            "  ",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "<mask> <s> </s> <unk>",
            "\U0001f9ff\U0001fae8 \U0001fae8",
        ),
        *("\ue000\ue001x\ue002", "x\ue000 \ue000\ue000y", "naïve café ﬁne ½", "ᄀᄁ 𐍈𐍈 ܀܁", "▁▁a▁b", "don't—stop…now"),
    ],
)
def test_short_text_is_cut_as_sentencepiece_cuts_it(pair: tuple[E5Tokenizer, E5Tokenizer], text: str) -> None:
    alone, loaded = pair
    assert _windows(alone, text) == _windows(loaded, text)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.one_of(st.sampled_from("etaoinshrdlu 的是不了在人"), st.characters()), max_size=24))
def test_any_short_text_is_cut_as_sentencepiece_cuts_it(pair: tuple[E5Tokenizer, E5Tokenizer], text: str) -> None:
    alone, loaded = pair
    assert _windows(alone, text) == _windows(loaded, text)


@settings(max_examples=200)
@given(text=st.text(st.characters(exclude_categories=()), max_size=60))
def test_any_text_gives_valid_windows(tokenizer: E5Tokenizer, text: str) -> None:
    for window in tokenizer.windows(text, "query"):
        assert window[0] == START
        assert window[-1] == END
        assert all(0 <= token < 250_002 for token in window)
