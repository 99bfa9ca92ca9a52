from __future__ import annotations

import pytest

from heliograph.documents.base import Limits
from heliograph.documents.markdown import name_title, with_language
from heliograph.errors import IngestError

from .samples import load


def test_title_comes_from_the_first_heading() -> None:
    document = load("docs/guide.md", "\n# ESP32 guide\n\ntext\r\n")
    assert (document.source, document.title) == ("docs/guide.md", "ESP32 guide")
    assert document.text == "\n# ESP32 guide\n\ntext\n"
    assert document.page_starts == ()


def test_title_of_front_matter_wins_and_its_fields_are_metadata() -> None:
    document = load("a.md", "---\ntitle: Named\nteam: iot\nlanguage: de\n---\n# Heading\n")
    assert (document.title, document.text) == ("Named", "# Heading\n")
    assert document.metadata == {"team": "iot", "language": "de", "mime_type": "text/markdown"}


def test_title_falls_back_to_the_file_name() -> None:
    assert load("ordner/手册.v2.txt", "只有正文。").title == "手册.v2"


@pytest.mark.parametrize(
    ("source", "title"),
    [
        ("https://example.org/a/scan%2001.pdf?x=1#y", "scan 01.pdf"),
        ("https://example.org/", "example.org"),
        ("https://example.org/a%00%0Ab", "a b"),
        ("https://example.org/%00", "https://example.org/%00"),
        ("http://[draft]/notes.md", "notes"),
        ("http://[", "["),
    ],
)
def test_end_of_an_address_is_a_clean_title(source: str, title: str) -> None:
    assert name_title(source) == title


def test_language_is_told_from_the_text() -> None:
    assert load("a.txt", "望江钟由沈万年铸造，挂在云渡镇的渡口。").metadata["language"] == "zh"


def test_language_that_is_not_written_in_the_script_of_the_text_is_not_believed() -> None:
    page = "<html lang='{}'><body><h1>Gerber</h1><p>{}</p></body></html>"
    assert load("a.html", page.format("en", "Gerber 浏览器最多可以一次性显示 32 个文件。")).metadata["language"] == "zh"
    assert load("a.html", page.format("zh", "It shows 32 files.")).metadata["language"] == "zh"
    assert load("a.html", page.format("uk", "Программа показывает файлы.")).metadata["language"] == "uk"


@pytest.mark.parametrize(
    ("stated", "language"),
    [("en-US", "en"), ("ZH_Hans_CN", "zh"), ("deu", "de"), (" nn ", "nn"), ("German", "fr"), ("und", "fr"), ("", "fr")],
)
def test_language_is_stated_or_else_detected(stated: str, language: str) -> None:
    text = "Le phare est dans le port, et les bateaux sont sur la mer avec des lampes."
    assert with_language({"language": stated, "a": 1}, text) == {"language": language, "a": 1}


@pytest.mark.parametrize("encoding", ["gb18030", "gbk", "utf-16", "utf-8-sig"])
def test_chinese_is_read_in_every_usual_encoding(encoding: str) -> None:
    text = "# 望江钟\n\n望江钟由沈万年铸造，挂在云渡镇的渡口。水位涨过石阶，林知远便敲钟三声。\n"
    assert load("a.md", text.encode(encoding)).text == text


def test_empty_file_loads_as_empty_text() -> None:
    assert load("empty.txt", b"").text == ""


def test_binary_file_is_refused_by_name() -> None:
    with pytest.raises(IngestError, match=r"picture\.txt' is no picture that can be read"):
        load("picture.txt", b"\x89PNG\r\n\x1a\n ...")
    with pytest.raises(IngestError, match=r"picture\.txt.*GIF"):
        load("picture.txt", b"GIF89a ...")


def test_limit_counts_characters_not_bytes() -> None:
    assert len(load("zh.txt", "字" * 10, Limits(max_characters=10)).text) == 10
    with pytest.raises(IngestError, match="max_document_characters"):
        load("zh.txt", "字" * 10, Limits(max_characters=9))


def test_full_lines_of_chinese_are_joined_within_their_paragraph_and_item() -> None:
    text = (
        "灯塔手册\n灯塔看守人每天黄昏之前必须检查所有的灯芯，并且把储存的灯\n油加满，然后才能点灯。\n下一句另起一行。\n\n"
        "* 第一项：灯塔看守人每天黄昏之前必须检查所有的灯芯以及储存的灯\n  油。\n"
        "* 第二项：同样检查望远镜、信号旗、罗盘以及一切其他的航海仪器设备\n* 第三项\n\n"
        "```\n灯塔看守人每天黄昏之前必须检查所有的灯芯以及储存的灯\n油\n```\n\n床前明月光\n疑是地上霜\n"
    )
    joined = text.replace("储存的灯\n油加满", "储存的灯油加满").replace("储存的灯\n  油。", "储存的灯油。")
    assert load("灯塔.txt", text).text == joined
    assert load("灯塔.md", text).text == joined
