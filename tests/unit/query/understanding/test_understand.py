"""A chat model says what a question asks for; what it garbles, the rules know."""

from __future__ import annotations

import json

import pytest

from heliograph.errors import ModelUnavailable
from heliograph.query.keywords import find_understanding
from heliograph.query.understanding import QuestionKind, understand_by_rules
from heliograph.testing.fakes import FakeChatModel

QUESTION = "How does the Lantern differ from the Beacon?"
REPLY = {
    "type": "compare",
    "entities": ["Lantern", "Beacon"],
    "expansions": ["battery", "radio"],
    "parts": [],
    "sides": ["Lantern", "Beacon"],
}


async def test_without_a_model_the_rules_say_it() -> None:
    found = await find_understanding(QUESTION, None)
    assert found.found == understand_by_rules(QUESTION)
    assert not found.warnings


async def test_model_says_it() -> None:
    chat = FakeChatModel(json.dumps(REPLY))
    found = await find_understanding(QUESTION, chat, "French")
    understanding = found.found
    assert (understanding.kind, understanding.by_model) == (QuestionKind.COMPARE, True)
    assert understanding.expansions == ("battery", "radio")
    assert understanding.sides == ("Lantern", "Beacon")
    assert found.usage.input_tokens > 0
    assert "French" in chat.requests[0].messages[0].content
    assert chat.requests[0].json_mode


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (
            '<think>{"type": "fact"}</think>```json\n{"type": "How-To", "entities": "Lantern;Beacon"}\n```',
            "how_to",
        ),
        ('Sure! {"Kind": "comparison", "sides": ["only one"]}', "compare"),
        ('{"result": {"type": "multi-hop reasoning", "parts": ["one?"], "sides": ["a", "b"]}}', "reason"),
        ('{"类型": "操作", "实体": ["Lantern", 3, null]', "how_to"),
        ('{"type": "global", "entities": [], "expansions": {"a": 1}, "parts": "x"}', "global"),
    ],
)
async def test_reply_is_read_however_it_is_dressed(reply: str, kind: str) -> None:
    found = await find_understanding(QUESTION, FakeChatModel(reply))
    assert found.found.kind == kind
    assert found.found.entities == ("Lantern", "Beacon") or "实体" in reply
    assert found.found.parts == ()
    assert len(found.found.sides) == (2 if kind == "compare" else 0)


async def test_parts_are_kept_when_there_are_two() -> None:
    parts = [f"part {number}?" for number in range(9)]
    found = await find_understanding("A lot?", FakeChatModel(json.dumps({"type": "fact", "parts": parts})))
    assert found.found.parts == tuple(parts[:4])


@pytest.mark.parametrize("reply", ["", "I cannot say.", "{}", '{"type": 7}', '{"type": "poem"}', "[" * 50_000])
async def test_unusable_reply_is_a_warning_and_the_rules_decide(reply: str) -> None:
    found = await find_understanding(QUESTION, FakeChatModel(reply))
    assert found.found == understand_by_rules(QUESTION)
    assert "rules" in found.warnings[0]


async def test_model_out_of_reach_is_an_error() -> None:
    chat = FakeChatModel("unused")
    chat.fail_next(ModelUnavailable("it is down; start it"))
    with pytest.raises(ModelUnavailable):
        await find_understanding(QUESTION, chat)
