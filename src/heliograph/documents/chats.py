"""Reads JSON exports of chat programs (Slack, Telegram, Discord): a paragraph per message, with speaker and time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from html import unescape
from typing import Any, cast

_LINK = re.compile(r"<(?P<kind>[@#!]?)(?P<target>[^<>|\s]+)(?:\|(?P<words>[^<>]*))?>")


def chat_markdown(value: Any) -> tuple[str, str] | None:
    """Return a chat's name and messages, or None if the JSON is no chat; the name is empty if it is not stated."""
    if isinstance(value, list):
        messages = cast("list[Any]", value)
        if not messages or not all(
            isinstance(message, dict)
            and message.get("type") == "message"
            and "ts" in message
            and isinstance(message.get("text"), str)
            for message in messages
        ):
            return None
        return "", _paragraphs([_slack(message, _names(messages)) for message in messages])
    chat = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    messages = chat.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        return None
    messages = cast("list[dict[str, Any]]", messages)
    if messages and all({"id", "date", "type", "text"} <= message.keys() for message in messages):
        return str(chat.get("name") or ""), _paragraphs([_telegram(message) for message in messages])
    if messages and all(
        {"timestamp", "content"} <= message.keys() and isinstance(message.get("author"), dict) for message in messages
    ):
        place = (chat.get(kind) for kind in ("guild", "channel"))
        names = (str(part.get("name") or "") for part in place if isinstance(part, dict))
        return " ".join(filter(None, names)), _paragraphs([_discord(message) for message in messages])
    return None


def _paragraphs(messages: list[tuple[str, str, str]]) -> str:
    said = (f"{who or 'Unknown'} ({when}): {text.strip()}" for who, when, text in messages if text.strip())
    return "\n\n".join(said)


def _names(messages: list[dict[str, Any]]) -> dict[str, str]:
    """Return the speakers' names by their ids."""
    names: dict[str, str] = {}
    for message in messages:
        profile = cast("dict[str, Any]", message.get("user_profile") or {})
        if name := profile.get("real_name") or profile.get("display_name") or profile.get("name"):
            names[str(message.get("user"))] = str(name)
    return names


def _slack(message: Mapping[str, Any], names: Mapping[str, str]) -> tuple[str, str, str]:
    def link(match: re.Match[str]) -> str:
        target, words = match["target"], match["words"] or ""
        if match["kind"] == "@":
            return f"@{names.get(target) or words or target}"
        if match["kind"]:
            return f"{'#' if match['kind'] == '#' else '@'}{words or target}"
        return f"[{words}]({target})" if words and words not in target else target

    more = [
        str(part.get(key) or "")
        for kind, keys in (("attachments", ("title", "text")), ("files", ("title",)))
        for part in message.get(kind) or ()
        for key in keys
    ]
    text = "\n".join(filter(None, (str(message.get("text") or ""), *more)))
    user = str(message.get("user") or "")
    who = names.get(user) or str(message.get("username") or "") or user
    try:
        when = datetime.fromtimestamp(float(message["ts"]), UTC).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError, TypeError):
        when = str(message["ts"])
    return who, when, unescape(_LINK.sub(link, text))


def _telegram(message: Mapping[str, Any]) -> tuple[str, str, str]:
    parts = message["text"] if isinstance(message["text"], list) else [message["text"]]
    words = (part if isinstance(part, str) else str(part.get("text") or "") for part in parts)
    text = "".join(words) or str(message.get("file_name") or message.get("file") or "")
    return str(message.get("from") or message.get("actor") or ""), _moment(message["date"]), text


def _discord(message: Mapping[str, Any]) -> tuple[str, str, str]:
    author = message["author"]
    files = [str(file.get("fileName") or "") for file in message.get("attachments") or () if isinstance(file, dict)]
    text = "\n".join(filter(None, (str(message["content"] or ""), *files)))
    return str(author.get("nickname") or author.get("name") or ""), _moment(message["timestamp"]), text


def _moment(stated: Any) -> str:
    return str(stated).replace("T", " ")[:16]
