"""Chats that are exported as JSON are read as what was said."""

from __future__ import annotations

import json
from typing import Any

from .samples import load


def _message(user: str, text: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "user": user,
        "ts": "1714550400.000200",
        "text": text,
        "team": "T9",
        "blocks": [{"x": 1}],
        **more,
    }


def test_slack_day_is_told_under_its_channel() -> None:
    messages = [
        _message("U7", "<@U7> has joined <#C2|pumps>", subtype="channel_join"),
        _message("U7", "Oil &amp; seal, see <https://p.example/a|the page>", user_profile={"real_name": "Mira Okafor"}),
        _message("U8", "<@U7> and <@U9>: fine, <!here>", username="Tom", files=[{"title": "plan.pdf", "id": "F1"}]),
    ]
    document = load("export/pumps/2024-05-01.json", json.dumps(messages))
    assert document.title == "pumps 2024-05-01"
    assert document.text == (
        "# pumps 2024-05-01\n\nMira Okafor (2024-05-01 08:00): @Mira Okafor has joined #pumps\n\n"
        "Mira Okafor (2024-05-01 08:00): Oil & seal, see [the page](https://p.example/a)\n\n"
        "Tom (2024-05-01 08:00): @Mira Okafor and @U9: fine, @here\nplan.pdf\n"
    )


def test_telegram_and_discord_chats_are_told_under_their_names() -> None:
    text = ["Look at ", {"type": "link", "text": "p.example"}]
    message = {"id": 1, "type": "message", "date": "2024-05-01T08:00:09", "from": "Mira", "text": text}
    telegram = load("result.json", json.dumps({"name": "Hall two", "messages": [message]}))
    assert telegram.text == "# Hall two\n\nMira (2024-05-01 08:00): Look at p.example\n"
    author = {"name": "tom1", "nickname": "Tom"}
    said = {"timestamp": "2024-05-01T08:00:09+00:00", "content": "It leaks.", "author": author}
    discord = {"guild": {"name": "Works"}, "channel": {"name": "pumps"}, "messages": [said]}
    assert load("a.json", json.dumps(discord)).text == "# Works pumps\n\nTom (2024-05-01 08:00): It leaks.\n"


def test_records_that_are_no_chat_stay_records() -> None:
    for value in (
        [{"type": "message", "text": "x"}],
        {"messages": ["x"]},
        {"messages": [{"text": "x"}]},
        {"messages": []},
    ):
        assert "(" not in load("a.json", json.dumps(value)).text


def test_headings_in_the_text_of_a_record_are_below_it() -> None:
    text = load("a.json", json.dumps([{"title": "Pump", "body": "# Leak\r\n\r\nIt drips.\r\n\r\n## Since"}])).text
    assert text == "# a\n\n## Pump\n\n- title: Pump\n\nbody:\n\n### Leak\n\nIt drips.\n\n#### Since\n"


def test_records_that_are_made_like_messages_keep_all_their_fields() -> None:
    for record in (
        {"date": "2024", "type": "x", "text": "a", "detail": "leaks"},
        {"timestamp": "2024", "author": "Mira", "content": "leaks"},
    ):
        assert "leaks" in load("a.json", json.dumps({"messages": [record], "place": "Hall two"})).text
        assert "Hall two" in load("a.json", json.dumps({"messages": [record], "place": "Hall two"})).text
    assert "leaks" in load("a.json", json.dumps([{"type": "message", "ts": "1", "blocks": ["leaks"]}])).text
