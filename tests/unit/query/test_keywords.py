from __future__ import annotations

import json

import pytest

from heliograph.chat.base import Purpose
from heliograph.errors import BadModelReply, ModelUnavailable, RateLimited
from heliograph.query.keywords import find_keywords, local_keywords, parse_keywords
from heliograph.query.models import Keywords
from heliograph.settings import QuerySettings
from heliograph.testing.fakes import FakeChatModel

from .world import plan

EXPECTED = Keywords(("trade", "stability"), ("tariffs", "imports"))
LONG = "to be or not to be and what of it if it is not so or is it then as it was before that?"


@pytest.mark.parametrize(
    "reply",
    [
        '{"high_level_keywords": ["trade", "stability"], "low_level_keywords": ["tariffs", "imports"]}',
        '```json\n{"high_level_keywords": ["trade", "stability"], "low_level_keywords": ["tariffs", "imports"]}\n```',
        '<think>{"high_level_keywords": ["no"]}</think>{"high_level_keywords": "trade, stability", '
        '"low_level_keywords": "tariffs; imports"}',
        'thinking aloud</think>\n{"high_level": "trade\\nstability", "low_level": ["tariffs", "imports", "tariffs"]}',
        'Here you are: {"highLevelKeywords": ["trade", "stability",], "lowLevelKeywords": ["tariffs", "imports"',
        '{"keywords": {"hl_keywords": ["trade", " stability "], "ll_keywords": ["tariffs", "", "imports"]}}',
        '[{"High-Level Keywords": ["trade", "stability"]}, {"Low-Level Keywords": ["tariffs", "imports"]}]',
        "{'high_level_keywords': ['trade', 'stability'], 'low_level_keywords': ['tariffs', 'imports']}",
        '{"high_level_keywords": [{"keyword": "trade"}, {"keyword": "stability"}], '
        '"low_level_keywords": ["tariffs", null, "imports"]}',
    ],
)
def test_reply_is_read_however_it_is_dressed(reply: str) -> None:
    assert parse_keywords(reply) == EXPECTED


@pytest.mark.parametrize(
    "reply",
    [
        '{"高级关键词": ["国际贸易", "经济影响"], "低级关键词": ["关税", "进口"]}',
        "{“高级关键词”：[“国际贸易”, “经济影响”], “低级关键词”：[“关税”, “进口”]}",
        '{"高层关键词": "国际贸易，经济影响", "低层关键词": "关税、进口"}',
    ],
)
def test_chinese_reply_is_read(reply: str) -> None:
    assert parse_keywords(reply) == Keywords(("国际贸易", "经济影响"), ("关税", "进口"))


def test_one_list_and_numbers_and_endless_lists_are_read() -> None:
    assert parse_keywords('{"low_level_keywords": [2024, "x"]}') == Keywords((), ("2024", "x"))
    endless = json.dumps({"high_level": [f"word {number}" for number in range(1000)], "low_level": ["y" * 9999]})
    keywords = parse_keywords(endless)
    assert (len(keywords.high_level), len(keywords.low_level[0])) == (64, 512)


@pytest.mark.parametrize("reply", ["", "I cannot do that.", "[]", "{}", '{"follow_up": ["x"]}', "null", "[" * 5000])
def test_reply_without_keywords_is_bad(reply: str) -> None:
    with pytest.raises(BadModelReply, match="no keywords"):
        parse_keywords(reply)


async def test_chat_model_is_asked_in_json_mode_for_keywords() -> None:
    chat = FakeChatModel(json.dumps({"high_level_keywords": ["a"], "low_level_keywords": ["b"]}))
    settings = QuerySettings(keyword_language="Klingon")
    found = await find_keywords(plan("Who is it?", settings), chat)
    assert (found.found, found.warnings) == (Keywords(("a",), ("b",)), ())
    assert found.usage.output_tokens > 0
    (request,) = chat.requests
    assert (request.purpose, request.json_mode) == (Purpose.KEYWORDS, True)
    assert "Klingon" in request.messages[0].content
    assert request.messages[-1].content == "Question: Who is it?"


async def test_given_keywords_ask_no_model() -> None:
    chat = FakeChatModel()
    found = await find_keywords(plan(ll_keywords=["b"]), chat)
    assert found.found == Keywords((), ("b",))
    assert not chat.requests


async def test_unusable_reply_gives_local_keywords_and_a_warning() -> None:
    found = await find_keywords(plan("Who repaired the Gannet Head lighthouse?"), FakeChatModel("no idea"))
    assert found.found == local_keywords("Who repaired the Gannet Head lighthouse?")
    assert "no usable keywords" in found.warnings[0]
    assert found.usage.output_tokens > 0


@pytest.mark.parametrize("error", [ModelUnavailable("down"), RateLimited("later")])
async def test_outage_is_raised(error: Exception) -> None:
    chat = FakeChatModel("{}")
    chat.fail_next(error)
    with pytest.raises(type(error)):
        await find_keywords(plan(), chat)


def test_local_keywords_are_names_and_other_content_words() -> None:
    keywords = local_keywords("How does the ESP32-S3 reduce power consumption over MQTT?")
    assert "ESP32-S3" in keywords.low_level
    assert "MQTT" in keywords.low_level
    assert any("power" in word for word in keywords.high_level)


def test_local_keywords_fill_an_empty_side_from_the_other() -> None:
    keywords = local_keywords("how do sensors save energy?")
    assert keywords.high_level
    assert keywords.low_level == keywords.high_level


@pytest.mark.parametrize(
    ("mode", "param", "warned"),
    [
        ("local", {"hl_keywords": ["x"]}, ["low-level"]),
        ("global", {"ll_keywords": ["x"]}, ["high-level"]),
        ("mix", {"hl_keywords": ["x"]}, ["low-level"]),
        ("hybrid", {"ll_keywords": ["x"]}, ["high-level"]),
        ("local", {"ll_keywords": ["x"]}, []),
        ("global", {"hl_keywords": ["x"]}, []),
    ],
)
async def test_one_empty_side_is_warned_of_where_it_would_be_searched(
    mode: str, param: dict[str, list[str]], warned: list[str]
) -> None:
    found = await find_keywords(plan(mode=mode, **param), None)
    assert [warning.split(" keywords")[0].removeprefix("the ") for warning in found.warnings] == warned


@pytest.mark.parametrize("mode", ["local", "global", "hybrid", "mix"])
async def test_short_question_without_keywords_is_its_own_low_level_keyword(mode: str) -> None:
    chat = FakeChatModel('{"high_level_keywords": [], "low_level_keywords": []}')
    found = await find_keywords(plan("x" * 49, mode=mode), chat)
    assert found.found == Keywords(low_level=("x" * 49,))
    assert found.warnings == ("no keywords were found in the question: it is searched for as a whole",)


async def test_long_question_without_keywords_has_none() -> None:
    chat = FakeChatModel('{"high_level_keywords": [], "low_level_keywords": []}')
    found = await find_keywords(plan("x" * 50), chat)
    assert found.found is None
    assert (await find_keywords(plan(LONG), None)).found is None
