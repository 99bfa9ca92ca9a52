"""The parameters of a question and what retrieval returns: `QueryParam`, `Retrieval` and its `Context`, all frozen.

A `Retrieval` holds the keywords, the counts and the `Context`: the entities, relations and chunks that fit the
budgets, the documents they come from, and the text that a chat model reads. `query.payloads` writes it as plain dicts,
and `query.answers.models` has the `Answer`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Literal, get_args, get_type_hints

from pydantic import Field

from heliograph.chat.base import ChatMessage, ChatModel
from heliograph.filters import Filter
from heliograph.functions import ChatFunction
from heliograph.models import (
    DEFAULT_MODE,
    ChannelName,
    Chunk,
    ChunkOutcome,
    ChunkPicking,
    ContextFormatName,
    Entity,
    FusionName,
    GraphPath,
    Mode,
    ModeName,
    Relation,
    Usage,
)
from heliograph.query.understanding import Understanding
from heliograph.settings import QuerySettings


class Failure(StrEnum):
    """Why a question has no context. An outage is never one of these: it is raised.

    Attributes:
        NO_KEYWORDS: The question has none, so nothing was searched.
        NO_RESULTS: Nothing was found.
        BELOW_THRESHOLD: Chunks alone were found, and the reranker scores none as high as `rerank.min_score`.
        EMPTY_CONTEXT: Something was found, and nothing fits the budgets.
    """

    NO_KEYWORDS = "no_keywords"
    NO_RESULTS = "no_results"
    BELOW_THRESHOLD = "below_threshold"
    EMPTY_CONTEXT = "empty_context"


@dataclass(frozen=True, slots=True)
class Keywords:
    """The keywords of a search.

    Attributes:
        high_level: Themes; searched among the relations.
        low_level: Names and details; searched among the entities.
    """

    high_level: tuple[str, ...] = ()
    low_level: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FusedHit:
    """What a fused search knows of a chunk: why it stands where it stands.

    Attributes:
        score: What it is ranked by, higher is better; comparable within one search only.
        scores: Per channel what it adds: `vector` (the cosine, whichever channel found the chunk, which is not kept),
            `keyword`, `entity` (about an entity that the question names), `bridge`, `graph`. Zeros are left out. Their
            sum is `score`, unless the document has a better hit (then `score` is lower, by `FusionParameters.again`)
            or hits were fused by rank.
        path: Chunks from which bridges led to it, the first hit first; empty if none did.
    """

    chunk_id: str
    score: float
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceMark:
    """How a chunk was found; written `E5/2`.

    On the wire it is always this text: `source_marks` in `/query/data`, `found_by` in `/api/v1/retrieve` and `marks` in
    an explanation are lists of it.

    Attributes:
        origin: `C` by a search for chunks: by its own vector or, where channels are fused, by any of them; `E` through
            entities, `R` through relations.
        frequency: Selected entities or relations that list the chunk; 1 for `C`.
        order: Place in the list of that origin, from 1.
    """

    origin: Literal["C", "E", "R"]
    frequency: int
    order: int

    def __str__(self) -> str:
        return f"{self.origin}{self.frequency}/{self.order}"


@dataclass(frozen=True, slots=True)
class RetrievedEntity:
    """An entity within the budget.

    Attributes:
        entity: The entity.
        sources: Sources of its first 75 chunks, each once.
        reference_id: The first reference among them, or empty.
    """

    entity: Entity
    sources: tuple[str, ...]
    reference_id: str


@dataclass(frozen=True, slots=True)
class RetrievedRelation:
    """A relation within the budget.

    Attributes:
        relation: The relation.
        degree: The sum of two degrees, that of one end and that of the other.
        sources: Sources of its first 75 chunks, each once.
        reference_id: The first reference among them, or empty.
    """

    relation: Relation
    degree: int
    sources: tuple[str, ...]
    reference_id: str


@dataclass(frozen=True, slots=True)
class RetrievedChunk:
    """A chunk within the budget.

    Attributes:
        chunk: The chunk.
        source: Source of its document.
        reference_id: Number of that source in the list of references.
        marks: How it was found: `C`, `E`, `R`, those that apply.
        rerank_score: What the reranker gave it; None without one.
        scores: What each channel adds to its score, as in `FusedHit`; empty in the modes that merge round robin.
        score: What it is ordered by, higher is better, comparable within one retrieval only: `rerank_score`, or, of a
            chunk that no reranker scored, what `MergedChunks.totals` says. So a factor or a bound of the ranking has to
            count there, and not in `scores`. A budget may put chunks first that it must not cut.
    """

    chunk: Chunk
    source: str
    reference_id: str
    marks: tuple[SourceMark, ...]
    rerank_score: float | None = None
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    score: float = 0.0

    @property
    def channel_total(self) -> float:
        """How well the channels found it, whatever it is ordered by: `scores` added up, 0 where none were fused."""
        return sum(self.scores.values())


@dataclass(frozen=True, slots=True)
class Reference:
    """A source that the context quotes; several documents may have it.

    Attributes:
        reference_id: `"1"`, `"2"`, ...: most quoted first.
        source: As the documents have it.
        count: Chunks of it in the context.
        other_sources: Sources of documents with the same text.
    """

    reference_id: str
    source: str
    count: int
    other_sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Context:
    """What an answer may draw on.

    Attributes:
        text: All of it as a chat model reads it; empty when there is nothing, or nobody asked for it.
        entities: Entities, best first.
        relations: Relations, best first.
        chunks: Chunks, best first.
        references: Sources of the chunks.
        paths: Shortest paths between entities that the question names; None where they are not looked for.
    """

    text: str = ""
    entities: tuple[RetrievedEntity, ...] = ()
    relations: tuple[RetrievedRelation, ...] = ()
    chunks: tuple[RetrievedChunk, ...] = ()
    references: tuple[Reference, ...] = ()
    paths: tuple[GraphPath, ...] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it."""
        return not (self.entities or self.relations or self.chunks)


