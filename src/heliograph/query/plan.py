"""Makes a checked and complete `Plan` from a question and its `QueryParam`; has the modes and fused-search weights."""

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

# The modes: one table, with a row of searched channels per mode.
#
# A mode behaves as its channels do, except that `auto` understands the question first; apart from messages, nothing
# else in the query package checks the mode. Results of LightRAG's channels (entity, relation, vector) are merged round
# robin in the order of the row. If a row has any other channel, one fused search (`heliograph.query.fusion`) ranks its
# chunks; entities and relations then come from the evidence of that search, and from keywords if any are given.


class Channel(StrEnum):
    """A search channel. `ENTITY` and `RELATION` search by keywords; the others rank chunks in one fused search.

    Attributes:
        ENTITY: Entities near the low-level keywords. The `entity` in the scores of chunks is `NAMED_ENTITY` instead.
        RELATION: Relations near the high-level keywords.
        VECTOR: Chunks near the question.
        KEYWORD: Chunks with the question's own words, by full text; not the high- or low-level keywords.
        BRIDGE: Chunks reached from the best chunks over the entities that these mention.
        GRAPH: A random walk over the graph around the chunks and entities found.
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
    """Return the channels that a mode searches, in merge order."""
    return _MODES[mode]


def is_fused(channels: Iterable[Channel]) -> bool:
    """Return whether one fused search ranks the chunks of these channels."""
    return any(channel in FUSED_CHANNELS and channel is not Channel.VECTOR for channel in channels)


# The parameters of fused retrieval, each with its reason; `docs/retrieval.md` explains their effect.
#
# Cosines are in the usual scale (`heliograph.embedding.base`), so the same values serve every model and language.
# None depends on the size of the corpus: scores of existing chunks stay the same as the index grows.


@dataclass(frozen=True, slots=True)
class FusionParameters:
    """Weights and bounds of fused retrieval, by stage.

    Attributes:
        vector_limit: Chunks taken from the vector index for up to 60 hits; proportionally more for more hits.
        keyword_limit: Chunks taken from the full-text index, likewise.
        keyword_spread: The keyword weight is this divided by the drop of the cosine from the first to the tenth chunk:
            the less the vectors separate chunks, the more the words decide. The weight is multiplied by the share of
            the question's words that the first keyword hits hold: paraphrases are better found by meaning.
        most_keyword: Maximum of the keyword weight, before multiplication by that share.
        known_start: Factor of the keyword weight where the question names an entity that a single chunk is about: the
            starting point is known then, and other chunks with these words are mostly about similar things.
        rendered: Factor of the score of words that translate the question's into the language of a chunk: cosines
            are lower across languages.
        named: Gain of a chunk that is about an entity named in the question, divided by the square root of the number
            of such chunks, since a name that many chunks are about says little about any of them.
        first_hops: Number of best chunks whose entities may start bridges.
        first_bridges: Pairs of chunk and entity followed from these chunks; at most `residual_limit` are embedded.
        residual_limit: Maximum of embedded residual questions; the most promising pairs get them.
        entity_share: Weight of the entity's vector in the estimated vector of a residual question; the question's is 1.
        estimate_worth: Factor of a gain by such an estimate, relative to one by an embedded residual question.
        bridge_weight: Weight of the gain over a bridge.
        question_share: Share of the question's own vector in a residual question's, which prevents drift.
        mentioned: Factor for a chunk that only mentions the bridge's entity, relative to one that is about it.
        least_gain: Difference of two cosines that counts as chance.
        clear_lead: Lead of the first chunk, as a share of its score, from which `least_gain` is 0: the chunks behind
            it resemble it but speak of something else, so the bridges from the first chunk count more.
        most_mentions: An entity mentioned more often than this leads only to chunks that are about it.
        common_mentions: Number of mentions from which a name carries no information.
        aside_worth: Factor of a bridge from a paragraph without any word of the question, relative to one from the
            chunk's paragraph with the most of them.
        walk: Weight of the walk over the graph around the hits; it is small and only breaks near ties.
        walk_starts: Number of best chunks from which the walk starts.
        damping: Probability that the walk continues instead of restarting.
        within_pages: Factor of words, names, bridges and the walk where the near chunks come from few documents.
        account: The same factor where the question asks for an account of a whole subject ("Summarize ..."); if both
            apply, the smaller one counts.
        again: Factor of each further chunk of a document, relative to the one before: otherwise a page of hundreds of
            chunks displaces all others.
    """

    # The first hop: chunks near the question, by vectors and by words.
    vector_limit: int = 40
    keyword_limit: int = 100
    keyword_spread: float = 0.03
    most_keyword: float = 0.9
    known_start: float = 0.5
    rendered: float = 1.2

    # Entities that the question names.
    named: float = 0.2

    # Bridges from the best chunks over entities to other chunks.
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

    # The walk over the graph around the hits.
    walk: float = 0.1
    walk_starts: int = 10
    damping: float = 0.5

    # The documents that the chunks come from.
    within_pages: float = 0.3
    account: float = 0.3
    again: float = 0.97

    def where_led(self, lead: float) -> FusionParameters:
        """Return the parameters for a first chunk that leads the second by this share of its score, from 0 to 1."""
        return replace(self, least_gain=self.least_gain * max(0.0, 1.0 - lead / self.clear_lead))

    def weighed(self, share: float) -> FusionParameters:
        """Return the parameters with the weights of words, names, bridges and the walk scaled by `share`.

        `residual_limit` is scaled too, since residual questions then add so little.
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
        """Return 1 for an entity mentioned once, 0 from `common_mentions` mentions on, logarithmic in between."""
        return max(0.0, 1.0 - math.log(max(1, mention_count)) / math.log(self.common_mentions))


