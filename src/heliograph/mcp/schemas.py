"""What the tools take and return: one model a tool, and its JSON schema as clients take it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from heliograph.documents.markdown import clean_text
from heliograph.ingest.models import DeleteReport, DocumentResult
from heliograph.maintenance.check import CheckReport
from heliograph.models import DEFAULT_MODE, FIELD_SEPARATOR, Entity, ModeName, Relation, Stats
from heliograph.query.models import Answer, Context, QueryParam, Retrieval
from heliograph.service.principal import without_folders

# JSON schemas of arguments and results as clients take them: without references and without `null` branches.
#
# Some clients read neither `$ref` nor `anyOf`; an argument that may be left out says so by not being required.

_NULL = {"type": "null"}


def argument_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of what a tool takes; an argument that may be null is one that may be left out."""
    schema = _inlined(model.model_json_schema(mode="validation"))
    _drop_nulls(schema)
    return schema


def result_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of what a tool returns; fields that are always there are required."""
    return _inlined(model.model_json_schema(mode="serialization"))


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    definitions = schema.pop("$defs", {})

    def inline(value: Any) -> Any:
        if isinstance(value, list):
            return [inline(item) for item in cast("list[Any]", value)]
        if not isinstance(value, dict):
            return value
        mapping = cast("dict[str, Any]", value)
        if "$ref" in mapping:
            beside = {name: item for name, item in mapping.items() if name != "$ref"}
            return inline(definitions[mapping["$ref"].rpartition("/")[2]]) | beside
        # Titles that pydantic makes up repeat the name; a property called `title` is an object.
        return {name: inline(item) for name, item in mapping.items() if name != "title" or not isinstance(item, str)}

    return inline(schema)


def _drop_nulls(schema: Any) -> None:
    if isinstance(schema, list):
        for item in cast("list[Any]", schema):
            _drop_nulls(item)
    if not isinstance(schema, dict):
        return
    mapping = cast("dict[str, Any]", schema)
    branches = [branch for branch in mapping.get("anyOf", ()) if branch != _NULL]
    if len(branches) == 1:
        del mapping["anyOf"]
        mapping.update({**branches[0], **mapping})
        if mapping.get("default", ...) is None:
            del mapping["default"]
    for item in mapping.values():
        _drop_nulls(item)


# What the tools take: one model a tool, described for the model that fills it in.
#
# Unknown arguments are refused, so that a misspelt one is noticed. Numbers have limits; what else is wrong with a
# filter, an id or a text is for the engine to say.

_MOST_NAME = 4_096
_MOST_QUESTION = 65_536
_MOST_DOCUMENTS = 1_000

_Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=_MOST_NAME)]
# As it is stored, so that the document that it means is found before anything is replaced.
_Id = Annotated[_Name, AfterValidator(clean_text)]


def _not_blank(text: str) -> str:
    if not clean_text(text).strip():
        raise ValueError("there is no text in it")
    return text


_Text = Annotated[str, StringConstraints(min_length=1), AfterValidator(_not_blank)]
_Question = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=_MOST_QUESTION)]
_Count = Annotated[int, Field(ge=1, le=1_000)]

_FILTERS = (
    'Only documents that match count: metadata by name ({"team": "red", "year": {"gte": 2024}}), `source`, '
    "`source_prefix`, `document_id`, joined by `and`, `or`, `not`."
)


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NoArguments(_Arguments):
    """For tools that need nothing."""


class QueryArguments(_Arguments):
    """A question."""

    query: _Question = Field(description="The question, in whole words, in any language.")
    mode: ModeName = Field(
        DEFAULT_MODE.value,
        description="How to search. auto: by what the question asks for; fusion: all channels in one ranking; "
        "mix: graph and vectors; hybrid: graph, by entities and relations; local: around entities; global: by "
        "relations and themes; naive: vectors alone; bypass: no search, straight to the chat model.",
    )
    top_k: _Count | None = Field(
        None, description="Entities and relations searched, and passages kept unless `chunk_top_k` says otherwise."
    )
    chunk_top_k: _Count | None = Field(None, description="Passages kept.")
    filters: dict[str, Any] | None = Field(None, description=_FILTERS)
    answer: bool = Field(True, description="Whether to write an answer; false only returns what was found.")
    passages: int = Field(5, ge=0, le=100, description="Passages to return beside the answer, best first.")
    include_graph: bool = Field(False, description="Whether to return the entities and relations found, too.")
    instructions: Annotated[str, Field(max_length=_MOST_QUESTION)] | None = Field(
        None, description="How the answer is to be written, such as its form or language; needs a chat model."
    )

    def to_param(self) -> QueryParam:
        """Return the engine's parameters."""
        return QueryParam(
            mode=self.mode,
            top_k=self.top_k,
            chunk_top_k=self.chunk_top_k or self.top_k,
            user_prompt=self.instructions,
            filter=self.filters,
        )


