"""What a passage opens with."""

from __future__ import annotations

import pytest

from heliograph.extraction.local_subjects import read_opening, speakers
from heliograph.text.phrases import read_texts


def opening(text: str) -> str:
    found = read_opening(text, read_texts([text])[0], opens_document=False)
    return found.name if found else ""


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("柳江是中国广西的一条河流。它流经柳州市。", "柳江"),
        ("北京大学，简称北大，创建于1898年。", "北京大学"),
        ("《红楼梦》是中国古典小说。", "红楼梦"),
        ("格力电器位于珠海，是一家公司。", "格力电器"),
        ("张伟（1970年-），中国演员。", "张伟"),
        ("华为是一家公司。", "华为"),
        ("光合作用是植物把光能变成化学能的过程。", "光合作用"),
        ("柳江。柳江的主要支流是寨蒿河。", "柳江"),
        ("记者是一种职业。", "记者"),
        ("《答案》是一部电影。", "答案"),
    ],
)
def test_chinese_passage_opens_with_what_it_defines(text: str, name: str) -> None:
    assert opening(text) == name


@pytest.mark.parametrize(
    "text",
    ["它是一条河流。", "其中最大的是柳江。", "他认为这条河很长。", "近年来，人口增加了。", "因为下雨，比赛取消了。"],
)
def test_chinese_sentence_without_a_subject_defines_nothing(text: str) -> None:
    assert opening(text) == ""


@pytest.mark.parametrize(
    "text",
    ["答案是四。", "问题是什么？", "附件为合同文本。", "记者，张三报道。", "目录", "附录。附录的内容如下。"],
)
def test_chinese_common_noun_is_not_what_a_passage_is_about(text: str) -> None:
    assert opening(text) == ""


@pytest.mark.parametrize(
    ("text", "name", "kind"),
    [
        ("If Exim is built with the library, it is used.", "", ""),
        ("When Zorblatt was rebuilt in 1901, a tower was added.", "", ""),
        ("When Harry Met Sally is a 1989 film directed by Rob Reiner.", "When Harry Met Sally", "content"),
        ("Overrides are a comma-separated list of names.", "Overrides", "unknown"),
        ("Thelma Schoonmaker is a film editor.", "Thelma Schoonmaker", "person"),
        ("Secondary Sections are named parts or appendices of it.", "Secondary Sections", "unknown"),
    ],
)
def test_clause_names_nothing_and_a_list_is_no_person(text: str, name: str, kind: str) -> None:
    found = read_opening(text, read_texts([text])[0], opens_document=False)
    assert ((found.name, found.kind) if found else ("", "")) == (name, kind)


def test_explained_terms_are_no_speakers() -> None:
    listed = "- Dividenden: Sie werden verteilt.\n- Risiko: Es ist hoch.\n- WebKit: Es malt.\n- Typ: Er ist neu.\n"
    ordered = "Aktien: Man kauft sie.\n\nErtrag: Er ist gut.\n\nRisiko: Es ist hoch.\n\nWebKit: Es zeigt Seiten.\n"
    for terms in (listed, ordered, "WebKit: WebKit shows pages.\n"):
        assert speakers(terms) == {}
    talk = "Ann: Hello!\nBob: Hello.\nAnn: How are you?\nBob: Fine.\n"
    assert speakers(talk) == {"Ann": "Ann", "Bob": "Bob"}
    assert speakers("Sage: This helps.\nBob: Fine.\nAnn: I see.\nCy: Good.\n").keys() == {"Sage", "Bob", "Ann", "Cy"}
    assert speakers("AdamSmith: The river rises.\n") == {"AdamSmith": "Adam Smith"}
