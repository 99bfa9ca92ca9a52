"""What a caller touches: `QueryParam` goes in, `Answer` and `Retrieval` come out, frozen, and as plain dicts.

A `Retrieval` holds the keywords, the counts and the `Context`: the entities, relations and chunks that fit the
budgets, the documents they come from, and the text that a chat model reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, Literal, NotRequired, TypedDict

from heliograph.chat.base import ChatMessage, ChatModel
from heliograph.filters import Filter
from heliograph.functions import ChatFunction
from heliograph.models import DEFAULT_MODE, FIELD_SEPARATOR, Chunk, Entity, GraphPath, Mode, ModeName, Relation, Usage
from heliograph.query.understanding import Understanding


class Failure(StrEnum):
    """Why a question has no context. An outage is never one of these: it is raised."""

    NO_KEYWORDS = "no_keywords"
    NO_RESULTS = "no_results"
    EMPTY_CONTEXT = "empty_context"


@dataclass(frozen=True, slots=True)
class Keywords:
    """What is searched for.

    Attributes:
        high_level: Themes; searched among the relations.
        low_level: Names and details; searched among the entities.
    """

    high_level: tuple[str, ...] = ()
    low_level: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceMark:
    """How a chunk was found; written `E5/2`.

    Attributes:
        channel: `C` by its own vector, `E` through entities, `R` through relations.
        frequency: Selected entities or relations that list the chunk; 1 for `C`.
        order: Place in that channel's list, from 1.
    """

    channel: Literal["C", "E", "R"]
    frequency: int
    order: int

    def __str__(self) -> str:
        return f"{self.channel}{self.frequency}/{self.order}"


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
        degree: Degree of one end plus degree of the other.
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
        scores: What each channel adds to its score, where channels are fused: `vector`, `keyword`, `entity`, `bridge`,
            `graph`, those that apply; empty in the modes that merge round robin.
    """

    chunk: Chunk
    source: str
    reference_id: str
    marks: tuple[SourceMark, ...]
    rerank_score: float | None = None
    scores: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class Reference:
    """A document that the context quotes.

    Attributes:
        reference_id: `"1"`, `"2"`, ...: most quoted first.
        source: The document's source.
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
    """How many were found, and how many were left after each cut; `ranked_chunks_count` is before that to tokens."""

    total_entities_found: int = 0
    total_relations_found: int = 0
    entities_after_truncation: int = 0
    relations_after_truncation: int = 0
    merged_chunks_count: int = 0
    final_chunks_count: int = 0
    ranked_chunks_count: int = 0


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
    outcome: str


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
        mode: The mode it was asked in.
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
        """Seconds that the reranker took; None if none was asked."""
        return self.timings.get("rerank")

    @property
    def has_no_room(self) -> bool:
        """Whether there are chunks that say something of the question, and the budget keeps none of them."""
        is_cut = self.info.ranked_chunks_count > 0 and self.info.final_chunks_count == 0
        return is_cut or self.failure is Failure.EMPTY_CONTEXT

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
            case Failure.EMPTY_CONTEXT:
                return "Query returned empty dataset."


@dataclass(frozen=True, slots=True)
class QueryParam:
    """How one question is to be answered. None means the default of `QuerySettings`.

    Nothing is checked here; a value out of range is an `InvalidRequestError` when the question is asked.

    Attributes:
        mode: One of `Mode`.
        only_need_context: Return the context as the answer's text and call no chat model for it.
        only_need_prompt: Return what the chat model would be given; wins over `only_need_context`.
        response_type: Form of the answer, in words.
        stream: Collect the answer from a stream; nothing streamed is cached. `QueryEngine.stream` gives the pieces.
        top_k: Entities and relations searched, 1 to 10,000.
        chunk_top_k: Chunks searched, and kept after reranking, 1 to 10,000.
        max_entity_tokens: Budget of the entities.
        max_relation_tokens: Budget of the relations.
        max_total_tokens: Budget of prompt, question, entities, relations and chunks.
        hl_keywords: High-level keywords; if these or `ll_keywords` are given, both are used as they are.
        ll_keywords: Low-level keywords.
        conversation_history: Earlier messages, `{"role": ..., "content": ...}` or `ChatMessage`, oldest first.
        user_prompt: Further instructions to the chat model.
        enable_rerank: Rerank chunks if a reranker is configured.
        include_references: For services that render an answer: show its references.
        disable_user_prompt_prefix: Leave out `QuerySettings.user_prompt_prefix`.
        include_chunk_content: Give references the texts of their chunks.
        include_sources: Let `Answer.payload` be the answer with what it was made from.
        return_structured: Let `Answer.payload` be everything.
        history_turns: Turns (a user's message and what follows it) used of the history; 0 uses all.
        chunk_picking: How chunks of entities and relations are picked.
        context_format: JSON lines, or CSV tables.
        channels: Channels to search beside the mode's own: `vector`, `keyword`, `bridge`, `graph`. Where the mode has
            none of the last three itself, what they find is joined with the mode's chunks by reciprocal rank.
        fusion: How chunks of several channels are fused: by weighted `score` or by reciprocal `rank`.
        chat_model: The chat model for this question, or a function, for keywords and answer.
        system_prompt: In place of the built-in prompt; `{context_data}`, `{response_type}` and `{user_prompt}`, or
            the same names after a `$`, are filled in.
        filter: Only documents that match it exist for this question: a condition of `heliograph.filters`, or the dict
            that `heliograph.filters.parse_filter` reads; None leaves out none.
        explain: Let `Retrieval.trace` say what became of everything that was found.
    """

    mode: Mode | ModeName = DEFAULT_MODE
    only_need_context: bool = False
    only_need_prompt: bool = False
    response_type: str = "Multiple Paragraphs"
    stream: bool = False
    top_k: int | None = None
    chunk_top_k: int | None = None
    max_entity_tokens: int | None = None
    max_relation_tokens: int | None = None
    max_total_tokens: int | None = None
    hl_keywords: Sequence[str] = ()
    ll_keywords: Sequence[str] = ()
    conversation_history: Sequence[ChatMessage | Mapping[str, str]] = ()
    user_prompt: str | None = None
    enable_rerank: bool | None = None
    include_references: bool = False
    disable_user_prompt_prefix: bool = False
    include_chunk_content: bool = False
    include_sources: bool = False
    return_structured: bool = False
    history_turns: int = 0
    chunk_picking: Literal["vector", "weight", "shared_relations"] | None = None
    context_format: Literal["json", "csv"] | None = None
    channels: Sequence[str] = ()
    fusion: Literal["score", "rank"] | None = None
    chat_model: ChatModel | ChatFunction | None = None
    system_prompt: str | None = None
    filter: Filter | Mapping[str, Any] | None = None
    explain: bool = False


@dataclass(frozen=True, slots=True)
class Citation:
    """A passage of a document that a sentence of an answer rests on.

    Attributes:
        reference_id: Number of the document in the list of references.
        source: The document's source.
        document_id: The document.
        chunk_id: The chunk that was retrieved.
        start: First character of the quote in the document's text.
        end: One past the last.
        quote: Exactly `document_text[start:end]`.
        page: Number of the page, from 1, where the document has pages.
        headings: Titles of the sections around the quote, outermost first.
        answer_start: First character, in the answer's text, of the sentence that rests on it.
        answer_end: One past the last.
    """

    reference_id: str
    source: str
    document_id: str
    chunk_id: str
    start: int
    end: int
    quote: str
    page: int | None
    headings: tuple[str, ...]
    answer_start: int
    answer_end: int


class AnswerKind(StrEnum):
    """What the text of an answer is."""

    GENERATED = "generated"
    EXTRACTIVE = "extractive"
    NOTHING_FOUND = "nothing_found"
    CONTEXT = "context"
    PROMPT = "prompt"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer and what it was made from.

    Attributes:
        text: The answer, or what was asked for in its place.
        kind: What `text` is.
        retrieval: Keywords, context and counts behind it.
        is_complete: False when the chat model was cut, at a length limit or in a loop.
        from_cache: Whether it was given before and cost nothing now.
        warnings: What did not go as one would expect, in words; those of the retrieval included.
        usage: Tokens that chat models spent on it, keywords included; none if it comes from the cache.
        citations: What its sentences rest on, to the character, in the order of the text.
        unsupported_references: Citations left out because they named no document of the context.
        unsupported_sentences: Sentences that a chat model wrote without a document that supports them.
        is_unanswered: Whether it says that the documents hold no answer.
    """

    text: str
    kind: AnswerKind
    retrieval: Retrieval = field(repr=False)
    is_complete: bool = True
    from_cache: bool = False
    warnings: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    citations: tuple[Citation, ...] = ()
    unsupported_references: int = 0
    unsupported_sentences: int = 0
    is_unanswered: bool = False

    def __str__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        """Return how a notebook shows it: the text, the documents it draws on, and what did not go as expected."""
        if self.kind in (AnswerKind.CONTEXT, AnswerKind.PROMPT):
            # As it is: what a chat model reads is no Markdown.
            return f"~~~~~~text\n{self.text}\n~~~~~~"
        parts = [self.text or self.retrieval.message]
        if self.references and "### References" not in self.text:
            documents = [f"- [{item.reference_id}] {item.source}" for item in self.references]
            parts.append("\n".join(["### References", "", *documents]))
        parts += [f"> **Warning:** {warning}" for warning in self.warnings]
        return "\n\n".join(parts)

    @property
    def is_generated(self) -> bool:
        """Whether a chat model wrote the text."""
        return self.kind is AnswerKind.GENERATED

    @property
    def mode(self) -> Mode:
        """The mode it was asked in."""
        return self.retrieval.mode

    @property
    def context(self) -> Context:
        """Entities, relations and chunks behind it."""
        return self.retrieval.context

    @property
    def references(self) -> tuple[Reference, ...]:
        """Sources of the chunks behind it; the numbers are those that the text cites."""
        return self.retrieval.context.references

    def payload(self, param: QueryParam) -> str | dict[str, Any]:
        """Return the answer in the shape that the question asked for.

        Returns:
            The text; with `include_sources` a dict of `answer`, `entities`, `relationships`, `chunks`, `references`
            and `metadata`; with `return_structured` (which wins) that and everything else that is known.
        """
        if param.return_structured:
            return self._sources(param) | self._details()
        return self._sources(param) if param.include_sources else self.text

    def _sources(self, param: QueryParam) -> dict[str, Any]:
        return {
            "answer": self.text,
            **context_data(self.context, param.include_chunk_content),
            "metadata": retrieval_metadata(self.retrieval),
        }

    def _details(self) -> dict[str, Any]:
        return {
            "status": self.retrieval.status,
            "message": self.retrieval.message,
            "question": self.retrieval.question,
            "mode": self.mode.value,
            "context": self.context.text,
            "kind": self.kind.value,
            "is_generated": self.is_generated,
            "is_complete": self.is_complete,
            "from_cache": self.from_cache,
            "warnings": list(self.warnings),
            "citations": [citation_data(citation) for citation in self.citations],
            "unsupported_references": self.unsupported_references,
            "unsupported_sentences": self.unsupported_sentences,
            "is_unanswered": self.is_unanswered,
            "usage": {"input_tokens": self.usage.input_tokens, "output_tokens": self.usage.output_tokens},
        }


# Retrievals as plain dicts: the shape that `query_data` returns and structured answers contain.
#
# A superset of what LightRAG 1.5.7 gives. Where it and the earlier engine differ, the plain field follows the latter
# and the other form stands beside it: `created_at` is ISO 8601 in UTC, `created_at_unix` whole seconds; entities and
# relations carry `reference_id`. Lists inside a string are joined by `<SEP>`, keywords by a comma. The metadata's
# `timings` (seconds a stage), `understanding` (mode `auto`) and six counts in every mode are ours: LightRAG counts only
# chunks in mode naive and nothing in bypass.


class EntityData(TypedDict):
    """An entity; `source_id` and `file_path` hold ids of chunks and sources, joined by `<SEP>`."""

    entity_name: str
    entity_type: str
    description: str
    source_id: str
    file_path: str
    created_at: str
    created_at_unix: int
    reference_id: str


class RelationData(TypedDict):
    """A relation; `keywords` are joined by commas."""

    src_id: str
    tgt_id: str
    description: str
    keywords: str
    weight: float
    source_id: str
    file_path: str
    created_at: str
    created_at_unix: int
    reference_id: str


class ChunkData(TypedDict):
    """A chunk, its place in the text of its document, and how it was found."""

    reference_id: str
    content: str
    file_path: str
    chunk_id: str
    document_id: str
    start: int
    end: int
    page: int | None
    headings: list[str]
    source_marks: list[str]
    rerank_score: float | None
    scores: NotRequired[dict[str, float]]


class ReferenceData(TypedDict):
    """A document that the chunks come from; `count` is how many."""

    reference_id: str
    file_path: str
    count: int
    content: NotRequired[list[str]]
    other_file_paths: NotRequired[list[str]]


class ContextData(TypedDict, total=False):
    """What was found; without any key when nothing was."""

    entities: list[EntityData]
    relationships: list[RelationData]
    chunks: list[ChunkData]
    references: list[ReferenceData]
    paths: list[dict[str, Any]]


class QueryData(TypedDict):
    """What `query_data` returns: a plain dict of these."""

    status: Literal["success", "failure"]
    message: str
    data: ContextData
    metadata: dict[str, Any]


def query_data(retrieval: Retrieval, *, include_chunk_content: bool = False) -> QueryData:
    """Return status, message, data and metadata of a retrieval.

    When nothing was found, `data` is an empty dict, as in LightRAG, and the metadata gives `failure_reason` and `mode`;
    when something was found and nothing fits the budget, and in mode bypass, `data` holds four empty lists.

    Args:
        retrieval: What was found.
        include_chunk_content: Whether references list the texts of their chunks.
    """
    is_empty = retrieval.failure not in (None, Failure.EMPTY_CONTEXT)
    return {
        "status": retrieval.status,
        "message": retrieval.message,
        "data": {} if is_empty else context_data(retrieval.context, include_chunk_content),
        "metadata": retrieval_metadata(retrieval),
    }


def context_data(context: Context, include_chunk_content: bool = False) -> ContextData:
    """Return the lists of a context: entities, relationships, chunks and references, and paths if looked for."""
    data: ContextData = {
        "entities": [_entity(item) for item in context.entities],
        "relationships": [_relation(item) for item in context.relations],
        "chunks": [_chunk(item) for item in context.chunks],
        "references": reference_data(context, include_chunk_content),
    }
    if context.paths is not None:
        data["paths"] = [_path(path) for path in context.paths]
    return data


def reference_data(context: Context, include_chunk_content: bool = False) -> list[ReferenceData]:
    """Return the references of a context, on request each with the texts of its chunks under `content`."""
    if not include_chunk_content:
        return [_reference(reference) for reference in context.references]
    texts: dict[str, list[str]] = {}
    for item in context.chunks:
        texts.setdefault(item.reference_id, []).append(item.chunk.text)
    return [{**_reference(item), "content": texts.get(item.reference_id, [])} for item in context.references]


def explanation_data(retrieval: Retrieval) -> dict[str, Any] | None:
    """Return what became of everything that was found, with what was searched for; None unless that was asked for."""
    trace = retrieval.trace
    if trace is None:
        return None
    keywords = retrieval.keywords
    return {
        "mode": retrieval.mode.value,
        "keywords": {"high_level": list(keywords.high_level), "low_level": list(keywords.low_level)},
        "respelt": retrieval.respelt,
        "understanding": None if retrieval.understanding is None else _understanding(retrieval.understanding),
        "chunks": [
            asdict(item)
            | {
                "headings": list(item.headings),
                "marks": list(item.marks),
                "path": list(item.path),
                "scores": {name: round(score, 6) for name, score in item.scores.items()},
            }
            for item in trace.chunks
        ],
        "entities": [asdict(item) for item in trace.entities],
        "relations": [asdict(item) for item in trace.relations],
        "counts": _processing_info(retrieval),
        "tokens": dict(trace.tokens),
        "timings": {stage: round(seconds, 6) for stage, seconds in retrieval.timings.items()},
        "prompt": trace.prompt,
    }


def citation_data(citation: Citation) -> dict[str, Any]:
    """Return a citation: the quote's place in its document, and the place in the answer that rests on it."""
    return {
        "reference_id": citation.reference_id,
        "file_path": citation.source,
        "document_id": citation.document_id,
        "chunk_id": citation.chunk_id,
        "start": citation.start,
        "end": citation.end,
        "quote": citation.quote,
        "page": citation.page,
        "headings": list(citation.headings),
        "answer_start": citation.answer_start,
        "answer_end": citation.answer_end,
    }


def retrieval_metadata(retrieval: Retrieval) -> dict[str, Any]:
    """Return mode, keywords and counts, and what went wrong if something did."""
    metadata: dict[str, Any] = {
        "query_mode": retrieval.mode.value,
        "keywords": {
            "high_level": list(retrieval.keywords.high_level),
            "low_level": list(retrieval.keywords.low_level),
        },
    }
    if retrieval.failure:
        metadata |= {"failure_reason": retrieval.failure.value, "mode": retrieval.mode.value}
    metadata["processing_info"] = _processing_info(retrieval)
    if retrieval.warnings:
        metadata["warnings"] = list(retrieval.warnings)
    if retrieval.respelt:
        metadata["respelt"] = retrieval.respelt
    if retrieval.understanding:
        metadata["understanding"] = _understanding(retrieval.understanding)
    if retrieval.timings:
        metadata["timings"] = {stage: round(seconds, 6) for stage, seconds in retrieval.timings.items()}
    return metadata


def _understanding(found: Understanding) -> dict[str, Any]:
    return {
        "kind": found.kind.value,
        "entities": list(found.entities),
        "expansions": list(found.expansions),
        "language": found.language,
        "parts": list(found.parts),
        "sides": list(found.sides),
        "by_model": found.by_model,
    }


def _processing_info(retrieval: Retrieval) -> dict[str, int]:
    """Return the six counts, zeros where nothing was looked for; LightRAG's other name of one of them in mode naive."""
    info = retrieval.info
    found = {"total_chunks_found": info.merged_chunks_count} if retrieval.mode is Mode.NAIVE else {}
    return found | {
        "total_entities_found": info.total_entities_found,
        "total_relations_found": info.total_relations_found,
        "entities_after_truncation": info.entities_after_truncation,
        "relations_after_truncation": info.relations_after_truncation,
        "merged_chunks_count": info.merged_chunks_count,
        "final_chunks_count": info.final_chunks_count,
    }


def _entity(item: RetrievedEntity) -> EntityData:
    entity = item.entity
    return {
        "entity_name": entity.name,
        "entity_type": entity.type,
        "description": entity.description,
        "source_id": FIELD_SEPARATOR.join(entity.chunk_ids),
        "file_path": FIELD_SEPARATOR.join(item.sources),
        "created_at": _iso(entity.created_at),
        "created_at_unix": entity.created_at,
        "reference_id": item.reference_id,
    }


def _relation(item: RetrievedRelation) -> RelationData:
    relation = item.relation
    return {
        "src_id": relation.source,
        "tgt_id": relation.target,
        "description": relation.description,
        "keywords": ",".join(relation.keywords),
        "weight": relation.weight,
        "source_id": FIELD_SEPARATOR.join(relation.chunk_ids),
        "file_path": FIELD_SEPARATOR.join(item.sources),
        "created_at": _iso(relation.created_at),
        "created_at_unix": relation.created_at,
        "reference_id": item.reference_id,
    }


def _chunk(item: RetrievedChunk) -> ChunkData:
    chunk = item.chunk
    row: ChunkData = {
        "reference_id": item.reference_id,
        "content": chunk.text,
        "file_path": item.source,
        "chunk_id": chunk.id,
        "document_id": chunk.document_id,
        "start": chunk.start,
        "end": chunk.end,
        "page": chunk.page,
        "headings": list(chunk.headings),
        "source_marks": [str(mark) for mark in item.marks],
        "rerank_score": item.rerank_score,
    }
    if item.scores:
        row["scores"] = {name: round(score, 6) for name, score in item.scores.items()}
    return row


def _path(path: GraphPath) -> dict[str, Any]:
    return {
        "entities": [entity.name for entity in path.entities],
        "relations": [relation.description for relation in path.relations],
    }


def _reference(reference: Reference) -> ReferenceData:
    row: ReferenceData = {
        "reference_id": reference.reference_id,
        "file_path": reference.source,
        "count": reference.count,
    }
    if reference.other_sources:
        row["other_file_paths"] = list(reference.other_sources)
    return row


# What was indexed together has few moments.
@lru_cache(maxsize=1024)
def _iso(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