class EntitiesArguments(_Arguments):
    """Which entities to return."""

    query: _Question | None = Field(
        None, description="A name, part of one, or a topic; without it the best connected entities are returned."
    )
    limit: Annotated[int, Field(ge=1, le=200)] = Field(20, description="Entities at the most.")
    offset: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        0, description="Entities to pass over; only without `query`."
    )
    filters: dict[str, Any] | None = Field(None, description=_FILTERS)

    @model_validator(mode="after")
    def _check_offset(self) -> EntitiesArguments:
        if self.query is not None and self.offset:
            raise ValueError("offset goes without query; raise limit instead")
        return self


class RelationsArguments(_Arguments):
    """Where to start and how far to go."""

    entity: _Name = Field(description="Name of the entity to start from, by any spelling or alias.")
    depth: Annotated[int, Field(ge=1, le=5)] = Field(1, description="Relations from the entity at the most.")
    limit: Annotated[int, Field(ge=1, le=500)] = Field(50, description="Entities at the most.")
    filters: dict[str, Any] | None = Field(None, description=_FILTERS)


class NewDocumentArguments(_Arguments):
    """A document to take in."""

    content: _Text = Field(description="The whole text, plain or Markdown.")
    source: _Name | None = Field(
        None, description="Path or URL that it comes from; citations show it, and it stands for this document alone."
    )
    title: Annotated[str, Field(max_length=1_000)] | None = Field(
        None, description="Title; without one the first heading counts."
    )
    metadata: dict[str, Any] | None = Field(
        None,
        description="Free JSON that filters can ask for. Its `source` is shown in citations if none is given beside "
        "it, and may be that of many documents.",
    )
    document_id: _Id | None = Field(None, description="An id of your own; without one it follows from the source.")


class InsertArguments(NewDocumentArguments):
    """One document."""


class BatchDocumentArguments(NewDocumentArguments):
    """One document of several; one without a text is told of beside the others."""

    content: str = Field(description="The whole text, plain or Markdown.")


class BatchInsertArguments(_Arguments):
    """Several documents."""

    documents: Annotated[list[BatchDocumentArguments], Field(min_length=1, max_length=_MOST_DOCUMENTS)] = Field(
        description="The documents."
    )


class UpdateArguments(_Arguments):
    """What to change of a document; what is not given stays."""

    document_id: _Id = Field(description="Id of the document, as query and insert return it.")
    content: _Text | None = Field(None, description="The new whole text.")
    title: Annotated[str, Field(max_length=1_000)] | None = Field(None, description="The new title.")
    metadata: dict[str, Any] | None = Field(None, description="The new metadata, in place of all of the old.")

    @model_validator(mode="after")
    def _check_change(self) -> UpdateArguments:
        if self.content is None and self.title is None and self.metadata is None:
            raise ValueError("nothing is to be changed; give content, title or metadata")
        return self


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class DeleteArguments(_Arguments):
    """Which documents to delete."""

    document_ids: Annotated[list[_Id], BeforeValidator(_as_list), Field(min_length=1, max_length=_MOST_DOCUMENTS)] = (
        Field(description="Ids of the documents, as query and insert return them.")
    )


# What the tools return, as structured content: one model a tool, made from the engine's frozen models.
#
# Long descriptions are cut here; the resource of an entity has the whole.

