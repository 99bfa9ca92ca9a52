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
    """Why a question has no context. An outage is never a `Failure`; it is raised as an error.

    Attributes:
        NO_KEYWORDS: The question has no keywords, so nothing was searched.
        NO_RESULTS: The search found nothing.
        BELOW_THRESHOLD: The search found only chunks, and the reranker scores all of them below `rerank.min_score`.
        EMPTY_CONTEXT: The search found something, but nothing fits the token budgets.
    """

    NO_KEYWORDS = "no_keywords"
    NO_RESULTS = "no_results"
    BELOW_THRESHOLD = "below_threshold"
    EMPTY_CONTEXT = "empty_context"


@dataclass(frozen=True, slots=True)
class Keywords:
    """The keywords of a search.

    Attributes:
        high_level: Themes; they search the relations.
        low_level: Names and details; they search the entities.
    """

    high_level: tuple[str, ...] = ()
    low_level: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FusedHit:
    """A chunk found by a fused search, with the scores that explain its rank.

    Attributes:
        score: The score it is ranked by; higher is better, comparable within one search only.
        scores: Contribution of each channel: `vector` (the cosine, also where another channel found the chunk; which
            one did is not recorded), `keyword`, `entity` (the chunk is about an entity that the question names),
            `bridge`, `graph`. Zeros are left out. `score` is their sum, unless the document has a better hit (then
            `score` is lower, by `FusionParameters.again`) or hits were fused by rank.
        path: Chunks from which bridges led to this one, the first hit first; empty if no bridge did.
    """

    chunk_id: str
    score: float
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceMark:
    """How a chunk was found; written `E5/2`.

    The wire always uses this text: `source_marks` in `/query/data`, `found_by` in `/api/v1/retrieve` and `marks` in
    an explanation are lists of it.

    Attributes:
        origin: `C` for a search for chunks (by vector or, where channels are fused, by any channel), `E` for a search
            through entities, `R` for one through relations.
        frequency: Number of selected entities or relations that list the chunk; 1 for `C`.
        order: Position in the list of that origin, from 1.
    """

    origin: Literal["C", "E", "R"]
    frequency: int
    order: int

    def __str__(self) -> str:
        return f"{self.origin}{self.frequency}/{self.order}"


@dataclass(frozen=True, slots=True)
class RetrievedEntity:
    """An entity within the token budget.

    Attributes:
        entity: The entity.
        sources: Distinct sources of its first 75 chunks.
        reference_id: The first reference among these sources, or empty.
    """

    entity: Entity
    sources: tuple[str, ...]
    reference_id: str


@dataclass(frozen=True, slots=True)
class RetrievedRelation:
    """A relation within the token budget.

    Attributes:
        relation: The relation.
        degree: The sum of the degrees of its two ends.
        sources: Distinct sources of its first 75 chunks.
        reference_id: The first reference among these sources, or empty.
    """

    relation: Relation
    degree: int
    sources: tuple[str, ...]
    reference_id: str


@dataclass(frozen=True, slots=True)
class RetrievedChunk:
    """A chunk within the token budget.

    Attributes:
        chunk: The chunk.
        source: Source of its document.
        reference_id: Number of that source in the list of references.
        marks: How it was found: those of `C`, `E` and `R` that apply.
        rerank_score: The reranker's score; None without a reranker.
        scores: Contribution of each channel, as in `FusedHit`; empty in the modes that merge round robin.
        score: The score that orders chunks; higher is better, comparable within one retrieval only. It is
            `rerank_score` or, for a chunk that no reranker scored, its value in `MergedChunks.totals`. So apply a
            factor or bound of the ranking to the totals, not to `scores`. A token budget may move chunks to the front
            that it must not cut.
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
        """The sum of the channels' `scores`, whichever score orders the chunks; 0 where no channels were fused."""
        return sum(self.scores.values())


