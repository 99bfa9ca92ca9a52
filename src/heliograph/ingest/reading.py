"""Reads a document: which chunks change, what each says, and their vectors where those are made on the way.

A `ReadingTask` goes in. `plan_chunks` says which chunks stay, move, go, come or are read again; the extractor reads
those; `canonical_extraction` puts mentions into one order without repeats; `mention_delta` says what an ingest changes.
Aliases that a passage itself introduces are added. Nothing is written, so reading may happen on another host.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import cached_property
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from heliograph.documents.markdown import clean_text
from heliograph.errors import IngestError
from heliograph.extraction.base import Extractor
from heliograph.ids import (
    clean_name,
    entity_key,
    is_subject_rank,
    mention_entity_id,
    mention_rank,
    mention_relation_id,
    moved_rank,
)
from heliograph.ingest.chunking import Chunker
from heliograph.ingest.models import Progress, ProgressCallback
from heliograph.models import AliasMention, Chunk, Curation, Document, EntityMention, Extraction, RelationMention, Usage
from heliograph.observing import stage
from heliograph.stores.changeset import TextEntry
from heliograph.text.analysis import chunk_index_text, passage_terms
from heliograph.text.phrases import SentenceReading, find_abbreviations
from heliograph.text.sentences import sentence_spans

_log = logging.getLogger(__name__)

# Casts no vote against any other type.
UNKNOWN_TYPE = "unknown"
_MAX_WEIGHT = 1_000_000.0

EntityOrder = tuple[int, str, str, str, str]
RelationOrder = tuple[int, str, str, str, tuple[str, ...], str, float]


@dataclass(frozen=True, slots=True)
class MentionDelta:
    """Mentions taken away and added, per id of the entity or relation; an id without any is absent."""

    removed_entities: dict[str, list[EntityMention]] = field(default_factory=dict[str, list[EntityMention]])
    added_entities: dict[str, list[EntityMention]] = field(default_factory=dict[str, list[EntityMention]])
    removed_relations: dict[str, list[RelationMention]] = field(default_factory=dict[str, list[RelationMention]])
    added_relations: dict[str, list[RelationMention]] = field(default_factory=dict[str, list[RelationMention]])

    @property
    def entity_ids(self) -> list[str]:
        """The entities that change."""
        return list(self.removed_entities | self.added_entities)

    @property
    def relation_ids(self) -> list[str]:
        """The relations that change."""
        return list(self.removed_relations | self.added_relations)

    @property
    def most_removed(self) -> int:
        """The largest number of mentions that any one of them loses."""
        removed = (*self.removed_entities.values(), *self.removed_relations.values())
        return max(map(len, removed), default=0)


def entity_mention_order(mention: EntityMention) -> EntityOrder:
    """Return what an entity's mentions are sorted by: rank, chunk, then content."""
    return (mention.rank, mention.chunk_id, mention.name, mention.type, mention.description)


def relation_mention_order(mention: RelationMention) -> RelationOrder:
    """Return what a relation's mentions are sorted by: rank, chunk, then content."""
    return (
        *(mention.rank, mention.chunk_id, mention.source, mention.target),
        *(mention.keywords, mention.description, mention.weight),
    )


def canonical_extraction(extraction: Extraction) -> Extraction:
    """Return an extraction whose mentions are clean, distinct, sorted, and complete.

    Mentions without a name and relations of an entity with itself are dropped; an end of a relation that the chunk
    does not list becomes a mention of unknown type; a weight that is no positive number counts as 1.
    """
    entities: set[EntityMention] = set()
    for mention in extraction.entities:
        name, kind, said = clean_name(mention.name), clean_text(mention.type), clean_text(mention.description).strip()
        if (name, kind, said) != (mention.name, mention.type, mention.description):
            mention = replace(mention, name=name, type=kind, description=said, entity_id="")
        if name:
            entities.add(mention)
    relations: set[RelationMention] = set()
    for mention in extraction.relations:
        source, target = clean_name(mention.source), clean_name(mention.target)
        keywords, description = tuple(map(clean_text, mention.keywords)), clean_text(mention.description)
        weight = min(mention.weight, _MAX_WEIGHT) if math.isfinite(mention.weight) and mention.weight > 0 else 1.0
        clean = {"source": source, "target": target, "keywords": keywords, "description": description, "weight": weight}
        if any(getattr(mention, name) != value for name, value in clean.items()):
            mention = replace(mention, **clean, source_id="", target_id="")
        if source and target and entity_key(source) != entity_key(target):
            relations.add(mention)
    in_order = sorted(relations, key=relation_mention_order)
    present = {entity_key(mention.name) for mention in entities}
    for relation in in_order:
        for name in (relation.source, relation.target):
            if (key := entity_key(name)) not in present:
                present.add(key)
                entities.add(EntityMention(relation.chunk_id, name, UNKNOWN_TYPE, "", relation.rank))
    return replace(
        extraction,
        entities=tuple(sorted(entities, key=entity_mention_order)),
        relations=tuple(in_order),
        aliases=canonical_aliases(extraction.aliases),
    )


