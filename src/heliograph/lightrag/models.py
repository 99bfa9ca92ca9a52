"""Adapters that make our models from LightRAG's functions: for chat, embedding, reranking and chunking.

A chat function gets the last message as `prompt`, and `system_prompt`, `history_messages`, `response_format`, `stream`,
`hashing_kv` and the program's own keywords, as far as it accepts them. Its exceptions become `ModelError`s.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from heliograph.chat.base import ChatModel, ChatReply, ChatRequest, Purpose, estimate_usage
from heliograph.embedding.base import EmbeddingInfo, EmbeddingKind, EmbeddingModel, Embeddings
from heliograph.errors import BadModelReply, HeliographError, IngestError, ModelTimeout, ModelUnavailable, shown
from heliograph.functions import call_function
from heliograph.ingest.chunking import Chunker, Span, place_chunks
from heliograph.lightrag.llm_roles import ChatRoles
from heliograph.lightrag.utils import EmbeddingFunc, TokenizerInterface
from heliograph.models import Chunk, Usage
from heliograph.rerank.base import Reranker, RerankHit
from heliograph.text.tokens import count_tokens

# The usual limit of services, for functions without a stated one.
_MOST_INPUT_TOKENS = 8192
_ROLES = {
    Purpose.EXTRACT: "extract",
    Purpose.SUMMARY: "extract",
    Purpose.KEYWORDS: "keyword",
    Purpose.ANSWER: "query",
    Purpose.RERANK: "query",
}


class LightragChatModel(ChatModel):
    """A chat model that calls `llm_model_func`, or other functions for some of its roles."""

    def __init__(self, roles: ChatRoles, name: str, config: Mapping[str, Any]) -> None:
        self._roles, self._name = roles, name
        self._kept = SimpleNamespace(global_config=dict(config))

    @property
    def name(self) -> str:
        return self._name

    async def complete(self, request: ChatRequest) -> ChatReply:
        reply = await self._call(request, is_stream=False)
        if isinstance(reply, AsyncIterator):
            reply = "".join([piece async for piece in cast("AsyncIterator[str]", reply)])
        if not isinstance(reply, str) or not reply.strip():
            raise BadModelReply(f"the function {self._name!r} gave {shown(reply, 80)}; return a text that is not empty")
        return ChatReply(reply, self._name, await estimate_usage(request, reply))

    async def stream(self, request: ChatRequest) -> AsyncIterator[str]:
        reply = await self._call(request, is_stream=True)
        pieces: list[str] = []
        if isinstance(reply, str):
            pieces.append(reply)
            yield reply
        else:
            try:
                async for piece in reply:
                    pieces.append(piece)
                    yield piece
            except HeliographError:
                raise
            except Exception as error:
                raise ModelUnavailable(f"the function {self._name!r} failed while it streamed: {error}") from error
        if request.on_finish is not None:
            text = "".join(pieces)
            request.on_finish(ChatReply(text, self._name, await estimate_usage(request, text)))

    async def _call(self, request: ChatRequest, *, is_stream: bool) -> Any:
        role = self._roles.role(_ROLES[request.purpose])
        messages = [{"role": message.role, "content": message.content} for message in request.messages]
        system = messages.pop(0)["content"] if messages[0]["role"] == "system" else None
        prompt = messages.pop()["content"]
        keywords: dict[str, Any] = {"hashing_kv": self._kept, **role.keywords, "system_prompt": system}
        if messages or request.purpose is Purpose.ANSWER:
            keywords["history_messages"] = messages
        if request.json_mode:
            keywords["response_format"] = {"type": "json_object"}
        if request.purpose is Purpose.ANSWER:
            keywords |= {"enable_cot": True, "stream": is_stream}
        taken = _taken(role.function, keywords)
        async with role.limit.slot(0) if role.limit else nullcontext():
            try:
                async with asyncio.timeout(role.timeout_seconds):
                    return await call_function(self._name, role.function, prompt, **taken)
            except TimeoutError:
                raise ModelTimeout(
                    f"the function {self._name!r} took more than {role.timeout_seconds} s; raise its role's timeout"
                ) from None


def _taken(function: Callable[..., Any], keywords: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords that a function accepts."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return keywords
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return keywords
    names = {parameter.name for parameter in parameters}
    return {name: value for name, value in keywords.items() if name in names}


class LightragEmbeddingModel(EmbeddingModel):
    """An `EmbeddingFunc` as an embedding model; vectors are normalised to length 1."""

    def __init__(self, function: EmbeddingFunc, min_score: float) -> None:
        # As in LightRAG, a model without a name may be exchanged for another with vectors of the same length.
        name = function.model_name or "embedding_func"
        tokens = function.max_token_size or _MOST_INPUT_TOKENS
        self._function = function
        self._info = EmbeddingInfo(name, function.embedding_dim, tokens, min_score)

    @property
    def info(self) -> EmbeddingInfo:
        return self._info

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        dimension = self._info.dimension
        if not texts:
            return Embeddings(np.zeros((0, dimension), np.float32), Usage())
        given = [text.encode("utf-8", "replace").decode() or "." for text in texts]
        vectors = await call_function(self._info.name, self._function, given, context=kind)
        vectors = np.asarray(vectors, np.float32).reshape(len(texts), dimension)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.all(np.isfinite(norms)):
            raise BadModelReply(f"the embedding function {self._info.name!r} gave numbers that are not finite")
        # A text without a word that a toy embedding knows gets a vector that is near nothing.
        first_axis = np.eye(1, dimension, dtype=np.float32)
        return Embeddings(np.where(norms > 0, vectors / np.where(norms > 0, norms, 1), first_axis), Usage())


class LightragReranker(Reranker):
    """A `rerank_model_func`: from `query`, `documents` and `top_n` to dicts of `index` and `relevance_score`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._name = getattr(function, "__qualname__", type(function).__qualname__)

    @property
    def name(self) -> str:
        return self._name

    async def rerank(self, query: str, documents: Sequence[str], top_n: int) -> list[RerankHit]:
        if not documents:
            return []
        given = await call_function(
            self._name, self._function, query=query, documents=list(documents), top_n=min(top_n, len(documents))
        )
        hits: dict[int, RerankHit] = {}
        for item in cast("Sequence[Mapping[str, Any]]", given or ()):
            try:
                index, score = int(item["index"]), float(item["relevance_score"])
            except (KeyError, TypeError, ValueError) as error:
                raise BadModelReply(
                    f"the rerank function {self._name!r} gave {shown(item, 80)}; give `index` and `relevance_score`"
                ) from error
            if 0 <= index < len(documents) and np.isfinite(score):
                hits.setdefault(index, RerankHit(index, score))
        if not hits:
            raise BadModelReply(f"the rerank function {self._name!r} ranked none of {len(documents)} texts")
        return sorted(hits.values(), key=lambda hit: (-hit.score, hit.index))[:top_n]