# The settings that a question may override.
_OVERRIDES = tuple(field.name for field in fields(QueryParam) if field.name in QuerySettings.model_fields)
_LEAST_WEIGHT = 3
# Tokens of the window reserved for the reply if its length is not set, and the largest share ever reserved.
_REPLY_TOKENS = 4096
_MOST_REPLY = 0.5
_DEFAULT_RESPONSE_TYPE = "Multiple Paragraphs"
_LONE_SURROGATE = late_pattern(r"[\ud800-\udfff]")
# Whole Unicode blocks of Chinese, Japanese and Korean scripts, including forms and punctuation.
_WIDE = late_pattern(
    r"[\u1100-\u11ff\u2e80-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef"
    r"\U00016fe0-\U00016fff\U0001aff0-\U0001b2ff\U00020000-\U0003ffff]"
)


@dataclass(frozen=True, slots=True)
class Plan:
    """A checked question with all defaults filled in, ready to be answered.

    Attributes:
        question: The stripped question, lone surrogates replaced by U+FFFD.
        param: The original parameters, for those without a field here.
        settings: The settings with the overrides of `param`; `max_total_tokens` is lower than requested if the chat
            model can read less.
        channels: The searched channels, in merge order.
        added_channels: Those channels that the question added to the mode's own.
        keywords: Keywords given by the caller; None if there are none.
        user_prompt: Further instructions, those of the settings first; may be empty.
        system_prompt: Replaces the built-in prompt, if not empty.
        chat_model: Replaces the configured chat model, if not None.
        filter: Condition on the searched documents; None for all documents.
        is_written: Whether to write the context as the text that a chat model reads.
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
        """Whether keywords search entities and relations; a fused search needs none, but uses those given."""
        return self.uses_graph and (not self.is_all_fused or self.keywords is not None)

    @property
    def wants_answer(self) -> bool:
        """Whether the caller wants an answer, not only its context or prompt."""
        return not (self.param.only_need_context or self.param.only_need_prompt)

    @property
    def is_fused(self) -> bool:
        """Whether one fused search ranks the chunks."""
        return is_fused(self.channels)

    def with_settings(self, **changes: Any) -> Plan:
        """Return the plan with these settings replaced; the new values are not checked."""
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
        param: Its parameters.
        settings: The defaults.
        readable: Tokens that the configured chat model can read, history included; None for no bound. It does not
            apply to a chat model given with the question, whose window is unknown.

    Raises:
        InvalidRequestError: The question or a parameter is invalid.
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
    """Raise `InvalidRequestError` if a question is too short to search for; a mode without channels takes any."""
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
    """Return the settings, overridden by the parameters of the same names."""
    found: dict[str, Any] = {name: given for name in _OVERRIDES if (given := getattr(param, name)) is not None}
    total = found.get("max_total_tokens", settings.max_total_tokens)
    # A token has at least one byte, so a short history need not be counted.
    if readable is not None and total + sum(len(message.content.encode()) for message in history) > readable:
        left = readable - sum(count_tokens(message.content) for message in history)
        found["max_total_tokens"] = max(1, min(total, left))
    return settings.model_copy(update=found) if found else settings


def _without_surrogates(text: str | None) -> str:
    return _LONE_SURROGATE.sub("\ufffd", text or "")
