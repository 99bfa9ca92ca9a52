"""Rerankers that are services over HTTP, whichever form they speak.

One call is one request. Pieces, batches, retries, limits and timeouts are wrappers; `services` knows the forms and
`replies` reads what comes back.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import httpx

from heliograph._version import __version__
from heliograph.calls.address import checked_address, checked_key, shown_address
from heliograph.calls.httpx_errors import error_from_response, translate_httpx_errors
from heliograph.errors import BadModelReply, ModelUnavailable, SettingsError
from heliograph.rerank.base import Reranker, RerankHit
from heliograph.rerank.replies import read_results
from heliograph.rerank.services import find_service
from heliograph.settings import RerankSettings

# Services refuse an empty text; this stands for it.
_EMPTY = "."


class HttpReranker(Reranker):
    """A rerank service.

    Args:
        settings: Provider, model, address and key.

    Raises:
        SettingsError: The address is missing, or it or the key cannot be used.
    """

    def __init__(self, settings: RerankSettings) -> None:
        self._form = find_service(settings.provider)
        base_url = settings.base_url.strip()
        if not (base_url or self._form.address):
            raise SettingsError(
                f"`rerank.base_url` is empty; {settings.provider!r} is a service that you run, so say where"
            )
        self._model = settings.model.strip() or self._form.model
        self._url = checked_address(self._form.url(checked_address(base_url) if base_url else ""))
        self._key = checked_key(settings.api_key)
        self._name = f"{settings.provider or 'http'}:{self._model}"
        self._service = f"reranker {self._model!r} at {shown_address(self._url)!r}"
        headers = {"User-Agent": f"heliograph/{__version__}"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        self._client = httpx.AsyncClient(headers=headers, timeout=settings.timeout_seconds)

    @property
    def name(self) -> str:
        """Provider and model."""
        return self._name

    async def rerank(self, query: str, documents: Sequence[str], top_n: int) -> list[RerankHit]:
        """Return the service's hits, by one request.

        Raises:
            BadModelReply: The reply cannot be read, or names what was not sent.
            ModelError: The request failed.
        """
        if not documents or top_n < 1:
            return []
        if self._client.is_closed:
            raise ModelUnavailable(f"{self._service} is closed; open the workspace again")
        body = self._form.body(self._model, _sendable(query), [_sendable(text) for text in documents])
        with translate_httpx_errors(self._service):
            response = await self._client.post(self._url, json=body)
        if response.status_code >= 300:
            # A service's words may repeat the key, so they are not chained.
            raise error_from_response(response, self._service, self._key) from None
        hits = read_results(
            self._decoded(response), self._form.results_path, self._form.score_key, len(documents), self._service
        )
        return hits[:top_n]

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def _decoded(self, response: httpx.Response) -> object:
        try:
            return response.json()
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
            kind = response.headers.get("content-type", "no type")
            raise BadModelReply(
                f"{self._service} sent what is not JSON ({kind!r:.80}, {type(error).__name__}); check that `base_url` "
                "is the address of a rerank service"
            ) from None


def _sendable(text: str) -> str:
    """Return a text without lone surrogates, which cannot be sent, and NUL, which ends a text for some services."""
    clean = text.encode("utf-8", "replace").decode().replace("\0", " ")
    return clean if clean.strip() else _EMPTY
