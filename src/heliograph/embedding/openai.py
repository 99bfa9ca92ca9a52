"""Embeddings of an OpenAI-compatible service, by the official SDK: OpenAI, vLLM, llama.cpp, Ollama and others.

One call is one HTTP request; if a service refuses vectors in base64, a second request asks for plain numbers. Batches,
retries, limits and timeouts are wrappers. Returned vectors are sorted, checked and normalised here.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import openai
from numpy.typing import NDArray

from heliograph.calls.openai import describe_service, error_from_body, open_openai_client, translate_openai_errors
from heliograph.embedding.base import EmbeddingInfo, EmbeddingKind, EmbeddingModel, Embeddings
from heliograph.errors import BadModelReply, ModelUnavailable, SettingsError
from heliograph.models import Usage
from heliograph.settings import EmbeddingSettings
from heliograph.text.tokens import cut_to_tokens

# Sent instead of an empty text, which services refuse.
_EMPTY = "."
# Prose has four or five characters per token; a text far beyond the limit is cut without counting its tokens.
_MAX_CHARACTERS_PER_TOKEN = 16


class OpenAIEmbeddingModel(EmbeddingModel):
    """An embedding model of an OpenAI-compatible service; texts above `max_input_tokens` are cut.

    The settings must have a `dimension` here (`connect` finds it out).

    Raises:
        SettingsError: The address or the key cannot be used, or the model's name or dimension is missing.
    """

    def __init__(self, settings: EmbeddingSettings) -> None:
        if not settings.model.strip():
            raise SettingsError("`embedding.model` is empty; name the model that the service is to use")
        if settings.dimension == 0:
            raise SettingsError(
                f"`embedding.dimension` is 0; set the length of the vectors of {settings.model!r}"
                + (", which `send_dimension` needs" if settings.send_dimension else "")
            )
        self._settings = settings
        self._service = describe_service("embedding model", settings.model, settings.base_url)
        self._client = open_openai_client(settings.base_url, settings.api_key, settings.timeout_seconds)
        # The identity of the vectors: model, requested length and prefixes; not the address.
        name = settings.model + (f"/{settings.dimension}" if settings.send_dimension else "")
        prefixes = f"{settings.query_prefix}\0{settings.document_prefix}"
        if prefixes != "\0":
            name += f"/prefixes-{hashlib.sha256(prefixes.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
        self._info = EmbeddingInfo(name, settings.dimension, settings.max_input_tokens)
        self._format: Literal["base64", "float"] = "base64"

    @classmethod
    async def connect(cls, settings: EmbeddingSettings) -> OpenAIEmbeddingModel:
        """Return a model; without a configured dimension, embed one text to learn it.

        Raises:
            SettingsError: As the constructor.
            ModelError: The service was called and failed.
        """
        if settings.dimension or settings.send_dimension or not settings.model.strip():
            return cls(settings)
        probe = cls(settings.model_copy(update={"dimension": 1}))
        try:
            embeddings = await probe._request([_EMPTY])
        finally:
            await probe.close()
        return cls(settings.model_copy(update={"dimension": embeddings.vectors.shape[1]}))

    @property
    def info(self) -> EmbeddingInfo:
        return self._info

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        """Embed texts with one request.

        Raises:
            BadModelReply: Vectors are missing, or not of the right number, length or form.
            ModelError: The request failed.
        """
        if not texts:
            return Embeddings(np.zeros((0, self._info.dimension), np.float32), Usage())
        settings, prepared = self._settings, list[str]()
        prefix = settings.query_prefix if kind == "query" else settings.document_prefix
        longest = settings.max_input_tokens * _MAX_CHARACTERS_PER_TOKEN
        for text in texts:
            # Lone surrogates cannot be sent, and NUL ends the text for services written in C.
            clean = text.encode("utf-8", "replace").decode().replace("\0", " ")
            sent = prefix + (clean[:longest] if clean.strip() else _EMPTY)
            prepared.append(cut_to_tokens(sent, settings.max_input_tokens))
        embeddings = await self._request(prepared)
        length = embeddings.vectors.shape[1]
        if length != self._info.dimension:
            raise BadModelReply(
                f"{self._service} sent vectors of length {length}, not {self._info.dimension}; correct "
                "`embedding.dimension`, or set it to 0"
            )
        return embeddings

    async def close(self) -> None:
        await self._client.close()

    async def _request(self, texts: list[str]) -> Embeddings:
        if self._client.is_closed():
            raise ModelUnavailable(f"{self._service} is closed; open the workspace again")
        with translate_openai_errors(self._service):
            reply = await self._create(texts)
        try:
            # The token count of the service, or an estimate if it gives none.
            count = getattr(getattr(reply, "usage", None), "prompt_tokens", None)
            if not isinstance(count, int) or not count:
                count = sum(len(text.encode()) // 4 + 1 for text in texts)
            return Embeddings(_vectors(reply, len(texts)), Usage(count))
        except (ValueError, TypeError, AttributeError) as error:
            # Some services report a failure under status 200; others answer with a web page.
            if reported := (getattr(reply, "model_extra", None) or {}).get("error"):
                raise error_from_body(reported, self._service) from None
            raise BadModelReply(
                f"{self._service} sent no usable vectors ({error}); check `model`, and that `base_url` is the address "
                "of an OpenAI-compatible service (it usually ends in /v1)"
            ) from None

    async def _create(self, texts: list[str]) -> Any:
        form = self._format
        try:
            return await self._send(texts, form)
        except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
            # A concurrent request may have changed the form meanwhile, so this request's own form counts.
            if form == "float" or not any(word in str(error) for word in ("encoding_format", "base64")):
                raise
            self._format = "float"
            return await self._send(texts, "float")

    async def _send(self, texts: list[str], form: Literal["base64", "float"]) -> Any:
        settings = self._settings
        wished: dict[str, Any] = {"dimensions": settings.dimension} if settings.send_dimension else {}
        return await self._client.embeddings.create(model=settings.model, input=texts, encoding_format=form, **wished)


def _vectors(reply: Any, count: int) -> NDArray[np.float32]:
    """Return the vectors of a reply in the order of the texts, `(count, length)`, each of length 1."""
    items = list(reply.data)
    if len(items) != count:
        raise ValueError(f"{len(items)} vectors for {count} texts")
    places = [getattr(item, "index", None) for item in items]
    if places != [None] * count:
        if set(places) != set(range(count)):
            raise ValueError(f"their indices are not 0 to {count - 1}")
        items.sort(key=lambda item: item.index)
    rows: list[NDArray[np.floating[Any]]] = []
    for embedding in (item.embedding for item in items):
        if isinstance(embedding, str):
            rows.append(np.frombuffer(base64.b64decode(embedding, validate=True), "<f4").astype(np.float64))
        else:
            rows.append(np.array(embedding, np.float64))
            if rows[-1].ndim != 1:
                raise ValueError("a vector that is not a list of numbers")
    if len({len(row) for row in rows}) != 1 or not len(rows[0]):
        raise ValueError("vectors of different or no length")
    vectors = np.stack(rows)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.all(np.isfinite(norms)) or not np.all(norms > 0):
        raise ValueError("a vector that is zero or not finite")
    return (vectors / norms).astype(np.float32)