def canonical_aliases(aliases: Iterable[AliasMention]) -> tuple[AliasMention, ...]:
    """Return alias mentions clean, distinct and sorted, without those whose two names are spellings of one."""
    if not aliases:
        return ()
    clean = {AliasMention(m.chunk_id, clean_name(m.name), clean_name(m.alias)) for m in aliases}
    kept = (m for m in clean if m.name and m.alias and entity_key(m.name) != entity_key(m.alias))
    return tuple(sorted(kept, key=lambda m: (m.chunk_id, m.name, m.alias)))


def moved_extraction(extraction: Extraction, position: int) -> Extraction:
    """Return the extraction of a chunk that now stands at another position of its document."""
    return replace(
        extraction,
        entities=tuple(replace(m, rank=moved_rank(m.rank, position)) for m in extraction.entities),
        relations=tuple(replace(m, rank=moved_rank(m.rank, position)) for m in extraction.relations),
    )


def placed_extraction(extraction: Extraction, chunk_id: str, document_id: str, position: int) -> Extraction:
    """Return an extraction as if it had been read in a chunk of this id, at this position of this document.

    What its mentions count for is left open again: it follows from the rules where they are committed.
    """
    ranks = {flag: mention_rank(document_id, position, is_subject=flag) for flag in (True, False)}
    return replace(
        extraction,
        chunk_id=chunk_id,
        entities=tuple(
            replace(m, chunk_id=chunk_id, rank=ranks[is_subject_rank(m.rank)], entity_id="")
            for m in extraction.entities
        ),
        relations=tuple(
            replace(m, chunk_id=chunk_id, rank=ranks[is_subject_rank(m.rank)], source_id="", target_id="")
            for m in extraction.relations
        ),
        aliases=tuple(replace(m, chunk_id=chunk_id) for m in extraction.aliases),
    )


def mention_delta(
    removed: Sequence[Extraction], added: Sequence[Extraction], renewed: AbstractSet[str] = frozenset()
) -> MentionDelta:
    """Return what changes when some extractions take the place of others; both canonical.

    A mention that is in both changes nothing and is left out, unless its chunk has a new vector, of which vectors of
    what it mentions are made.
    """
    old_entities, new_entities = ({m for e in side for m in e.entities} for side in (removed, added))
    old_relations, new_relations = ({m for e in side for m in e.relations} for side in (removed, added))
    same_entities = {mention for mention in old_entities & new_entities if mention.chunk_id not in renewed}
    same_relations = {mention for mention in old_relations & new_relations if mention.chunk_id not in renewed}
    return MentionDelta(
        _by_entity(old_entities - same_entities),
        _by_entity(new_entities - same_entities),
        _by_relation(old_relations - same_relations),
        _by_relation(new_relations - same_relations),
    )


def _by_entity(mentions: Iterable[EntityMention]) -> dict[str, list[EntityMention]]:
    grouped: dict[str, list[EntityMention]] = {}
    for mention in mentions:
        grouped.setdefault(mention_entity_id(mention), []).append(mention)
    return grouped


def _by_relation(mentions: Iterable[RelationMention]) -> dict[str, list[RelationMention]]:
    grouped: dict[str, list[RelationMention]] = {}
    for mention in mentions:
        id_ = mention_relation_id(mention)
        # The two names of one entity are not related.
        if id_ not in (mention.source_id, mention.target_id):
            grouped.setdefault(id_, []).append(mention)
    return grouped


# Aliases that a passage itself introduces: an acronym in brackets beside its expansion, or the other way round.
#
# Only what can be checked by its letters counts, since an alias holds in all documents: every letter of the acronym
# must begin a word of the expansion, in order, and only small words may be left over. "MQTT" after "Message Queuing
# Telemetry Transport" is one, "XML" after "Extensible Markup Language" is none. What chat models say of aliases comes
# in by `heliograph.extraction`.

