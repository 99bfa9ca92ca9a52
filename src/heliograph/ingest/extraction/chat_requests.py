"""What a chat model is asked in order to read a chunk.

The system message is the same for all chunks, so that providers can reuse what they computed for it. The chunk, its
document's title and its headings are data: the chunk stands between two lines with a marker that follows from its
text, so that nothing written in it can end it early.
"""

from __future__ import annotations

import json
from dataclasses import replace
from string import Template

from heliograph.chat.base import ChatMessage, ChatRequest, Purpose
from heliograph.ids import content_hash
from heliograph.models import Chunk, Document
from heliograph.prompts import load_prompt
from heliograph.settings import IngestSettings

__all__ = ["ExtractionRequests", "data_marker"]

_LONGEST_LABEL = 300
# A record takes forty tokens, and dense prose has one every twelve, entities and relations together.
_NEEDED_PER_TOKEN = 4
_LEAST_NEEDED = 1024


def data_marker(text: str) -> str:
    """Return a line that fences `text` off from what is said about it, and does not occur in it."""
    return f"=== {content_hash(text)[:16]} ==="


class ExtractionRequests:
    """Builds the requests of one extractor; the same chunk always gives the same requests."""

    def __init__(self, settings: IngestSettings) -> None:
        self._is_json = settings.extraction_format == "json"
        system = Template(load_prompt("extract_json" if self._is_json else "extract_delimiter"))
        self._system = system.substitute(
            entity_types=", ".join(settings.entity_types),
            language=settings.language or "the language of the passage",
        )

    def first(self, document: Document, chunk: Chunk) -> ChatRequest:
        """Return the request that asks for what a chunk says."""
        text = Template(load_prompt("extract_text")).substitute(
            title=_label(document.title),
            headings=_label(" > ".join(chunk.headings)),
            marker=data_marker(chunk.text),
            text=chunk.text,
        )
        return self._request((ChatMessage("system", self._system), ChatMessage("user", text)), chunk)

    def again(self, request: ChatRequest, attempt: int, problem: str) -> ChatRequest:
        """Return a request once more after a reply that could not be used, different from the one before."""
        note = Template(load_prompt("extract_again")).substitute(
            attempt=attempt, problem=" ".join(problem.split())[:_LONGEST_LABEL]
        )
        *before, last = request.messages
        return replace(request, messages=(*before, ChatMessage(last.role, f"{last.content}\n{note}")))

    def more(self, request: ChatRequest, reply: str) -> ChatRequest:
        """Return the request that asks for what a reply passed over."""
        following = (ChatMessage("assistant", reply), ChatMessage("user", load_prompt("extract_more")))
        return replace(request, messages=(*request.messages, *following))

    def _request(self, messages: tuple[ChatMessage, ...], chunk: Chunk) -> ChatRequest:
        return ChatRequest(
            *(messages, Purpose.EXTRACT),
            json_mode=self._is_json,
            needed_tokens=_LEAST_NEEDED + _NEEDED_PER_TOKEN * chunk.token_count,
            subject_id=chunk.id,
        )


def _label(text: str) -> str:
    """Return a title as a quoted string on one line."""
    return json.dumps(" ".join(text.split())[:_LONGEST_LABEL], ensure_ascii=False)
