"""The chat model that the settings ask for, with its wrappers in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from heliograph.chat.base import (
    CachedChatModel,
    ChatMeter,
    ChatModel,
    ChatRequest,
    Purpose,
    WrapperChatModel,
    build_chat_model,
    wrap_chat_model,
)
from heliograph.chat.openai import OpenAIChatModel
from heliograph.errors import ModelTimeout, RateLimited, SettingsError
from heliograph.observing import CallCount
from heliograph.settings import ChatSettings
from heliograph.testing.fakes import FakeChatModel

MakeRequest = Callable[..., ChatRequest]


def layers(model: ChatModel | None) -> list[str]:
    names: list[str] = []
    while isinstance(model, WrapperChatModel):
        names.append(type(model).__name__)
        model = model.inner
    return [*names, type(model).__name__]


@pytest.mark.parametrize("name", ["", "  "])
def test_registry_builds_nothing_without_a_model_name(name: str, replies: Any) -> None:
    assert build_chat_model(ChatSettings(model=name), replies) is None


def test_registry_orders_the_wrappers(replies: Any) -> None:
    assert layers(build_chat_model(ChatSettings(model="m"), replies)) == [
        "CachedChatModel",
        "GuardedChatModel",
        "OpenAIChatModel",
    ]


def test_registry_leaves_the_cache_out_where_it_is_not_wanted(replies: Any) -> None:
    assert "CachedChatModel" not in layers(build_chat_model(ChatSettings(model="m"), None))
    assert "CachedChatModel" not in layers(build_chat_model(ChatSettings(model="m", cache=False), replies))


def test_registry_refuses_a_bad_address() -> None:
    with pytest.raises(SettingsError, match="base_url"):
        build_chat_model(ChatSettings(model="m", base_url="localhost:1234"), None)


def test_wrapped_model_keeps_its_name(replies: Any) -> None:
    model = build_chat_model(ChatSettings(model="m"), replies)
    assert model is not None
    assert model.name == OpenAIChatModel(ChatSettings(model="m")).name


async def test_wrapped_model_is_closed_with_its_wrappers(replies: Any) -> None:
    inner = FakeChatModel()
    await wrap_chat_model(inner, ChatSettings(), replies).close()
    assert inner.is_closed


async def test_wrapped_model_counts_each_try_and_no_cached_reply(replies: Any, make_request: MakeRequest) -> None:
    inner = FakeChatModel("said")
    inner.fail_next(RateLimited("busy", retry_after_seconds=0.0))
    meter = ChatMeter()
    model = wrap_chat_model(inner, ChatSettings(max_retries=1), replies, meter)
    for _ in range(2):
        assert (await model.complete(make_request(purpose=Purpose.EXTRACT))).text == "said"
    total = meter.usage().total
    assert (total.calls, total.failures) == (2, 1)


async def test_wrapped_model_counts_a_timeout_as_a_failure(replies: Any, make_request: MakeRequest) -> None:
    inner = FakeChatModel("said")
    inner.gate = asyncio.Event()
    meter = ChatMeter()
    model = wrap_chat_model(inner, ChatSettings(timeout_seconds=0.01, max_retries=0), replies, meter)
    with pytest.raises(ModelTimeout):
        await model.complete(make_request())
    assert meter.usage().total == CallCount(1, 1)


async def test_wrapped_stream_left_early_ends_the_call(replies: Any, make_request: MakeRequest) -> None:
    inner = FakeChatModel("said in pieces")
    model = wrap_chat_model(inner, ChatSettings(max_concurrency=1), replies)
    assert isinstance(model, CachedChatModel)
    for _ in range(3):
        pieces = model.stream(make_request())
        assert await anext(pieces) == "said in "
        await pieces.aclose()  # type: ignore[attr-defined]
    assert (inner.cancelled, inner.under_way) == (3, 0)


def test_registry_refuses_an_address_without_a_model(replies: Any) -> None:
    with pytest.raises(SettingsError, match=r"chat\.base_url is set, but chat\.model is empty"):
        build_chat_model(ChatSettings(base_url="http://localhost:11434/v1"), replies)
