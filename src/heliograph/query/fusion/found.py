"""What one fused search has found and read so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from heliograph.calls.together import run_together
from heliograph.embedding.scale import CosineScale
from heliograph.models import EntityMention
from heliograph.query.fusion.asides import worth_of_mentions
from heliograph.query.fusion.bridge import Nearness
from heliograph.query.fusion.combine import by_score
from heliograph.query.linking.models import Respelt
from heliograph.query.linking.names import Named, named_in_passage, passage_runs
from heliograph.query.modes import Channel
from heliograph.stores.base import EntityPlaces, StoreView
from heliograph.stores.changeset import Collection
from heliograph.text.names import mention_entity_id

Vector = NDArray[np.float32]
Scores = dict[str, float]

# Mentions of an entity that are read: enough to hold those of any that is not too common to lead on.
READ_MENTIONS = 32


@dataclass
class Found:
    """What a search has found so far, by channel, and all that was read of the store for it, each thing once.

    Attributes:
        store: Where it is read.
        question: What was asked.
        words: Its terms.
        vector: Its embedding.
        scale: What cosines mean; those below are in the usual scale.
        channels: Per channel what it found, chunk ids with scores.
        vectors: Chunk vectors read.
        cosines: Of the question and all chunks whose vector was compared.
        mentions: What is named per chunk that was read for it.
        worth: Per such chunk and entity, what a bridge from there is worth.
        places: Where entities are mentioned.
        named: What the question names.
        similar: What it resembles, if it names nothing.
        paths: Per chunk reached over a bridge the chunks that led there.
        entities: Those that hold the evidence together, the first first.
        respelt: The question as it was read, if it misspells names.
    """

    store: StoreView
    question: str
    words: Sequence[str]
    vector: Vector
    scale: CosineScale
    channels: dict[str, Scores] = field(default_factory=dict[str, Scores])
    vectors: dict[str, Vector] = field(default_factory=dict[str, Vector])
    cosines: Scores = field(default_factory=dict[str, float])
    mentions: dict[str, Sequence[EntityMention]] = field(default_factory=dict[str, Sequence[EntityMention]])
    worth: dict[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    places: dict[str, EntityPlaces] = field(default_factory=dict[str, EntityPlaces])
    named: Named = field(default_factory=Named)
    similar: Mapping[str, EntityPlaces] = field(default_factory=dict[str, EntityPlaces])
    paths: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    entities: Sequence[str] = ()
    respelt: Respelt | None = None

    def totals(self) -> Scores:
        """Return scores summed over channels."""
        return by_score(self.channels)

    def add(self, channel: Channel, scores: Scores) -> None:
        """Take over what a channel found in place of what it found before; what it found counts by its cosine too."""
        self.channels[channel] = scores
        near = self.channels.get(Channel.VECTOR)
        if near is not None and near is not scores:
            near |= {id_: self.cosines[id_] for id_ in scores.keys() - near.keys() if id_ in self.cosines}

    async def read_vectors(self, chunk_ids: Iterable[str]) -> None:
        """Read the vectors of chunks, and compare them with the question."""
        missing = [chunk_id for chunk_id in dict.fromkeys(chunk_ids) if chunk_id not in self.vectors]
        if missing:
            read = await self.store.vectors.get_vectors(Collection.CHUNKS, missing)
            self.vectors.update(read)
            if read:
                cosines = np.stack(list(read.values())) @ self.vector
                self.cosines.update(zip(read, self.scale.usual(cosines).tolist(), strict=True))

    def nearness(self, residuals: NDArray[np.float32], share: float, chunk_ids: Iterable[str]) -> Nearness:
        """Compare chunks with residual questions into which a share of the question itself is mixed.

        Args:
            residuals: Embedded residual questions, `(n, dimension)`, unit rows.
            share: How much of the question's vector is added to each.
            chunk_ids: The chunks; one without a vector is left out.
        """
        ids = [chunk_id for chunk_id in dict.fromkeys(chunk_ids) if chunk_id in self.vectors]
        chunks = np.stack([self.vectors[chunk_id] for chunk_id in ids]) if ids else residuals[:0]
        own = np.array([self.cosines[chunk_id] for chunk_id in ids], np.float32)
        likeness = np.clip(self.scale.usual(residuals @ self.vector), -1.0, 1.0)
        lengths = np.sqrt(1.0 + share * share + 2.0 * share * likeness)
        cosines = (self.scale.usual(residuals @ chunks.T) + share * own) / lengths[:, np.newaxis]
        return Nearness(cosines.astype(np.float32), {chunk_id: column for column, chunk_id in enumerate(ids)})

    async def read_places(self, entity_ids: Sequence[str]) -> None:
        """Read where entities are mentioned."""
        missing = [id_ for id_ in dict.fromkeys(entity_ids) if id_ not in self.places]
        if missing:
            places = await self.store.records.get_mention_places(missing, READ_MENTIONS)
            self.places.update((item.id, item) for item in places if item.chunk_ids)

    async def read_extracted(self, chunk_ids: Sequence[str]) -> None:
        """Read what an extractor found in chunks from which no bridge starts."""
        missing = [chunk_id for chunk_id in chunk_ids if chunk_id not in self.mentions]
        if missing:
            read = await self.store.records.get_entity_mentions(missing)
            await self.read_places([mention_entity_id(item) for found in read.values() for item in found])
            self.mentions.update(read)

    async def read_mentions(self, chunk_ids: Sequence[str], aside: float) -> None:
        """Read what an extractor found in chunks, and what else they name.

        Args:
            chunk_ids: The chunks.
            aside: What a mention in a paragraph without any word of the question is worth.
        """
        missing = [chunk_id for chunk_id in chunk_ids if chunk_id not in self.mentions]
        if missing:
            read, chunks = await run_together(
                self.store.records.get_entity_mentions(missing), self.store.records.get_chunks(missing)
            )
            runs = {
                chunk.id: passage_runs(chunk.text, (mention.name for mention in read.get(chunk.id, ())))
                for chunk in chunks
            }
            mentioned = [mention_entity_id(mention) for mentions in read.values() for mention in mentions]
            await self.read_places([*mentioned, *(id_ for found in runs.values() for id_ in found)])
            wanted = frozenset(self.words)
            for chunk in chunks:
                found = named_in_passage(chunk.id, chunk.text, runs[chunk.id], self.places)
                mentions = self.mentions[chunk.id] = (*read.get(chunk.id, ()), *found)
                self.worth[chunk.id] = worth_of_mentions(chunk.text, mentions, wanted, aside)