@dataclass(frozen=True, slots=True)
class Reference:
    """A source that the context quotes; several documents may share it.

    Attributes:
        reference_id: `"1"`, `"2"`, ...: most quoted first.
        source: The documents' source.
        count: Number of its chunks in the context.
        other_sources: Sources of other documents with the same text.
    """

    reference_id: str
    source: str
    count: int
    other_sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Context:
    """The retrieved material that an answer may use.

    Attributes:
        text: The whole context as a chat model reads it; empty if there is no context or no text was requested.
        entities: Entities, best first.
        relations: Relations, best first.
        chunks: Chunks, best first.
        references: Sources of the chunks.
        paths: Shortest paths between entities that the question names; None where no paths are searched.
    """

    text: str = ""
    entities: tuple[RetrievedEntity, ...] = ()
    relations: tuple[RetrievedRelation, ...] = ()
    chunks: tuple[RetrievedChunk, ...] = ()
    references: tuple[Reference, ...] = ()
    paths: tuple[GraphPath, ...] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the context has no entity, relation or chunk."""
        return not (self.entities or self.relations or self.chunks)


@dataclass(frozen=True, slots=True)
class ProcessingInfo:
    """Counts of entities, relations and chunks: found, and left after each cut.

    `below_threshold_count` chunks were scored too low by the reranker; `ranked_chunks_count` is the number before the
    cut to the token budget.
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
    """A part of a question as it was searched for, with the channel scores of each chunk that it found."""

    question: str
    scores: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class TracedChunk:
    """A chunk that the search found, and whether it was kept.

    Attributes:
        chunk_id: The chunk.
        document_id: Its document.
        source: Source of that document.
        page: Page number, from 1; None if unknown.
        headings: Headings above the chunk, outermost first.
        start: Offset of its first character in the document's text.
        opening: The beginning of its text.
        tokens: Tokens that its text takes in the context.
        place: Rank after the channels were merged, from 1.
        marks: How it was found, as `SourceMark` writes it.
        scores: Contribution of each fused channel.
        rerank_score: The reranker's score; None without a reranker.
        path: Chunks from which bridges led to it, the first hit first.
        outcome: `kept`, or the reason why it was dropped: `count` (beyond `chunk_top_k`), `rerank` (the reranker put
            it behind or below its threshold), `budget` (it did not fit the token budget).
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
    """An entity or a relation that the search found, by name, and whether it fitted the token budget."""

    name: str
    is_kept: bool


@dataclass(frozen=True, slots=True)
class Trace:
    """A record of everything that the search found, kept or dropped.

    Attributes:
        chunks: Chunks in the order of the merged channels; of the dropped ones only the best.
        entities: Entities, best first; dropped ones come last.
        relations: Relations in the same order, named by their ends.
        tokens: Token counts of `prompt`, `question`, `frame`, `entities`, `relations` and `chunks`; `total` is the
            budget for all of them.
        prompt: The prompt for a chat model, with the question; empty where no context text is written.
    """

    chunks: tuple[TracedChunk, ...] = ()
    entities: tuple[TracedItem, ...] = ()
    relations: tuple[TracedItem, ...] = ()
    tokens: Mapping[str, int] = field(default_factory=dict[str, int])
    prompt: str = ""


@dataclass(frozen=True, slots=True)
class Retrieval:
    """The result of retrieval for one question, before it is answered.

    Attributes:
        question: The question, stripped.
        mode: The mode of the question.
        keywords: The keywords searched for; empty in modes without keywords.
        context: The retrieved material that fits the token budgets.
        info: Counts.
        failure: Why there is no context; None if there is one, and in mode bypass.
        warnings: Unexpected events during retrieval, in words.
        usage: Tokens that a chat model spent on understanding and keywords.
        respelt: The corrected question that was searched for, if it had misspelt names; else None.
        understanding: The kind of question and its parts, which explain how mode `auto` searched; None in other modes.
        timings: Seconds per stage that ran: `understanding`, `keywords`, `embed`, `search`, `select`, `chunks` (which
            includes `rerank`), and `total`.
        parts: Results of each part of a question that was searched part by part.
        max_total_tokens: Token budget of the whole prompt; lower than requested if the chat model can read less.
        trace: Record of everything found; None unless the question set `explain`, and where nothing was found.
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
        """Seconds that the reranker took; None without a reranker."""
        return self.timings.get("rerank")

    @property
    def has_no_room(self) -> bool:
        """Whether relevant chunks were found, but the token budget keeps none of them."""
        is_cut = self.info.ranked_chunks_count > 0 and self.info.final_chunks_count == 0
        return is_cut or self.failure is Failure.EMPTY_CONTEXT

    @property
    def is_below_threshold(self) -> bool:
        """Whether chunks were found, but the reranker scores all of them below its threshold."""
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


# A parameter that overrides a setting takes its description and bounds from the setting of the same name.
_SETTINGS = QuerySettings.model_fields


# "Adding something" in CONTRIBUTING.md lists the other places that a new parameter must be added to.
@dataclass(frozen=True, slots=True)
class QueryParam:
    """Parameters of one question. None means the default of `QuerySettings`.

    The `Field` beside each type describes the parameter; the service and the command line show that text too. Values
    are not checked here: a wrong type or a value out of bounds raises `InvalidRequestError` when the query runs.
    """

    mode: Annotated[Mode | ModeName, Field(description="How the question is answered.")] = DEFAULT_MODE
    only_need_context: Annotated[
        bool, Field(description="Return the context as the answer's text, and call no chat model for it.")
    ] = False
    only_need_prompt: Annotated[
        bool, Field(description="Return what a chat model would be given; wins over `only_need_context`.")
    ] = False
    response_type: Annotated[str | None, Field(description="Form of the answer, in words.")] = "Multiple Paragraphs"
    # `QueryPipeline.stream` yields the pieces.
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
    # These two decide what `Answer.payload` returns.
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
    # `heliograph.filters.parse_filter` parses a mapping.
    filter: Annotated[
        Filter | Mapping[str, Any] | None,
        Field(description="Only documents that match it exist for this question; none leaves out none."),
    ] = None
    explain: Annotated[bool, Field(description="Say what became of everything that was found, and why.")] = False


# The description of each parameter.
PARAMETER_TEXTS: Mapping[str, str] = {
    name: str(get_args(kind)[1].description) for name, kind in get_type_hints(QueryParam, include_extras=True).items()
}