@dataclass(slots=True)
class _Cut:
    """How to split one document, remembered until it is split."""

    separator: str | None = None
    only: bool = False
    pieces: Sequence[str] | None = None


@dataclass(slots=True)
class LightragChunker(Chunker):
    """Splits texts by `chunking_func`, by default into windows of tokens as LightRAG does.

    The split options of an `insert` call, and ready-made pieces, are stored per document until it is split.
    """

    tokenizer: TokenizerInterface
    function: Callable[..., Any]
    max_tokens: int
    overlap_tokens: int
    _cuts: dict[str, _Cut] = field(default_factory=dict[str, _Cut])

    def note(self, document_id: str, separator: str | None, *, only: bool) -> None:
        """Split a document at a separator first, or only there."""
        self._cuts[document_id] = _Cut(separator, only)

    def note_pieces(self, document_id: str, pieces: Sequence[str]) -> None:
        """Split a document into these pieces, each of which occurs in its text."""
        self._cuts[document_id] = _Cut(pieces=pieces)

    def chunk(self, document_id: str, text: str, page_starts: Sequence[int] = ()) -> list[Chunk]:  # noqa: ARG002
        cut = self._cuts.get(document_id, _Cut())
        pieces = self._pieces(text, cut) if cut.pieces is None else cut.pieces
        placed: list[tuple[str, Span]] = []
        begin = 0
        for piece in pieces:
            # A window of tokens may begin or end within a character, which then belongs to its neighbour.
            content = piece.strip() if piece.strip() in text else piece.strip().strip("\ufffd").strip()
            if not content:
                continue
            start = text.find(content, begin)
            start = text.find(content) if start < 0 else start
            if start < 0:
                raise IngestError(
                    f"the chunking function gave a chunk that is not in the text of {document_id!r}: "
                    f"{shown(content, 80)}; it may cut a text but not write one"
                )
            placed.append((content, Span(start, start + len(content), count_tokens(content))))
            begin = start + 1
        self._cuts.pop(document_id, None)
        return place_chunks(document_id, placed)

    def _pieces(self, text: str, cut: _Cut) -> list[str]:
        arguments = (self.tokenizer, text, cut.separator, cut.only, self.overlap_tokens, self.max_tokens)
        try:
            found = self.function(*arguments)
            if inspect.isawaitable(found):
                # Texts are split in threads without an event loop, or, if short, in the engine's loop.
                found = _awaited(found)
        except HeliographError:
            raise
        except Exception as error:
            raise IngestError(f"the chunking function failed: {type(error).__name__}: {error}") from error
        items = sorted(cast("list[dict[str, Any]]", found), key=lambda item: item.get("chunk_order_index", 0))
        return [str(item["content"]) for item in items]


def _awaited(found: Any) -> Any:
    async def wait() -> Any:
        return await found

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, wait()).result()
