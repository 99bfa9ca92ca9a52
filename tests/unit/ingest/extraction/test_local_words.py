"""Excerpts, singulars and subjects of the local extractor."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.ingest.extraction.local_subjects import subjects_of
from heliograph.ingest.extraction.local_words import EXCERPT_LENGTH, HAN_EXCERPT_LENGTH, excerpt, singular


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("access tokens", "access token"),
        ("policies", "policy"),
        ("boxes", "box"),
        ("status", "status"),
        ("class", "class"),
        ("analysis", "analysis"),
        ("batches", "batch"),
        ("keys", "key"),
        ("消息", "消息"),
        ("", ""),
    ],
)
def test_singular_is(phrase: str, expected: str) -> None:
    assert singular(phrase) == expected


def test_excerpt_is_without_markup() -> None:
    sentence = "- See **the** [GitLab\nDuo](https://x.example/a_b) and `code`."
    assert excerpt(sentence, sentence.index("GitLab")) == "See the GitLab Duo and code."
    assert excerpt(sentence, 0) == "See the GitLab Duo and code."


def test_excerpt_of_a_long_sentence_shows_the_place() -> None:
    sentence = "word " * 200 + "Mosquitto " + "word " * 200
    short = excerpt(sentence, sentence.index("Mosquitto"))
    assert "Mosquitto" in short
    assert len(short) <= EXCERPT_LENGTH
    assert short.startswith("…word ")
    assert short.endswith("word…")


def test_excerpt_in_chinese_is_shorter() -> None:
    assert len(excerpt("中文句子，" * 100, 250)) <= HAN_EXCERPT_LENGTH


@given(st.text(max_size=600), st.integers(0, 600))
def test_excerpt_of_any_text_is_bounded(text: str, at: int) -> None:
    assert len(excerpt(text, min(at, len(text)))) <= EXCERPT_LENGTH


@pytest.mark.parametrize(
    ("heading", "names"),
    [
        ("Willi Schneider (skeleton racer)", ["Willi Schneider"]),
        ("## 2.1 MQTT broker", ["MQTT broker"]),
        ("第一章 网关与云", ["网关与云"]),
        ("第一章 概述", []),
        ("Chapter 3: The Lighthouse", ["The Lighthouse"]),
        ("How to use GitLab Duo", ["GitLab Duo"]),
        ("Use the Web IDE to edit the handbook", ["Web IDE"]),
        ("Overview", []),
        ("Getting Started", []),
        ("notes/index.md", []),
        ("2024-05-01", []),
        ("Chat 20260503", []),
        ("为什么选择它？", []),
        ("", []),
    ],
)
def test_heading_stands_for(heading: str, names: list[str]) -> None:
    assert [name for name, _ in subjects_of(heading)] == names


@given(st.text(max_size=400))
def test_subjects_of_any_heading_are_names(heading: str) -> None:
    for name, kind in subjects_of(heading):
        assert name.strip() == name != ""
        assert kind
