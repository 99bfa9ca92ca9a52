"""One description out of many fragments, written by a chat model.

Fragments come in, in canonical order; a description and what it cost go out. Few and short ones are joined as they
are. More are summarised: in one call if the model can read them all, else group by group, and the groups' summaries
again, until one is left (map and reduce).

The requests are a function of the fragments alone, and a group ends after a fragment whose own hash says so. A
fragment that comes or goes therefore changes its group and the groups above it, and no other; with kept replies only
those are asked again, and the cost follows the change.
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


# Ends of groups are drawn so often that a group rarely grows until it must be cut for its size: such a cut is the
# one thing that can move when a fragment comes or goes.
_GROUPS_PER_CONTEXT = 4
_HASH_RANGE = 1 << 32
# What stands in for a summary may be at least so long, where that summary was shorter: forty of them fit into the
# budget of 6,000 tokens that a question has for entities.
_STAND_IN_TOKENS = 100
# Of ten tokens of English about seven are words.
_WORDS_PER_TOKEN = 0.7


@dataclass(frozen=True, slots=True)
class Summary:
    """A description, and the keys of the kept replies that it was made from."""

    text: str
    usage: Usage = field(default_factory=Usage)
    reply_keys: tuple[str, ...] = ()


def needs_summary(fragments: Sequence[str], settings: IngestSettings) -> bool:
    """Whether a chat model is to summarise these fragments, where there is one.

    One fragment is never summarised; several are from `summary_fragments` or from `summary_tokens` on.
    """
    distinct = distinct_fragments(fragments)
    if len(distinct) < 2:
        return False
    if len(distinct) >= settings.summary_fragments:
        return True
    limit = settings.summary_tokens
    return sum(map(byte_count, distinct)) >= limit and sum(map(count_tokens, distinct)) >= limit


class DescriptionSummarizer:
    """Makes descriptions with a chat model; safe to call from many tasks at once."""

    def __init__(self, chat: ChatModel, settings: IngestSettings) -> None:
        self._chat = chat
        self._settings = settings

    def is_needed(self, fragments: Sequence[str]) -> bool:
        """Whether these fragments are to be summarised; see `needs_summary`."""
        return needs_summary(fragments, self._settings)

    def stand_in(self, fragments: Sequence[str], replaced: str = "") -> Summary:
        """Return a substitute for a summary without a model: the first whole fragments that fit.

        It is about as long as what it replaces, so that as many entities as before fit into the budgets of a question.
        """
        most = min(self._settings.summary_tokens, max(_STAND_IN_TOKENS, count_tokens(replaced)))
        return Summary(join_fragments(fragments, most))

    def is_stand_in(self, description: str | None, fragments: Sequence[str]) -> bool:
        """Whether a description is made of the first fragments, where a chat model is to write a summary of them."""
        return (
            bool(description)
            and self.is_needed(fragments)
            and FIELD_SEPARATOR.join(distinct_fragments(fragments)).startswith(description or "")
        )

    async def summarize(self, name: str, fragments: Sequence[str], *, subject_id: str = "") -> Summary:
        """Return one description of `name` from fragments in canonical order.

        Fragments that need no summary are joined. Of those of which the model makes nothing usable some stand in for
        it, with a warning; that description is made again when somebody mentions its subject. Cached replies are
        dropped with what was said of `subject_id`.

        Raises:
            ModelError: The model could not be asked (it is down, too slow, or refuses for now).
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
        """Return what `summarize` makes of fragments that need it, if that takes no call to a model; else None."""
        run = _Run(self._chat, self._settings, name, subject_id, only_kept=True)
        try:
            text = await run.reduce(distinct_fragments(fragments))
        except (BadModelReply, _NotKeptError):
            return None
        return Summary(text, Usage(), tuple(run.reply_keys))


class _NotKeptError(Exception):
    """A description needs a call that was not made yet."""


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
        # A reply that was cut loses the sentence that breaks off, unless it is the only one.
        if not reply.is_complete and len(spans := sentence_spans(said)) > 1:
            said = said[: spans[-2][1]]
        text = " ".join(said.replace(FIELD_SEPARATOR, " ").split())
        if not text:
            raise BadModelReply(f"{self._chat.name!r} summarised {len(group)} fragments to nothing; use another model")
        return await asyncio.to_thread(cut_to_tokens, text, self._settings.summary_tokens)


def _group(fragments: list[str], limit: int, level: int) -> list[list[str]]:
    """Part fragments into runs of at most `limit` tokens, fewer than there are fragments.

    If all fit into one run, that is it. Otherwise a run ends after a fragment whose hash falls below a threshold in
    proportion to its length, so that runs of about a quarter of the limit come out wherever they start; and before a
    fragment for which there is no room.
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
        # The hash depends on the level too, so that levels part differently.
        digest = blake2b(fragment.encode("utf-8", "surrogatepass"), digest_size=4, salt=level.to_bytes(4, "little"))
        if int.from_bytes(digest.digest(), "little") * limit < size * _GROUPS_PER_CONTEXT * _HASH_RANGE:
            groups.append([])
            total = 0
    groups = [group for group in groups if group]
    # Every level must get shorter; where chance parted all fragments, they go in pairs.
    return groups if len(groups) < len(cut) else [cut[start : start + 2] for start in range(0, len(cut), 2)]
