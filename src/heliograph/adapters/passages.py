"""The common part of the adapters: asks a workspace and turns each chunk into a text with flat metadata.

The workspace is one that the caller has opened, or one that is opened with the first question by its folder and name;
only the latter can be serialised. The sync `Heliograph` serves both the sync and the async methods, because it is
thread-safe.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from heliograph.errors import InvalidRequestError
from heliograph.models import DEFAULT_MODE, ModeName, chunk_details
from heliograph.query.models import QueryParam, RetrievedChunk
from heliograph.sync import Heliograph

_COMPARISONS = {"==": "eq", "!=": "ne", ">": "gt", ">=": "gte", "<": "lt", "<=": "lte", "in": "in"}


def read_haystack_filter(given: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a filter in Haystack's form to ours; one in our form is returned unchanged.

    Its form is `{"field": "meta.team", "operator": "==", "value": 1}`, or `{"operator": "AND", "conditions": [...]}`,
    and likewise OR and NOT; NOT negates that all conditions hold.

    Raises:
        InvalidRequestError: It has an operator that Haystack does not have.
    """
    operator = given.get("operator")
    if "conditions" in given and operator in ("AND", "OR", "NOT"):
        parts = [read_haystack_filter(item) for item in given["conditions"]]
        return {"or": parts} if operator == "OR" else {"and": parts} if operator == "AND" else {"not": {"and": parts}}
    if not {"field", "operator"} <= given.keys():
        return dict(given)
    field = f"metadata.{str(given['field']).removeprefix('meta.')}"
    if operator == "not in":
        return {"not": {field: {"in": given.get("value")}}}
    if operator not in _COMPARISONS:
        known = ", ".join((*_COMPARISONS, "not in"))
        raise InvalidRequestError(
            f"the filter has the operator {operator!r:.80}; Haystack has {known}, AND, OR and NOT"
        )
    return {field: {_COMPARISONS[operator]: given.get("value")}}


@dataclass(frozen=True, slots=True)
class PassageOptions:
    """How an adapter asks; plain values, so that they can be serialised.

    Attributes:
        data_dir: Folder of the store; None for that of the settings.
        workspace: Name of the workspace; None for that of the settings.
        top_k: Entities and relations searched; None for the setting.
        chunk_top_k: Most passages returned; None for the setting.
        filter: Which documents count, as `heliograph.filters.parse_filter` reads it; None for all.
    """

    data_dir: str | None = None
    workspace: str | None = None
    mode: ModeName = DEFAULT_MODE.value
    top_k: int | None = None
    chunk_top_k: int | None = None
    filter: Mapping[str, Any] | None = None

    def with_given(self, given: Mapping[str, Any]) -> PassageOptions:
        """Return these options, overridden by those of one call that are not None.

        Raises:
            InvalidRequestError: One is none of `mode`, `top_k`, `chunk_top_k` and `filter`.
        """
        unknown = sorted(given.keys() - {"mode", "top_k", "chunk_top_k", "filter"})
        if unknown:
            raise InvalidRequestError(f"{unknown[0]!r} is no option of a call; use mode, top_k, chunk_top_k or filter")
        return replace(self, **{name: value for name, value in given.items() if value is not None})


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk for a framework.

    Attributes:
        score: The reranker's, else the sum of the channels'; None in modes that merge lists and do not score.
        metadata: `source`, `title`, `page`, `headings`, `start`, `end` (characters in the document's text),
            `document_id`, `chunk_id`, `reference_id`, `rerank_score`, `scores` (by channel) and `found_by`.
    """

    id: str
    text: str
    score: float | None
    metadata: dict[str, Any]


class PassageSource:
    """Finds passages in a workspace.

    Args:
        options: How to ask, unless a call overrides it.
        kb: A workspace in place of the one in the options; the caller closes it.
    """

    def __init__(self, options: PassageOptions, kb: Heliograph | None = None) -> None:
        self.options = options
        self.is_given = kb is not None
        self._kb = kb
        self._lock = threading.Lock()

    def find(self, question: str, **given: Any) -> list[Passage]:
        """Return passages, best first; none if nothing is found.

        A call may give `mode`, `top_k`, `chunk_top_k` and `filter` of its own.

        Raises:
            InvalidRequestError: The question or an option cannot be served.
            ModelError: A model failed.
            StoreError: The store failed.
        """
        options = self.options.with_given(given)
        with self._lock:
            kb = self._kb = self._kb or Heliograph(options.data_dir, workspace=options.workspace).open()
        param = QueryParam(
            mode=options.mode, top_k=options.top_k, chunk_top_k=options.chunk_top_k, filter=options.filter
        )
        chunks = kb.retrieve(question, param).context.chunks
        titles = {item.chunk.document_id: "" for item in chunks}
        for document_id in titles:
            document = kb.document(document_id)
            titles[document_id] = document.title if document else ""
        return [_passage(item, titles[item.chunk.document_id]) for item in chunks]

    def close(self) -> None:
        """Close the workspace if it was opened here; the next question opens it again."""
        with self._lock:
            if self._kb is not None and not self.is_given:
                self._kb.close()
                self._kb = None

    def check_plain(self) -> None:
        """Raise an `InvalidRequestError` if a workspace was passed open, since that cannot be serialised."""
        if self.is_given:
            raise InvalidRequestError(
                "a retriever with an open workspace cannot be written down; give data_dir instead"
            )


def _passage(item: RetrievedChunk, title: str) -> Passage:
    chunk = item.chunk
    score = item.rerank_score
    if score is None and item.scores:
        score = item.channel_total
    return Passage(
        id=chunk.id,
        text=chunk.text,
        score=score,
        metadata={
            "source": item.source,
            "title": title,
            **chunk_details(chunk),
            "start": chunk.start,
            "end": chunk.end,
            "document_id": chunk.document_id,
            "chunk_id": chunk.id,
            "reference_id": item.reference_id,
            "rerank_score": item.rerank_score,
            "scores": dict(item.scores),
            "found_by": [str(mark) for mark in item.marks],
        },
    )
