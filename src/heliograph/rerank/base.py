"""Rerankers: the contract (question and passages in, passages by relevance out), wrappers, and that of the settings.

Wrappers limit calls, split long texts into pieces and many texts into batches. A chat model may be a reranker, too.
"""

from __future__ import annotations

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module

from heliograph.calls.limit import CallGuard, RetryPolicy
from heliograph.calls.tasks import run_together
from heliograph.chat.base import ChatMessage, ChatModel, ChatRequest, Purpose
from heliograph.errors import BadModelReply, ModelUnavailable, RateLimited
from heliograph.prompts import load_prompt
from heliograph.settings import RerankSettings
from heliograph.text.tokens import token_ends


@dataclass(frozen=True, slots=True)
class RerankHit:
    """`index` into the given documents, and the relevance `score`, higher is better."""

    index: int
    score: float


class Reranker(ABC):
    """Orders passages by how well they answer a question."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Identity of the model, part of the answer cache's key."""

    @abstractmethod
    async def rerank(self, query: str, documents: Sequence[str], top_n: int) -> list[RerankHit]:
        """Return up to `top_n` hits, best first, each index at most once; no documents give an empty list.

        Raises:
            ModelError: The model failed; its subclass says how.
        """

    async def close(self) -> None:  # noqa: B027 (most rerankers hold nothing)
        """Release connections; closing twice does nothing."""


class WrapperReranker(Reranker):
    """Wraps the reranker inside, which is closed with it; subclasses change how it is called."""

    def __init__(self, inner: Reranker) -> None:
        self.inner = inner

    @property
    def name(self) -> str:
        return self.inner.name

    async def close(self) -> None:
        await self.inner.close()


class GuardedReranker(WrapperReranker):
    """Calls a reranker within limits.

    A caller waits for the answer, and the search has an order of its own, so when a service asks for a longer wait than
    the guard allows, the call fails at once. Only queries rerank, so all calls are equal and wait in order of arrival.
    """

    def __init__(self, inner: Reranker, guard: CallGuard) -> None:
        super().__init__(inner)
        self._guard = guard

    async def rerank(self, query: str, documents: Sequence[str], top_n: int) -> list[RerankHit]:
        async def attempt() -> list[RerankHit]:
            try:
                return await self.inner.rerank(query, documents, top_n)
            except RateLimited as error:
                wait_seconds = error.retry_after_seconds or 0
                if wait_seconds > self._guard.retries.max_retry_after_seconds:
                    raise ModelUnavailable(f"{error} (it asks to wait {wait_seconds:.0f} seconds)") from error
                raise

        return await self._guard.call(attempt, f"reranker {self.name!r} gave no reply")


# Wrappers that make texts fit a reranker: long ones in pieces, many in batches.
#
# A document gets the score of its best piece (MaxP: Dai and Callan, "Deeper Text Understanding for IR with Contextual
# Neural Language Modeling", SIGIR 2019). Cross-encoders score each text on its own, so the scores of different batches
# compare.

# Neighbouring pieces overlap by this fraction of a piece, so that a sentence cut in one is whole in the other.
_OVERLAP = 8
# Bounds the longest text that surely fits: a token has at least one byte, and a character at most four.
_MOST_BYTES_PER_CHARACTER = 4


class SplittingReranker(WrapperReranker):
    """Scores long documents in pieces of `max_tokens` (o200k_base); the best piece's score counts."""

    def __init__(self, inner: Reranker, max_tokens: int) -> None:
        super().__init__(inner)
        self._max_tokens = max_tokens

    @property
    def name(self) -> str:
        """The inner reranker's name with the length of pieces, which changes scores."""
        return f"{self.inner.name}/{self._max_tokens}"

    async def rerank(self, query: str, documents: Sequence[str], top_n: int) -> list[RerankHit]:
        if not documents or top_n < 1:
            return []
        parts = await asyncio.to_thread(lambda: [split_text(document, self._max_tokens) for document in documents])
        pieces = [piece for of_document in parts for piece in of_document]
        owners = [place for place, of_document in enumerate(parts) for _ in of_document]
        if len(pieces) == len(documents):
            return await self.inner.rerank(query, documents, top_n)
        best: dict[int, float] = {}
        for hit in await self.inner.rerank(query, pieces, len(pieces)):
            owner = owners[hit.index]
            best[owner] = max(hit.score, best.get(owner, hit.score))
        return _ordered(best)[:top_n]


class BatchingReranker(WrapperReranker):
    """Splits a call into several, which run concurrently (as far as an inner limit allows)."""

    def __init__(self, inner: Reranker, max_documents: int) -> None:
        super().__init__(inner)
        self._max_documents = max_documents

    async def rerank(self, query: str, documents: Sequence[str], top_n: int) -> list[RerankHit]:
        """Return the hits of all batches; one that fails cancels the others, and its error is raised."""
        size = self._max_documents
        if len(documents) <= size:
            return await self.inner.rerank(query, documents, top_n)
        starts = range(0, len(documents), size)
        batches = [documents[start : start + size] for start in starts]
        found = await run_together(*(self.inner.rerank(query, batch, len(batch)) for batch in batches))
        scores = {start + hit.index: hit.score for start, hits in zip(starts, found, strict=True) for hit in hits}
        return _ordered(scores)[: max(top_n, 0)]


