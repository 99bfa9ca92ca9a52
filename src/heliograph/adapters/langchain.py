"""A retriever for LangChain (extra `langchain`)."""

# pyright: reportMissingImports=false, reportUntypedBaseClass=false, reportUnknownParameterType=false
# The framework is an extra that need not be there.

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

from pydantic import ConfigDict, Field, PrivateAttr

from heliograph.adapters.passages import PassageOptions, PassageSource
from heliograph.errors import MissingDependencyError
from heliograph.models import DEFAULT_MODE, ModeName
from heliograph.sync import Heliograph

try:
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
except ImportError as error:
    raise MissingDependencyError("langchain-core", "langchain") from error


class HeliographRetriever(BaseRetriever):
    """Passages of a workspace as LangChain documents.

        retriever = HeliographRetriever(data_dir="kb", mode="fusion", filter={"team": "red"})
        documents = retriever.invoke("What does ESP32 speak?")

    `invoke` and `ainvoke` take `mode`, `top_k`, `chunk_top_k` and `filter` for one call. `dumpd` serialises it unless
    it was given an open workspace. The metadata is that of `heliograph.adapters.passages.Passage`, with `score`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    data_dir: str | None = None
    workspace: str | None = None
    mode: ModeName = DEFAULT_MODE.value
    top_k: int | None = None
    chunk_top_k: int | None = None
    filter: Mapping[str, Any] | None = None
    kb: Heliograph | None = Field(default=None, exclude=True)
    _passages: PassageSource = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Store the options; nothing is opened yet."""
        super().model_post_init(context)
        options = PassageOptions(self.data_dir, self.workspace, self.mode, self.top_k, self.chunk_top_k, self.filter)
        self._passages = PassageSource(options, self.kb)

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return that LangChain may serialise it."""
        return True

    @classmethod
    def get_lc_namespace(cls) -> list[str]:
        """Return where LangChain finds the class when it deserialises it."""
        return ["heliograph", "adapters", "langchain"]

    def to_json(self) -> Any:
        """Return LangChain's serialised form; with an open workspace, the form for what cannot be serialised."""
        return self.to_json_not_implemented() if self._passages.is_given else super().to_json()

    def close(self) -> None:
        """Close the workspace if it was opened here."""
        self._passages.close()

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002 (an override)
        **kwargs: Any,
    ) -> list[Document]:
        return [
            Document(id=item.id, page_content=item.text, metadata=item.metadata | {"score": item.score})
            for item in self._passages.find(query, **kwargs)
        ]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        manager = cast("CallbackManagerForRetrieverRun", run_manager)
        return await asyncio.to_thread(self._get_relevant_documents, query, run_manager=manager, **kwargs)
