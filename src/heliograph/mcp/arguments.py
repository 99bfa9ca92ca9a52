"""What the tools take: one model a tool, described for the model that fills it in.

Unknown arguments are refused, so that a misspelt one is noticed. Numbers have limits; what else is wrong with a filter,
an id or a text is for the engine to say.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from heliograph.documents.markdown import clean_text
from heliograph.models import DEFAULT_MODE, ModeName
from heliograph.query.models import QueryParam

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
