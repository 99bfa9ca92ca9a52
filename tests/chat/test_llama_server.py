"""The chat room against a real server: what a scripted one cannot show."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from typing import Any

import pytest

from heliograph.chat.base import ChatMessage, ChatMeter, ChatModel, ChatReply, ChatRequest, Purpose, build_chat_model
from heliograph.errors import ContextTooLong, ModelTimeout, ModelUnavailable
from heliograph.settings import ChatSettings

pytestmark = pytest.mark.chat

# Long enough that no machine finishes it while a test looks the other way.
ENDLESS = 3000


def ask(text: str, **more: Any) -> ChatRequest:
    return ChatRequest((ChatMessage("user", text),), Purpose.ANSWER, **more)


def built(settings: ChatSettings, meter: ChatMeter | None = None, **changes: object) -> ChatModel:
    model = build_chat_model(settings.model_copy(update=changes), None, meter)
    assert model is not None
    return model


async def test_plain_reply(chat_settings: ChatSettings) -> None:
    meter = ChatMeter()
    model = built(chat_settings, meter)
    reply = await model.complete(ask("Say hello in one word.", max_output_tokens=30))
    assert reply.text
    assert reply.model == chat_settings.model
    assert reply.usage.input_tokens > 5
    assert 0 < reply.usage.output_tokens <= 30
    assert meter.usage().by_purpose[Purpose.ANSWER].usage == reply.usage
    await model.close()


async def test_streamed_reply_comes_in_pieces_and_costs_what_the_server_says(chat_settings: ChatSettings) -> None:
    meter = ChatMeter()
    model = built(chat_settings, meter)
    finished: list[ChatReply] = []
    request = ask("Count from one to ten.", max_output_tokens=24, on_finish=finished.append)
    pieces = [piece async for piece in model.stream(request)]
    assert len(pieces) > 3
    assert finished[0].text == "".join(pieces)
    assert finished[0].usage.input_tokens > 5
    assert 0 < finished[0].usage.output_tokens <= 24
    assert meter.usage().total.usage == finished[0].usage
    await model.close()


async def test_json_mode_gives_json(chat_settings: ChatSettings, caplog: pytest.LogCaptureFixture) -> None:
    model = built(chat_settings)
    question = 'Reply with a JSON object like {"city": "Paris"} for the capital of Italy.'
    with caplog.at_level(logging.WARNING, "heliograph"):
        reply = await model.complete(ask(question, json_mode=True, max_output_tokens=80))
    assert reply.text.startswith("{")
    if reply.is_complete:
        assert isinstance(json.loads(reply.text), dict)
    assert not caplog.records, "the server takes the option"
    await model.close()


async def test_reply_cut_at_its_length_says_so(chat_settings: ChatSettings) -> None:
    model = built(chat_settings)
    finished: list[ChatReply] = []
    request = ask("Tell a long story.", max_output_tokens=5, on_finish=finished.append)
    assert not (await model.complete(request)).is_complete
    assert [piece async for piece in model.stream(request)]
    assert not finished[0].is_complete
    await model.close()


async def test_reply_that_takes_too_long_times_out_and_frees_the_server(
    chat_settings: ChatSettings, llama_server: Any
) -> None:
    model = built(chat_settings, timeout_seconds=0.2)
    with pytest.raises(ModelTimeout):
        await model.complete(ask("Tell a very long story.", max_output_tokens=ENDLESS))
    assert await asyncio.to_thread(llama_server.wait_until_idle)
    await model.close()


async def test_cancelled_reply_frees_the_server(chat_settings: ChatSettings, llama_server: Any) -> None:
    model = built(chat_settings)
    task = asyncio.create_task(model.complete(ask("Tell a very long story.", max_output_tokens=ENDLESS)))
    assert await asyncio.to_thread(llama_server.wait_until_busy)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(llama_server.wait_until_idle)
    assert (await model.complete(ask("Say hello.", max_output_tokens=5))).text
    await model.close()


async def test_stream_left_early_frees_the_server(chat_settings: ChatSettings, llama_server: Any) -> None:
    model = built(chat_settings, max_concurrency=1)
    pieces = model.stream(ask("Tell a very long story.", max_output_tokens=ENDLESS))
    assert await anext(pieces)
    await pieces.aclose()  # type: ignore[attr-defined]
    assert await asyncio.to_thread(llama_server.wait_until_idle)
    assert (await model.complete(ask("Say hello.", max_output_tokens=5))).text, "its slot is free as well"
    await model.close()


async def test_request_beyond_the_window_is_too_long(chat_settings: ChatSettings) -> None:
    model = built(chat_settings)
    for call in (model.complete, lambda request: anext(model.stream(request))):
        with pytest.raises(ContextTooLong):
            await call(ask("word " * 6000, max_output_tokens=5))
    await model.close()


async def test_port_where_nobody_listens_is_an_outage(chat_settings: ChatSettings) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        model = built(chat_settings, base_url=f"http://127.0.0.1:{taken.getsockname()[1]}/v1")
        with pytest.raises(ModelUnavailable, match="base_url") as caught:
            await model.complete(ask("Say hello."))
    assert caught.value.is_transient
    await model.close()


async def test_address_without_v1_says_what_to_check(chat_settings: ChatSettings, llama_server: Any) -> None:
    model = built(chat_settings, base_url=f"{llama_server.root_url}/nowhere")
    with pytest.raises(ModelUnavailable, match="base_url"):
        await model.complete(ask("Say hello."))
    await model.close()
