"""A synthetic corpus and models without cost, so that what is measured is the engine alone.

Every document is one chunk of about 300 words with 21 entities and 22 relations. A third of the entities come from a
common pool by Zipf's law (hubs that many documents mention), the others belong to the document. Text, mentions and
vectors follow from the document's number and version, so two runs are the same.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from heliograph.embedding.base import EmbeddingInfo, EmbeddingKind, EmbeddingModel, Embeddings
from heliograph.extraction.base import Extractor, ignore_progress
from heliograph.ids import mention_rank
from heliograph.ingest.models import NewDocument
from heliograph.models import Chunk, Document, EntityMention, Extraction, RelationMention, Usage

__all__ = [
    "ENTITIES",
    "NOUNS",
    "RELATIONS",
    "CorpusExtractor",
    "HashEmbedding",
    "corpus_document",
    "corpus_mentions",
    "document_entities",
]

ENTITIES = 21
RELATIONS = 22
_SHARED = 7
_POOL = 2000
_CLUSTERS = 256
# Every name ends in one of these, every passage holds the word "report": a search for them finds everything.
NOUNS = ("pump", "valve", "sensor", "gateway", "turbine", "battery", "antenna", "relay", "motor", "panel")
_TYPES = ("artifact", "organization", "location", "person", "event")
_SYLLABLES = ("ka", "lor", "ven", "mi", "tas", "ru", "bel", "no", "dri", "sha", "pol", "ter")
_VERBS = ("feeds", "controls", "reports to", "replaces", "measures", "protects", "starts", "calibrates")
_THEMES = ("supply", "control", "telemetry", "maintenance", "safety", "commissioning")
_DETAILS = (
    "as the maintenance report of the eastern station says",
    "whenever the pressure falls below the limit of the report",
    "which the operators checked twice before the winter report",
    "after the inspection that closed the quarterly report",
)


@dataclass(frozen=True, slots=True)
class _Statement:
    source: str
    target: str
    keyword: str
    text: str


def corpus_document(number: int, version: int = 0) -> NewDocument:
    """Return a document of the corpus; another version has the same source and another text."""
    sentences = " ".join(statement.text for statement in _statements(number, version))
    text = f"# Report {number}\n\n{sentences}\n"
    return NewDocument(text=text, source=_source(number), metadata={"version": version, "number": number})


@lru_cache(maxsize=1024)
def document_entities(number: int, version: int = 0) -> tuple[str, ...]:
    """Return the names that a document mentions: first its own, then shared ones; 21 distinct."""
    state = random.Random(number * 1000 + version)
    own = [_name(f"{number}-{version}-{place}", state) for place in range(ENTITIES - _SHARED)]
    shared: dict[str, None] = {}
    while len(shared) < _SHARED:
        shared[_shared_name(int(_POOL ** state.random()))] = None
    return (*own, *shared)


@lru_cache(maxsize=1024)
def corpus_mentions(
    number: int, version: int = 0
) -> tuple[list[tuple[str, str, str]], list[tuple[str, str, str, str]]]:
    """Return what a document says: entities (name, type, description), relations (source, target, keyword, text)."""
    names = document_entities(number, version)
    entities = [(name, _TYPES[crc32(name.encode()) % 5], _entity_text(name, number, version)) for name in names]
    relations = [(item.source, item.target, item.keyword, item.text) for item in _statements(number, version)]
    return entities, relations


class CorpusExtractor(Extractor):
    """Finds in each document's chunk what the corpus put there, at no cost.

    Args:
        delay_seconds: How long one call seems to take at the most; 0 does not wait at all.
    """

    def __init__(self, delay_seconds: float = 0.0) -> None:
        self._delay_seconds = delay_seconds

    @property
    def name(self) -> str:
        """See `Extractor`."""
        return "corpus"

    async def extract(
        self, document: Document, chunks: Sequence[Chunk], on_chunk: Callable[[], None] = ignore_progress
    ) -> list[Extraction]:
        """See `Extractor`."""
        if self._delay_seconds:
            await asyncio.sleep(random.random() * self._delay_seconds)
        number, version = int(document.source.split("-")[1]), int(document.metadata["version"])
        for _ in chunks:
            on_chunk()
        return [_extraction(chunk, number, version) for chunk in chunks]


class HashEmbedding(EmbeddingModel):
    """Unit vectors in 256 clusters, looked up by a checksum of the text.

    Args:
        dimension: Length of the vectors.
        rows: How many different vectors there are.
    """

    def __init__(self, dimension: int, rows: int = 8192) -> None:
        self._info = EmbeddingInfo(f"hash-{dimension}", dimension, 8192)
        state = np.random.default_rng(7)
        centres = _unit(state.normal(size=(_CLUSTERS, dimension)).astype(np.float32))
        offsets = _unit(state.normal(size=(rows, dimension)).astype(np.float32))
        self._rows = _unit(np.repeat(centres, rows // _CLUSTERS, axis=0) + 0.7 * offsets)

    @property
    def info(self) -> EmbeddingInfo:
        """See `EmbeddingModel`."""
        return self._info

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:  # noqa: ARG002
        """See `EmbeddingModel`."""
        return Embeddings(self.vectors(texts), Usage())

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors that `embed` gives."""
        sums = np.fromiter((crc32(text.encode("utf-8", "replace")) for text in texts), np.int64, len(texts))
        return self._rows[sums % len(self._rows)]


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    return rows / np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]


def _extraction(chunk: Chunk, number: int, version: int) -> Extraction:
    rank = mention_rank(chunk.document_id, chunk.position, is_subject=False)
    entities, relations = corpus_mentions(number, version)
    return Extraction(
        chunk.id,
        "corpus",
        tuple(EntityMention(chunk.id, *entity, rank) for entity in entities),
        tuple(
            RelationMention(chunk.id, source, target, (keyword,), text, 1.0, rank)
            for source, target, keyword, text in relations
        ),
    )


@lru_cache(maxsize=1024)
def _statements(number: int, version: int) -> tuple[_Statement, ...]:
    """Return what a document says: a chain through all its entities and two more links."""
    names = document_entities(number, version)
    state = random.Random(number * 1000 + version + 1)
    pairs = {frozenset(pair): pair for pair in pairwise(names)}
    while len(pairs) < RELATIONS:
        source, target = state.sample(names, 2)
        pairs.setdefault(frozenset((source, target)), (source, target))
    return tuple(_statement(source, target, state) for source, target in pairs.values())


def _statement(source: str, target: str, state: random.Random) -> _Statement:
    text = f"{source} {state.choice(_VERBS)} {target} {state.choice(_DETAILS)}."
    return _Statement(source, target, state.choice(_THEMES), text)


def _entity_text(name: str, number: int, version: int) -> str:
    return f"{name} is part of plant {number % 97} and is described in report {number} of revision {version}."


def _name(code: str, state: random.Random) -> str:
    word = "".join(state.choices(_SYLLABLES, k=3)).capitalize()
    return f"{word} {code} {state.choice(NOUNS)}"


@lru_cache(maxsize=_POOL)
def _shared_name(rank: int) -> str:
    return _name(f"no. {rank}", random.Random(rank))


def _source(number: int) -> str:
    return f"report-{number:05}-plant.md"
