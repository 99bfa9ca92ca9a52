"""Extracts by a chat model: one call per chunk, further passes for names it missed, further tries where it failed.

Chunks come in; requests are built, replies are read leniently (`replies`) and their records become mentions. The system
message is the same for all chunks, so providers can reuse it; the chunk stands between two markers made from its text,
so nothing in it can end it early. A chunk whose replies stay unusable gets an `Extraction` with an error; the others
are kept.
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
# A record takes forty tokens, and dense prose has one every twelve, entities and relations together.
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
        """Return the request that asks for what a chunk says."""
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


def _label(text: str) -> str:
    """Return a title as a quoted string on one line."""
    return json.dumps(" ".join(text.split())[:_LONGEST_LABEL], ensure_ascii=False)


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


# All chunks of a document are asked for at once; how many calls are under way is the chat model's limit to keep. A
# chunk whose replies stay unusable, or that the service would not answer
# in time, gets an `Extraction` with an error while the others are kept; a service that is down, or answers nothing at
# all, fails them all. Tokens are counted for what this run spent, not for replies that were in the cache.

_log = logging.getLogger(__name__)

# A conversation longer than this is not carried on for what was missed: the passage is lost in it.
_MAX_GLEANING_TOKENS = 20_480
# A chunk this short may say nothing; a reply to it without records is taken as such.
_TRIVIAL_TOKENS = 12
# Chunks of one document that wait for the model at once; more would only take memory.
_MAX_WAITING = 256

# What concerns one chunk; any other model error concerns the service.
_SILENCE = (ModelTimeout, RateLimited)
_CHUNK_ERRORS = (BadModelReply, ContextTooLong, *_SILENCE)


@dataclass(slots=True)
class _Ledger:
    """What the calls for one chunk left behind."""

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
        """Keep the parts."""
        self._chat = chat
        self._settings = settings
        self._requests = ExtractionRequests(settings)
        # How often the service has answered, whatever it said.
        self._heard = 0

    @property
    def name(self) -> str:
        """`chat:` and the model's name."""
        return "chat:" + "_".join(self._chat.name.split())

    async def extract(
        self, document: Document, chunks: Sequence[Chunk], on_chunk: Callable[[], None] = ignore_progress
    ) -> list[Extraction]:
        """See `Extractor`. Skips chunks without a letter.

        Raises:
            ModelError: The service failed as a whole; calls under way are cancelled. Where it answered for no chunk of
                the document, and for no other document meanwhile, it is silent as a whole and not slow with one chunk.
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
        # An alias counts where it stands in the chunk.
        text = _folded(chunk.text)
        aliases = tuple(
            AliasMention(chunk.id, entity.name, alias)
            for entity in records.entities
            for alias in entity.aliases
            if _folded(alias) in text
        )
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