@dataclass(frozen=True, slots=True)
class ProcessingInfo:
    """How many were found, and how many were left after each cut.

    The reranker scored `below_threshold_count` too low; `ranked_chunks_count` is before the cut to tokens.
    """

    total_entities_found: int = 0
    total_relations_found: int = 0
    entities_after_truncation: int = 0
    relations_after_truncation: int = 0
    merged_chunks_count: int = 0
    final_chunks_count: int = 0
    ranked_chunks_count: int = 0
    below_threshold_count: int = 0


@dataclass(frozen=True, slots=True)
class FoundPart:
    """A part of a question as it was searched for, and per chunk that it found what each channel gave it."""

    question: str
    scores: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class TracedChunk:
    """A chunk that was found, and what became of it.

    Attributes:
        chunk_id: The chunk.
        document_id: Its document.
        source: Of that document.
        page: Where known, from 1.
        headings: Those above it, outermost first.
        start: Place of its first character in the document's text.
        opening: How it begins.
        tokens: What its text costs in the context.
        place: Its rank after the channels were joined, from 1; 0 for one that only a reranker's cut brought back.
        marks: How it was found, as `SourceMark` writes it.
        scores: What each fused channel adds to its score.
        rerank_score: What the reranker gave it; None without one.
        path: Chunks from which bridges led to it, the first hit first.
        outcome: `kept`; or why not: `count` (beyond `chunk_top_k`), `rerank` (the reranker put it behind or below its
            threshold), `budget` (did not fit the tokens).
    """

    chunk_id: str
    document_id: str
    source: str
    page: int | None
    headings: tuple[str, ...]
    start: int
    opening: str
    tokens: int
    place: int
    marks: tuple[str, ...]
    scores: Mapping[str, float]
    rerank_score: float | None
    path: tuple[str, ...]
    outcome: ChunkOutcome


@dataclass(frozen=True, slots=True)
class TracedItem:
    """An entity or a relation that was found, by name, and whether it fitted its budget."""

    name: str
    is_kept: bool