_MOST_DESCRIPTION = 1_000


class _Result(BaseModel):
    model_config = ConfigDict(frozen=True)


class ReferenceItem(_Result):
    """A document that the passages come from."""

    reference_id: str = Field(description="Its number, as the answer cites it: [1].")
    source: str
    document_ids: list[str]
    other_sources: list[str] = Field(description="Sources of documents with the same text.")


class CitationItem(_Result):
    """Words of a document that a sentence of the answer rests on."""

    reference_id: str
    document_id: str
    quote: str
    page: int | None
    headings: list[str]
    start: int = Field(description="Place of the quote's first character in the document's text.")
    end: int


class PassageItem(_Result):
    """A passage that was found."""

    reference_id: str
    source: str
    document_id: str
    chunk_id: str
    text: str
    page: int | None
    headings: list[str]


class EntityItem(_Result):
    """An entity."""

    id: str
    name: str
    type: str
    description: str
    aliases: list[str]
    degree: int = Field(description="Relations that touch it.")

    @classmethod
    def of(cls, entity: Entity, most: int = _MOST_DESCRIPTION) -> EntityItem:
        """Return an entity with a description of `most` characters."""
        return cls(
            id=entity.id,
            name=entity.name,
            type=entity.type,
            description=_shortened(entity.description, most),
            aliases=list(entity.aliases),
            degree=entity.degree,
        )


class RelationItem(_Result):
    """A relation between two entities, in no direction."""

    id: str
    source: str = Field(description="Name of one entity.")
    target: str = Field(description="Name of the other.")
    keywords: list[str]
    description: str
    weight: float

    @classmethod
    def of(cls, relation: Relation, most: int = _MOST_DESCRIPTION) -> RelationItem:
        """Return a relation with a description of `most` characters."""
        return cls(
            id=relation.id,
            source=relation.source,
            target=relation.target,
            keywords=list(relation.keywords),
            description=_shortened(relation.description, most),
            weight=relation.weight,
        )


class QueryResult(_Result):
    """An answer and what it was made from."""

    answer: str = Field(description="The answer; empty if none was asked for.")
    kind: Literal["generated", "extractive", "nothing_found", "context", "prompt", "none"] = Field(
        description="generated: a chat model wrote it; extractive: quoted from documents; none: not asked for."
    )
    mode: str
    is_complete: bool = Field(description="False when the chat model was cut, at a length limit or in a loop.")
    is_unanswered: bool = Field(description="Whether it says that the documents hold no answer.")
    references: list[ReferenceItem]
    citations: list[CitationItem]
    passages: list[PassageItem]
    entities: list[EntityItem]
    relations: list[RelationItem]
    warnings: list[str]

    @classmethod
    def of_answer(cls, answer: Answer, passages: int, *, has_graph: bool) -> QueryResult:
        """Return an answer with its first passages, and entities and relations if wanted."""
        citations = [
            CitationItem(
                reference_id=item.reference_id,
                document_id=item.document_id,
                quote=item.quote,
                page=item.page,
                headings=list(item.headings),
                start=item.start,
                end=item.end,
            )
            for item in answer.citations
        ]
        found = cls.of_retrieval(answer.retrieval, passages, has_graph=has_graph)
        told = {
            "answer": answer.text,
            "kind": answer.kind.value,
            "is_complete": answer.is_complete,
            "is_unanswered": answer.is_unanswered,
            "citations": citations,
            "warnings": list(answer.warnings),
        }
        return found.model_copy(update=told)

    @classmethod
    def of_retrieval(cls, retrieval: Retrieval, passages: int, *, has_graph: bool) -> QueryResult:
        """Return what was found, without an answer."""
        context = retrieval.context
        return cls(
            answer="",
            kind="none",
            mode=retrieval.mode.value,
            is_complete=True,
            is_unanswered=retrieval.failure is not None,
            references=_references(context),
            citations=[],
            passages=_passages(context, passages),
            entities=[EntityItem.of(item.entity) for item in context.entities] if has_graph else [],
            relations=[RelationItem.of(item.relation) for item in context.relations] if has_graph else [],
            warnings=list(retrieval.warnings),
        )


