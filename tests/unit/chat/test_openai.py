"""The OpenAI-compatible chat model against a scripted service on loopback."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any
from unittest.mock import ANY

import pytest

from heliograph.chat.base import ChatMessage, ChatReply, ChatRequest, Purpose
from heliograph.chat.openai import OpenAIChatModel
from heliograph.errors import BadModelReply, ContextTooLong, ModelUnavailable, RateLimited
from heliograph.extraction.replies import parse_extraction
from heliograph.models import Usage
from heliograph.settings import ChatSettings

MakeRequest = Callable[..., ChatRequest]


@pytest.fixture
async def model(settings: ChatSettings) -> AsyncIterator[OpenAIChatModel]:
    model = OpenAIChatModel(settings)
    yield model
    await model.close()


async def pieces_of(model: OpenAIChatModel, request: ChatRequest) -> list[str]:
    return [piece async for piece in model.stream(request)]


async def test_complete_sends_the_request_and_returns_the_reply(
    model: OpenAIChatModel, server: Any, make_request: MakeRequest
) -> None:
    server.will_reply(" Hello.\n", usage={"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9})
    messages = (ChatMessage("system", "Be brief."), ChatMessage("user", "Hi"))
    reply = await model.complete(ChatRequest(messages, Purpose.ANSWER, max_output_tokens=5))
    assert reply == ChatReply("Hello.", "m", Usage(7, 2))
    assert server.asked == [
        {
            "model": "m",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
            "stream": False,
            "temperature": 0.0,
            "max_tokens": 5,
        }
    ]


async def test_complete_estimates_tokens_that_the_service_does_not_tell(
    model: OpenAIChatModel, server: Any, make_request: MakeRequest
) -> None:
    server.will_reply("Hello.")
    server.will_reply("Hello.", usage={"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0})
    for _ in range(2):
        usage = (await model.complete(make_request("one two three"))).usage
        assert usage.output_tokens == 2
        assert usage.input_tokens >= 3


@pytest.mark.parametrize("reason", ["length", "model_length", "content_filter"])
async def test_complete_tells_that_a_reply_was_cut(
    model: OpenAIChatModel, server: Any, make_request: MakeRequest, reason: str
) -> None:
    server.will_reply("Hel", reason=reason)
    assert not (await model.complete(make_request())).is_complete


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("<think>hm</think>\n\nHello", "Hello"),
        ([{"type": "thinking", "thinking": []}, {"type": "text", "text": "Hello"}], "Hello"),
    ],
)
async def test_complete_leaves_out_reasoning(
    model: OpenAIChatModel, server: Any, make_request: MakeRequest, content: object, text: str
) -> None:
    server.will_reply(content)
    assert (await model.complete(make_request())).text == text


@pytest.mark.parametrize("content", [None, "", " \n", "<think>and on and on"])
async def test_complete_refuses_an_empty_reply(
    model: OpenAIChatModel, server: Any, make_request: MakeRequest, content: str | None
) -> None:
    server.will_reply(content)
    with pytest.raises(BadModelReply, match="empty reply; try again"):
        await model.complete(make_request())


async def test_complete_says_when_a_reply_is_empty_because_it_was_cut(
    model: OpenAIChatModel, server: Any, make_request: MakeRequest
) -> None:
    server.will_reply("<think>and on", reason="length")
    with pytest.raises(BadModelReply, match="max_output_tokens"):
        await model.complete(make_request())


@pytest.mark.parametrize("body", [{}, {"choices": []}, {"choices": {"0": 1}}, {"error": None}, [], "odd", 3, None])
async def test_complete_refuses_what_is_no_completion(
    model: OpenAIChatModel, server: Any, make_request: MakeRequest, body: object
) -> None:
    server.will_send(body)
    with pytest.raises(BadModelReply, match="base_url"):
        await model.complete(make_request())


ODD_CHOICES: list[object] = [
    {},
    "odd",
    None,
    {"message": "odd", "delta": "odd"},
    {"message": {}, "delta": {}},
    {"message": {"content": 3}, "delta": {"content": 3}},
    {"message": {"content": ["odd", {"type": "text"}]}, "delta": {"content": [None]}},
]


@pytest.mark.parametrize("choice", ODD_CHOICES)
async def test_reply_of_an_odd_shape_is_a_bad_reply(
    model: OpenAIChatModel, server: Any, make_request: MakeRequest, choice: object
) -> None:
    server.will_send({"choices": [choice], "usage": "odd"})
    with pytest.raises(BadModelReply):
        await model.complete(make_request())
    server.will_send_events({"choices": [choice]}, {"usage": {"prompt_tokens": "odd"}}, [], 3, None, "[DONE]")
    with pytest.raises(BadModelReply):
        await pieces_of(model, make_request())


async def test_web_page_is_no_model_and_may_pass(
    model: OpenAIChatModel, server: Any, make_request: MakeRequest
) -> None:
    server.will_send("<html>", content_type="text/html")
    with pytest.raises(ModelUnavailable, match="base_url") as raised:
        await model.complete(make_request())
    assert raised.value.is_transient


async def test_complete_refuses_broken_json(model: OpenAIChatModel, server: Any, make_request: MakeRequest) -> None:
    server.will_send("x")
    server.scripts[-1].body = '{"choices": [{'
    with pytest.raises(BadModelReply, match="base_url"):
        await model.complete(make_request())


async def test_complete_sees_an_error_under_status_200(
    model: OpenAIChatModel, server: Any, make_request: MakeRequest
) -> None:
    server.will_send({"error": {"code": 429, "message": "slow down"}})
    with pytest.raises(RateLimited, match="slow down"):
        await model.complete(make_request())


async def test_complete_of_an_unknown_model_names_model_and_address(
    model: OpenAIChatModel, server: Any, make_request: MakeRequest
) -> None:
    server.will_refuse(404, "model 'm' not found")
    with pytest.raises(ModelUnavailable, match=rf"'m' at '{server.base_url}'.*check `model`"):
        await model.complete(make_request())


async def test_complete_where_nobody_listens_is_a_passing_outage(make_request: MakeRequest) -> None:
    model = OpenAIChatModel(ChatSettings(model="m", base_url="http://127.0.0.1:9/v1"))
    with pytest.raises(ModelUnavailable, match="base_url") as caught:
        await model.complete(make_request())
    assert caught.value.is_transient
    await model.close()


@pytest.mark.parametrize("text", ["\ud800 alone", "pair \ud83d\ude00", "nul \0 and 汉字"])
async def test_complete_sends_any_text(
    model: OpenAIChatModel, server: Any, make_request: MakeRequest, text: str
) -> None:
    server.will_reply("Hello.")
    await model.complete(make_request(text))
    sent = server.asked[0]["messages"][0]["content"]
    assert sent == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


async def test_key_is_sent_only_if_there_is_one(server: Any, make_request: MakeRequest) -> None:
    for key in ("sk-test-0123456789", ""):
        server.will_reply("Hello.")
        model = OpenAIChatModel(ChatSettings(model="m", base_url=server.base_url, api_key=key))
        await model.complete(make_request())
        await model.close()
    assert server.headers[0]["authorization"] == "Bearer sk-test-0123456789"
    assert "sk-" not in server.headers[1]["authorization"]


def test_name_tells_apart_what_samples_differently(settings: ChatSettings) -> None:
    variants = [{}, {"temperature": 0.7}, {"max_output_tokens": 9}, {"model": "n"}]
    names = [OpenAIChatModel(settings.model_copy(update=variant)).name for variant in variants]
    assert len(set(names)) == len(names)


async def test_stream_yields_pieces_and_tells_the_whole_at_the_end(
    model: OpenAIChatModel, server: Any, make_request: MakeRequest
) -> None:
    server.will_stream(
        "Hel", "lo", "", None, ".", usage={"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    )
    finished: list[ChatReply] = []
    assert await pieces_of(model, make_request(on_finish=finished.append)) == ["Hel", "lo", "."]
    assert finished == [ChatReply("Hello.", "m", Usage(7, 3))]
    assert server.asked[0]["stream_options"] == {"include_usage": True}


async def test_stream_leaves_out_reasoning(model: OpenAIChatModel, server: Any, make_request: MakeRequest) -> None:
    server.will_stream("<th", "ink>h", "m</thi", "nk>\n", "\nHel", "lo")
    assert await pieces_of(model, make_request()) == ["Hel", "lo"]


async def test_stream_shows_the_first_piece_before_the_last_has_come(
    model: OpenAIChatModel, server: Any, make_request: MakeRequest
) -> None:
    server.will_stream("Hel", hangs=True)
    pieces = model.stream(make_request())
    assert await anext(pieces) == "Hel"
    assert not server.left.is_set()
    await pieces.aclose()  # type: ignore[attr-defined]
    await asyncio.wait_for(server.left.wait(), 5)


async def test_stream_cancelled_while_it_waits_leaves_the_service(
    model: OpenAIChatModel, server: Any, make_request: MakeRequest
) -> None:
    server.will_stream("Hel", hangs=True)
    shown = asyncio.Event()

    async def read() -> None:
        async for _ in model.stream(make_request()):
            shown.set()

    task = asyncio.create_task(read())
    await asyncio.wait_for(shown.wait(), 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(server.left.wait(), 5)


async def test_complete_cancelled_leaves_the_service(
    model: OpenAIChatModel, server: Any, make_request: MakeRequest
) -> None:
    server.will_stream(hangs=True)
    task = asyncio.create_task(model.complete(make_request()))
    while not server.asked:  # noqa: ASYNC110 (the service has no event for it)
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(server.left.wait(), 5)


async def test_stream_without_a_reason_for_its_end_was_broken_off(
    model: OpenAIChatModel, server: Any, make_request: MakeRequest
) -> None:
    server.will_stream("Hello", reason=None)
    server.will_stream("Hello", reason="length")
    finished: list[ChatReply] = []
    for _ in range(2):
        assert await pieces_of(model, make_request(on_finish=finished.append)) == ["Hello"]
    assert [reply.is_complete for reply in finished] == [False, False]


async def test_stream_that_fails_midway_raises_after_its_pieces(
    model: OpenAIChatModel, server: Any, make_request: MakeRequest
) -> None:
    piece = {"choices": [{"index": 0, "delta": {"content": "Hel"}}]}
    server.will_send_events(piece, {"error": {"code": 500, "message": "slot failed"}})
    pieces = model.stream(make_request())
    assert await anext(pieces) == "Hel"
    with pytest.raises(ModelUnavailable, match="slot failed"):
        await anext(pieces)


async def test_stream_whose_connection_breaks_is_a_passing_outage(
    model: OpenAIChatModel, server: Any, make_request: MakeRequest
) -> None:
    server.will_stream("Hel", hangs=True)
    server.scripts[-1].hangs = False
    server.scripts[-1].headers["content-length"] = "99999"
    pieces = model.stream(make_request())
    assert await anext(pieces) == "Hel"
    with pytest.raises(ModelUnavailable, match="cannot be reached") as caught:
        await anext(pieces)
    assert caught.value.is_transient


async def test_stream_of_broken_events_is_a_bad_reply(
    model: OpenAIChatModel, server: Any, make_request: MakeRequest
) -> None:
    server.will_send_events("{broken")
    with pytest.raises(BadModelReply):
        await pieces_of(model, make_request())


@pytest.mark.parametrize("pieces", [(), ("",), ("<think>", "on and on")])
async def test_stream_refuses_an_empty_reply(
    model: OpenAIChatModel, server: Any, make_request: MakeRequest, pieces: tuple[str, ...]
) -> None:
    server.will_stream(*pieces)
    with pytest.raises(BadModelReply, match="empty"):
        await pieces_of(model, make_request())


async def test_json_mode_is_asked_for_where_wanted(
    model: OpenAIChatModel, server: Any, make_request: MakeRequest, settings: ChatSettings
) -> None:
    for _ in range(3):
        server.will_reply("{}")
    await model.complete(make_request("Give JSON", json_mode=True))
    await model.complete(make_request("Never speaks of it", json_mode=True))
    without = OpenAIChatModel(settings.model_copy(update={"json_mode": False}))
    await without.complete(make_request("Give JSON", json_mode=True))
    await without.close()
    assert [asked.get("response_format") for asked in server.asked] == [{"type": "json_object"}, None, None]


@pytest.mark.parametrize(
    "words",
    ["'response_format' is not supported", "'response_format.type' must be 'json_schema' or 'text'", "Bad Request"],
)
async def test_json_mode_refused_once_is_not_asked_for_again(
    model: OpenAIChatModel, server: Any, make_request: MakeRequest, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    server.will_refuse(400, words)
    server.will_reply("{}")
    server.will_reply("{}")
    for _ in range(2):
        assert (await model.complete(make_request("Give JSON", json_mode=True))).text == "{}"
    assert ["response_format" in asked for asked in server.asked] == [True, False, False]
    assert [record.levelno for record in caplog.records if record.name.startswith("heliograph")] == [logging.WARNING]


async def test_usage_in_streams_refused_once_is_not_asked_for_again(
    model: OpenAIChatModel, server: Any, make_request: MakeRequest
) -> None:
    server.will_refuse(422, "Extra inputs are not permitted: stream_options")
    server.will_stream("Hello")
    server.will_stream("Hello")
    finished: list[ChatReply] = []
    for _ in range(2):
        assert await pieces_of(model, make_request(on_finish=finished.append)) == ["Hello"]
    assert ["stream_options" in asked for asked in server.asked] == [True, False, False]
    assert all(reply.usage.output_tokens == 1 for reply in finished), "estimated"


async def test_reasoning_models_options_are_learned_one_by_one(
    model: OpenAIChatModel, server: Any, make_request: MakeRequest
) -> None:
    server.will_refuse(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'.", param="max_tokens")
    server.will_refuse(400, "Unsupported value: 'temperature' does not support 0. Only the default (1) is supported.")
    server.will_reply("Hello.")
    await model.complete(make_request(max_output_tokens=5))
    assert server.asked[-1] == {
        "model": "m",
        "messages": [{"role": "user", "content": "hello"}],
        "stream": False,
        "max_completion_tokens": 5,
    }


async def test_options_that_were_not_to_blame_are_asked_for_again(
    model: OpenAIChatModel, server: Any, make_request: MakeRequest
) -> None:
    server.will_refuse(400, "First error")
    server.will_refuse(400, "Second error")
    with pytest.raises(ModelUnavailable, match="First error"):
        await model.complete(make_request("Give JSON", json_mode=True))
    server.will_reply("{}")
    await model.complete(make_request("Give JSON", json_mode=True))
    assert ["response_format" in asked for asked in server.asked] == [True, False, True]


async def test_outage_while_options_are_learned_is_still_an_outage(
    model: OpenAIChatModel, server: Any, make_request: MakeRequest
) -> None:
    server.will_refuse(400, "response_format is not supported")
    server.will_refuse(503, "overloaded")
    with pytest.raises(ModelUnavailable, match="overloaded") as caught:
        await model.complete(make_request("Give JSON", json_mode=True))
    assert caught.value.is_transient


@pytest.mark.parametrize(
    ("status", "words", "kind"),
    [
        (400, "maximum context length is 10 tokens, response_format is not supported", ContextTooLong),
        (400, "temperature must be between 0 and 1", ModelUnavailable),
        (401, "response_format is not supported", ModelUnavailable),
    ],
)
async def test_other_refusals_are_not_tried_again(
    model: OpenAIChatModel, server: Any, make_request: MakeRequest, status: int, words: str, kind: type[Exception]
) -> None:
    server.will_refuse(status, words)
    with pytest.raises(kind):
        await model.complete(make_request("Give JSON", json_mode=True))
    assert len(server.asked) == 1


async def test_close_twice_does_nothing_and_calls_after_it_are_refused(
    model: OpenAIChatModel, make_request: MakeRequest
) -> None:
    await model.close()
    await model.close()
    with pytest.raises(ModelUnavailable, match="closed"):
        await model.complete(make_request())
    with pytest.raises(ModelUnavailable, match="closed"):
        await anext(model.stream(make_request()))


RECORD = '{"name": "Hester Tarrant", "type": "person", "description": "She keeps the light of Gannet Head."}, '


async def test_reply_that_repeats_itself_is_stopped_while_it_is_written(
    model: OpenAIChatModel, server: Any, make_request: MakeRequest
) -> None:
    opening = '{"entities": [{"name": "Gannet Head", "type": "location", "description": "A cape."}, '
    server.will_stream(opening, *[RECORD] * 400, hangs=True)
    reply = await model.complete(make_request(needed_tokens=5_000))
    await asyncio.wait_for(server.left.wait(), 10)
    assert reply.text.startswith(opening + RECORD)
    assert reply.text.count(RECORD) <= 2
    assert not reply.is_complete
    assert reply.usage.output_tokens < 1_000
    parsed = parse_extraction(reply.text, is_complete=reply.is_complete)
    assert [item.name for item in parsed.entities] == ["Gannet Head", "Hester Tarrant"]


async def test_stream_that_repeats_itself_ends(model: OpenAIChatModel, server: Any, make_request: MakeRequest) -> None:
    finished: list[ChatReply] = []
    server.will_stream("It turns. ", *["Once a minute. "] * 400, hangs=True)
    pieces = await pieces_of(model, make_request(on_finish=finished.append))
    await asyncio.wait_for(server.left.wait(), 10)
    assert len(pieces) < 100
    assert (finished[0].text, finished[0].is_complete) == ("".join(pieces), False)


async def test_reply_longer_than_its_task_can_need_is_cut(
    model: OpenAIChatModel, server: Any, make_request: MakeRequest
) -> None:
    server.will_stream(*[f"Fact {number} of many. " for number in range(2_000)], hangs=True)
    reply = await model.complete(make_request(needed_tokens=100))
    assert not reply.is_complete
    assert 300 < len(reply.text) < 500


async def test_length_that_is_set_is_meant(server: Any, settings: ChatSettings, make_request: MakeRequest) -> None:
    model = OpenAIChatModel(settings.model_copy(update={"max_output_tokens": 1_000}))
    server.will_stream(*[f"Fact {number}. " for number in range(200)])
    reply = await model.complete(make_request(needed_tokens=10))
    await model.close()
    assert reply.is_complete
    assert reply.text.endswith("Fact 199.")


@pytest.mark.parametrize("field", ["content", "reasoning_content", "reasoning"])
async def test_thoughts_may_be_long_but_not_go_round_in_circles(
    model: OpenAIChatModel, server: Any, make_request: MakeRequest, field: str
) -> None:
    tag = ("<think>", "</think>") if field == "content" else ("", "")
    thoughts = [f"On the one hand {number}, on the other {number * number}. " for number in range(500)]
    deltas = [{field: piece} for piece in (tag[0], *thoughts, tag[1])]
    events = [{"choices": [{"index": 0, "delta": delta}]} for delta in (*deltas, {"content": "Yes."})]
    server.will_send_events(*events, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}, "[DONE]")
    assert await model.complete(make_request(needed_tokens=20)) == ChatReply("Yes.", "m", ANY, True)
    loop = [{"choices": [{"index": 0, "delta": {field: tag[0] + "But wait. " * 30}}]}] * 40
    server.will_send_events(*loop, hangs=True)
    with pytest.raises(BadModelReply, match="empty reply, which may have been cut"):
        await model.complete(make_request(needed_tokens=20))


@pytest.mark.parametrize("refusal", [True, False])
async def test_service_that_does_not_stream_is_asked_for_whole_replies_from_then_on(
    model: OpenAIChatModel, server: Any, make_request: MakeRequest, *, refusal: bool
) -> None:
    if refusal:
        # Once more without the options that it may mean.
        server.will_refuse(400, "streaming is not supported: stream must be false")
        server.will_refuse(400, "streaming is not supported: stream must be false")
    else:
        server.will_reply("Hello.")
    server.will_reply("Hello.")
    server.will_reply("Again.")
    assert (await model.complete(make_request(needed_tokens=20))).text == "Hello."
    assert (await model.complete(make_request(needed_tokens=20))).text == "Again."
    assert [asked["stream"] for asked in server.asked][-2:] == [False, False]


async def test_outage_while_a_bounded_reply_is_asked_for_stays_one(
    model: OpenAIChatModel, server: Any, make_request: MakeRequest
) -> None:
    server.will_refuse(503, "the stream of requests is too much")
    server.will_refuse(503, "the stream of requests is too much")
    with pytest.raises(ModelUnavailable, match="too much"):
        await model.complete(make_request(needed_tokens=20))
    server.will_stream("Hello.")
    assert (await model.complete(make_request(needed_tokens=20))).text == "Hello."
