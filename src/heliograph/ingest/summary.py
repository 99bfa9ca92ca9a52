"""Summarises many description fragments into one description, by a chat model.

The input is fragments in canonical order, the output a description and its token usage. Few and short fragments are
joined unchanged. More are summarised: in one call if they fit into the model's context, else group by group, and then
the groups' summaries, until one is left (map and reduce).

The requests depend on the fragments alone, and a fragment's own hash decides whether a group ends after it. An added or
removed fragment therefore changes only its group and the groups above it; with cached replies only these need new
calls, and the cost follows the change.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from string import Template

from heliograph.calls.tasks import gather_or_cancel
from heliograph.chat.base import ChatMessage, ChatModel, ChatRequest, Purpose
from heliograph.errors import BadModelReply, ContextTooLong
from heliograph.ingest.merging import byte_count, distinct_fragments, join_fragments
from heliograph.models import FIELD_SEPARATOR, Usage
from heliograph.prompts import data_marker, load_prompt
from heliograph.settings import IngestSettings
from heliograph.text.sentences import sentence_spans
from heliograph.text.tokens import count_tokens, cut_to_tokens

_log = logging.getLogger(__name__)


# Expected groups per context. Hashes end groups often enough that a group rarely must be cut for its size: only such a
# cut can move when a fragment is added or removed.
_GROUPS_PER_CONTEXT = 4
_HASH_RANGE = 1 << 32
# Token limit of a stand-in, if the summary that it replaces was shorter: forty of them fit into the budget of 6,000
# tokens that a question has for entities.
_STAND_IN_TOKENS = 100
# Words per token in English, about.
_WORDS_PER_TOKEN = 0.7


@dataclass(frozen=True, slots=True)
class Summary:
    """A description, its token usage, and the keys of the cached replies that it was made from."""

    text: str
    usage: Usage = field(default_factory=Usage)
    reply_keys: tuple[str, ...] = ()


def needs_summary(fragments: Sequence[str], settings: IngestSettings) -> bool:
    """Return whether a chat model, if there is one, should summarise these fragments.

    One fragment is never summarised; several are if they reach `summary_fragments` or `summary_tokens`.
    """
    distinct = distinct_fragments(fragments)
    if len(distinct) < 2:
        return False
    if len(distinct) >= settings.summary_fragments:
        return True
    limit = settings.summary_tokens
    return sum(map(byte_count, distinct)) >= limit and sum(map(count_tokens, distinct)) >= limit


class DescriptionSummarizer:
    """Writes descriptions with a chat model; safe to call from many tasks at once."""

    def __init__(self, chat: ChatModel, settings: IngestSettings) -> None:
        self._chat = chat
        self._settings = settings

    def is_needed(self, fragments: Sequence[str]) -> bool:
        """Return whether these fragments should be summarised; see `needs_summary`."""
        return needs_summary(fragments, self._settings)

    def stand_in(self, fragments: Sequence[str], replaced: str = "") -> Summary:
        """Return a substitute for a summary, made without a model: the first whole fragments that fit.

        It is about as long as the text it replaces, so that as many entities as before fit into a question's budgets.
        """
        most = min(self._settings.summary_tokens, max(_STAND_IN_TOKENS, count_tokens(replaced)))
        return Summary(join_fragments(fragments, most))

    def is_stand_in(self, description: str | None, fragments: Sequence[str]) -> bool:
        """Return whether a description is a stand-in: the first fragments, although a model should summarise them."""
        return (
            bool(description)
            and self.is_needed(fragments)
            and FIELD_SEPARATOR.join(distinct_fragments(fragments)).startswith(description or "")
        )

    async def summarize(self, name: str, fragments: Sequence[str], *, subject_id: str = "") -> Summary:
        """Return one description of `name` from fragments in canonical order.

        Fragments that need no summary are joined. If the model's reply is unusable, a stand-in is returned, with a
        warning; that description is written again at the next mention of its subject. Cached replies are deleted with
        the evidence of `subject_id`.

        Raises:
            ModelError: The model could not be called (it is down, too slow, or limits the rate).
        """
        if not self.is_needed(fragments):
            return Summary(join_fragments(fragments, self._settings.summary_tokens))
        run = _Run(self._chat, self._settings, name, subject_id)
        try:
            text = await run.reduce(distinct_fragments(fragments))
        except (BadModelReply, ContextTooLong) as error:
            _log.warning("the description of %r is joined, not summarised: %s", name, error)
            text = self.stand_in(fragments).text
        return Summary(text, run.usage, tuple(run.reply_keys))

    async def recall(self, name: str, fragments: Sequence[str], *, subject_id: str = "") -> Summary | None:
        """Return the summary of fragments that need one from cached replies alone; None if that takes a model call."""
        run = _Run(self._chat, self._settings, name, subject_id, only_kept=True)
        try:
            text = await run.reduce(distinct_fragments(fragments))
        except (BadModelReply, _NotKeptError):
            return None
        return Summary(text, Usage(), tuple(run.reply_keys))


class _NotKeptError(Exception):
    """A description needs a reply that is not cached."""


class _Run:
    """The calls that make one description."""

    def __init__(
        self, chat: ChatModel, settings: IngestSettings, name: str, subject_id: str, *, only_kept: bool = False
    ) -> None:
        self.usage = Usage()
        self.reply_keys: list[str] = []
        self._subject_id = subject_id
        self._only_kept = only_kept
        self._chat = chat
        self._settings = settings
        self._name = name

    async def reduce(self, fragments: list[str]) -> str:
        """Summarise level by level until one description is left."""
        limit = self._settings.summary_context_tokens
        level = 0
        while len(fragments) > 1:
            groups = await asyncio.to_thread(_group, fragments, limit, level)
            fragments = await gather_or_cancel(self._summarize(group) for group in groups)
            level += 1
        return fragments[0]

    async def _summarize(self, group: list[str]) -> str:
        if len(group) == 1:
            return group[0]
        lines = "\n".join(json.dumps(fragment, ensure_ascii=False) for fragment in group)
        text = Template(load_prompt("summarize")).substitute(
            name=json.dumps(self._name, ensure_ascii=False),
            marker=data_marker(lines),
            fragments=lines,
            language=self._settings.language or "the language of the statements",
            words=round(self._settings.summary_length_tokens * _WORDS_PER_TOKEN),
        )
        request = ChatRequest(
            *((ChatMessage("user", text),), Purpose.SUMMARY),
            needed_tokens=max(self._settings.summary_tokens, 2 * self._settings.summary_length_tokens),
            subject_id=self._subject_id,
        )
        reply = await (self._chat.recall(request) if self._only_kept else self._chat.complete(request))
        if reply is None:
            raise _NotKeptError
        if not reply.from_cache:
            self.usage += reply.usage
        if reply.cache_key:
            self.reply_keys.append(reply.cache_key)
        said = reply.text
        # A truncated reply loses its unfinished last sentence, unless it is the only one.
        if not reply.is_complete and len(spans := sentence_spans(said)) > 1:
            said = said[: spans[-2][1]]
        text = " ".join(said.replace(FIELD_SEPARATOR, " ").split())
        if not text:
            raise BadModelReply(f"{self._chat.name!r} summarised {len(group)} fragments to nothing; use another model")
        return await asyncio.to_thread(cut_to_tokens, text, self._settings.summary_tokens)


def _group(fragments: list[str], limit: int, level: int) -> list[list[str]]:
    """Split fragments into groups of at most `limit` tokens, fewer groups than fragments.

    If all fit into one group, that is the result. Otherwise a group ends after a fragment whose hash falls below a
    threshold in proportion to its length, which makes groups of about a quarter of the limit wherever they start; and
    before a fragment that no longer fits.
    """
    cut = [cut_to_tokens(fragment, limit // 2) for fragment in fragments]
    sizes = [count_tokens(fragment) for fragment in cut]
    if sum(sizes) <= limit:
        return [cut]
    groups: list[list[str]] = [[]]
    total = 0
    for fragment, size in zip(cut, sizes, strict=True):
        if total + size > limit:
            groups.append([])
            total = 0
        groups[-1].append(fragment)
        total += size
        # Salted with the level, so that levels split differently.
        digest = blake2b(fragment.encode("utf-8", "surrogatepass"), digest_size=4, salt=level.to_bytes(4, "little"))
        if int.from_bytes(digest.digest(), "little") * limit < size * _GROUPS_PER_CONTEXT * _HASH_RANGE:
            groups.append([])
            total = 0
    groups = [group for group in groups if group]
    # Every level must have fewer groups; if by chance each fragment is its own group, make pairs.
    return groups if len(groups) < len(cut) else [cut[start : start + 2] for start in range(0, len(cut), 2)]
