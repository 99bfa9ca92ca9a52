"""An extractor that reads nothing, for workspaces that want no graph: chunks, vectors and full text only."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from heliograph.ingest.extraction.base import Extractor, ignore_progress
from heliograph.models import Chunk, Document, Extraction

__all__ = ["NoExtractor"]


class NoExtractor(Extractor):
    """Returns an empty extraction per chunk."""

    @property
    def name(self) -> str:
        """See `Extractor`."""
        return "none"

    async def extract(
        self,
        document: Document,  # noqa: ARG002 (nothing of it is read)
        chunks: Sequence[Chunk],
        on_chunk: Callable[[], None] = ignore_progress,
    ) -> list[Extraction]:
        """See `Extractor`."""
        for _ in chunks:
            on_chunk()
        return [Extraction(chunk.id, self.name) for chunk in chunks]
