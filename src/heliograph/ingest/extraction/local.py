"""Extraction without a chat model: names, and the sentences in which they meet.

Deterministic and offline, for English, Chinese and mixtures of both. What comes out for a chunk depends on its text,
its headings, the document's title and its context (`local_context`) alone. Chunks are read in windows, so that a long
document needs bounded memory and reports progress. What is read lies in `local_reading`, which entities are kept in
`local_mentions`, which relations in `local_relations`. The work is done in a thread; the event loop stays free.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from heliograph.errors import SettingsError
from heliograph.ingest.extraction.base import Extractor, ignore_progress
from heliograph.ingest.extraction.file_titles import spoken_title
from heliograph.ingest.extraction.local_context import chunk_contexts
from heliograph.ingest.extraction.local_mentions import choose_entities
from heliograph.ingest.extraction.local_occurrences import ReadChunk
from heliograph.ingest.extraction.local_reading import read_chunks
from heliograph.ingest.extraction.local_relations import choose_relations
from heliograph.models import Chunk, Document, Extraction

__all__ = ["DEFAULT_ENTITIES_PER_1000_TOKENS", "DEFAULT_RELATIONS_PER_1000_TOKENS", "LocalExtractor"]

# Dense prose names 70 to 80 entities in 1000 tokens. A question's next hop is found by what a chunk mentions in
# passing, so most are kept. Indexing takes a quarter more CPU time than with 22, since each is embedded.
DEFAULT_ENTITIES_PER_1000_TOKENS = 60.0
DEFAULT_RELATIONS_PER_1000_TOKENS = 24.0

_LEAST_ENTITIES = 16
_LEAST_RELATIONS = 8
_WINDOW_CHUNKS = 64


class LocalExtractor(Extractor):
    """Reads entities and relations by rules."""

    def __init__(
        self,
        entities_per_1000_tokens: float = DEFAULT_ENTITIES_PER_1000_TOKENS,
        relations_per_1000_tokens: float = DEFAULT_RELATIONS_PER_1000_TOKENS,
    ) -> None:
        """Bound what is kept, since every entity and relation costs an embedding.

        Args:
            entities_per_1000_tokens: Entities kept per 1000 tokens of a chunk; the shortest chunk may keep sixteen.
            relations_per_1000_tokens: Relations likewise; the shortest chunk may keep eight. 0 keeps none.

        Raises:
            SettingsError: A bound is negative.
        """
        for name, value in (("entities", entities_per_1000_tokens), ("relations", relations_per_1000_tokens)):
            if value < 0:
                raise SettingsError(f"{name}_per_1000_tokens is {value!r}; give 0 or more")
        self._entities_per_token = entities_per_1000_tokens / 1000
        self._relations_per_token = relations_per_1000_tokens / 1000

    @property
    def name(self) -> str:
        """Always `local`."""
        return "local"

    def contexts(self, document: Document, chunks: Sequence[Chunk]) -> list[str]:  # noqa: ARG002
        """Return per chunk whether it is the first, and full names that others introduce; see `Extractor.contexts`."""
        return chunk_contexts(chunks)

    async def extract(
        self, document: Document, chunks: Sequence[Chunk], on_chunk: Callable[[], None] = ignore_progress
    ) -> list[Extraction]:
        """Read the chunks of one document, which should be all of them; see `Extractor.extract`.

        Raises:
            ModelUnavailable: A chunk is Chinese and the files of the Chinese word model are missing or damaged.
        """
        long = len(chunks) > _WINDOW_CHUNKS
        contexts = await asyncio.to_thread(chunk_contexts, chunks) if long else chunk_contexts(chunks)
        return await self.extract_in_context(document, chunks, contexts, on_chunk)

    async def extract_in_context(
        self,
        document: Document,
        chunks: Sequence[Chunk],
        contexts: Sequence[str],
        on_chunk: Callable[[], None] = ignore_progress,
    ) -> list[Extraction]:
        """Read some chunks of one document; see `Extractor.extract_in_context`. No chunk by itself ever fails.

        Raises:
            ModelUnavailable: A chunk is Chinese and the files of the Chinese word model are missing or damaged.
        """
        extractions: list[Extraction] = []
        title = spoken_title(document)
        for first in range(0, len(chunks), _WINDOW_CHUNKS):
            window = slice(first, first + _WINDOW_CHUNKS)
            extractions.extend(await asyncio.to_thread(self._read_window, title, chunks[window], contexts[window]))
            for _ in chunks[window]:
                on_chunk()
        return extractions

    def _read_window(self, title: str, chunks: Sequence[Chunk], contexts: Sequence[str]) -> list[Extraction]:
        return [self._extraction(read) for read in read_chunks(title, chunks, contexts)]

    def _extraction(self, read: ReadChunk) -> Extraction:
        tokens = read.chunk.token_count
        entities = choose_entities(read, _limit(tokens, self._entities_per_token, _LEAST_ENTITIES))
        relations = choose_relations(read, entities, _limit(tokens, self._relations_per_token, _LEAST_RELATIONS))
        mentions = tuple(entity.mention for entity in entities.values())
        return Extraction(read.chunk.id, self.name, mentions, tuple(relations))


def _limit(tokens: int, per_token: float, least: int) -> int:
    return max(least, round(tokens * per_token)) if per_token else 0