# Most passages hold no acronym beside a bracket and need not be cut into sentences.
_HINT = re.compile(r"[(（][A-Z][A-Za-z0-9&/.-]{1,11}[)）]|[A-Z][A-Za-z0-9&/.-]{1,11} ?[(（][^()（）\n]{4,80}[)）]")
_WORD = re.compile(r"[^\W_]+")
_SMALL_WORDS = frozenset(
    {"a", "an", "and", "as", "at", "by", "de", "del", "der", "des", "di", "du", "for", "from", "in", "la", "le", "of"}
    | {"on", "or", "per", "the", "to", "und", "van", "von", "with"}
)


def with_introduced_aliases(extraction: Extraction, chunk: Chunk) -> Extraction:
    """Return an extraction with the aliases that its chunk introduces; the same if it introduces none."""
    if not extraction.entities or not _HINT.search(chunk.text):
        return extraction
    text = chunk.text
    sentences = [SentenceReading(start, end, (), ()) for start, end in sentence_spans(text)]
    forms = ((text[slice(*one.short)], text[slice(*one.long)]) for one in find_abbreviations(text, sentences))
    found = tuple(AliasMention(chunk.id, long, short) for short, long in forms if _spells(short, long))
    return replace(extraction, aliases=canonical_aliases((*extraction.aliases, *found))) if found else extraction


def _spells(short: str, long: str) -> bool:
    """Whether the letters of a short form are the first letters of the words of a long one."""
    letters = [character.casefold() for character in short if character.isalnum()]
    words = _WORD.findall(long)
    if len(letters) < 2 or not words or words[0].casefold()[0] != letters[0]:
        return False
    index = 0
    for word in words:
        if index < len(letters) and word.casefold()[0] == letters[index]:
            index += 1
        elif word.casefold() not in _SMALL_WORDS:
            return False
    return index == len(letters)


# What an update does to a document's chunks: which stay, move, go, come, or must be read again.
#
# The chunks of the new text and what is stored come in; a `ChunkPlan` comes out. A chunk that stays keeps its
# mentions and its vector. One that was not read, or that now stands under other headings, is read and embedded again:
# what an extractor makes of it and how it is indexed depend on them. One whose context is another is read again.


@dataclass(frozen=True, slots=True)
class StoredChunks:
    """A document's stored chunks and the extractions of all of them, or of those in `replaced_chunks`.

    `all_read`: every chunk is known to have been read without an error.
    """

    chunks: Mapping[str, Chunk] = field(default_factory=dict[str, Chunk])
    extractions: Mapping[str, Extraction] = field(default_factory=dict[str, Extraction])
    all_read: bool = False

    def stands_alike(self, chunk: Chunk) -> bool:
        """Whether a chunk stood under the same headings, and the same head of a table."""
        stored = self.chunks.get(chunk.id)
        return stored is not None and (stored.headings, stored.columns) == (chunk.headings, chunk.columns)

    def is_read(self, chunk_id: str) -> bool:
        """Whether a chunk was read without an error."""
        if self.all_read:
            return chunk_id in self.chunks
        extraction = self.extractions.get(chunk_id)
        return extraction is not None and not extraction.error


@dataclass(frozen=True, slots=True)
class ChunkPlan:
    """What to do with a document's chunks.

    Attributes:
        written: Chunks to write: those that are new or differ in any field from what is stored.
        replaced: What was read in chunks that go, move, or are read again.
        moved: What was read in chunks that only move, at their new place.
        passages: Text to embed per id of a chunk that is new or under other headings.
    """

    chunk_count: int
    unread: tuple[Chunk, ...]
    written: tuple[Chunk, ...]
    removed: tuple[str, ...]
    replaced: tuple[Extraction, ...]
    moved: tuple[Extraction, ...]
    passages: dict[str, str]
    terms: tuple[TextEntry, ...]


def replaced_chunks(chunks: Sequence[Chunk], stored: StoredChunks) -> list[str]:
    """Return the ids of stored chunks whose readings go, move or are made again; `stored` may lack extractions."""
    kept = {chunk.id: _reading_basis(chunk) for chunk in chunks}
    return [id_ for id_, before in stored.chunks.items() if kept.get(id_) != _reading_basis(before)]


