"""Answers kept between questions, under `{mode}:query:{hash}` in the store's reply cache.

The key covers everything that an answer depends on: question, every parameter, the texts of the prompts, the models'
names and the workspace's data version, so an answer never outlives the data it came from. The value is the whole
`Answer` as JSON.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from functools import cache
from hashlib import blake2b
from typing import Any

from pydantic import TypeAdapter, ValidationError

from heliograph.chat.base import ChatModel
from heliograph.errors import StoreError
from heliograph.models import Usage, utc_now
from heliograph.observing import tell_lookup
from heliograph.prompts import load_prompt
from heliograph.query.context.prompt import builtin_prompt
from heliograph.query.models import Answer
from heliograph.query.plan import Plan
from heliograph.stores.base import CachedReply, ReplyCache

logger = logging.getLogger(__name__)


@cache
def _answers() -> TypeAdapter[Answer]:
    return TypeAdapter(Answer)


def answer_key(plan: Plan, models: Mapping[str, str], data_version: int) -> str:
    """Return the key of an answer.

    Args:
        plan: The question and everything that was asked of it.
        models: Names of the models that take part.
        data_version: The workspace's.
    """
    parts = {field.name: _plain(getattr(plan, field.name)) for field in fields(plan) if field.name != "param"}
    parts |= {f"param.{field.name}": _plain(getattr(plan.param, field.name)) for field in fields(plan.param)}
    prompts = [builtin_prompt(plan), load_prompt("keywords"), load_prompt("understanding")]
    parts |= {"prompts": prompts, "models": dict(models), "data": data_version}
    text = json.dumps(parts, sort_keys=True)
    return f"{plan.mode}:query:{blake2b(text.encode(), digest_size=16).hexdigest()}"


class AnswerCache:
    """Reads and writes answers."""

    def __init__(self, replies: ReplyCache) -> None:
        self._replies = replies

    async def get(self, key: str) -> Answer | None:
        """Return the answer under this key as one that cost nothing, or None."""
        reply = await self._replies.get_reply(key)
        tell_lookup("answers", is_hit=reply is not None)
        if reply is None:
            return None
        try:
            answer = await asyncio.to_thread(_answers().validate_json, reply.text)
        except ValidationError:
            logger.warning("the cached answer %r cannot be read, perhaps of another version; it is made again", key)
            return None
        return replace(answer, from_cache=True, usage=Usage())

    async def put(self, key: str, answer: Answer, model: str) -> None:
        """Keep an answer; one that cannot be kept, say on a full disk, is only logged: it is an answer nevertheless."""
        text = await asyncio.to_thread(_encoded, answer)
        try:
            await self._replies.put_reply(CachedReply(key, text, model, answer.usage, utc_now()))
        except StoreError as error:
            logger.warning("the answer %r could not be kept: %s", key, error)


def _encoded(answer: Answer) -> str:
    # A lone surrogate, which a broken reply may hold, becomes its JSON escape.
    return json.dumps(asdict(answer), ensure_ascii=False).encode("utf-8", "backslashreplace").decode()


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it; a model is left to `models`, which holds its name."""
    if isinstance(value, ChatModel):
        return None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        # The name too: conditions of different kinds have the same fields.
        return [type(value).__name__, *(_plain(getattr(value, field.name)) for field in fields(value))]
    return value if isinstance(value, str | int | float) else None