@dataclass(frozen=True, slots=True)
class Trace:
    """What became of everything that was found.

    Attributes:
        chunks: In the order in which the channels were joined; of those dropped the best.
        entities: Best first, those that were dropped last.
        relations: Likewise, named by their ends.
        tokens: Of `prompt`, `question`, `frame`, `entities`, `relations` and `chunks`; `total` is the budget of all.
        prompt: What a chat model would read, the question included; empty where no context is written.
    """

    chunks: tuple[TracedChunk, ...] = ()
    entities: tuple[TracedItem, ...] = ()
    relations: tuple[TracedItem, ...] = ()
    tokens: Mapping[str, int] = field(default_factory=dict[str, int])
    prompt: str = ""


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Everything that is known about a question before it is answered.

    Attributes:
        question: The question, stripped.
        mode: The mode of the question.
        keywords: What was searched for; empty in modes without keywords.
        context: What was found and fits.
        info: Counts.
        failure: Why there is no context; None when there is one, and in mode bypass.
        warnings: What did not go as one would expect, in words.
        usage: Tokens that a chat model spent on understanding and keywords.
        respelt: The question as it was searched for, if names in it were misspelt; None if as it was written.
        understanding: What the question asks for, which says why mode `auto` searched as it did; None in other modes.
        timings: Seconds that stages took: `understanding`, `keywords`, `embed`, `search`, `select`, `chunks` and in it
            `rerank`, and `total`; only those that ran.
        parts: What each part found where a question of several was searched part by part.
        max_total_tokens: Budget of all that is read; less than was asked for where the chat model can read less.
        trace: What became of everything that was found; None unless the question asked for it by `explain`, and
            where nothing was found.
    """

    question: str
    mode: Mode
    keywords: Keywords = Keywords()
    context: Context = Context()
    info: ProcessingInfo = ProcessingInfo()
    failure: Failure | None = None
    warnings: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    respelt: str | None = None
    understanding: Understanding | None = None
    timings: Mapping[str, float] = field(default_factory=dict[str, float], compare=False)
    max_total_tokens: int = 0
    parts: tuple[FoundPart, ...] = field(default=(), compare=False, repr=False)
    trace: Trace | None = None

    @property
    def rerank_latency(self) -> float | None:
        """Seconds that the reranker took; None without one."""
        return self.timings.get("rerank")

    @property
    def has_no_room(self) -> bool:
        """Whether there are chunks that say something of the question, and the budget keeps none of them."""
        is_cut = self.info.ranked_chunks_count > 0 and self.info.final_chunks_count == 0
        return is_cut or self.failure is Failure.EMPTY_CONTEXT

    @property
    def is_below_threshold(self) -> bool:
        """Whether there are chunks, and the reranker scores all of them below its threshold."""
        return self.info.below_threshold_count > 0 and self.info.ranked_chunks_count == 0

    @property
    def status(self) -> Literal["success", "failure"]:
        """Whether there is a context."""
        return "success" if self.failure is None else "failure"

    @property
    def message(self) -> str:
        """The status in words."""
        match self.failure:
            case None:
                return "Query processed successfully"
            case Failure.NO_KEYWORDS:
                return "No keywords were found in the question; give hl_keywords or ll_keywords, or use mode 'naive'."
            case Failure.NO_RESULTS if self.mode is Mode.NAIVE:
                return "No relevant document chunks found."
            case Failure.NO_RESULTS:
                return "Query returned no results"
            case Failure.BELOW_THRESHOLD | Failure.EMPTY_CONTEXT:
                return "Query returned empty dataset."


# What a question may say in place of a setting is described, and bounded, by the setting of the same name.
_SETTINGS = QuerySettings.model_fields


# Where a new parameter goes besides is listed under "Adding something" in CONTRIBUTING.md.
@dataclass(frozen=True, slots=True)
class QueryParam:
    """How one question is to be answered. None means the default of `QuerySettings`.

    The `Field` beside each type says what the parameter is; the service and the command line show it too. Nothing is
    checked here: a value of another type or out of bounds is an `InvalidRequestError` when the question is asked.
    """

    mode: Annotated[Mode | ModeName, Field(description="How the question is answered.")] = DEFAULT_MODE
    only_need_context: Annotated[
        bool, Field(description="Return the context as the answer's text, and call no chat model for it.")
    ] = False
    only_need_prompt: Annotated[
        bool, Field(description="Return what a chat model would be given; wins over `only_need_context`.")
    ] = False
    response_type: Annotated[str | None, Field(description="Form of the answer, in words.")] = "Multiple Paragraphs"
    # `QueryPipeline.stream` gives the pieces.
    stream: Annotated[bool, Field(description="Collect the answer from a stream; nothing streamed is kept.")] = False
    top_k: Annotated[int | None, _SETTINGS["top_k"]] = None
    chunk_top_k: Annotated[int | None, _SETTINGS["chunk_top_k"]] = None
    max_entity_tokens: Annotated[int | None, _SETTINGS["max_entity_tokens"]] = None
    max_relation_tokens: Annotated[int | None, _SETTINGS["max_relation_tokens"]] = None
    max_total_tokens: Annotated[int | None, _SETTINGS["max_total_tokens"]] = None
    hl_keywords: Annotated[
        Sequence[str] | None,
        Field(description="High-level keywords; if these or `ll_keywords` are given, both are used as they are."),
    ] = ()
    ll_keywords: Annotated[
        Sequence[str] | None,
        Field(description="Low-level keywords; if these or `hl_keywords` are given, both are used as they are."),
    ] = ()
    conversation_history: Annotated[
        Sequence[ChatMessage | Mapping[str, str]] | None,
        Field(description='Earlier messages, `{"role": ..., "content": ...}`, oldest first.'),
    ] = ()
    user_prompt: Annotated[str | None, Field(description="Further instructions to the chat model.")] = None
    enable_rerank: Annotated[bool | None, _SETTINGS["enable_rerank"]] = None
    include_references: Annotated[bool, Field(description="Where a service renders it: with its references.")] = False
    disable_user_prompt_prefix: Annotated[
        bool, Field(description="Leave out the instructions of the settings (`user_prompt_prefix`).")
    ] = False
    include_chunk_content: Annotated[bool, Field(description="Give references the texts of their chunks.")] = False
    # These two decide what `Answer.payload` is.
    include_sources: Annotated[bool, Field(description="Give entities, relations and chunks as well.")] = False
    return_structured: Annotated[bool, Field(description="Give everything that is known of the answer.")] = False
    history_turns: Annotated[
        int | None,
        Field(ge=0, description="Turns (a user's message and what follows it) used of the history; 0 uses all."),
    ] = 0
    chunk_picking: Annotated[ChunkPicking | None, _SETTINGS["chunk_picking"]] = None
    context_format: Annotated[ContextFormatName | None, _SETTINGS["context_format"]] = None
    channels: Annotated[
        Sequence[ChannelName] | None,
        Field(
            description="Channels to search beside the mode's own. Where the mode has none but `vector` of these "
            "itself, what they find is joined with the mode's chunks by reciprocal rank."
        ),
    ] = ()
    fusion: Annotated[FusionName | None, _SETTINGS["fusion"]] = None
    chat_model: Annotated[
        ChatModel | ChatFunction | None,
        Field(description="The chat model for this question, or a function, for keywords and answer."),
    ] = None
    system_prompt: Annotated[
        str | None,
        Field(
            description="In place of the built-in prompt; `{context_data}`, `{response_type}` and `{user_prompt}`, or "
            "the same names after a `$`, are filled in."
        ),
    ] = None
    # A mapping is read by `heliograph.filters.parse_filter`.
    filter: Annotated[
        Filter | Mapping[str, Any] | None,
        Field(description="Only documents that match it exist for this question; none leaves out none."),
    ] = None
    explain: Annotated[bool, Field(description="Say what became of everything that was found, and why.")] = False


# What each parameter is, in words.
PARAMETER_TEXTS: Mapping[str, str] = {
    name: str(get_args(kind)[1].description) for name, kind in get_type_hints(QueryParam, include_extras=True).items()
}