class EntitiesResult(_Result):
    """Entities, best first."""

    entities: list[EntityItem]
    next_offset: int | None = Field(description="Where to go on; null if there are no more, or with a query.")


class RelationsResult(_Result):
    """What lies around an entity."""

    entity: EntityItem
    entities: list[EntityItem] = Field(description="The others, nearest first.")
    relations: list[RelationItem] = Field(description="All relations among them.")
    is_truncated: bool = Field(description="Whether the limit left something out.")


class DocumentItem(_Result):
    """What became of a document."""

    document_id: str
    source: str
    outcome: Literal["processed", "partial", "unchanged", "duplicate", "pending", "failed"]
    chunk_count: int
    detail: str = Field(description="Why it failed, or what is missing; empty if all is well.")

    @classmethod
    def of(cls, result: DocumentResult) -> DocumentItem:
        """Return what became of one document."""
        return cls(
            document_id=result.id,
            source=result.source,
            outcome=result.outcome.value,
            chunk_count=result.chunk_count,
            detail=without_folders(str(result.error)) if result.error else result.detail,
        )


class BatchResult(_Result):
    """What became of several documents, in the order given."""

    documents: list[DocumentItem]
    failed: int


class DeleteResult(_Result):
    """What a deletion did."""

    deleted: list[str]
    missing: list[str] = Field(description="Ids given that no document has.")
    removed_chunks: int
    removed_entities: int = Field(description="Entities that no other document mentions.")
    removed_relations: int

    @classmethod
    def of(cls, report: DeleteReport) -> DeleteResult:
        """Return what a deletion did."""
        return cls(
            deleted=list(report.deleted),
            missing=list(report.missing),
            removed_chunks=report.removed_chunks,
            removed_entities=report.removed_entities,
            removed_relations=report.removed_relations,
        )


class StatsResult(_Result):
    """What a workspace holds."""

    workspace: str
    documents: int
    documents_by_status: dict[str, int]
    chunks: int
    entities: int
    relations: int
    data_version: int = Field(description="Raised by every change.")
    bytes_on_disk: int

    @classmethod
    def of(cls, workspace: str, stats: Stats) -> StatsResult:
        """Return the counts of a workspace."""
        return cls(
            workspace=workspace,
            documents=sum(stats.documents.values()),
            documents_by_status={status.value: count for status, count in stats.documents.items()},
            chunks=stats.chunks,
            entities=stats.entities,
            relations=stats.relations,
            data_version=stats.data_version,
            bytes_on_disk=stats.bytes_on_disk,
        )


class RebuildResult(_Result):
    """What a rebuild looked at and put right."""

    documents: int
    chunks: int
    entities: int
    relations: int
    problems_found: int = Field(description="What did not agree with the documents before.")
    repaired: int

    @classmethod
    def of(cls, report: CheckReport) -> RebuildResult:
        """Return what a rebuild did."""
        return cls(
            documents=report.documents,
            chunks=report.chunks,
            entities=report.entities,
            relations=report.relations,
            problems_found=report.problem_count,
            repaired=report.repaired,
        )


def _shortened(description: str, most: int) -> str:
    text = description.replace(FIELD_SEPARATOR, " ")
    return text if len(text) <= most else f"{text[:most]}…"


def _references(context: Context) -> list[ReferenceItem]:
    documents: dict[str, dict[str, None]] = {}
    for item in context.chunks:
        documents.setdefault(item.reference_id, {})[item.chunk.document_id] = None
    return [
        ReferenceItem(
            reference_id=item.reference_id,
            source=item.source,
            document_ids=list(documents.get(item.reference_id, ())),
            other_sources=list(item.other_sources),
        )
        for item in context.references
    ]


def _passages(context: Context, most: int) -> list[PassageItem]:
    return [
        PassageItem(
            reference_id=item.reference_id,
            source=item.source,
            document_id=item.chunk.document_id,
            chunk_id=item.chunk.id,
            text=item.chunk.text,
            page=item.chunk.page,
            headings=list(item.chunk.headings),
        )
        for item in context.chunks[:most]
    ]