def _reading_basis(chunk: Chunk) -> tuple[int, tuple[str, ...], tuple[str, ...], str]:
    return chunk.position, chunk.headings, chunk.columns, chunk.context


def plan_chunks(title: str, chunks: Sequence[Chunk], stored: StoredChunks, *, keeps_readings: bool) -> ChunkPlan:
    """Compare a document's chunks, in order, with those stored of it. Takes CPU time in proportion to new text.

    Chunks that stay keep their mentions and vectors unless the title may be another (`keeps_readings`).
    """
    current = {chunk.id for chunk in chunks}
    indexed = {chunk.id for chunk in chunks if keeps_readings and stored.stands_alike(chunk)}
    same = {chunk.id for chunk in chunks if chunk.id in indexed and stored.chunks[chunk.id].context == chunk.context}
    unread = [chunk for chunk in chunks if chunk.id not in same or not stored.is_read(chunk.id)]
    unread_ids = {chunk.id for chunk in unread}
    moved = [
        chunk for chunk in chunks if chunk.id not in unread_ids and stored.chunks[chunk.id].position != chunk.position
    ]
    removed = tuple(id_ for id_ in stored.chunks if id_ not in current)
    replaced = (*removed, *unread_ids, *(chunk.id for chunk in moved))
    passages = {chunk.id: chunk_index_text(title, chunk) for chunk in chunks if chunk.id not in indexed}
    return ChunkPlan(
        chunk_count=len(chunks),
        unread=tuple(unread),
        written=tuple(chunk for chunk in chunks if stored.chunks.get(chunk.id) != chunk),
        removed=removed,
        replaced=tuple(stored.extractions[id_] for id_ in replaced if id_ in stored.extractions),
        moved=tuple(moved_extraction(stored.extractions[chunk.id], chunk.position) for chunk in moved),
        passages=passages,
        terms=tuple(TextEntry(id_, tuple(passage_terms(passage))) for id_, passage in passages.items()),
    )


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """What becomes of one document.

    Attributes:
        basis: The document as it is stored, and as the rest was computed from.
        document: As it shall be stored; None if it goes.
        replaced: What was read in chunks that go, that were read again, or that moved.
        extractions: What takes its place, canonical.
        passages: Text to embed per id of a new chunk.
        vectors: Vector per text of `passages` that was embedded before.
        text: The document's text, if it is to be stored with the rest; None leaves it as it is.
        dropped_texts: Ids of documents that keep no text of their own from now on.
        others: Further documents to write as they are here.
        other_texts: Text per id of such a document, where it gets another one.
        gone: Ids of further documents that go; their chunks are among those that do.
        relied_on: Other documents that it writes or relies on, as they are stored.
        is_new: Whether it is not stored yet, not even as pending.
        is_joint: Whether `others` are new as it is, and all else is about them too.
        may_call_chat: Whether a chat model may be asked for descriptions; else those that it gave before are taken
            where they are kept, and fragments are joined.
    """

    basis: Document
    document: Document | None = None
    chunks: tuple[Chunk, ...] = ()
    removed_chunks: tuple[str, ...] = ()
    replaced: tuple[Extraction, ...] = ()
    extractions: tuple[Extraction, ...] = ()
    passages: Mapping[str, str] = field(default_factory=dict[str, str])
    terms: tuple[TextEntry, ...] = ()
    vectors: Mapping[str, NDArray[np.float32]] = field(default_factory=dict[str, NDArray[np.float32]])
    text: str | None = None
    dropped_texts: tuple[str, ...] = ()
    others: tuple[Document, ...] = ()
    other_texts: Mapping[str, str] = field(default_factory=dict[str, str])
    gone: tuple[str, ...] = ()
    relied_on: tuple[Document, ...] = ()
    is_new: bool = False
    is_joint: bool = False
    may_call_chat: bool = True
    curations: ClassVar[tuple[Curation, ...]] = ()  # people make these, in a `CurationChange`

    @property
    def is_removal(self) -> bool:
        """Whether the document goes."""
        return self.document is None

    @property
    def expected_documents(self) -> dict[str, Document | None]:
        """All documents that it writes or relies on, by id, as they must still be stored; None for a new one."""
        expected: dict[str, Document | None] = {item.id: item for item in (self.basis, *self.relied_on)}
        return expected | {self.basis.id: None} if self.is_new else expected


