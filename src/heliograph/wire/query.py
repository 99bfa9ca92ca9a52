"""Questions as sent over the wire, and answers as plain dicts in the shapes of `wire.answers`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationInfo, model_validator

from heliograph.filters import And, DocumentIds, parse_filter
from heliograph.models import DEFAULT_MODE, ChannelName, ChunkPicking, ContextFormatName, FusionName, Mode, ModeName
from heliograph.query.answers.models import Answer
from heliograph.query.models import PARAMETER_TEXTS, QueryParam, Retrieval
from heliograph.query.payloads import explanation_data, path_data, record_data, reference_data, retrieval_metadata
from heliograph.query.plan import check_length
from heliograph.wire.answers import FoundChunk, FoundEntity, FoundRelation

# An `Answer` as the JSON of `/query` and of the last lines of a stream.

# LightRAG's reply where there is no text at all.
LIGHTRAG_NOTHING_FOUND = "No relevant context found for the query."


def answer_body(answer: Answer, param: QueryParam, seconds: float) -> dict[str, Any]:
    """Return the whole body; `include_sources` and `return_structured` add their fields."""
    body: dict[str, Any] = {"response": answer_text(answer)}
    if param.include_references:
        body["references"] = reference_data(answer.context, param.include_chunk_content)
    return body | {"response_time": round(seconds, 6)} | answer_details(answer, param)


def answer_text(answer: Answer) -> str:
    """Return the text, never an empty one."""
    return answer.text or LIGHTRAG_NOTHING_FOUND


def answer_details(answer: Answer, param: QueryParam) -> dict[str, Any]:
    """Return the fields of an answer beside its text and references."""
    payload = answer.payload(param)
    return (
        ({} if isinstance(payload, str) else payload)
        | {"llm_generated": answer.is_generated and bool(answer.text)}
        | answer.details
        | _explained(answer.retrieval)
    )


def _explained(retrieval: Retrieval) -> dict[str, Any]:
    explanation = explanation_data(retrieval)
    return {} if explanation is None else {"explanation": explanation}


# The parameters of a question as JSON, with the limits of LightRAG 1.5.7.
#
# `QueryFields` is shared by all routes that answer; each converts it to a `QueryParam` at once. Unknown fields are
# ignored, as LightRAG ignores them.

# The default mode of LightRAG's routes, which its clients expect.
LIGHTRAG_MODE = Mode.MIX

# Roles that take part in a conversation; messages of others (tools, functions) are left out.
SPEAKERS = frozenset({"system", "user", "assistant"})

MAX_TEXT = 65_536
_MAX_ALL_TEXT = 131_072
_MAX_K = 1_000
_MAX_TOKENS = 1_000_000

Count = Annotated[int, Field(ge=1, le=_MAX_K)]
_Tokens = Annotated[int, Field(ge=1, le=_MAX_TOKENS)]
_Keywords = Annotated[list[Annotated[str, Field(max_length=512)]], Field(max_length=64)]


def _check_question(question: str, info: ValidationInfo) -> str:
    # An invalid mode has its own error.
    if (mode := info.data.get("mode")) is not None:
        check_length(question, Mode(mode))
    return question


# Long enough for the field `mode` before it.
Question = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_TEXT),
    AfterValidator(_check_question),
]


class HistoryMessage(BaseModel):
    """One earlier message."""

    role: str = Field(min_length=1, max_length=64, description="`user`, `assistant` or `system`; others are left out.")
    content: str = Field(max_length=32_768)


def _describe(schema: dict[str, Any]) -> None:
    for name in PARAMETER_TEXTS.keys() & schema["properties"].keys():
        schema["properties"][name].setdefault("description", PARAMETER_TEXTS[name])


class QueryFields(BaseModel):
    """How a question is searched for and answered; None means the default of the server's settings."""

    # `QueryParam` documents each parameter.
    model_config = ConfigDict(json_schema_extra=_describe)

    mode: ModeName = DEFAULT_MODE.value
    only_need_context: bool | None = None
    only_need_prompt: bool | None = None
    response_type: Annotated[str, Field(min_length=1, max_length=256)] | None = Field(None, examples=["Bullet Points"])
    top_k: Count | None = None
    chunk_top_k: Count | None = None
    max_entity_tokens: _Tokens | None = None
    max_relation_tokens: _Tokens | None = None
    max_total_tokens: _Tokens | None = None
    hl_keywords: _Keywords | None = None
    ll_keywords: _Keywords | None = None
    user_prompt: Annotated[str, Field(max_length=MAX_TEXT)] | None = None
    disable_user_prompt_prefix: bool | None = None
    enable_rerank: bool | None = None
    include_sources: bool = False
    return_structured: bool = False
    filter: dict[str, Any] | None = Field(None, examples=[{"team": "red"}])
    channels: Annotated[list[ChannelName], Field(max_length=4)] | None = None
    fusion: FusionName | None = None
    chunk_picking: ChunkPicking | None = None
    context_format: ContextFormatName | None = None
    history_turns: Annotated[int, Field(ge=0, le=128)] | None = None
    explain: bool = False

    def to_param(self, **others: Any) -> QueryParam:
        """Return the engine's parameters; `others` are added or override them."""
        # Both have the same names; omitted fields keep the engine's defaults.
        given: dict[str, Any] = {name: getattr(self, name) for name in QueryFields.model_fields}
        given = {name: value for name, value in given.items() if value is not None and value != []}
        given["mode"] = Mode(self.mode)
        return QueryParam(**(given | others))

    def texts(self) -> list[str]:
        """Return all free text, whose total length is limited."""
        parts = [self.response_type, self.user_prompt, *(self.hl_keywords or ()), *(self.ll_keywords or ())]
        return [part for part in parts if part]

    @model_validator(mode="after")
    def _check_texts(self) -> QueryFields:
        length = sum(map(len, self.texts()))
        if length > _MAX_ALL_TEXT:
            raise ValueError(f"the texts of the request have {length:,} characters; {_MAX_ALL_TEXT:,} are allowed")
        return self


