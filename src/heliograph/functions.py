"""Plain functions as models: a caller may pass one in place of a chat model, an embedding model or a reranker.

A function may be async, or sync, and then runs in a thread. Its exceptions become `ModelError`s, and its result is
checked, so that a mistake in it is an error that names the function and never a wrong answer.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import Any, cast

import numpy as np

from heliograph.chat.base import ChatModel, ChatReply, ChatRequest, estimate_usage
from heliograph.embedding.base import EmbeddingInfo, EmbeddingKind, EmbeddingModel, Embeddings
from heliograph.errors import BadModelReply, HeliographError, InvalidRequestError, ModelUnavailable, shown
from heliograph.models import Usage
from heliograph.rerank.base import Reranker, RerankHit

# Takes messages, `{"role": ..., "content": ...}`, oldest first; returns the reply.
ChatFunction = Callable[[list[dict[str, str]]], str | Awaitable[str]]
# Takes n texts; returns n vectors, `(n, dimension)`: an array or lists of numbers, of any length but zero.
EmbeddingFunction = Callable[[list[str]], Any]
# Takes a question and n passages; returns n scores, higher is better.
RerankFunction = Callable[[str, list[str]], Sequence[float] | Awaitable[Sequence[float]]]


class FunctionChatModel(ChatModel):
    """A chat model that calls a function from messages to a reply; its stream has one piece.

    Args:
        function: The function.
        name: Name under which its replies are cached; None for that of the function. Give each model its own name.
    """

    def __init__(self, function: ChatFunction, *, name: str | None = None) -> None:
        self._function, self._name = function, name or name_of(function)

    @property
    def name(self) -> str:
        return self._name

    async def complete(self, request: ChatRequest) -> ChatReply:
        messages = [{"role": message.role, "content": message.content} for message in request.messages]
        text = await call_function(self._name, self._function, messages)
        if not isinstance(text, str) or not text.strip():
            raise _bad_reply(self._name, text, "a text that is not empty")
        return ChatReply(text, self._name, await estimate_usage(request, text))

    async def stream(self, request: ChatRequest) -> AsyncIterator[str]:
        reply = await self.complete(request)
        yield reply.text
        if request.on_finish is not None:
            request.on_finish(reply)


class FunctionEmbeddingModel(EmbeddingModel):
    """An embedding model that calls a function from texts to vectors, and normalises these to length 1.

    Args:
        function: The function.
        dimension: Length of its vectors; `connect` finds it out.
        name: Model name that a workspace stores; None for the function's own. A workspace refuses an embedding model
            of another name.
        max_input_tokens: Most tokens of a text that it reads; chunk sizes follow from it.
    """

    def __init__(
        self, function: EmbeddingFunction, dimension: int, *, name: str | None = None, max_input_tokens: int = 512
    ) -> None:
        self._function = function
        self._info = EmbeddingInfo(name or name_of(function), dimension, max_input_tokens)

    @classmethod
    async def connect(cls, function: EmbeddingFunction) -> FunctionEmbeddingModel:
        """Return the model of a function; one call of it finds the dimension.

        Raises:
            ModelError: The function failed.
        """
        (vector,) = await _vectors(name_of(function), function, ["dimension"])
        return cls(function, len(vector))

    @property
    def info(self) -> EmbeddingInfo:
        return self._info

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:  # noqa: ARG002
        dimension, name = self._info.dimension, self._info.name
        if not texts:
            return Embeddings(np.zeros((0, dimension), np.float32), Usage())
        # Few functions accept an empty text or a lone surrogate.
        given = [text.encode("utf-8", "replace").decode() or "." for text in texts]
        vectors = await _vectors(name, self._function, given)
        if vectors.shape[1] != dimension:
            raise BadModelReply(f"the function {name!r} gave vectors of length {vectors.shape[1]}, not {dimension}")
        return Embeddings(vectors, Usage())


class FunctionReranker(Reranker):
    """A reranker that is a function from a question and passages to their scores.

    Args:
        function: The function.
        name: Under which answers made with it are kept; None for that of the function.
    """

    def __init__(self, function: RerankFunction, *, name: str | None = None) -> None:
        self._function, self._name = function, name or name_of(function)

    @property
    def name(self) -> str:
        return self._name

    async def rerank(self, query: str, documents: Sequence[str], top_n: int) -> list[RerankHit]:
        if not documents:
            return []
        given = await call_function(self._name, self._function, query, list(documents))
        try:
            scores = [float(score) for score in given]
        except (TypeError, ValueError):
            scores = []
        if len(scores) != len(documents) or not np.all(np.isfinite(scores)):
            raise _bad_reply(self._name, given, f"{len(documents)} scores, one a passage")
        order = sorted(range(len(scores)), key=lambda index: (-scores[index], index))
        return [RerankHit(index, scores[index]) for index in order[:top_n]]


def as_chat_model(given: ChatModel | ChatFunction) -> ChatModel:
    """Return a chat model, wrapping a plain function; raises `InvalidRequestError` if it is neither."""
    return given if isinstance(given, ChatModel) else FunctionChatModel(_checked(given, "chat_model", ChatModel))


async def as_embedding_model(given: EmbeddingModel | EmbeddingFunction) -> EmbeddingModel:
    """Return an embedding model, wrapping a plain function, which is called once for its dimension.

    Raises:
        InvalidRequestError: It is neither.
        ModelError: The function failed.
    """
    if isinstance(given, EmbeddingModel):
        return given
    return await FunctionEmbeddingModel.connect(_checked(given, "embedding", EmbeddingModel))


def as_reranker(given: Reranker | RerankFunction) -> Reranker:
    """Return a reranker, wrapping a plain function; raises `InvalidRequestError` if it is neither."""
    return given if isinstance(given, Reranker) else FunctionReranker(_checked(given, "reranker", Reranker))


def _checked(given: Any, what: str, kind: type) -> Callable[..., Any]:
    if not callable(given) or isinstance(given, type):
        raise InvalidRequestError(f"{what} is {shown(given, 80)}; give a heliograph.{kind.__name__} or a function")
    return cast("Callable[..., Any]", given)


async def call_function(name: str, function: Callable[..., Any], *args: object, **keywords: object) -> Any:
    """Call a function, in a thread unless it is async, and return its result; `ModelError`s call it `name`."""
    is_async = iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
    try:
        if is_async:
            return await function(*args, **keywords)
        result = await asyncio.to_thread(function, *args, **keywords)
        return await result if isawaitable(result) else result
    except HeliographError:
        raise
    except Exception as error:
        is_transient = isinstance(error, OSError | TimeoutError)
        raise ModelUnavailable(
            f"the function {name!r} failed: {type(error).__name__}: {error}", is_transient=is_transient
        ) from error


async def _vectors(name: str, function: EmbeddingFunction, texts: list[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return unit vectors, `(n, dimension)`."""
    given = await call_function(name, function, texts)
    wanted = f"{len(texts)} vectors of one length, finite and not zero, one a text"
    try:
        vectors = np.asarray(given, dtype=np.float32)
    except (TypeError, ValueError):
        raise _bad_reply(name, given, wanted) from None
    if vectors.ndim != 2 or len(vectors) != len(texts) or not vectors.shape[1]:
        raise _bad_reply(name, given, wanted)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.all(np.isfinite(norms)) or not np.all(norms > 0):
        raise _bad_reply(name, given, wanted)
    return vectors / norms


def _bad_reply(name: str, given: object, wanted: str) -> BadModelReply:
    return BadModelReply(f"the function {name!r} gave a {type(given).__name__}, {shown(given, 80)}; return {wanted}")


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function, module and qualified name, which cache keys contain.

    A `functools.partial` gets a hash of its bound arguments, which may be secret, to distinguish it from others.
    """
    if isinstance(function, partial):
        given = repr((function.args, sorted(function.keywords.items())))
        return f"{name_of(function.func)}#{hashlib.sha256(given.encode()).hexdigest()[:12]}"
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"
