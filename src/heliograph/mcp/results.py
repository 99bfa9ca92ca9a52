"""What the tools return, as structured content: one model a tool, made from the engine's frozen models.

Long descriptions are cut here; the resource of an entity has the whole.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from heliograph.ingest.models import DeleteReport, DocumentResult
from heliograph.maintenance.check import CheckReport
from heliograph.models import FIELD_SEPARATOR, Entity, Relation, Stats
from heliograph.query.models import Answer, Context, Retrieval
from heliograph.service.principal import without_folders

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