class QueryRequest(QueryFields):
    """A question on one of LightRAG's routes."""

    mode: ModeName = Field(LIGHTRAG_MODE.value, description="How the question is answered; `auto` is the best known.")
    query: Question = Field(
        description="The question; all modes but bypass need three characters, of which a Chinese one counts as two."
    )
    conversation_history: Annotated[list[HistoryMessage], Field(max_length=128)] | None = None
    include_references: bool | None = Field(
        True, description="Give the sources that the answer draws on; null does not."
    )
    include_chunk_content: bool | None = Field(False, description="Give with each of them the texts of its chunks.")
    include_progress: bool | None = Field(False, description="Tell the stages as they begin; `/query/stream` only.")
    stream: bool | None = Field(None, description="`false` has `/query/stream` answer in one line.")
    ids: Annotated[list[str], Field(max_length=_MAX_K)] | None = Field(
        None, description="Only these documents exist for this question, as for LightRAG before 1.4.8; none means all."
    )

    def to_param(self, **others: Any) -> QueryParam:
        messages = [item for item in self.conversation_history or () if item.role in SPEAKERS]
        fields: dict[str, Any] = {
            "conversation_history": [{"role": item.role, "content": item.content} for item in messages],
            "include_references": bool(self.include_references),
            "include_chunk_content": bool(self.include_chunk_content),
        }
        if self.ids:
            named = DocumentIds(tuple(self.ids))
            fields["filter"] = named if self.filter is None else And((named, parse_filter(self.filter)))
        return super().to_param(**(fields | others))

    def texts(self) -> list[str]:
        return [*super().texts(), self.query, *(item.content for item in self.conversation_history or ())]


# The shape of `/api/v1/retrieve`: the results with lists as lists and every id, for other programs to use.


class RetrieveRequest(QueryFields):
    """A question to retrieve for."""

    query: Question = Field(description="The question.")
    include_context: bool = Field(True, description="Give the text that a chat model would read.")

    def texts(self) -> list[str]:
        return [*super().texts(), self.query]


def retrieval_body(retrieval: Retrieval, *, include_context: bool) -> dict[str, Any]:
    """Return a retrieval as a `RetrieveResponse` in plain dicts."""
    context = retrieval.context
    body: dict[str, Any] = {
        "status": retrieval.status,
        "message": retrieval.message,
        "question": retrieval.question,
        "mode": retrieval.mode.value,
        "keywords": record_data(retrieval.keywords),
        "entities": [FoundEntity.fields_of(item, item.entity) for item in context.entities],
        "relations": [FoundRelation.fields_of(item, item.relation) for item in context.relations],
        "chunks": [
            FoundChunk.fields_of(
                item,
                item.chunk,
                content=item.chunk.text,
                scores={name: round(score, 6) for name, score in item.scores.items()},
                found_by=[str(mark) for mark in item.marks],
            )
            for item in context.chunks
        ],
        "references": reference_data(context),
        "warnings": list(retrieval.warnings),
        "metadata": retrieval_metadata(retrieval),
    }
    if context.paths is not None:
        body["paths"] = path_data(context.paths)
    return body | ({"context": context.text} if include_context else {}) | _explained(retrieval)
