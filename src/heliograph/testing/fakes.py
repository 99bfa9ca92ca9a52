"""Fake models for tests: chat, embedding and rerank, without network and without cost.

`FakeChatModel` gives scripted replies, records its requests, and can fail, wait, be held back, or break off a stream.
`FakeEmbeddingModel` embeds by hashed words: texts that share words are near, a thousand short texts take about ten
milliseconds. `FakeReranker` scores by shared words, or by a given function.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache

import numpy as np
from numpy.typing import NDArray

from heliograph.chat.base import ChatModel, ChatReply, ChatRequest, Purpose
from heliograph.embedding.base import USUAL_SCALE, EmbeddingInfo, EmbeddingKind, EmbeddingModel, Embeddings
from heliograph.errors import InvalidRequestError, ModelError, ModelUnavailable
from heliograph.models import Usage
from heliograph.rerank.base import Reranker, RerankHit
from heliograph.text.tokens import count_tokens

__all__ = ["FakeChatModel", "FakeEmbeddingModel", "FakeReplies", "FakeReranker"]


class _Fake:
    """The common part of the fakes: failures on demand, and whether they were closed."""

    def __init__(self) -> None:
        self._failures: deque[ModelError] = deque()
        self.is_closed = False

    def fail_next(self, *errors: ModelError) -> None:
        """Let the next calls fail, one with each of these errors."""
        self._failures.extend(errors)

    async def close(self) -> None:
        self.is_closed = True


# A chat model with scripted replies, for tests.
#
# It records the requests, and can fail, wait, be held back, and break off a stream midway. It counts tokens as the real
# models do, so budgets and accounting can be tested with it.

FakeReplies = str | Sequence[str] | Mapping[str, str] | Callable[[ChatRequest], str]


class FakeChatModel(_Fake, ChatModel):
    """Replies from a script.

    Args:
        replies: One text for all requests; texts to give in turn; a text per `Purpose` or per string that a message
            contains (the first that fits); or a function of the request.
        name: Name of the model.
        is_complete: Whether replies count as complete.
        delay_seconds: Wait before each reply, and before the first piece of each stream.
        piece_characters: Length of a stream's pieces.
        cut_stream_after: Pieces after which every stream fails with a transient `ModelUnavailable`; None means never.

    Attributes:
        requests: All requests in order of arrival, failed ones included.
        gate: If this event is given, calls wait until it is set.
        most_under_way: Most calls that were ever under way at once.
        cancelled: Calls that were cancelled, and streams that were left early.
    """

    def __init__(
        self,
        replies: FakeReplies = "",
        *,
        name: str = "fake",
        is_complete: bool = True,
        delay_seconds: float = 0.0,
        piece_characters: int = 8,
        cut_stream_after: int | None = None,
    ) -> None:
        super().__init__()
        self._replies = replies
        self._name = name
        self._is_complete = is_complete
        self._delay_seconds = delay_seconds
        self._piece_characters = piece_characters
        self._cut_stream_after = cut_stream_after
        self._given = 0
        self.requests: list[ChatRequest] = []
        self.gate: asyncio.Event | None = None
        self.under_way = 0
        self.most_under_way = 0
        self.cancelled = 0

    @property
    def name(self) -> str:
        return self._name

    async def complete(self, request: ChatRequest) -> ChatReply:
        with self._call(request):
            return await self._reply(request)

    async def stream(self, request: ChatRequest) -> AsyncIterator[str]:
        with self._call(request):
            reply = await self._reply(request)
            step = self._piece_characters
            for place, start in enumerate(range(0, len(reply.text), step)):
                if place == self._cut_stream_after:
                    raise ModelUnavailable(f"{self._name!r} broke off its stream", is_transient=True)
                yield reply.text[start : start + step]
                # Other tasks get their turn between two pieces, as with a real stream.
                await asyncio.sleep(0)
            if request.on_finish is not None:
                request.on_finish(reply)

    @contextmanager
    def _call(self, request: ChatRequest) -> Generator[None]:
        self.requests.append(request)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            yield
        except (asyncio.CancelledError, GeneratorExit):
            self.cancelled += 1
            raise
        finally:
            self.under_way -= 1

    async def _reply(self, request: ChatRequest) -> ChatReply:
        failure = self._failures.popleft() if self._failures else None
        if self.gate is not None:
            await self.gate.wait()
        await asyncio.sleep(self._delay_seconds)
        if failure is not None:
            raise failure
        text = self._text(request)
        read = sum(count_tokens(message.content) for message in request.messages)
        return ChatReply(text, self._name, Usage(read, count_tokens(text)), self._is_complete)

    def _text(self, request: ChatRequest) -> str:
        replies = self._replies
        if isinstance(replies, str):
            return replies
        if isinstance(replies, Mapping):
            said = [message.content for message in request.messages]
            for key, text in replies.items():
                # A Purpose is also a str, so it is checked first.
                if key is request.purpose if isinstance(key, Purpose) else any(key in content for content in said):
                    return text
            raise InvalidRequestError(f"no reply is scripted for {request!r}; add one to the mapping")
        if callable(replies):
            return replies(request)
        if self._given >= len(replies):
            raise InvalidRequestError(f"{self._name!r} has given all its {len(replies)} replies; give it more")
        self._given += 1
        return replies[self._given - 1]


# An embedding of hashed words, for tests and for measuring what everything but the model costs.
#
# Each word has one row of a fixed random table, a text is the normalised sum of its words' rows: texts that share
# words are near, equal texts are equal, and a thousand short texts take about ten milliseconds.

# Chinese is written without spaces, so each of its characters counts as a word.
_WORD = re.compile(r"[\u4e00-\u9fff]|[^\W\u4e00-\u9fff]+")
_TABLE_ROWS = 1 << 14
# Every text begins with this row, so that a text without words has a vector as well.
_START_ROW = 0


class FakeEmbeddingModel(_Fake, EmbeddingModel):
    """Embeds by shared words, or fails and waits as configured.

    Args:
        dimension: Length of the vectors.
        name: Name of the model.
        max_input_tokens: The value in `info`; longer texts are embedded whole.
        min_score: The value in `info`.
        delay_seconds: How long each call takes; may be changed at any time.
        record: Whether to record the requests in `calls`.

    Attributes:
        calls: All calls in order of arrival, as kind and texts.
    """

    def __init__(
        self,
        dimension: int = 64,
        *,
        name: str = "fake",
        max_input_tokens: int = 512,
        min_score: float = 0.0,
        delay_seconds: float = 0.0,
        record: bool = True,
    ) -> None:
        super().__init__()
        self._info = EmbeddingInfo(name, dimension, max_input_tokens, min_score, USUAL_SCALE)
        self._record = record
        self.delay_seconds = delay_seconds
        self.calls: list[tuple[EmbeddingKind, tuple[str, ...]]] = []

    @property
    def info(self) -> EmbeddingInfo:
        return self._info

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        if self._record:
            self.calls.append((kind, tuple(texts)))
        if self.delay_seconds:
            await asyncio.sleep(self.delay_seconds)
        if self._failures:
            raise self._failures.popleft()
        found = (_WORD.findall(text.casefold()) for text in texts)
        words = [
            [_START_ROW, *(zlib.crc32(word.encode("utf-8", "surrogatepass")) % _TABLE_ROWS for word in of_text)]
            for of_text in found
        ]
        if not words:
            return Embeddings(np.zeros((0, self._info.dimension), np.float32), Usage())
        rows = np.fromiter((row for text in words for row in text), np.intp)
        starts = np.cumsum([0, *(len(text) for text in words[:-1])])
        sums = np.add.reduceat(_table(self._info.dimension)[rows], starts, axis=0)
        return Embeddings(sums / np.linalg.norm(sums, axis=1, keepdims=True), Usage(len(rows)))


@cache
def _table(dimension: int) -> NDArray[np.float32]:
    table = np.random.default_rng(0).standard_normal((_TABLE_ROWS, dimension), dtype=np.float32)
    # Half as long as a word, so that texts without a word in common stay far apart.
    table[_START_ROW] *= 0.5
    return table


class FakeReranker(_Fake, Reranker):
    """Scores each document on its own; equal scores keep the order given.

    Args:
        score: Score of a document for a question; by default the share of the question's words found in it.
        name: Name of the model.

    Attributes:
        calls: All calls in order of arrival, as question, documents and `top_n`.
    """

    def __init__(self, score: Callable[[str, str], float] | None = None, *, name: str = "fake") -> None:
        super().__init__()
        self._score = score
        self._name = name
        self.calls: list[tuple[str, tuple[str, ...], int]] = []

    @property
    def name(self) -> str:
        return self._name

    async def rerank(self, query: str, documents: Sequence[str], top_n: int) -> list[RerankHit]:
        self.calls.append((query, tuple(documents), top_n))
        if self._failures:
            raise self._failures.popleft()
        wanted = set(_WORD.findall(query.casefold()))

        def shared_words(_: str, text: str) -> float:
            return len(wanted.intersection(_WORD.findall(text.casefold()))) / len(wanted) if wanted else 0.0

        score = self._score or shared_words
        hits = [RerankHit(index, score(query, text)) for index, text in enumerate(documents)]
        return sorted(hits, key=lambda hit: -hit.score)[: max(top_n, 0)]
