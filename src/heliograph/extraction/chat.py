"""Extracts with a chat model: one call per chunk, further passes for names it missed, retries where it failed.

Requests are built per chunk, replies are parsed leniently (`replies`), and their records become mentions. The system
message is the same for all chunks, so providers can cache it; the chunk stands between two markers derived from its
text, so nothing in it can end it early. A chunk whose replies stay unusable gets an `Extraction` with an error; the
others are kept.
"""

from __future__ import annotations

import asyncio
import json
import logging
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from string import Template

from heliograph.calls.tasks import gather_or_cancel
from heliograph.chat.base import ChatMessage, ChatModel, ChatReply, ChatRequest, Purpose
from heliograph.errors import BadModelReply, ContextTooLong, ModelTimeout, RateLimited
from heliograph.extraction.base import Extractor, ignore_progress
from heliograph.extraction.replies import ParsedExtraction, ReadRecords, parse_extraction, to_mentions
from heliograph.models import AliasMention, Chunk, Document, Extraction, Usage, heading_path
from heliograph.prompts import data_marker, load_prompt
from heliograph.settings import IngestSettings
from heliograph.text.sentences import table_head
from heliograph.text.tokens import count_tokens

_LONGEST_LABEL = 300
# A record takes forty tokens, and dense prose has one per twelve tokens, entities and relations together.
_NEEDED_PER_TOKEN = 4
_LEAST_NEEDED = 1024


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
        """Return the request for the mentions of a chunk."""
        passage = table_head(chunk.columns) + chunk.text
        text = Template(load_prompt("extract_text")).substitute(
            title=_label(document.title),
            headings=_label(heading_path(chunk.headings)),
            marker=data_marker(passage),
            text=passage,
        )
        return ChatRequest(
            *((ChatMessage("system", self._system), ChatMessage("user", text)), Purpose.EXTRACT),
            json_mode=self._is_json,
            needed_tokens=_LEAST_NEEDED + _NEEDED_PER_TOKEN * chunk.token_count,
            subject_id=chunk.id,
        )

    def again(self, request: ChatRequest, attempt: int, problem: str) -> ChatRequest:
        """Return a retry of a request after an unusable reply; it differs from the request before."""
        note = Template(load_prompt("extract_again")).substitute(
            attempt=attempt, problem=" ".join(problem.split())[:_LONGEST_LABEL]
        )
        *before, last = request.messages
        return replace(request, messages=(*before, ChatMessage(last.role, f"{last.content}\n{note}")))

    def more(self, request: ChatRequest, reply: str) -> ChatRequest:
        """Return the request for records that a reply missed."""
        following = (ChatMessage("assistant", reply), ChatMessage("user", load_prompt("extract_more")))
        return replace(request, messages=(*request.messages, *following))


def _label(text: str) -> str:
    """Return a title as a quoted string on one line."""
    return json.dumps(" ".join(text.split())[:_LONGEST_LABEL], ensure_ascii=False)


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


# All chunks of a document are requested at once; the chat model limits how many calls are under way. A chunk whose
# replies stay unusable, or whose calls time out, gets an `Extraction` with an error while the others are kept; a
# service that is down, or answers no call at all, fails them all. The ledger counts the tokens of this run only, not
# those of cached replies.

_log = logging.getLogger(__name__)

# A longer conversation gets no further pass, because the model loses sight of the passage.
_MAX_GLEANING_TOKENS = 20_480
# A chunk this short may have nothing to extract, so a reply without records is accepted.
_TRIVIAL_TOKENS = 12
# How many chunks of one document wait for the model at once; more would only take memory.
_MAX_WAITING = 256

# Errors that concern one chunk; any other model error concerns the service.
_SILENCE = (ModelTimeout, RateLimited)
_CHUNK_ERRORS = (BadModelReply, ContextTooLong, *_SILENCE)


@dataclass(slots=True)
class _Ledger:
    """Tokens and other results of the calls for one chunk."""

    reply_keys: dict[str, None] = field(default_factory=dict[str, None])
    usage: Usage = field(default_factory=Usage)
    silence: ModelTimeout | RateLimited | None = None

    def enter(self, reply: ChatReply) -> None:
        if reply.cache_key:
            self.reply_keys[reply.cache_key] = None
        if not reply.from_cache:
            self.usage += reply.usage


