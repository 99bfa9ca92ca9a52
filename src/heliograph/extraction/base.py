"""The contract of an extractor: chunks of one document come in, one `Extraction` per chunk goes out, in the same order.

An extractor reads; it neither stores nor merges. Names come out through `clean_name`, ranks through `mention_rank`, and
both ends of every relation are among the entities of its chunk.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from heliograph.models import Chunk, Document, Extraction


def ignore_progress() -> None:
    """Do nothing; the progress callback of those who do not watch."""


class Extractor(ABC):
    """Reads mentions in chunks. Implementations are safe to call from many tasks at once."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Identity of the extractor, kept with what it extracted; short, without spaces."""

    @abstractmethod
    async def extract(
        self, document: Document, chunks: Sequence[Chunk], on_chunk: Callable[[], None] = ignore_progress
    ) -> list[Extraction]:
        """Read the chunks of one document.

        Args:
            document: The document they belong to; its title may be empty.
            chunks: Chunks of that document in order, not necessarily all of them; none gives an empty list.
            on_chunk: Called once per chunk as soon as it is read, from the event loop's thread.

        Returns:
            One extraction per chunk, in the same order. A chunk that could not be read has `error` set and no
            mentions; the others are not affected.

        Raises:
            ModelError: The service as a whole failed (for example `ModelUnavailable`), so no chunk can be read.
        """

    def contexts(self, document: Document, chunks: Sequence[Chunk]) -> list[str]:  # noqa: ARG002
        """Return, per chunk, what else its reading depends on besides its text, its headings and the title.

        A chunk that stays must be read again when its context has changed; one whose context is the same gives the same
        extraction, so that an update ends where a fresh insert would. Takes CPU time in proportion to the text.

        Returns:
            One short string per chunk; empty for extractors that read each chunk by itself, which is the default.
        """
        return ["" for _ in chunks]

    async def extract_in_context(
        self,
        document: Document,
        chunks: Sequence[Chunk],
        contexts: Sequence[str],  # noqa: ARG002
        on_chunk: Callable[[], None] = ignore_progress,
    ) -> list[Extraction]:
        """Read some chunks of a document as they are read among all of its chunks; see `extract`.

        Args:
            document: The document.
            chunks: The chunks to read, in order.
            contexts: What `contexts` gave for each of them. The default does not need them.
            on_chunk: See `extract`.
        """
        return await self.extract(document, chunks, on_chunk)
