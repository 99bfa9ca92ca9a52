"""From a question and its `QueryParam` to a `Plan`, checked and complete; modes, and weights of fused search."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any

from heliograph.arguments import checked_fields
from heliograph.chat.base import ChatMessage, ChatModel
from heliograph.errors import InvalidRequestError
from heliograph.filters import Filter, parse_filter
from heliograph.functions import as_chat_model
from heliograph.models import Mode
from heliograph.query.models import Keywords, QueryParam
from heliograph.settings import ChatSettings, QuerySettings
from heliograph.text.patterns import late_pattern
from heliograph.text.tokens import count_tokens

# The modes of a question: rows of one table, each naming the channels that it searches.
#
# The rules of every mode are those of its channels, but that `auto` understands the question first; nothing else in
# the query package asks which mode it is in, save what is printed. Results of LightRAG's channels (entity, relation,
# vector) are merged round robin in the order of the row; as soon as a row has a channel beyond those, its chunks are
# ranked by one fused search (`heliograph.query.fusion`), and entities and relations are those of its evidence, with
# those of given keywords.


class Channel(StrEnum):
    """A way of searching. `ENTITY` and `RELATION` search by keywords; the others rank chunks in one fused search.

    Attributes:
        ENTITY: Entities near the low-level keywords. In the scores of chunks `entity` is another thing, `NAMED_ENTITY`.
        RELATION: Relations near the high-level keywords.
        VECTOR: Chunks near the question.
        KEYWORD: Chunks that hold the question's own words, by full text; no high- or low-level keywords.
        BRIDGE: Chunks to which entities of the best ones lead.
        GRAPH: A walk over the graph around what was found.
    """

    ENTITY = "entity"
    RELATION = "relation"
    VECTOR = "vector"
    KEYWORD = "keyword"
    BRIDGE = "bridge"
    GRAPH = "graph"


FUSED_CHANNELS = (Channel.VECTOR, Channel.KEYWORD, Channel.BRIDGE, Channel.GRAPH)

_MODES: Mapping[Mode, tuple[Channel, ...]] = {
    Mode.LOCAL: (Channel.ENTITY,),
    Mode.GLOBAL: (Channel.RELATION,),
    Mode.HYBRID: (Channel.ENTITY, Channel.RELATION),
    Mode.MIX: (Channel.ENTITY, Channel.RELATION, Channel.VECTOR),
    Mode.NAIVE: (Channel.VECTOR,),
    Mode.FUSION: (Channel.ENTITY, Channel.RELATION, *FUSED_CHANNELS),
    Mode.AUTO: (Channel.ENTITY, Channel.RELATION, *FUSED_CHANNELS),
    Mode.BYPASS: (),
}


def channels_of(mode: Mode) -> tuple[Channel, ...]:
    """Return what a mode searches, in the order of merging."""
    return _MODES[mode]


def is_fused(channels: Iterable[Channel]) -> bool:
    """Return whether chunks found through these channels are ranked by one fused search."""
    return any(channel in FUSED_CHANNELS and channel is not Channel.VECTOR for channel in channels)


# The few numbers of fused retrieval, each with its reason; `docs/retrieval.md` says what they do.
#
# Cosines are in the usual scale (`heliograph.embedding.base`), so the same numbers serve every model and language.
# None of them depends on the size of the corpus: an index that grows keeps the scores of what was in it.


@dataclass(frozen=True, slots=True)
class FusionParameters:
    """Weights and bounds of fused retrieval, by stage.

    Attributes:
        vector_limit: Chunks taken from the vector index, for up to 60 hits; for more, in proportion.
        keyword_limit: Chunks taken from the full-text index, likewise.
        keyword_spread: The keyword weight is this over the fall of the cosine from the first to the tenth chunk: the
            less the vectors tell chunks apart, the more the words decide. It is multiplied by the share of the
            question's words that the first chunks by words hold: who asks in other words is found by meaning.
        most_keyword: The keyword weight at the most, before that share is taken.
        known_start: What words count where the question names what a single chunk is about: then it is known where to
            begin, and other chunks with these words are mostly about something alike.
        rendered: What words count by which a chunk in another language says the question's, beside these themselves:
            cosines are lower across languages.
        named: What a chunk gains that is about an entity named in the question; shared among such chunks (by the root
            of their number), since a name that many chunks are about says little of any.
        first_hops: Best chunks whose entities may lead on.
        first_bridges: Pairs of a chunk and an entity followed from them; at most `residual_limit` cost an embedding.
        residual_limit: Residual questions embedded for them at the most: of those pairs that promise most.
        entity_share: Share of an entity's vector in the estimate of a residual question's, beside 1 for the question's.
        estimate_worth: What a gain by such an estimate is worth beside one by an embedded residual question.
        bridge_weight: Weight of what a bridge gains.
        question_share: Share of the question's own vector in a bridge's, which keeps it from drifting away.
        mentioned: What a chunk that only mentions the bridge's entity is worth beside one that is about it.
        least_gain: Of the difference of two cosines what is taken for chance.
        clear_lead: From this lead of the first chunk on, as a share of its score, nothing is: those behind it resemble
            it and say the same of something else, so what it leads to counts more.
        most_mentions: An entity mentioned more often than this leads only to chunks that are about it.
        common_mentions: Mentions from which on a name says nothing at all.
        aside_worth: What a bridge is worth from a paragraph without any word of the question, beside one from that
            paragraph of the chunk that holds most of them.
        walk: Weight of the walk over the graph around what was found; small, it settles what the others leave open.
        walk_starts: Best chunks from which the walk starts.
        damping: Probability that the walk goes on and does not start anew.
        within_pages: Share of what words, names, bridges and the walk count where the near chunks are of few documents.
        account: The same where the question asks for an account of a whole subject ("Summarize ..."); where both hold,
            the smaller share counts.
        again: What each further chunk of a document is worth beside the one before: a page of hundreds of chunks
            otherwise takes the places of all others.
    """

    # The first hop: what is near the question, by vectors and by words.
    vector_limit: int = 40
    keyword_limit: int = 100
    keyword_spread: float = 0.03
    most_keyword: float = 0.9
    known_start: float = 0.5
    rendered: float = 1.2

    # Names: what the question names.
    named: float = 0.2

    # Bridges: from the best chunks over entities to others.
    first_hops: int = 5
    first_bridges: int = 16
    residual_limit: int = 4
    entity_share: float = 0.8
    estimate_worth: float = 0.8
    bridge_weight: float = 3.0
    question_share: float = 0.3
    mentioned: float = 0.6
    least_gain: float = 0.03
    clear_lead: float = 0.4
    most_mentions: int = 30
    common_mentions: int = 1000
    aside_worth: float = 0.25

    # The walk over the graph around what was found.
    walk: float = 0.1
    walk_starts: int = 10
    damping: float = 0.5

    # Places: of which documents the chunks are.
    within_pages: float = 0.3
    account: float = 0.3
    again: float = 0.97

    def where_led(self, lead: float) -> FusionParameters:
        """Return what holds where the first chunk leads the second by this share of its score, from 0 to 1."""
        return replace(self, least_gain=self.least_gain * max(0.0, 1.0 - lead / self.clear_lead))

    def weighed(self, share: float) -> FusionParameters:
        """Return what holds where words, names, bridges and the walk count this share of what they count elsewhere.

        Residual questions are as many fewer, since what they add counts so little.
        """
        return replace(
            self,
            residual_limit=round(share * self.residual_limit),
            keyword_spread=share * self.keyword_spread,
            most_keyword=share * self.most_keyword,
            named=share * self.named,
            bridge_weight=share * self.bridge_weight,
            walk=share * self.walk,
        )

    def rarity(self, mention_count: int) -> float:
        """Return 1 for an entity mentioned once, 0 for one mentioned by all, and logarithmically in between."""
        return max(0.0, 1.0 - math.log(max(1, mention_count)) / math.log(self.common_mentions))


# What a question may say in place of a setting.
_OVERRIDES = tuple(field.name for field in fields(QueryParam) if field.name in QuerySettings.model_fields)
_LEAST_WEIGHT = 3
# Of a window kept for the reply where no length of it is set, and the largest share that is ever kept.
_REPLY_TOKENS = 4096
_MOST_REPLY = 0.5
_DEFAULT_RESPONSE_TYPE = "Multiple Paragraphs"
_LONE_SURROGATE = late_pattern(r"[\ud800-\udfff]")
# Whole Unicode blocks of Chinese, Japanese and Korean writing, forms and punctuation included.
_WIDE = late_pattern(
    r"[\u1100-\u11ff\u2e80-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef"
    r"\U00016fe0-\U00016fff\U0001aff0-\U0001b2ff\U00020000-\U0003ffff]"
)


@dataclass(frozen=True, slots=True)
class Plan:
    """A question ready to be answered: checked, and complete.

    Attributes:
        question: Stripped; lone surrogates replaced by U+FFFD.
        param: As it was asked; for what has no other form here.
        settings: Those in force, with what `param` says in place of theirs; `max_total_tokens` is less than was asked
            for where the chat model can read less.
        channels: What is searched, in the order of merging.
        added_channels: Those of them that were asked for beyond the mode's own.
        keywords: Those that were given; None if there are none.
        user_prompt: Further instructions, those of the settings first; may be empty.
        system_prompt: In place of the built-in prompt, if not empty.
        chat_model: In place of the configured chat model, if not None.
        filter: Which documents there are; None for all.
        is_written: Whether the context is written out as a chat model reads it.
    """

    question: str
    mode: Mode
    param: QueryParam
    settings: QuerySettings
    channels: tuple[Channel, ...]
    added_channels: tuple[Channel, ...]
    keywords: Keywords | None
    history: tuple[ChatMessage, ...]
    response_type: str
    user_prompt: str
    system_prompt: str
    chat_model: ChatModel | None
    filter: Filter | None = None
    is_written: bool = True

    @property
    def uses_graph(self) -> bool:
        """Whether entities and relations are shown."""
        return Channel.ENTITY in self.channels or Channel.RELATION in self.channels

    @property
    def is_all_fused(self) -> bool:
        """Whether chunks and graph both come from one fused search."""
        return self.is_fused and not self.added_channels

    @property
    def needs_keywords(self) -> bool:
        """Whether entities and relations are searched by keywords; a fused search needs none, but uses given ones."""
        return self.uses_graph and (not self.is_all_fused or self.keywords is not None)

    @property
    def wants_answer(self) -> bool:
        """Whether an answer is asked for, and not what one would be made from."""
        return not (self.param.only_need_context or self.param.only_need_prompt)

    @property
    def is_fused(self) -> bool:
        """Whether chunks are ranked by one fused search."""
        return is_fused(self.channels)

    def with_settings(self, **changes: Any) -> Plan:
        """Return the plan with other values of these settings, which are not checked."""
        return replace(self, settings=self.settings.model_copy(update=changes)) if changes else self


def readable_tokens(settings: ChatSettings) -> int | None:
    """Return how many tokens the chat model can read and still reply, or None where no window is set."""
    window = settings.context_tokens
    if not window:
        return None
    return window - min(settings.max_output_tokens or _REPLY_TOKENS, int(_MOST_REPLY * window))


def make_plan(question: str, param: QueryParam, settings: QuerySettings, readable: int | None = None) -> Plan:
    """Check a question and fill in the defaults.

    Args:
        question: The question.
        param: How it is asked.
        settings: The defaults.
        readable: Tokens that the configured chat model can read, history included; None for no bound. A chat model
            that is given with the question has a window of its own.

    Raises:
        InvalidRequestError: Something cannot be served as given.
    """
    if not isinstance(param, QueryParam):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidRequestError(f"param is {param!r:.200}; give a {QueryParam.__module__}.{QueryParam.__name__}")
    param = checked_fields(param)
    mode = Mode(param.mode)
    own, named = channels_of(mode), param.channels or ()
    if named and not own:
        raise InvalidRequestError(f"mode {mode.value!r} searches nothing; leave channels empty, or use another mode")
    added = tuple(channel for channel in FUSED_CHANNELS if channel.value in named and channel not in own)
    messages = [_message(index, item) for index, item in enumerate(param.conversation_history or ())]
    turns = param.history_turns or 0
    starts = [index for index, message in enumerate(messages) if message.role == "user"]
    first = starts[-turns] if 0 < turns <= len(starts) else 0
    history = tuple(messages[first:])
    high, low = (
        tuple(text for word in words or () if (text := _without_surrogates(word)).strip())
        for words in (param.hl_keywords, param.ll_keywords)
    )
    prefix = "" if param.disable_user_prompt_prefix else settings.user_prompt_prefix
    instructions = (prefix.strip(), _without_surrogates(param.user_prompt).strip())
    return Plan(
        question=_checked_question(question, mode, settings.max_question_characters),
        mode=mode,
        param=param,
        channels=(*own, *added),
        added_channels=added,
        keywords=Keywords(high, low) if high or low else None,
        history=history,
        response_type=_without_surrogates(param.response_type) or _DEFAULT_RESPONSE_TYPE,
        user_prompt="\n\n".join(filter(None, instructions)),
        system_prompt=_without_surrogates(param.system_prompt),
        chat_model=None if param.chat_model is None else as_chat_model(param.chat_model),
        settings=_in_force(param, settings, history, readable if param.chat_model is None else None),
        filter=None if param.filter is None else parse_filter(param.filter),
    )


def check_length(question: str, mode: Mode) -> None:
    """Refuse a question too short to search for (`InvalidRequestError`); a mode that searches nothing takes any."""
    start = question[:_LEAST_WEIGHT]
    if channels_of(mode) and len(start) + len(_WIDE.findall(start)) < _LEAST_WEIGHT:
        raise InvalidRequestError(
            f"the question {question!r} is too short to search for; use at least {_LEAST_WEIGHT} characters, where "
            "each Chinese, Japanese or Korean one counts as 2, or mode 'bypass'"
        )


def _checked_question(question: str, mode: Mode, max_characters: int) -> str:
    text = _without_surrogates(question).strip()
    if len(text) > max_characters:
        raise InvalidRequestError(
            f"the question has {len(text):,} characters; ask in at most {max_characters:,} (max_question_characters)"
        )
    if not text:
        raise InvalidRequestError("the question is empty; ask something")
    check_length(text, mode)
    return text


def _message(index: int, item: object) -> ChatMessage:
    if isinstance(item, ChatMessage):
        return item
    given: Mapping[str, Any] = item if isinstance(item, Mapping) else {}
    role, content = given.get("role"), given.get("content")
    if role not in ("system", "user", "assistant") or not isinstance(content, str):
        raise InvalidRequestError(
            f"conversation_history[{index}] is {item!r:.200}; give {{'role': 'user', 'content': '...'}}, "
            "with role 'system', 'user' or 'assistant'"
        )
    return ChatMessage(role, _without_surrogates(content))


def _in_force(
    param: QueryParam, settings: QuerySettings, history: Sequence[ChatMessage], readable: int | None
) -> QuerySettings:
    """Return the settings with what a question says in place of theirs: that of the same names."""
    found: dict[str, Any] = {name: given for name in _OVERRIDES if (given := getattr(param, name)) is not None}
    total = found.get("max_total_tokens", settings.max_total_tokens)
    # A token has at least one byte, so a short history need not be counted.
    if readable is not None and total + sum(len(message.content.encode()) for message in history) > readable:
        left = readable - sum(count_tokens(message.content) for message in history)
        found["max_total_tokens"] = max(1, min(total, left))
    return settings.model_copy(update=found) if found else settings


def _without_surrogates(text: str | None) -> str:
    return _LONE_SURROGATE.sub("\ufffd", text or "")