T = TypeVar("T")

# Gives what is stored of the document whose chunks these are; None asks for everything, whatever its chunks will be.
FindStored = Callable[[Sequence[Chunk] | None], Awaitable[StoredChunks]]

# Cutting and analysing shorter texts takes one or two milliseconds and is not worth a thread.
_THREAD_FROM_CHARACTERS = 4_000


class ChunkProgress(Protocol):
    """Receives the progress of reading one document, in the event loop's thread."""

    def begin_chunks(self, count: int) -> None:
        """Note how many chunks will be read."""
        ...

    def finish_chunk(self) -> None:
        """Note that one was read."""
        ...


# How far a run has come, told a few times a second at the most.

_INTERVAL_SECONDS = 0.1
# Models load and caches fill at first: of less than this no time can be told.
_LEAST_SHARE = 0.02


def expected_seconds(elapsed_seconds: float, done: float, total: float) -> float | None:
    """Return how long the rest will take at the pace so far; None while less than a fiftieth is done."""
    if done <= 0 or done < total * _LEAST_SHARE:
        return None
    return elapsed_seconds * max(0.0, total - done) / done


class ProgressReporter:
    """Counts for one run; used from the event loop's thread only."""

    def __init__(
        self,
        track_id: str,
        callback: ProgressCallback | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._callback = callback
        self._clock = clock
        self._started = clock()
        self._reported: float | None = None
        self._characters_done = 0.0
        self._now = Progress(track_id, 0, 0, 0, 0, 0, 0, 0, Usage(), 0.0, None, is_finished=False)

    def expect(self, documents: int, characters: int) -> None:
        """Set the total of the work."""
        self.add(documents_total=documents, characters_total=characters)

    def begin(self, characters: int) -> DocumentProgress:
        """Return what counts one document of this length."""
        return DocumentProgress(self, characters)

    def add(self, characters: float = 0.0, **counts: Any) -> None:
        """Add to the characters that are done, and to fields of `Progress` by name."""
        self._characters_done += characters
        self._now = replace(self._now, **{name: getattr(self._now, name) + more for name, more in counts.items()})
        # The last chunk is told however soon it comes, since embedding and committing may take long.
        self._report(must="chunks_done" in counts and self._now.chunks_done == self._now.chunks_total)

    def finish(self) -> None:
        """Send the last report."""
        self._report(is_finished=True)

    def _report(self, *, is_finished: bool = False, must: bool = False) -> None:
        if self._callback is None:
            return
        now = self._clock()
        if not (is_finished or must) and self._reported is not None and now - self._reported < _INTERVAL_SECONDS:
            return
        self._reported, elapsed, done = now, now - self._started, self._characters_done
        self._now = replace(
            self._now,
            elapsed_seconds=elapsed,
            eta_seconds=expected_seconds(elapsed, done, self._now.characters_total),
            is_finished=is_finished,
            characters_done=round(done),
        )
        try:
            self._callback(self._now)
        except Exception:  # noqa: BLE001 (a caller's own code may raise anything)
            self._callback = None
            _log.exception("the progress callback failed and is not called again")


class DocumentProgress:
    """Counts the chunks of one document for its reporter."""

    def __init__(self, reporter: ProgressReporter, characters: int) -> None:
        self._reporter = reporter
        self._remaining = float(characters)
        self._share = 0.0

    def begin_chunks(self, count: int) -> None:
        """Say how many chunks will be read."""
        self._share = self._remaining / count if count else 0.0
        self._reporter.add(chunks_total=count)

    def finish_chunk(self) -> None:
        """Count a chunk that was read, and its share of the document's characters."""
        share = min(self._share, self._remaining)
        self._remaining -= share
        self._reporter.add(share, chunks_done=1)

    def finish(self, usage: Usage, growth: tuple[int, int] = (0, 0), *, failed: bool = False) -> None:
        """Count the document as done."""
        entities, relations = growth
        self._reporter.add(
            self._remaining, documents_done=1, failures=failed, usage=usage, entities=entities, relations=relations
        )


class ReadingScope(Enum):
    """How much of a document is read."""

    WHOLE = auto()
    """Every chunk."""
    CHANGES = auto()
    """Chunks that are not stored under the same title and headings."""
    FAILED_CHUNKS = auto()
    """Stored chunks that could not be read before; the text stays as it was cut."""


@dataclass(frozen=True, slots=True)
class ReadingTask:
    """A document to read.

    Attributes:
        document: As it is stored.
        text: Its clean text; None if it must be read from the store. A `Reader` is given none where only failed chunks
            are to be read.
        all_read: Whether all its stored chunks are known to have been read without an error.
        is_known: Whether it waited already, just as it was handed over now.
    """

    document: Document
    text: str | None = None
    scope: ReadingScope = ReadingScope.WHOLE
    all_read: bool = False
    is_known: bool = False


@dataclass(frozen=True, slots=True)
class DocumentReading:
    """What a document says: one canonical extraction per chunk of `plan.unread`, in order.

    Vectors are there per text of `plan.passages`, or of some; what is missing is embedded at commit.
    """

    plan: ChunkPlan
    extractions: tuple[Extraction, ...]
    vectors: Mapping[str, NDArray[np.float32]] = field(default_factory=dict[str, NDArray[np.float32]])


class Reader(ABC):
    """Reads documents. Implementations are safe to call from many tasks at once."""

    @abstractmethod
    async def read(self, task: ReadingTask, find_stored: FindStored, progress: ChunkProgress) -> DocumentReading:
        """Read one document; `find_stored` is called once, for what is stored of it.

        Raises:
            IngestError: The document holds nothing, or cannot be read.
            ModelError: A model failed.
            ClusterUnavailable: What reads elsewhere is out of reach.
            StoreError: What is stored cannot be read.
        """


class InProcessReader(Reader):
    """Reads in this process, long texts in threads; `extractor` may also make one when a document is first read."""

    def __init__(self, chunker: Chunker, extractor: Extractor | Callable[[], Extractor]) -> None:
        self._chunker = chunker
        self._given = extractor

    @cached_property
    def _extractor(self) -> Extractor:
        return self._given if isinstance(self._given, Extractor) else self._given()

    async def read(self, task: ReadingTask, find_stored: FindStored, progress: ChunkProgress) -> DocumentReading:
        """See `Reader.read`; vectors are left to the commit, which embeds all that it needs in one call."""
        with stage("ingest.chunk"):
            document, text = task.document, task.text
            if text is None:
                stored = await find_stored(None)
                plan = plan_chunks(document.title, list(stored.chunks.values()), stored, keeps_readings=True)
            else:
                chunks = await _compute(lambda: self._cut(document, text), len(text))
                if not chunks:
                    raise IngestError(f"the document {document.source!r} holds nothing but separators; give it a text")
                stored = await find_stored(chunks)
                plan = await _compute(
                    lambda: plan_chunks(
                        document.title, chunks, stored, keeps_readings=task.scope is not ReadingScope.WHOLE
                    ),
                    len(text) if not stored.chunks else 0,
                )
        progress.begin_chunks(len(plan.unread))
        with stage("ingest.extract", chunks=len(plan.unread)):
            extractions = await self._extract(task.document, plan.unread, progress.finish_chunk)
        return DocumentReading(plan, tuple(extractions))

    def _cut(self, document: Document, text: str) -> list[Chunk]:
        chunks = self._chunker.chunk(document.id, text, document.page_starts)
        contexts = self._extractor.contexts(document, chunks)
        return [
            replace(chunk, context=context) if context else chunk
            for chunk, context in zip(chunks, contexts, strict=True)
        ]

    async def _extract(
        self, document: Document, chunks: Sequence[Chunk], on_chunk: Callable[[], None]
    ) -> list[Extraction]:
        if not chunks:
            return []
        contexts = [chunk.context for chunk in chunks]
        extractions = await self._extractor.extract_in_context(document, chunks, contexts, on_chunk)
        if [item.chunk_id for item in extractions] != [chunk.id for chunk in chunks]:
            raise IngestError(
                f"the extractor {self._extractor.name!r} did not return one extraction per chunk of "
                f"{document.source!r}; report this to its author"
            )
        characters = sum(len(chunk.text) for chunk in chunks)

        def finish() -> list[Extraction]:
            found = [canonical_extraction(item) for item in extractions]
            return [with_introduced_aliases(item, chunk) for item, chunk in zip(found, chunks, strict=True)]

        return await _compute(finish, characters // 10)


async def _compute(work: Callable[[], T], characters: int) -> T:
    return work() if characters < _THREAD_FROM_CHARACTERS else await asyncio.to_thread(work)
