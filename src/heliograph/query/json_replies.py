"""JSON objects in a chat model's reply, however it is dressed.

Thinking, code fences and text around the JSON are skipped, and JSON that is almost right is repaired. Shared by what
asks a model about a question: keywords and understanding.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from heliograph.extraction.reply_readers import read_json

_THINKING = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL | re.IGNORECASE)
_UNOPENED_THINKING = re.compile(r"\A.*</think>", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"```[a-zA-Z]*\s*(.*?)(?:```|\Z)", re.DOTALL)
_TYPOGRAPHY = str.maketrans({"“": '"', "”": '"', "：": ":"})


def objects_in(reply: str) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON objects of a model's reply, each followed by the objects that are values of it.

    Nothing is yielded for a reply without one.
    """
    text = _UNOPENED_THINKING.sub("", _THINKING.sub("", reply))
    parts = [match[1] for match in _FENCE.finditer(text)] or [text]
    for part in parts:
        value = _load(part)
        found: list[Any] = value if isinstance(value, list) else [value]
        for item in found:
            if isinstance(item, Mapping):
                yield item
                yield from (inner for inner in item.values() if isinstance(inner, Mapping))


def _load(text: str) -> Any:
    start, end = text.find("{"), text.rfind("}")
    body = text[start : end + 1] if 0 <= start < end else text
    with suppress(ValueError, RecursionError):
        return json.loads(body)
    damaged = text[max(start, 0) :].translate(_TYPOGRAPHY)
    # The reader leaves out what breaks off; of a question's words those before the break are worth having.
    for end in ("", "}", "]}", '"}', '"]}'):
        if found := [item.fields for value in read_json(damaged + end) for item in reversed(value.objects)]:
            return found
    return None