@dataclass(frozen=True, slots=True)
class _Answer:
    """A usable reply, the records parsed from it, and the request that it answers."""

    request: ChatRequest
    reply: ChatReply
    parsed: ParsedExtraction


class ChatExtractor(Extractor):
    """Reads chunks with a chat model."""

    def __init__(self, chat: ChatModel, settings: IngestSettings) -> None:
        """Store the chat model and the settings."""
        self._chat = chat
        self._settings = settings
        self._requests = ExtractionRequests(settings)
        # How often the service has answered, with any content.
        self._heard = 0

    @property
    def name(self) -> str:
        """`chat:` and the model's name."""
        return "chat:" + "_".join(self._chat.name.split())

    async def extract(
        self, document: Document, chunks: Sequence[Chunk], on_chunk: Callable[[], None] = ignore_progress
    ) -> list[Extraction]:
        """Read chunks; see `Extractor`. Chunks without a letter are skipped.

        Raises:
            ModelError: The service failed as a whole; calls under way are cancelled. A service that answered for no
                chunk of the document, and for no other document meanwhile, counts as failed, not as slow with one
                chunk.
        """
        waiting = asyncio.Semaphore(_MAX_WAITING)
        read = [chunk for chunk in chunks if any(map(str.isalpha, chunk.text))]
        ledgers = {chunk.id: _Ledger() for chunk in read}
        heard = self._heard

        async def extract_one(chunk: Chunk) -> Extraction:
            async with waiting:
                ledger = ledgers.get(chunk.id)
                extraction = (
                    await self._extract_chunk(document, chunk, ledger) if ledger else Extraction(chunk.id, self.name)
                )
            on_chunk()
            return extraction

        extractions = await gather_or_cancel(extract_one(chunk) for chunk in chunks)
        silences = [ledger.silence for ledger in ledgers.values() if ledger.silence]
        if silences and len(silences) == len(ledgers) and self._heard == heard:
            raise silences[0]
        return extractions

    async def _extract_chunk(self, document: Document, chunk: Chunk, ledger: _Ledger) -> Extraction:
        records = ReadRecords()
        error = ""
        try:
            answer = await self._ask_until_usable(self._requests.first(document, chunk), chunk, ledger)
            records.add(answer.parsed)
            await self._glean(answer, records, ledger)
        except _CHUNK_ERRORS as failure:
            ledger.silence = failure if isinstance(failure, _SILENCE) else None
            error = f"chunk {chunk.position} ({chunk.id!r}) could not be read: {failure}"
            _log.warning("document %r: %s", document.source, error)
        entities, relations = to_mentions(records, document, chunk, self._settings.entity_types)
        keys = tuple(ledger.reply_keys)
        # An alias counts only if the chunk contains it.
        text = _folded(chunk.text)
        aliases = tuple(
            AliasMention(chunk.id, entity.name, alias)
            for entity in records.entities
            for alias in entity.aliases
            if _folded(alias) in text
        )
        return Extraction(chunk.id, self.name, entities, relations, error, keys, ledger.usage, aliases)

    async def _ask_until_usable(self, first: ChatRequest, chunk: Chunk, ledger: _Ledger) -> _Answer:
        """Send the request, and retry while the reply is unusable and tries are left.

        Cached replies are used first, so that an interrupted run repeats no call. If none of them is usable, those
        requests are sent again.

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
        """Return a usable answer or the error of an unusable one, and whether the reply came from the cache."""
        try:
            reply = await self._chat.complete(request)
        except BadModelReply as error:
            self._heard += 1
            return None, str(error), False
        self._heard += not reply.from_cache
        ledger.enter(reply)
        parsed = await asyncio.to_thread(parse_extraction, reply.text, is_complete=reply.is_complete)
        if parsed.is_usable or chunk.token_count < _TRIVIAL_TOKENS:
            return _Answer(request, reply, parsed), "", reply.from_cache
        without = "it held no record" if reply.is_complete else "it was cut off before the first record was whole"
        problem = "; ".join(parsed.problems) or without if reply.text.strip() else "it was empty"
        return None, problem, reply.from_cache

    async def _glean(self, answer: _Answer, records: ReadRecords, ledger: _Ledger) -> None:
        """Ask for missed records, as often as the settings say and as long as new ones come.

        Records read before are kept whatever happens in these passes, unless the service fails as a whole.
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
