from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.documents.markdown import clean_text, replace_surrogates

ANYTHING = st.text(st.characters(codec=None))


def test_clean_text_makes_every_line_end_a_line_feed() -> None:
    assert clean_text("a\r\nb\rc\x0bd\x0ce\x85f\u2028g\u2029h\n") == "a\nb\nc\nd\ne\nf\ng\nh\n"


def test_clean_text_removes_control_characters_but_tabs() -> None:
    assert clean_text("\ufeffa\x00b\tc\x1b[0m\x7f\x9fd") == "ab\tc[0md"


def test_clean_text_joins_pairs_of_surrogates_and_replaces_lone_ones() -> None:
    assert clean_text("\ud83d\ude00 \ud800 \udc00") == "😀 \ufffd \ufffd"


def test_clean_text_returns_clean_text_itself() -> None:
    text = "Ein sauberer Text — 中文 😀\n\tzweite Zeile"
    assert clean_text(text) is text


@settings(deadline=None)
@given(ANYTHING)
def test_clean_text_can_be_encoded_and_cleaned_again(text: str) -> None:
    clean = clean_text(text)
    assert clean.encode("utf-8").decode("utf-8") == clean
    assert clean_text(clean) == clean
    assert "\x00" not in clean
    assert "\r" not in clean


@settings(deadline=None)
@given(ANYTHING)
def test_replace_surrogates_keeps_control_characters(text: str) -> None:
    replaced = replace_surrogates(text)
    replaced.encode("utf-8")
    assert replaced.count("\x00") == text.count("\x00")
