from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable

import numpy as np
import pytest
from tests.unit.embedding.conftest import EmbeddingServer

from heliograph.embedding.openai import OpenAIEmbeddingModel
from heliograph.errors import (
    BadModelReply,
    ContextTooLong,
    ModelError,
    ModelTimeout,
    ModelUnavailable,
    RateLimited,
    SettingsError,
)
from heliograph.settings import EmbeddingSettings

Make = Callable[..., EmbeddingSettings]


def _row(embedding: object, index: object = 0) -> dict[str, object]:
    return {"object": "embedding", "index": index, "embedding": embedding}


async def test_vectors_are_in_order_and_of_length_one(server: EmbeddingServer, settings: Make) -> None:
    model = OpenAIEmbeddingModel(settings())
    embeddings = await model.embed(["a", "bbbb", "cc"], "document")
    raw = np.array([[1, 1, 1], [4, 1, 1], [2, 1, 1]], np.float32)
    assert np.allclose(embeddings.vectors, raw / np.linalg.norm(raw, axis=1, keepdims=True))
    assert embeddings.vectors.dtype == np.float32
    assert embeddings.usage.input_tokens == 7
    assert server.asked[0] == {"model": "m", "input": ["a", "bbbb", "cc"], "encoding_format": "base64"}
    await model.close()
    await model.close()


async def test_no_text_asks_nothing(server: EmbeddingServer, settings: Make) -> None:
    model = OpenAIEmbeddingModel(settings())
    assert (await model.embed([], "query")).vectors.shape == (0, 3)
    assert server.asked == []
    await model.close()


async def test_prefixes_odd_texts_and_dimension_are_sent(server: EmbeddingServer, settings: Make) -> None:
    model = OpenAIEmbeddingModel(
        settings(query_prefix="Q: ", document_prefix="D: ", send_dimension=True, max_input_tokens=16)
    )
    await model.embed(["a\0b", "", "\ud800", "word " * 50], "query")
    await model.embed(["a"], "document")
    first, second = server.asked
    assert first["input"][:3] == ["Q: a b", "Q: .", "Q: ?"]
    assert len(first["input"][3]) < 100
    assert first["dimensions"] == 3
    assert second["input"] == ["D: a"]
    await model.close()


async def test_plain_numbers_are_asked_for_when_base64_is_refused(server: EmbeddingServer, settings: Make) -> None:
    server.scripts.append((400, {"error": {"message": "encoding_format 'base64' is not supported"}}))
    model = OpenAIEmbeddingModel(settings())
    first = await model.embed(["abc"], "query")
    second = await model.embed(["abc"], "query")
    assert np.array_equal(first.vectors, second.vectors)
    assert [asked["encoding_format"] for asked in server.asked] == ["base64", "float", "float"]
    await model.close()


async def test_base64_may_be_refused_to_several_requests_at_once(server: EmbeddingServer, settings: Make) -> None:
    server.refuses_base64 = True
    model = OpenAIEmbeddingModel(settings())
    replies = await asyncio.gather(*(model.embed(["abc"], "query") for _ in range(2)))
    assert np.array_equal(replies[0].vectors, replies[1].vectors)
    await model.close()


@pytest.mark.parametrize(
    "body",
    [
        "<html>hello</html>",
        {},
        {"data": None},
        {"data": []},
        {"data": [_row([1, 2, 3]), _row([1, 2, 3], 1)]},
        {"data": [_row([1, 2, 3], 5)]},
        {"data": [_row([0, 0, 0])]},
        {"data": [_row([1, float("nan"), 3])]},
        {"data": [_row([])]},
        {"data": [_row(["a", "b", "c"])]},
        {"data": [_row([[1, 2, 3]])]},
        {"data": [_row(None)]},
        {"data": [_row("not base64!")]},
        {"data": [_row(base64.b64encode(b"12345").decode())]},
        {"data": [_row([1, 2])]},
    ],
)
async def test_unusable_reply_is_refused(server: EmbeddingServer, settings: Make, body: object) -> None:
    server.scripts.append((200, body))
    model = OpenAIEmbeddingModel(settings())
    with pytest.raises(BadModelReply, match="'m'"):
        await model.embed(["a"], "query")
    await model.close()


async def test_reply_without_indices_or_usage_is_taken_in_order(server: EmbeddingServer, settings: Make) -> None:
    server.scripts.append((200, {"data": [{"embedding": [2, 0, 0]}, {"embedding": [0, 3, 0]}]}))
    model = OpenAIEmbeddingModel(settings())
    embeddings = await model.embed(["first text", "second"], "query")
    assert embeddings.vectors.tolist() == [[1, 0, 0], [0, 1, 0]]
    assert embeddings.usage.input_tokens == 5
    await model.close()


@pytest.mark.parametrize(
    ("status", "message", "error"),
    [
        (401, "bad key", ModelUnavailable),
        (404, "no such model", ModelUnavailable),
        (429, "slow down", RateLimited),
        (500, "oops", ModelUnavailable),
        (400, "maximum context length is 512 tokens", ContextTooLong),
        (200, "model is loading", ModelError),
    ],
)
async def test_failures_are_translated(
    server: EmbeddingServer, settings: Make, status: int, message: str, error: type[ModelError]
) -> None:
    server.scripts.append((status, {"error": {"message": message}}))
    model = OpenAIEmbeddingModel(settings())
    with pytest.raises(error):
        await model.embed(["a"], "query")
    assert len(server.asked) == 1
    await model.close()


async def test_silent_service_is_a_timeout(settings: Make) -> None:
    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    listening = await asyncio.start_server(never, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    async with listening:
        model = OpenAIEmbeddingModel(settings(base_url=address, timeout_seconds=0.1))
        with pytest.raises(ModelTimeout):
            await model.embed(["a"], "query")
        await model.close()


async def test_closed_model_says_so(server: EmbeddingServer, settings: Make) -> None:
    model = OpenAIEmbeddingModel(settings())
    await model.close()
    with pytest.raises(ModelUnavailable, match="closed"):
        await model.embed(["a"], "query")


async def test_connect_asks_for_a_missing_dimension_only(server: EmbeddingServer, settings: Make) -> None:
    server.dimension = 5
    model = await OpenAIEmbeddingModel.connect(settings(dimension=0))
    assert model.info.dimension == 5
    assert (await model.embed(["a"], "query")).vectors.shape == (1, 5)
    await model.close()
    given = await OpenAIEmbeddingModel.connect(settings(dimension=4))
    assert given.info.dimension == 4
    assert len(server.asked) == 2
    with pytest.raises(BadModelReply, match="length 5, not 4"):
        await given.embed(["a"], "query")
    await given.close()


async def test_settings_that_cannot_work_are_named(settings: Make) -> None:
    with pytest.raises(SettingsError, match=r"embedding\.model"):
        await OpenAIEmbeddingModel.connect(settings(model=" "))
    with pytest.raises(SettingsError, match="send_dimension"):
        await OpenAIEmbeddingModel.connect(settings(dimension=0, send_dimension=True))


async def test_name_tells_vectors_apart_that_cannot_be_compared(settings: Make) -> None:
    made = [settings(), settings(send_dimension=True), settings(query_prefix="a"), settings(document_prefix="a")]
    models = [OpenAIEmbeddingModel(one) for one in (*made, settings(base_url="http://127.0.0.1:1/v1"))]
    names = [model.info.name for model in models]
    assert len(set(names)) == 4
    assert names[0] == names[4]
    for model in models:
        await model.close()
