"""A retriever component for Haystack 2 (extra `haystack`)."""

# pyright: reportMissingImports=false, reportUntypedClassDecorator=false, reportUntypedFunctionDecorator=false, reportUnknownParameterType=false
# The framework is an extra that need not be there.

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from heliograph.adapters.passages import PassageOptions, PassageSource, read_haystack_filter
from heliograph.errors import MissingDependencyError
from heliograph.models import DEFAULT_MODE, ModeName
from heliograph.sync import Heliograph

try:
    from haystack import Document, component, default_from_dict, default_to_dict
except ImportError as error:
    raise MissingDependencyError("haystack-ai", "haystack") from error


@component
class HeliographRetriever:
    """Passages of a workspace as Haystack documents.

        pipeline.add_component("retriever", HeliographRetriever(data_dir="kb", mode="fusion"))

    Filters are Heliograph's (`{"team": "red"}`); those of a run replace the component's. `meta` is the metadata of
    `heliograph.adapters.passages.Passage`.
    """

    def __init__(
        self,
        data_dir: str | None = None,
        workspace: str | None = None,
        mode: ModeName = DEFAULT_MODE.value,
        top_k: int | None = None,
        chunk_top_k: int | None = None,
        filter: Mapping[str, Any] | None = None,
        kb: Heliograph | None = None,
    ) -> None:
        """Store the options; nothing is opened yet. See `PassageOptions`; `kb` is an open workspace in its place."""
        self._passages = PassageSource(PassageOptions(data_dir, workspace, mode, top_k, chunk_top_k, filter), kb)

    def to_dict(self) -> dict[str, Any]:
        """Return the component as plain data.

        Raises:
            InvalidRequestError: It was given an open workspace.
        """
        self._passages.check_plain()
        return default_to_dict(self, **asdict(self._passages.options))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> HeliographRetriever:
        """Return the component that `to_dict` serialised."""
        return default_from_dict(cls, data)

    def close(self) -> None:
        """Close the workspace if it was opened here."""
        self._passages.close()

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None, mode: ModeName | None = None
    ) -> dict[str, list[Document]]:
        """Return passages for a question.

        Arguments override those of the component, `top_k` its `chunk_top_k`; `filters` are in Haystack's form, or in
        Heliograph's.
        """
        wanted = read_haystack_filter(filters) if filters else None
        found = self._passages.find(query, filter=wanted, chunk_top_k=top_k, mode=mode)
        return {
            "documents": [
                Document(id=item.id, content=item.text, meta=item.metadata, score=item.score) for item in found
            ]
        }

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None, mode: ModeName | None = None
    ) -> dict[str, list[Document]]:
        """Return passages for a question; see `run`."""
        return await asyncio.to_thread(self.run, query, filters, top_k, mode)
