"""A retriever for LlamaIndex (extra `llama-index`)."""

# pyright: reportMissingImports=false, reportUntypedBaseClass=false, reportUnknownParameterType=false
# The framework is an extra that need not be there.

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from heliograph.adapters.passages import Passage, PassageOptions, PassageSource
from heliograph.errors import MissingDependencyError
from heliograph.models import DEFAULT_MODE, ModeName
from heliograph.sync import Heliograph

try:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.callbacks.base import CallbackManager
    from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode
except ImportError as error:
    raise MissingDependencyError("llama-index-core", "llama-index") from error

# Metadata of a node that a chat model need not read.
_FOR_PROGRAMS = ["document_id", "chunk_id", "reference_id", "rerank_score", "scores", "found_by", "start", "end"]


class HeliographRetriever(BaseRetriever):
    """Passages of a workspace as LlamaIndex nodes.

        retriever = HeliographRetriever(data_dir="kb", mode="fusion", filter={"team": "red"})
        nodes = retriever.retrieve("What does ESP32 speak?")

    The metadata of a node is that of `heliograph.adapters.passages.Passage`; only source, title, page and headings are
    shown to models. Each node names its document as its source.
    """

    def __init__(
        self,
        *,
        data_dir: str | None = None,
        workspace: str | None = None,
        mode: ModeName = DEFAULT_MODE.value,
        top_k: int | None = None,
        chunk_top_k: int | None = None,
        filter: Mapping[str, Any] | None = None,
        kb: Heliograph | None = None,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        """Store the options; nothing is opened yet. See `PassageOptions`; `kb` is an open workspace in its place."""
        super().__init__(callback_manager)
        self._passages = PassageSource(PassageOptions(data_dir, workspace, mode, top_k, chunk_top_k, filter), kb)

    def to_dict(self) -> dict[str, Any]:
        """Return the options as plain data.

        Raises:
            InvalidRequestError: It was given an open workspace.
        """
        self._passages.check_plain()
        return asdict(self._passages.options)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> HeliographRetriever:
        """Return the retriever that `to_dict` serialised."""
        return cls(**data)

    def close(self) -> None:
        """Close the workspace if it was opened here."""
        self._passages.close()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [_node(item) for item in self._passages.find(query_bundle.query_str)]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


def _node(item: Passage) -> NodeWithScore:
    source = RelatedNodeInfo(node_id=item.metadata["document_id"])
    node = TextNode(
        id_=item.id,
        text=item.text,
        metadata=item.metadata,
        start_char_idx=item.metadata["start"],
        end_char_idx=item.metadata["end"],
        excluded_llm_metadata_keys=_FOR_PROGRAMS,
        excluded_embed_metadata_keys=_FOR_PROGRAMS,
        relationships={NodeRelationship.SOURCE: source},
    )
    return NodeWithScore(node=node, score=item.score)
