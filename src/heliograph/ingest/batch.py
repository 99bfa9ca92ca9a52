"""From what a caller hands over (texts with parallel lists, or ready documents) to one list of `NewDocument`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from heliograph.errors import InvalidRequestError
from heliograph.ingest.models import NewDocument

__all__ = ["new_documents"]


def new_documents(
    documents: str | NewDocument | Iterable[str | NewDocument],
    sources: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
    metadata: Sequence[Mapping[str, Any]] | None = None,
) -> list[NewDocument]:
    """Return one `NewDocument` per text, in order.

    Args:
        documents: One or many texts or ready documents.
        sources: Source of each; None leaves them without, and a ready document as it is.
        ids: Id of each.
        metadata: Metadata of each.

    Raises:
        InvalidRequestError: A list has another length than `documents`, or a document is neither text nor ready.
    """
    if not isinstance(documents, str | NewDocument | Iterable) or isinstance(documents, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidRequestError(
            f"documents must be a text, a NewDocument or a list of them, got {type(documents).__name__}: "
            f"{documents!r:.80}"
        )
    items = [documents] if isinstance(documents, str | NewDocument) else list(documents)
    for name, values in (("sources", sources), ("ids", ids), ("metadata", metadata)):
        if isinstance(values, str | Mapping) or (values is not None and len(values) != len(items)):
            raise InvalidRequestError(
                f"{name} must be a list of {len(items)} values, one a document; got {values!r:.80}"
            )
    return [
        _new_document(item, *(values[index] if values else None for values in (sources, ids, metadata)))
        for index, item in enumerate(items)
    ]


def _new_document(item: object, source: Any, id_: Any, metadata: Any) -> NewDocument:
    if isinstance(item, NewDocument):
        merged = metadata if metadata is not None else item.metadata
        return replace(item, source=source or item.source, id=id_ or item.id, metadata=merged)
    if isinstance(item, str):
        return NewDocument(item, source or "", "", id_ or "", metadata)
    raise InvalidRequestError(f"a document must be a text or a NewDocument, got {type(item).__name__}: {item!r:.80}")
