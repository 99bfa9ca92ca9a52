"""Commits changes optimistically: draft outside any lock, apply, and draft again after a conflict.

For each change, mentions are resolved, entities and relations merged, descriptions summarised, texts embedded in one
call, and a `Changeset` is passed to `Store.apply`. The changeset names every version that it was computed from, and is
refused if one has changed in between; then a second draft reads, folds and pays for the changed parts only. Folds equal
to the stored ones are not written again.

Documents that become ready during a commit are committed together by the next one; a joint commit that fails is split
into single commits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from contextvars import Context, copy_context
from dataclasses import dataclass, field, replace
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from heliograph.calls.tasks import gather_or_cancel, in_thread
from heliograph.embedding.base import EmbeddingModel
from heliograph.errors import BadModelReply, ConflictError, StaleChangesetError, StoreError
from heliograph.ids import end_ids
from heliograph.ingest.merging import (
    NO_ENTITY_OVERRIDES,
    NO_RELATION_OVERRIDES,
    Folded,
    IndexEntry,
    MentionDelta,
    Merger,
    TouchedEntity,
    TouchedRelation,
    make_vectors,
    mention_delta,
)
from heliograph.ingest.reading import ChunkPlan, DocumentChange
from heliograph.ingest.resolution import (
    Change,
    CurationChange,
    Resolution,
    Resolver,
    entity_overrides,
    relation_overrides,
)
from heliograph.ingest.summary import DescriptionSummarizer, Summary
from heliograph.models import Entity, EntityEvidence, Relation, RelationEvidence, Usage
from heliograph.observing import stage
from heliograph.stores.base import Store
from heliograph.stores.changeset import Changeset, Collection, VectorBatch

# Vectors of chunks, entities and relations, per id.
KeptVectors = Mapping[Collection, Mapping[str, NDArray[np.float32]]]

# Folding fewer things than this takes about a millisecond and is not worth a thread.
_THREAD_FROM = 100
# Texts embedded between two progress reports: as many as one request to an embedding service has.
_TOLD_TEXTS = 512
# About as many as two joint commits embed; 6 MB with the offline embedding.
_REMEMBERED_VECTORS = 4_000
_MOST_DRAFTS = 6
# So many drafts may fail because documents are submitted meanwhile; later ones hold the storing lock.
_DISTURBED_DRAFTS = 3


@dataclass(slots=True)
class Draft:
    """The working state of a change while its changeset is computed; a second draft reuses the first one's results.

    Attributes:
        resolution: The change with its mentions resolved by the rules; None before the first draft.
        entities: Entities that it touches, as last read.
    """

    change: Change
    resolution: Resolution | None = None
    delta: MentionDelta = field(default_factory=MentionDelta)
    entities: dict[str, TouchedEntity] = field(default_factory=dict[str, TouchedEntity])
    relations: dict[str, TouchedRelation] = field(default_factory=dict[str, TouchedRelation])
    folded_entities: dict[str, Folded[Entity]] = field(default_factory=dict[str, Folded[Entity]])
    folded_relations: dict[str, Folded[Relation]] = field(default_factory=dict[str, Folded[Relation]])
    descriptions: dict[tuple[str, tuple[str, ...]], str] = field(default_factory=dict[tuple[str, tuple[str, ...]], str])
    vectors: dict[str, NDArray[np.float32]] = field(default_factory=dict[str, NDArray[np.float32]])
    reply_keys: set[str] = field(default_factory=set[str])
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class _ReadState:
    """The input of a draft: the resolved change, and the stored evidence and folds that it touches.

    Attributes:
        entity_ids: The entities to draft; in a second draft only those whose version has changed.
        relation_ids: Likewise.
        entities: Folds by id, as `relations`.
    """

    resolution: Resolution
    entity_ids: Sequence[str] = ()
    relation_ids: Sequence[str] = ()
    entity_evidence: Mapping[str, EntityEvidence] = field(default_factory=dict[str, EntityEvidence])
    relation_evidence: Mapping[str, RelationEvidence] = field(default_factory=dict[str, RelationEvidence])
    entities: Mapping[str, Entity] = field(default_factory=dict[str, Entity])
    relations: Mapping[str, Relation] = field(default_factory=dict[str, Relation])

    @property
    def is_long(self) -> bool:
        """Whether drafting takes long enough to be worth a thread."""
        return len(self.entity_ids) + len(self.relation_ids) >= _THREAD_FROM


@dataclass(frozen=True, slots=True)
class Commit:
    """The result of a commit: growth of the numbers of entities and relations, and tokens spent on descriptions."""

    entity_growth: int = 0
    relation_growth: int = 0
    usage: Usage = field(default_factory=Usage)


class Committer:
    """Applies the changes of one pipeline to one store.

    It caches the last vectors, since a joint commit that is split needs them again. Without a summarizer descriptions
    are joined.
    """

    def __init__(
        self, store: Store, embedding: EmbeddingModel, summarizer: DescriptionSummarizer | None, merger: Merger
    ) -> None:
        self.embedding = embedding
        self._store = store
        self._summarizer = summarizer
        self._merger = merger
        self._last_vectors: dict[str, NDArray[np.float32]] = {}
        self._kept: KeptVectors = {}
        self._tell: Callable[[int], None] | None = None
        self._applying = asyncio.Lock()
        # Held by changesets that need no draft, so that they need not wait for one; and by a draft's last tries, so
        # that these succeed.
        self._storing = asyncio.Lock()

    async def commit(self, change: Change) -> Commit:
        """Draft a change and apply it in one transaction.

        Raises:
            ConflictError: A document that it writes or relies on was changed or deleted meanwhile, somebody else
                curated the same entities, or other processes kept changing the same entities; nothing was applied.
            ModelError: A model failed; nothing was applied.
            StoreError: The store failed; nothing was applied.
        """
        draft = Draft(change, vectors=dict(change.vectors))
        try:
            return await self._try(draft, self._applying)
        except StaleChangesetError:
            pass
        async with self._applying:
            for tried in range(_MOST_DRAFTS):
                async with self._storing if tried >= _DISTURBED_DRAFTS else nullcontext():
                    if isinstance(change, DocumentChange):
                        await self._check_documents(change)
                    try:
                        return await self._try(draft, nullcontext())
                    except StaleChangesetError:
                        continue
        what = (
            f"{change.curations[0].kind.value} of {change.curations[0].names!r}"
            if isinstance(change, CurationChange)
            else f"the document {change.basis.id!r}"
        )
        raise ConflictError(
            f"{what} could not be committed: other processes changed the same entities {_MOST_DRAFTS} times in a row; "
            "try again when they have finished (documents: run resume)"
        )

    async def apply(self, changeset: Changeset) -> int:
        """Apply a changeset that needs no draft, at once; return the new data version.

        Raises:
            StaleChangesetError: A document is not as the changeset expects it; nothing was applied.
            StoreError: The store failed; nothing was applied.
        """
        async with self._storing:
            return await self._apply(changeset)

    @contextmanager
    def keeping(self, vectors: KeptVectors) -> Generator[None]:
        """Within the block, use existing vectors of the same model, by id, instead of embedding; for an import."""
        self._kept = vectors
        try:
            yield
        finally:
            self._kept = {}

    @contextmanager
    def telling(self, tell: Callable[[int], None]) -> Generator[None]:
        """Within the block, report the number of texts embedded, batch by batch for large documents; for an import."""
        self._tell = tell
        try:
            yield
        finally:
            self._tell = None

    async def with_vectors(self, change: DocumentChange) -> DocumentChange:
        """Return a change with vectors of all its passages; raises `ModelError`."""
        vectors = dict(change.vectors)
        await self._embed(change.plan.passages.values(), vectors)
        return replace(change, vectors=vectors)

    async def _try(self, draft: Draft, applying: AbstractAsyncContextManager[None]) -> Commit:
        changeset = await self._draft(draft)
        async with applying:
            with stage("ingest.commit"):
                await self._apply(changeset)
        entities, relations = (
            sum(item.growth for item in touched.values()) for touched in (draft.entities, draft.relations)
        )
        return Commit(entities, relations, draft.usage)

    async def _check_documents(self, change: DocumentChange) -> None:
        """Check that the documents are those that the change was computed from; no new draft could mend that."""
        expected = change.expected_documents
        stored = {item.id: item for item in await self._store.records.get_documents(list(expected))}
        for id_, document in expected.items():
            found = stored.get(id_)
            if (found and found.version) != (document and document.version):
                raise document_conflict(id_, "changed" if found else "deleted")

    async def _apply(self, changeset: Changeset) -> int:
        """Apply to the end even if cancelled, so that no commit is running when the cancellation returns."""
        applying = asyncio.ensure_future(self._store.apply(changeset))
        try:
            return await asyncio.shield(applying)
        except asyncio.CancelledError:
            await asyncio.gather(applying, return_exceptions=True)
            raise

    async def _draft(self, draft: Draft) -> Changeset:
        """Compute the changeset of a change from the current state of the store.

        Raises:
            ConflictError: A document that it writes or relies on was changed or deleted meanwhile.
            StaleChangesetError: The reads were inconsistent, since the store changed between them; draft again.
        """
        read = await self._store.read_written(lambda: self._read(draft))
        try:
            await self._touch(draft, read)
        except StaleChangesetError:
            raise
        except StoreError as error:
            # Mentions and evidence are inconsistent: the store may have changed after the mentions were read.
            if isinstance(draft.change, DocumentChange):
                await self._check_documents(draft.change)
            if await self._is_outdated(read.resolution):
                message = "what a name counts for has changed since it was read; draft again"
                raise StaleChangesetError(message) from error
            raise
        await self._summarize(draft, [*read.entity_ids, *read.relation_ids])
        if read.is_long:
            await in_thread(self._fold, draft, read)
        else:
            self._fold(draft, read)
        return changeset(draft, read.resolution, await self._make_vectors(draft))

    async def _read(self, draft: Draft) -> _ReadState:
        """Read the input of a draft; the embedded store reads it from one snapshot, in one turn of its thread."""
        resolution = await self._resolve(draft)
        entity_ids, relation_ids = await self._find_stale(draft, resolution)
        if not entity_ids and not relation_ids:
            return _ReadState(resolution)
        is_curated = any(rules.curations for rules in resolution.book)
        leading = self._merger.limits.leading + draft.delta.most_removed
        evidence, relation_evidence = await self._store.records.get_evidence(entity_ids, relation_ids, leading)
        # Folds are read after their evidence: if they are newer, the versions no longer match and the draft is
        # refused. Without evidence there is no fold, unless people keep it.
        graph = self._store.graph
        return _ReadState(
            *(resolution, entity_ids, relation_ids),
            entity_evidence={item.id: item for item in evidence},
            relation_evidence={item.id: item for item in relation_evidence},
            entities={
                item.id: item
                for item in await graph.get_entities(entity_ids if is_curated else [item.id for item in evidence])
            },
            relations={
                item.id: item
                for item in await graph.get_relations(
                    relation_ids if is_curated else [item.id for item in relation_evidence]
                )
            },
        )

    async def _resolve(self, draft: Draft) -> Resolution:
        """Resolve the change, unless an earlier resolution without any rules is still up to date."""
        known, change = draft.resolution, draft.change
        if known is not None and not len(known.book) and not await self._is_outdated(known):
            return known
        resolution = await Resolver(self._store, change).resolve()
        if isinstance(change, CurationChange):
            versions = resolution.versions
            for item in change.curations:
                for name, id_ in zip(item.names, item.entity_ids, strict=True):
                    if versions.get(id_, 0) != change.versions.get(id_, versions.get(id_, 0)):
                        raise ConflictError(
                            f"somebody else has just changed what {name!r} stands for; look at it and try again"
                        )
        size = sum(len(item.entities) for item in (*resolution.replaced, *resolution.extractions))
        replaced, extractions, renewed = resolution.replaced, resolution.extractions, change.plan.passages.keys()
        draft.resolution = resolution
        said = replaced, extractions, renewed
        draft.delta = await in_thread(mention_delta, *said) if size >= _THREAD_FROM else mention_delta(*said)
        # Names may resolve to other entities now; only summaries and vectors, which were paid for, are kept.
        for known in (draft.entities, draft.relations, draft.folded_entities, draft.folded_relations):
            known.clear()
        return resolution

    async def _is_outdated(self, resolution: Resolution) -> bool:
        rules = await self._store.curations.get_rules(list(resolution.versions))
        versions = {item.id: item.version for item in rules}
        if any(versions.get(id_, 0) != version for id_, version in resolution.versions.items()):
            return True
        if resolution.data_version not in (None, await self._store.get_data_version()):
            return True
        if not resolution.watched:
            return False
        evidence, _ = await self._store.records.get_evidence(list(resolution.watched), [], 0)
        versions = {item.id: item.version for item in evidence}
        return any(versions.get(id_, 0) != version for id_, version in resolution.watched.items())

    async def _find_stale(self, draft: Draft, resolution: Resolution) -> tuple[list[str], list[str]]:
        """Return the entity and relation ids to read: all at first, later those whose version has changed."""
        entity_ids = list(dict.fromkeys((*draft.delta.entity_ids, *sorted(resolution.entities))))
        relation_ids = list(dict.fromkeys((*draft.delta.relation_ids, *sorted(resolution.relations))))
        if not draft.entities and not draft.relations:
            return entity_ids, relation_ids
        entities, relations = await self._store.records.get_evidence(entity_ids, relation_ids, 0)
        versions = {item.id: item.version for item in (*entities, *relations)}
        return (
            [id_ for id_ in entity_ids if draft.entities[id_].evidence.version != versions.get(id_, 0)],
            [id_ for id_ in relation_ids if draft.relations[id_].evidence.version != versions.get(id_, 0)],
        )

    async def _touch(self, draft: Draft, read: _ReadState) -> None:
        resolution = read.resolution
        is_curated = any(rules.curations for rules in resolution.book)
        delta, merger = draft.delta, self._merger

        def touch() -> None:
            for id_ in read.entity_ids:
                change = delta.removed_entity_mentions.get(id_, []), delta.added_entity_mentions.get(id_, [])
                draft.entities[id_] = merger.touch_entity(
                    *(id_, change, read.entity_evidence.get(id_), read.entities.get(id_)),
                    entity_overrides(resolution.book, id_) if is_curated else NO_ENTITY_OVERRIDES,
                    is_reshaped=id_ in resolution.entities,
                )
            for id_ in read.relation_ids:
                change = delta.removed_relation_mentions.get(id_, []), delta.added_relation_mentions.get(id_, [])
                ends = resolution.relations.get(id_)
                draft.relations[id_] = merger.touch_relation(
                    *(id_, change, read.relation_evidence.get(id_), read.relations.get(id_)),
                    relation_overrides(resolution.book, *(ends or end_ids((*change[0], *change[1])[0])))
                    if is_curated
                    else NO_RELATION_OVERRIDES,
                    is_reshaped=ends is not None,
                    ends=ends,
                )

        if read.is_long:
            await in_thread(touch)
        else:
            touch()

    async def _summarize(self, draft: Draft, ids: Sequence[str]) -> None:
        """Have the chat model, if there is one, write the missing descriptions that need it."""
        summarizer = self._summarizer
        if summarizer is None:
            return
        may_call = draft.change.may_call_chat and not draft.change.is_removal
        wanted: dict[tuple[str, tuple[str, ...]], TouchedEntity | TouchedRelation] = {}
        for id_ in ids:
            item = draft.entities.get(id_) or draft.relations[id_]
            is_wanted = item.description is None and summarizer.is_needed(item.fragments)
            if may_call and summarizer.is_stand_in(item.description, item.fragments):
                # A stand-in left by a deletion, which calls no model.
                is_wanted = True
                item.description = None
            key = (item.label, item.fragments)
            if is_wanted and key not in draft.descriptions:
                wanted[key] = item

        async def summary(item: TouchedEntity | TouchedRelation) -> Summary:
            id_ = item.evidence.id
            if may_call:
                return await summarizer.summarize(item.label, item.fragments, subject_id=id_)
            if kept := await summarizer.recall(item.label, item.fragments, subject_id=id_):
                return kept
            if not draft.change.is_removal:
                return Summary(self._merger.limits.join(item.fragments))
            return summarizer.stand_in(item.fragments, item.stored.description if item.stored else "")

        for key, made in zip(wanted, await gather_or_cancel(map(summary, wanted.values())), strict=True):
            draft.descriptions[key] = made.text
            draft.usage += made.usage
            draft.reply_keys.update(made.reply_keys)

    def _fold(self, draft: Draft, read: _ReadState) -> None:
        renewed = draft.change.plan.passages.keys()
        for id_ in read.entity_ids:
            entity = draft.entities[id_]
            draft.folded_entities[id_] = self._merger.fold_entity(entity, self._description(draft, entity), renewed)
        for id_ in read.relation_ids:
            relation = draft.relations[id_]
            described = self._description(draft, relation)
            draft.folded_relations[id_] = self._merger.fold_relation(relation, described, renewed)

    def _description(self, draft: Draft, item: TouchedEntity | TouchedRelation) -> str:
        if item.description is not None:
            return item.description
        summary = draft.descriptions.get((item.label, item.fragments))
        return self._merger.limits.join(item.fragments) if summary is None else summary

    async def _make_vectors(self, draft: Draft) -> dict[Collection, VectorBatch]:
        """Make the vectors of new chunks, and of touched entities and relations."""
        passages, vectors = draft.change.plan.passages, draft.vectors
        folded = {Collection.ENTITIES: draft.folded_entities, Collection.RELATIONS: draft.folded_relations}
        entries = {Collection.CHUNKS: {id_: IndexEntry.of(text) for id_, text in passages.items()}} | {
            collection: {id_: item.entry for id_, item in part.items() if item.entry is not None}
            for collection, part in folded.items()
        }
        for collection, part in entries.items():
            if kept := self._kept.get(collection):
                part |= {id_: IndexEntry.of(item.text) for id_, item in part.items() if id_ in kept}
                vectors.update({item.text: kept[id_] for id_, item in part.items() if id_ in kept})
        every = [item for part in entries.values() for item in part.values()]
        await self._embed((text for item in every for text in item.embedded), vectors)
        chunks = {id_: vectors[text] for id_, text in passages.items()}
        missing = {id_: None for item in every for id_ in item.chunk_ids if id_ not in chunks}
        if missing:
            read = self._store.vectors.get_vectors
            chunks |= await self._store.read_written(lambda: read(Collection.CHUNKS, list(missing)))
        if not every:
            return {}
        # All in one call, since computing with few rows costs as much as with many.
        made = make_vectors({id_: item for part in entries.values() for id_, item in part.items()}, vectors, chunks)
        batches: dict[Collection, VectorBatch] = {}
        start = 0
        for collection, part in entries.items():
            own = slice(start, start := start + len(part))
            if part:
                batches[collection] = VectorBatch(made.ids[own], made.vectors[own], made.texts[own])
        return batches

    async def _embed(self, texts: Iterable[str], vectors: dict[str, NDArray[np.float32]]) -> None:
        """Add the vectors of all texts; unknown ones are embedded together."""
        wanted = {text: None for text in texts if text not in vectors}
        vectors.update({text: self._last_vectors[text] for text in wanted if text in self._last_vectors})
        unknown = [text for text in wanted if text not in vectors]
        if not unknown:
            return
        with stage("ingest.embed", texts=len(unknown)):
            made = await self._made(unknown)
        vectors.update(zip(unknown, made, strict=True))
        # Copied, since a view would keep the whole array in memory.
        last = slice(-_REMEMBERED_VECTORS, None)
        self._last_vectors.update(zip(unknown[last], made[last].copy(), strict=True))
        too_many = len(self._last_vectors) - _REMEMBERED_VECTORS
        for text in list(islice(self._last_vectors, max(too_many, 0))):
            del self._last_vectors[text]

    async def _made(self, texts: list[str]) -> NDArray[np.float32]:
        tell = self._tell
        if tell is None or len(texts) <= _TOLD_TEXTS:
            return await embed_texts(self.embedding, texts)
        parts: list[NDArray[np.float32]] = []
        for part in (texts[start : start + _TOLD_TEXTS] for start in range(0, len(texts), _TOLD_TEXTS)):
            parts.append(await embed_texts(self.embedding, part))
            tell(len(part))
        return np.concatenate(parts)


def document_conflict(id_: str, what: str) -> ConflictError:
    """Return the error of work on a document that was changed or deleted meanwhile."""
    return ConflictError(
        f"the document {id_!r} was {what} by another process while it was being worked on; what that process did stands"
    )


async def embed_texts(embedding: EmbeddingModel, texts: Sequence[str]) -> NDArray[np.float32]:
    """Return the vectors of texts, embedded as documents, `(n, dimension)`.

    Raises:
        ModelError: The model failed; `BadModelReply` where it returned vectors of another shape.
    """
    vectors = (await embedding.embed(texts, "document")).vectors
    if vectors.shape != (len(texts), embedding.info.dimension):
        raise BadModelReply(
            f"the embedding {embedding.info.name!r} returned vectors of shape {vectors.shape} for {len(texts)} texts; "
            "check its model and dimension"
        )
    return vectors


async def embed_entries(
    embedding: EmbeddingModel,
    entries: Mapping[str, IndexEntry],
    read_chunks: Callable[[Sequence[str]], Awaitable[Mapping[str, NDArray[np.float32]]]],
) -> VectorBatch:
    """Return the vectors of entries, at least one, embedding their texts and reading their chunks' vectors.

    Raises:
        ModelError: The model failed.
    """
    texts = list({text: None for item in entries.values() for text in item.embedded})
    embedded = dict(zip(texts, await embed_texts(embedding, texts), strict=True))
    chunks = await read_chunks(list({id_: None for item in entries.values() for id_ in item.chunk_ids}))
    return make_vectors(entries, embedded, chunks)


def changeset(draft: Draft, resolution: Resolution, vectors: Mapping[Collection, VectorBatch]) -> Changeset:
    """Build the changeset of a draft, which expects all versions to be as they were read."""
    entities, relations = draft.folded_entities.values(), draft.folded_relations.values()
    touched = (*draft.entities.values(), *draft.relations.values())
    graph = Changeset(
        extractions=resolution.extractions,
        entity_evidence=tuple(item.evidence for item in draft.entities.values()),
        relation_evidence=tuple(item.evidence for item in draft.relations.values()),
        entities=tuple(item.fold for item in entities if item.fold is not None),
        removed_entities=tuple(id_ for id_, item in draft.entities.items() if item.is_gone),
        relations=tuple(item.fold for item in relations if item.fold is not None),
        removed_relations=tuple(id_ for id_, item in draft.relations.items() if item.is_gone),
        vectors=vectors,
        texts={Collection.ENTITIES: tuple(item.terms for item in entities if item.terms is not None)},
        name_rules=resolution.rules,
        kept_replies=tuple(sorted(draft.reply_keys)),
        expected={item.evidence.id: item.evidence.version for item in touched} | {**resolution.watched},
        expected_rules=resolution.versions,
        expected_version=resolution.data_version,
    )
    change = draft.change
    if isinstance(change, CurationChange):
        return replace(graph, curations=change.curations)
    document = change.document
    return replace(
        graph,
        documents=(*((replace(document, usage=document.usage + draft.usage),) if document else ()), *change.others),
        document_texts=change.texts,
        removed_documents=change.gone if document else (change.basis.id, *change.gone),
        chunks=change.plan.written,
        removed_chunks=change.plan.removed,
        texts={Collection.CHUNKS: change.plan.terms, **graph.texts},
        removed_texts=change.dropped_texts,
        expected_documents=change.expected_documents,
    )


# Joint commits: documents that become ready during a commit are committed together by the next one.
#
# Entities that several of them mention are then read, folded, embedded and written once, and all share one transaction:
# each document is still in every projection or in none, and none waits for another to become ready. Only new documents
# without aliases are committed together; a joint commit that fails is split, so that an error of one document fails
# that document alone. While a document waits, its passages are embedded.

# Bounds how long a transaction keeps other writers waiting.
_MOST_CHUNKS = 160


def is_plain(change: DocumentChange) -> bool:
    """Whether a change only adds the extractions of a document that had no chunks, with no alias among them."""
    if change.document is None or change.is_new or change.texts:
        return False
    others = (change.plan.removed, change.plan.replaced, change.dropped_texts, change.others, change.gone)
    return not any(others) and not change.relied_on and not any(item.aliases for item in change.extractions)


def joint_change(changes: Sequence[DocumentChange]) -> DocumentChange:
    """Combine several plain changes into one."""
    first, *others = changes
    plans = [item.plan for item in changes]
    return replace(
        first,
        plan=ChunkPlan(
            written=tuple(chain.from_iterable(plan.written for plan in plans)),
            passages={id_: text for plan in plans for id_, text in plan.passages.items()},
            terms=tuple(chain.from_iterable(plan.terms for plan in plans)),
        ),
        extractions=tuple(chain.from_iterable(item.extractions for item in changes)),
        vectors={text: vector for item in changes for text, vector in item.vectors.items()},
        others=tuple(item.document for item in others if item.document is not None),
        relied_on=tuple(item.basis for item in others),
        is_joint=bool(others),
    )


@dataclass(slots=True, eq=False)
class _Waiting:
    """A document that waits to be committed, and the future of its commit."""

    change: DocumentChange
    outcome: asyncio.Future[Commit]
    context: Context = field(default_factory=copy_context)

    def settle(self, outcome: Commit | BaseException | None) -> None:
        """Resolve the future unless it is done; None cancels it, since no task will commit the document."""
        if self.outcome.done():
            return
        if outcome is None:
            self.outcome.cancel()
        elif isinstance(outcome, BaseException):
            self.outcome.set_exception(outcome)
        else:
            self.outcome.set_result(outcome)


class JointCommits:
    """Commits changes of documents; plain ones together, one joint commit at a time.

    With `most_documents` 1, each is committed by itself, several concurrently.
    """

    def __init__(self, committer: Committer, most_documents: int) -> None:
        self._committer = committer
        self._most_documents = most_documents
        self._waiting: list[_Waiting] = []
        self._group: list[_Waiting] = []
        self._task: asyncio.Task[None] | None = None

    async def commit(self, change: DocumentChange) -> Commit:
        """Commit a change, with others if they are ready; raises as `Committer.commit` does for it alone.

        Only one document of a joint commit gets its counts; the others get zeros.
        """
        if self._most_documents == 1 or not is_plain(change):
            return await self._committer.commit(change)
        if self._task is not None:
            change = await self._committer.with_vectors(change)
        waiting = _Waiting(change, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._begin()
        try:
            return await waiting.outcome
        except asyncio.CancelledError:
            # Leave the queue, or wait for the running commit, which is cancelled if no other task waits for it.
            if waiting in self._waiting:
                self._waiting.remove(waiting)
            elif waiting in self._group and self._task is not None:
                if all(other.outcome.cancelled() for other in self._group):
                    self._task.cancel()
                await asyncio.wait([self._task])
            raise

    def _begin(self) -> None:
        if self._task is None and self._waiting:
            # The first in the queue and as many after it as fit into one joint commit.
            count, chunks = 1, len(self._waiting[0].change.plan.written)
            for waiting in self._waiting[1 : self._most_documents]:
                chunks += len(waiting.change.plan.written)
                if chunks > _MOST_CHUNKS:
                    break
                count += 1
            self._group, self._waiting = self._waiting[:count], self._waiting[count:]
            work = self._commit_group(self._group)
            self._task = asyncio.get_running_loop().create_task(work, context=self._group[0].context)
            self._task.add_done_callback(self._end)

    async def _commit_group(self, group: Sequence[_Waiting]) -> None:
        if len(group) == 1:
            return await self._commit_alone(group[0])
        try:
            commit = await self._committer.commit(joint_change([waiting.change for waiting in group]))
        except Exception:  # noqa: BLE001 (not swallowed: whose it is meets it again alone)
            await gather_or_cancel(map(self._commit_alone, group))
            return None
        for waiting in group:
            waiting.settle(commit)
            commit = Commit()
        return None

    async def _commit_alone(self, waiting: _Waiting) -> None:
        try:
            waiting.settle(await self._committer.commit(waiting.change))
        except Exception as error:  # noqa: BLE001 (not swallowed: the document gets it)
            waiting.settle(error)

    def _end(self, task: asyncio.Task[None]) -> None:
        for waiting in self._group:
            waiting.settle(None if task.cancelled() else task.exception())
        self._group, self._task = [], None
        self._begin()