def split_text(text: str, max_tokens: int) -> list[str]:
    """Split a text into overlapping pieces of at most `max_tokens` tokens; a text that fits stays whole.

    Neighbours share about an eighth of a piece; together the pieces cover the text.
    """
    if len(text) * _MOST_BYTES_PER_CHARACTER <= max_tokens:
        return [text]
    ends = token_ends(text)
    if len(ends) <= max_tokens:
        return [text]
    step = max_tokens - max_tokens // _OVERLAP
    starts = range(0, len(ends) - max_tokens // _OVERLAP, step)
    borders = [
        (int(ends[start - 1]) if start else 0, int(ends[min(start + max_tokens, len(ends)) - 1])) for start in starts
    ]
    return [text[begin:end] for begin, end in borders]


def _ordered(scores: dict[int, float]) -> list[RerankHit]:
    hits = (RerankHit(index, score) for index, score in scores.items())
    return sorted(hits, key=lambda hit: (-hit.score, hit.index))


# A chat model as reranker: it reads the question and the first passages together, and returns an order.
#
# Listwise, after RankGPT (Sun et al., "Is ChatGPT Good at Search?", EMNLP 2023): one call for all passages, so that
# they are compared with each other, and a list of their numbers in return. Passages that the model omits keep the order
# of the search, after those that it named.

# How many passages are read at once; later ones keep their positions.
_MOST_PASSAGES = 20
# Length of the reply: a number, brackets and a comma per passage, and some words around them.
_NEEDED_TOKENS = 512
_NUMBER = re.compile(r"(?<![\w.])\d{1,2}(?![\w.]*\d)")


class ChatReranker(Reranker):
    """Asks a chat model for the order of the first 20 passages, cut to `max_tokens`.

    The caller closes the model.
    """

    def __init__(self, chat: ChatModel, max_tokens: int) -> None:
        self._chat = chat
        self._max_tokens = max_tokens

    @property
    def name(self) -> str:
        """The chat model's name, and how much it reads."""
        return f"chat:{self._chat.name}/{self._max_tokens}"

    async def rerank(self, query: str, documents: Sequence[str], top_n: int) -> list[RerankHit]:
        """Return all passages in the model's order, up to `top_n`; scores fall evenly from 1 and only reflect ranks.

        Raises:
            ModelError: The model failed; `BadModelReply` if it names no passage.
        """
        if top_n < 1 or len(documents) < 2:
            return [RerankHit(index, 1.0) for index in range(min(len(documents), max(top_n, 0)))]
        read = documents[:_MOST_PASSAGES]
        passages = await asyncio.to_thread(lambda: "\n\n".join(map(self._shown, range(1, len(read) + 1), read)))
        messages = (
            ChatMessage("system", load_prompt("rerank")),
            ChatMessage("user", f"{passages}\n\nQuestion: {query}"),
        )
        request = ChatRequest(messages, Purpose.RERANK, needed_tokens=_NEEDED_TOKENS)
        reply = (await self._chat.complete(request)).text
        numbers = [int(number) - 1 for number in _NUMBER.findall(reply)]
        named = dict.fromkeys(index for index in numbers if 0 <= index < len(read))
        if not named:
            raise BadModelReply(f"the reply names no passage: {reply!r:.200}; try a more capable chat model")
        order = dict.fromkeys((*named, *range(len(documents))))
        return [RerankHit(index, 1 - place / len(order)) for place, index in enumerate(order)][:top_n]

    def _shown(self, number: int, passage: str) -> str:
        """Return a passage on one line after its number, cut to its share of the tokens."""
        ends = token_ends(passage)
        cut = passage if len(ends) <= self._max_tokens else passage[: int(ends[self._max_tokens - 1])]
        return f"[{number}] {' '.join(cut.split())}"


# Builds the reranker of the settings, with its wrappers in the one order that works.
#
# From the outside in: splitting, so that batches are made of pieces; batching, so that each request is retried, queued
# and timed on its own; then the wrappers of `wrap_reranker`. The local cross-encoder makes its own batches and has no
# network to guard against, so it gets splitting, and a limit of one question at a time, since each uses all cores.
# Providers are imported on use.


async def build_reranker(settings: RerankSettings) -> Reranker | None:
    """Return the reranker of the settings, or None when they name neither a provider nor an address, or the chat model.

    Does not call or load anything yet.

    Raises:
        SettingsError: A setting that the provider needs is missing or wrong.
        MissingDependencyError: The extra that the provider needs is not installed.
    """
    if settings.provider == "chat" or (not settings.provider and not settings.base_url.strip()):
        return None
    if settings.provider == "onnx":
        module = await asyncio.to_thread(import_module, "heliograph.rerank.onnx")
        local = await asyncio.to_thread(module.OnnxReranker, settings)
        return SplittingReranker(GuardedReranker(local, CallGuard(1)), settings.max_document_tokens)
    module = await asyncio.to_thread(import_module, "heliograph.rerank.http")
    model = module.HttpReranker(settings)
    policy = RetryPolicy(settings.max_retries, max_retry_after_seconds=settings.timeout_seconds)
    guarded = GuardedReranker(model, CallGuard(settings.max_concurrency, settings.timeout_seconds, policy))
    return SplittingReranker(BatchingReranker(guarded, settings.max_batch_documents), settings.max_document_tokens)
