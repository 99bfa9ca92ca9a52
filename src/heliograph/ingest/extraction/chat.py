"""Extraction by a chat model: one call per chunk, further passes for what was missed, further tries where it failed.

All chunks of a document are asked for at once; how many calls are under way is the chat model's limit to keep. What
comes back is read leniently (`replies`). A chunk whose replies stay unusable, or that the service would not answer in
time, gets an `Extraction` with an error while the others are kept; a service that is down fails them all. Tokens are
counted for what this run spent, not for replies that were in the cache.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from heliograph.chat.base import ChatModel, ChatReply, ChatRequest
from heliograph.errors import BadModelReply, ContextTooLong, ModelTimeout, RateLimited
from heliograph.ingest.extraction.base import Extractor, ignore_progress
from heliograph.ingest.extraction.chat_mentions import ReadRecords, to_aliases, to_mentions
from heliograph.ingest.extraction.chat_requests import ExtractionRequests
from heliograph.ingest.extraction.replies import ParsedExtraction, parse_extraction
from heliograph.ingest.tasks import gather_or_cancel
from heliograph.models import Chunk, Document, Extraction, Usage
from heliograph.settings import IngestSettings
from heliograph.text.tokens import count_tokens

__all__ = ["ChatExtractor"]

_log = logging.getLogger(__name__)

# A conversation longer than this is not carried on for what was missed: the passage is lost in it.
_MAX_GLEANING_TOKENS = 20_480
# A chunk this short may say nothing; a reply to it without records is taken as such.
_TRIVIAL_TOKENS = 12
# Chunks of one document that wait for the model at once; more would only take memory.
_MAX_WAITING = 256

# What concerns one chunk; any other model error concerns the service.
_CHUNK_ERRORS = (BadModelReply, ContextTooLong, ModelTimeout, RateLimited)


@dataclass(slots=True)
class _Ledger:
    """What the calls for one chunk left behind."""

    reply_keys: dict[str, None] = field(default_factory=dict[str, None])
    usage: Usage = field(default_factory=Usage)

    def enter(self, reply: ChatReply) -> None:
        if reply.cache_key:
            self.reply_keys[reply.cache_key] = None
        if not reply.from_cache:
            self.usage += reply.usage


@dataclass(frozen=True, slots=True)
class _Answer:
    """A usable reply, what was read in it, and the request that it answers."""

    request: ChatRequest
    reply: ChatReply
    parsed: ParsedExtraction


class ChatExtractor(Extractor):
    """Reads chunks with a chat model."""

    def __init__(self, chat: ChatModel, settings: IngestSettings) -> None:
        """Keep the parts.

        Args:
            chat: Asked once per chunk, and more often as `settings` say; wrapped with cache, limit and retry.
            settings: Types, language, form of the replies, passes and tries.
        """
        self._chat = chat
        self._settings = settings
        self._requests = ExtractionRequests(settings)

    @property
    def name(self) -> str:
        """`chat:` and the model's name."""
        return "chat:" + "_".join(self._chat.name.split())

    async def extract(
        self, document: Document, chunks: Sequence[Chunk], on_chunk: Callable[[], None] = ignore_progress
    ) -> list[Extraction]:
        """See `Extractor`. A chunk without a letter is not asked for.

        Raises:
            ModelError: The service failed as a whole; calls under way are cancelled.
        """
        waiting = asyncio.Semaphore(_MAX_WAITING)

        async def extract_one(chunk: Chunk) -> Extraction:
            async with waiting:
                extraction = await self._extract_chunk(document, chunk)
            on_chunk()
            return extraction

        return await gather_or_cancel(extract_one(chunk) for chunk in chunks)

    async def _extract_chunk(self, document: Document, chunk: Chunk) -> Extraction:
        if not any(character.isalpha() for character in chunk.text):
            return Extraction(chunk.id, self.name)
        ledger = _Ledger()
        records = ReadRecords()
        error = ""
        try:
            answer = await self._ask_until_usable(self._requests.first(document, chunk), chunk, ledger)
            records.add(answer.parsed)
            await self._glean(answer, records, ledger)
        except _CHUNK_ERRORS as failure:
            error = f"chunk {chunk.position} ({chunk.id!r}) could not be read: {failure}"
            _log.warning("document %r: %s", document.source, error)
        entities, relations = to_mentions(records, document, chunk, self._settings.entity_types)
        keys = tuple(ledger.reply_keys)
        aliases = to_aliases(records, chunk)
        return Extraction(chunk.id, self.name, entities, relations, error, keys, ledger.usage, aliases)

    async def _ask_until_usable(self, first: ChatRequest, chunk: Chunk, ledger: _Ledger) -> _Answer:
        """Ask, and ask again while the reply is unusable and tries are left.

        Kept replies are gone through first, so that a run that was broken off repeats no call. If none of them is
        usable, those requests are asked afresh.

        Raises:
            BadModelReply: No reply was usable.
        """
        problem = ""
        stale: list[ChatRequest] = []
        request = first
        for attempt in range(1, self._settings.extraction_retries + 2):
            if attempt > 1:
                request = self._requests.again(first, attempt, problem)
            answer, problem, is_kept = await self._try(request, chunk, ledger)
            if answer:
                return answer
            if is_kept:
                stale.append(replace(request, fresh=True))
        for request in stale:
            answer, problem, _ = await self._try(request, chunk, ledger)
            if answer:
                return answer
        raise BadModelReply(
            f"{self._chat.name!r} gave no usable reply in {self._settings.extraction_retries + 1 + len(stale)} tries "
            f"({problem}); retry the document, or extract with another model or ingest.extraction_format"
        )

    async def _try(self, request: ChatRequest, chunk: Chunk, ledger: _Ledger) -> tuple[_Answer | None, str, bool]:
        """Return the answer if it is usable, what is wrong if it is not, and whether the reply was a kept one."""
        try:
            reply = await self._chat.complete(request)
        except BadModelReply as error:
            return None, str(error), False
        ledger.enter(reply)
        parsed = await asyncio.to_thread(parse_extraction, reply.text, is_complete=reply.is_complete)
        if parsed.is_usable or chunk.token_count < _TRIVIAL_TOKENS:
            return _Answer(request, reply, parsed), "", reply.from_cache
        return None, _problem(reply, parsed), reply.from_cache

    async def _glean(self, answer: _Answer, records: ReadRecords, ledger: _Ledger) -> None:
        """Ask for what was missed, as often as the settings say and as long as something comes.

        What was read before stands whatever becomes of these passes, unless the service fails as a whole.
        """
        request, reply = answer.request, answer.reply
        if not answer.parsed.entities and not answer.parsed.relations:
            return
        for _ in range(self._settings.gleaning_passes):
            request = self._requests.more(request, reply.text)
            if not reply.is_complete or await asyncio.to_thread(_count, request) > _MAX_GLEANING_TOKENS:
                return
            try:
                reply = await self._chat.complete(request)
            except _CHUNK_ERRORS as error:
                _log.warning("a further pass over chunk %r was given up: %s", request.subject_id, error)
                return
            ledger.enter(reply)
            parsed = await asyncio.to_thread(parse_extraction, reply.text, is_complete=reply.is_complete)
            if not records.add(parsed):
                return


def _count(request: ChatRequest) -> int:
    return sum(count_tokens(message.content) for message in request.messages)


def _problem(reply: ChatReply, parsed: ParsedExtraction) -> str:
    if not reply.text.strip():
        return "it was empty"
    if parsed.problems:
        return "; ".join(parsed.problems)
    return "it held no record" if reply.is_complete else "it was cut off before the first record was whole"
