"""Check that all stored data agrees with the documents, and repair it.

The workspace is read in windows of ids while others read and write; a window with problems is read again if a commit
came in between. Documents and chunks are checked first, then entities and relations, whose counts and merged
descriptions are recomputed from mentions and curations (`Recounter`), then the projections in external stores. The
result is a `CheckReport`; repairs are ordinary commits. `Maintenance` is the engine's interface to it; `rebuild_role`,
`find_leftovers` and `forget_follower` repair external stores.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, Literal, TypeVar

from heliograph.chat.base import ChatModel
from heliograph.embedding.base import EmbeddingModel
from heliograph.errors import InvalidRequestError, NotFoundError, StaleChangesetError, StoreDamaged, StoreError
from heliograph.ids import end_ids
from heliograph.ingest.commit import embed_entries
from heliograph.ingest.merging import (
    Folded,
    IndexEntry,
    Merger,
    TouchedEntity,
    TouchedRelation,
    apply_entity_delta,
    apply_relation_delta,
    empty_entity_evidence,
    empty_relation_evidence,
    is_same_fold,
)
from heliograph.ingest.resolution import RuleLoader, entity_overrides, relation_overrides, resolve_again
from heliograph.ingest.summary import DescriptionSummarizer, needs_summary
from heliograph.models import (
    COMMITTED_STATUSES,
    Chunk,
    Document,
    Entity,
    EntityEvidence,
    Extraction,
    Relation,
    RelationEvidence,
)
from heliograph.observing import TellCount
from heliograph.settings import IngestSettings, StoreSettings
from heliograph.stores.base import Follower, ScanKind, Store
from heliograph.stores.changeset import Changeset, Collection, TextEntry, digest_terms
from heliograph.stores.composed import id_windows
from heliograph.stores.registry import open_store
from heliograph.text.analysis import chunk_index_text, passage_terms

# The problems of a check and the result of a rebuild.

Subject = Literal["document", "chunk", "entity", "relation", "store"]


@dataclass(frozen=True, slots=True)
class Problem:
    """An item that does not agree with the documents; for the store as a whole, `id` is empty or a follower's name.

    It is repairable if its correct value follows from the truth.
    """

    subject: Subject
    id: str
    message: str
    is_repairable: bool = True


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The result of a check: counts of what it compared, the first problems, and the number of all."""

    problems: tuple[Problem, ...]
    problem_count: int
    repaired: int
    documents: int
    chunks: int
    entities: int
    relations: int

    @property
    def is_clean(self) -> bool:
        """Whether no problem remains."""
        return self.problem_count == self.repaired


@dataclass(frozen=True, slots=True)
class CheckFindings:
    """Problems of one window, the changeset that repairs them, if any, and the texts to embed again."""

    problems: tuple[Problem, ...] = ()
    repair: Changeset | None = None
    vectors: Mapping[Collection, Mapping[str, IndexEntry]] = field(
        default_factory=dict[Collection, Mapping[str, IndexEntry]]
    )
    looked_at: Mapping[str, int] = field(default_factory=dict[str, int])


Window = Mapping[ScanKind, frozenset[str]]


# Evidence and folds recomputed from the mentions and the curations, as if none were stored.
#
# Hubs are counted page by page, so memory holds a page of mentions however many there are.

E = TypeVar("E", EntityEvidence, RelationEvidence)
F = TypeVar("F", Entity, Relation)

_PAGE = 2_000
# Ids per kind that are checked together.
_WINDOW = 500


# The evidence of an item's mentions and its fold with curations; no fold if it is deleted by hand.
_Wanted = tuple[E, Folded[F]]


class Recounter:
    """Recomputes evidence and folds; reads only truth, except for descriptions that a chat model wrote.

    It folds and summarises as the ingest does; without a chat model, fragments are joined.
    """

    def __init__(self, store: Store, merger: Merger, chat: ChatModel | None, settings: IngestSettings) -> None:
        self._store = store
        self._merger = merger
        self._settings = settings
        self._summarizer = None if chat is None else DescriptionSummarizer(chat, settings)

    async def entities(self, ids: Sequence[str]) -> dict[str, _Wanted[EntityEvidence, Entity]]:
        """Return the expected state of these entities; those without mentions that no curation keeps are absent."""
        counted: dict[str, EntityEvidence] = {}
        async for id_, page in self._mentions(ids, of_entities=True):
            known = counted.get(id_) or empty_entity_evidence(id_)
            counted[id_] = apply_entity_delta(known, (), page, self._merger.limits.leading)
        stored = {entity.id: entity for entity in await self._store.graph.get_entities(ids)}
        rules = RuleLoader(self._store)
        await rules.load(ids)
        book = rules.book
        found: dict[str, _Wanted[EntityEvidence, Entity]] = {}
        for id_ in ids:
            evidence = counted.get(id_) or empty_entity_evidence(id_)
            touched = self._merger.touch_entity(id_, ((), ()), evidence, None, entity_overrides(book, id_))
            if not touched.is_gone:
                description = await self._description(touched, stored.get(id_))
                found[id_] = evidence, self._merger.fold_entity(touched, description)
            elif evidence.mention_count:
                found[id_] = evidence, Folded()
        return found

    async def relations(self, ids: Sequence[str]) -> dict[str, _Wanted[RelationEvidence, Relation]]:
        """Return the expected state of these relations; those without mentions that no curation keeps are absent."""
        counted: dict[str, RelationEvidence] = {}
        async for id_, page in self._mentions(ids, of_entities=False):
            known = counted.get(id_) or empty_relation_evidence(id_, end_ids(page[0]))
            counted[id_] = apply_relation_delta(known, (), page, self._merger.limits.leading)
        stored = {relation.id: relation for relation in await self._store.graph.get_relations(ids)}
        ends = {id_: (item.source_id, item.target_id) for id_, item in (*stored.items(), *counted.items())}
        rules = RuleLoader(self._store)
        await rules.load({end for pair in ends.values() for end in pair})
        book = rules.book
        found: dict[str, _Wanted[RelationEvidence, Relation]] = {}
        for id_, pair in ends.items():
            evidence = counted.get(id_) or empty_relation_evidence(id_, pair)
            overrides = relation_overrides(book, *pair)
            touched = self._merger.touch_relation(id_, ((), ()), evidence, None, overrides, ends=pair)
            if not touched.is_gone:
                description = await self._description(touched, stored.get(id_))
                found[id_] = evidence, self._merger.fold_relation(touched, description)
            elif evidence.mention_count:
                found[id_] = evidence, Folded()
        return found

    async def _description(self, touched: TouchedEntity | TouchedRelation, stored: Entity | Relation | None) -> str:
        if touched.description is not None:
            return touched.description
        # A chat model's description would cost another call, or is impossible without that model: keep it.
        if stored is not None and stored.description and needs_summary(touched.fragments, self._settings):
            return stored.description
        if self._summarizer is None:
            return self._merger.limits.join(touched.fragments)
        label, id_ = touched.label, touched.evidence.id
        return (await self._summarizer.summarize(label, touched.fragments, subject_id=id_)).text

    async def _mentions(self, ids: Sequence[str], *, of_entities: bool) -> AsyncIterator[tuple[str, list[Any]]]:
        """Yield, page by page, the mentions of each of these entities or relations, in canonical order."""
        pending, offset = list(ids), 0
        while pending:
            wanted = (pending, list[str]()) if of_entities else (list[str](), pending)
            pages = (await self._store.inspection.get_mentions(*wanted, offset, _PAGE))[0 if of_entities else 1]
            for item in pages.items():
                yield item
            pending, offset = [id_ for id_, page in pages.items() if len(page) == _PAGE], offset + _PAGE


# Comparing documents and chunks: every chunk at its place, read, embedded and indexed, with no leftovers.

CHUNK_KINDS = (ScanKind.CHUNKS, ScanKind.EXTRACTIONS, ScanKind.CHUNK_VECTORS)


async def check_documents(store: Store, document_ids: Iterable[str]) -> CheckFindings:
    """Compare documents with their own chunks, and their mentions with the entities that names resolve to.

    Problems of the chunks concern truth itself, which cannot be recomputed.
    """
    documents = await store.records.get_documents(sorted(document_ids))
    problems: list[Problem] = []
    for document in documents:
        if document.status in COMMITTED_STATUSES:
            chunks = await store.records.get_document_chunks(document.id)
            text = await store.records.get_document_text(document.id)
            problems += [
                Problem("document", document.id, message, is_repairable=False)
                for message in _document_faults(document, chunks, text)
            ]
    moved: list[Extraction] = []
    for document in documents:
        ids = [chunk.id for chunk in await store.records.get_document_chunks(document.id)]
        stored = await store.records.get_extractions(ids)
        right = await resolve_again(store, document.id, stored)
        moved += [after for before, after in zip(stored, right, strict=True) if before != after]
    problems += [
        Problem("chunk", item.chunk_id, "its mentions count for other entities than they should") for item in moved
    ]
    repair = Changeset(extractions=tuple(moved)) if moved else None
    return CheckFindings(tuple(problems), repair, looked_at={"documents": len(documents)})


def _document_faults(document: Document, chunks: Sequence[Chunk], text: str | None) -> Iterable[str]:
    if document.twin_of and chunks:
        yield f"{document.source!r} has chunks, though {document.twin_of!r} holds them; index it again"
    if text is None:
        yield f"the text of {document.source!r} is missing; index it again"
        return
    if len(chunks) != document.chunk_count:
        yield f"{document.source!r} has {len(chunks)} chunks, and should have {document.chunk_count}; index it again"
    elif [chunk.position for chunk in chunks] != list(range(len(chunks))):
        yield f"the chunks of {document.source!r} are not in one sequence; index it again"
    for chunk in chunks:
        if text[chunk.start : chunk.end] != chunk.text:
            yield f"the chunk {chunk.id!r} is not what stands at its place in {document.source!r}; index it again"


async def check_chunks(store: Store, window: Window, texts: Mapping[str, int], *, every: bool) -> CheckFindings:
    """Compare the chunks of a window with their documents, extractions, vectors and full text.

    `texts` are digests of the stored full text per id of the whole workspace. With `every`, vectors and full text are
    rebuilt even if there is no problem.
    """
    ids = sorted(set(chain.from_iterable(window.values())))
    chunks = {chunk.id: chunk for chunk in await store.records.get_chunks(ids)}
    documents = await store.records.get_owners(chunks.values())
    owned = {id_: chunk for id_, chunk in chunks.items() if chunk.document_id in documents}
    passages = {id_: chunk_index_text(documents[chunk.document_id].title, chunk) for id_, chunk in owned.items()}
    entries = {id_: TextEntry(id_, tuple(passage_terms(passage))) for id_, passage in passages.items()}
    # A waiting document has its new title already; its chunks keep the old one until it is processed.
    settled = {document.id for document in documents.values() if document.status in COMMITTED_STATUSES}
    stale = [
        id_
        for id_, entry in entries.items()
        if owned[id_].document_id in settled and texts.get(id_, 0) != digest_terms(entry.terms)
    ]
    unembedded = [id_ for id_ in owned if id_ not in window[ScanKind.CHUNK_VECTORS]]
    orphans = [id_ for id_ in ids if id_ not in owned]
    problems = [
        *(Problem("chunk", id_, "it belongs to no document") for id_ in orphans),
        *(Problem("chunk", id_, "its full text is not that of its passage") for id_ in stale),
        *(Problem("chunk", id_, "it has no vector") for id_ in unembedded),
        *(
            Problem("chunk", id_, "it was never read; run retry, or index its document again", is_repairable=False)
            for id_ in owned
            if id_ not in window[ScanKind.EXTRACTIONS]
        ),
    ]
    chosen = sorted(owned) if every else sorted({*stale, *unembedded})
    repair = Changeset(removed_chunks=tuple(orphans), texts={Collection.CHUNKS: tuple(entries[id_] for id_ in chosen)})
    vectors = {Collection.CHUNKS: {id_: IndexEntry.of(passages[id_]) for id_ in chosen}}
    return CheckFindings(tuple(problems), repair if chosen or orphans else None, vectors, {"chunks": len(owned)})


# Comparing entities and relations with the sum of their mentions.

ENTITY_KINDS = (ScanKind.MENTIONED_ENTITIES, ScanKind.ENTITY_EVIDENCE, ScanKind.ENTITIES, ScanKind.ENTITY_VECTORS)
_LEFT_OVER = "nothing mentions it"
RELATION_KINDS = (
    *(ScanKind.MENTIONED_RELATIONS, ScanKind.RELATION_EVIDENCE),
    *(ScanKind.RELATIONS, ScanKind.RELATION_VECTORS),
)


async def check_entities(
    store: Store, recounter: Recounter, window: Window, texts: Mapping[str, int], *, every: bool
) -> CheckFindings:
    """Compare the entities of a window with their expected state; `texts` and `every` as in `check_chunks`."""
    ids = sorted(set(chain.from_iterable(window.values())))
    wanted = await recounter.entities(ids)
    evidence, _ = await store.records.get_evidence(ids, [], 0)
    stored = {item.id: item for item in evidence}
    folds = {item.id: item for item in await store.graph.get_entities(ids)}
    unindexed = [
        id_ for id_, (_, item) in wanted.items() if item.terms and texts.get(id_, 0) != digest_terms(item.terms.terms)
    ]
    problems = [
        *_differences("entity", wanted, stored, folds, window[ScanKind.ENTITY_VECTORS]),
        *(Problem("entity", id_, "its full text is not that of its names") for id_ in unindexed),
        *(Problem("entity", id_, _LEFT_OVER) for id_ in ids if id_ not in wanted),
    ]
    chosen, gone, hidden = _choose(problems, wanted, ids, every=every)
    repair = Changeset(
        entity_evidence=(*(counted for counted, _ in chosen.values()), *map(empty_entity_evidence, gone)),
        entities=tuple(item.fold for _, item in chosen.values() if item.fold is not None),
        removed_entities=(*gone, *hidden),
        texts={Collection.ENTITIES: tuple(item.terms for _, item in chosen.values() if item.terms is not None)},
        expected={id_: stored[id_].version if id_ in stored else 0 for id_ in (*chosen, *gone)},
    )
    vectors = {Collection.ENTITIES: {id_: item.entry for id_, (_, item) in chosen.items() if item.entry is not None}}
    return CheckFindings(tuple(problems), repair if chosen or gone else None, vectors, {"entities": len(wanted)})


async def check_relations(store: Store, recounter: Recounter, window: Window, *, every: bool) -> CheckFindings:
    """Compare the relations of a window; as `check_entities`."""
    ids = sorted(set(chain.from_iterable(window.values())))
    wanted = await recounter.relations(ids)
    _, evidence = await store.records.get_evidence([], ids, 0)
    stored = {item.id: item for item in evidence}
    folds = {item.id: item for item in await store.graph.get_relations(ids)}
    problems = [
        *_differences("relation", wanted, stored, folds, window[ScanKind.RELATION_VECTORS]),
        *(Problem("relation", id_, _LEFT_OVER) for id_ in ids if id_ not in wanted),
    ]
    chosen, gone, hidden = _choose(problems, wanted, ids, every=every)
    empty = (
        empty_relation_evidence(id_, (stored[id_].source_id, stored[id_].target_id)) for id_ in gone if id_ in stored
    )
    repair = Changeset(
        relation_evidence=(*(counted for counted, _ in chosen.values()), *empty),
        relations=tuple(item.fold for _, item in chosen.values() if item.fold is not None),
        removed_relations=(*gone, *hidden),
        expected={id_: stored[id_].version if id_ in stored else 0 for id_ in (*chosen, *gone)},
    )
    vectors = {Collection.RELATIONS: {id_: item.entry for id_, (_, item) in chosen.items() if item.entry is not None}}
    return CheckFindings(tuple(problems), repair if chosen or gone else None, vectors, {"relations": len(wanted)})


def _differences(
    subject: Subject,
    wanted: Mapping[str, _Wanted[E, F]],
    stored: Mapping[str, E],
    folds: Mapping[str, F],
    vectors: frozenset[str],
) -> Iterable[Problem]:
    """Yield the differences between the expected and the stored: evidence, fold, vector."""
    for id_, (counted, item) in wanted.items():
        known, fold = stored.get(id_), folds.get(id_)
        is_counted = (
            replace(known, leading=(), version=0) == replace(counted, leading=(), version=0)
            if known
            else (not counted.mention_count)
        )
        if not is_counted:
            yield Problem(subject, id_, "its evidence is not what its mentions add up to")
        if item.fold is None:
            if fold is not None:
                yield Problem(subject, id_, "it was deleted by hand and is in the graph")
            continue
        if fold is None:
            yield Problem(subject, id_, f"{_brief(item.fold)} is not in the graph")
        elif not is_same_fold(fold, item.fold):
            yield Problem(subject, id_, f"it is {_brief(fold)}, and should be {_brief(item.fold)}")
        if id_ not in vectors:
            yield Problem(subject, id_, "it has no vector")


def _choose(
    problems: Iterable[Problem], wanted: Mapping[str, _Wanted[E, F]], ids: Sequence[str], *, every: bool
) -> tuple[dict[str, _Wanted[E, F]], tuple[str, ...], tuple[str, ...]]:
    """Return the ids to recompute, those without mentions, and those that people deleted."""
    broken = {problem.id for problem in problems}
    chosen = {id_: item for id_, item in wanted.items() if every or id_ in broken}
    gone = tuple(id_ for id_ in ids if id_ not in wanted)
    return chosen, gone, tuple(id_ for id_, (_, item) in chosen.items() if item.fold is None)


def _brief(fold: Entity | Relation) -> str:
    name = fold.name if isinstance(fold, Entity) else f"{fold.source} - {fold.target}"
    return f"{name!r:.80} ({fold.description!r:.120})"


# External stores beside a home store: comparing them with the truth, rebuilding them, removing leftovers.
#
# A follower that no setting names any more still has its place in the outbox of the store with the truth, which keeps
# all entries that it has not read. `forget_follower` ends that.


async def check_follower(follower: Follower) -> CheckFindings:
    """Compare an external store's ids and contents with the truth; one out of reach is a problem, too."""
    try:
        differences = await follower.find_differences()
    except StoreError as error:
        return CheckFindings((Problem("store", follower.name, f"it cannot be compared: {error}", is_repairable=False),))
    return CheckFindings(tuple(Problem("store", follower.name, message) for message in differences))


async def rebuild_role(store: Store, role: str) -> CheckReport:
    """Rebuild the projection of a role from the primary store, and compare it; empties a cache.

    Raises:
        InvalidRequestError: The role is served by the store with the truth.
        StoreError: One of them is out of reach.
    """
    followers = [item for item in store.followers if item.role == role]
    if not followers:
        served = ", ".join(sorted({item.role for item in store.followers})) or "none"
        raise InvalidRequestError(
            f"no other engine serves the role {role!r} (served elsewhere: {served}); leave the role out to make "
            "everything anew"
        )
    problems: list[Problem] = []
    for follower in followers:
        await follower.rebuild()
        problems += (await check_follower(follower)).problems
    return CheckReport(tuple(problems), len(problems), 0, 0, 0, 0, 0)


async def find_leftovers(store: Store) -> Mapping[str, int]:
    """Return followers that no setting names but the outbox waits for, with how far each is behind."""
    if store.outbox is None:
        return {}
    named = {item.name for item in store.followers}
    version = await store.get_data_version()
    readers = await store.outbox.get_readers()
    return {name: version - max(0, seen) for name, seen in readers.items() if name not in named}


async def forget_follower(settings: StoreSettings, name: str) -> None:
    """Stop the replication to an external store, by its name in `heliograph doctor`.

    It is rebuilt if a setting names it again.

    Raises:
        NotFoundError: No follower of the workspace has that name.
        StoreError: The workspace cannot be opened.
    """
    home = await open_store(settings, None)
    try:
        readers = await home.outbox.get_readers() if home.outbox is not None else {}
        if home.outbox is None or name not in readers:
            known = ", ".join(map(repr, sorted(readers))) or "none"
            raise NotFoundError(f"no engine {name!r} follows the workspace {settings.workspace!r}; there are: {known}")
        await home.outbox.unregister(name)
    finally:
        await home.close()


_MAX_TRIES = 5
_SHOWN = 1_000

_Look = Callable[[Window, Mapping[str, int]], Awaitable[CheckFindings]]


class Maintenance:
    """Looks after one open workspace; the models and settings are those that fill it."""

    def __init__(
        self, store: Store, embedding: EmbeddingModel, chat: ChatModel | None, settings: IngestSettings
    ) -> None:
        merger = Merger(settings, embedding.info, has_chat=chat is not None)
        self._store = store
        self._embedding = embedding
        self._recounter = Recounter(store, merger, chat, settings)

    async def check(self, *, repair: bool = False, progress: TellCount | None = None) -> CheckReport:
        """Compare every projection with the truth; with `repair`, repair what can be repaired.

        Raises:
            ModelError: A text must be embedded and cannot be; earlier repairs stay.
            StoreError: The store cannot be read or written.
        """
        tally = _Tally(progress)
        is_known = await self._check_damage(tally, repair=repair)
        # Without checksums, damage is found by reading, and may need a second repair.
        for may_repair in (repair, False):
            try:
                await self._walk(tally, repair=repair, every=False)
            except StoreDamaged as error:
                if may_repair:
                    await self._check_damage(tally, repair=True, is_certain=True)
                    continue
                if not is_known:
                    tally.add(CheckFindings((Problem("store", "", str(error), is_repairable=False),)))
            break
        return tally.report()

    async def _check_damage(self, tally: _Tally, *, repair: bool, is_certain: bool = False) -> bool:
        """Return whether damage remains that was not repaired; it is reported."""
        found = await self._store.inspection.find_damage(repair=repair, is_certain=is_certain)
        tally.repaired += sum(item.is_repaired for item in found)
        problems = (
            Problem("document" if item.document_id else "store", item.document_id, item.message, item.is_repaired)
            for item in found
        )
        tally.add(CheckFindings(tuple(problems)))
        return bool(found) and not repair

    async def rebuild(self, role: str | None = None, *, progress: TellCount | None = None) -> CheckReport:
        """Rebuild every projection from the primary store while no ingest runs, or one role's (`rebuild_role`).

        Answers before, meanwhile and after are the same.

        Raises:
            ModelError: The embedding model failed; finished parts stand, and the rest is as it was.
            StoreError: The store cannot be read or written.
        """
        if role is not None:
            return await rebuild_role(self._store, role)
        async with self._store.ingest_lock():
            tally = _Tally(progress)
            await self._walk(tally, repair=True, every=True)
            await self._store.inspection.repair()
            return tally.report()

    async def clear(self) -> None:
        """Delete everything and free its space, while no ingest runs."""
        async with self._store.ingest_lock():
            await self._store.clear()
            await self._store.vacuum()

    async def _walk(self, tally: _Tally, *, repair: bool, every: bool) -> None:
        store, recounter = self._store, self._recounter
        # Relations before entities: no entity may be removed while a relation still names it.
        passes: tuple[tuple[tuple[ScanKind, ...], Collection | None, _Look], ...] = (
            ((ScanKind.DOCUMENTS,), None, lambda window, _: check_documents(store, window[ScanKind.DOCUMENTS])),
            (CHUNK_KINDS, Collection.CHUNKS, partial(check_chunks, store, every=every)),
            (RELATION_KINDS, None, lambda window, _: check_relations(store, recounter, window, every=every)),
            (ENTITY_KINDS, Collection.ENTITIES, partial(check_entities, store, recounter, every=every)),
        )
        for kinds, collection, look in passes:
            digests = _Digests(store, collection)
            async for pages in id_windows([partial(store.inspection.scan, kind) for kind in kinds], _WINDOW):
                window = {kind: frozenset(page) for kind, page in zip(kinds, pages, strict=True)}
                await self._settle(window, look, digests, tally, repair=repair)
        inspection = self._store.inspection
        faults = await inspection.find_faults()
        if faults and repair:
            await inspection.repair()
            tally.repaired += len(faults) - len(await inspection.find_faults())
        tally.add(CheckFindings(tuple(Problem("store", "", fault) for fault in faults)))
        for follower in self._store.followers:
            findings = await check_follower(follower)
            tally.add(findings)
            if repair and any(problem.is_repairable for problem in findings.problems):
                await follower.rebuild()
                tally.repaired += len(findings.problems) - len((await check_follower(follower)).problems)

    async def _settle(self, window: Window, look: _Look, digests: _Digests, tally: _Tally, *, repair: bool) -> None:
        """Check a window until no commit came in between, or there are no problems; then repair it if `repair`."""
        findings = CheckFindings()
        for _ in range(_MAX_TRIES):
            findings = await look(window, await digests.read())
            if findings.problems and await digests.forget_if_old():
                continue
            if repair and findings.repair is not None:
                try:
                    read_chunks = partial(self._store.vectors.get_vectors, Collection.CHUNKS)
                    vectors = {
                        collection: await embed_entries(self._embedding, part, read_chunks)
                        for collection, part in findings.vectors.items()
                        if part
                    }
                    await self._store.apply(replace(findings.repair, vectors=vectors))
                except StaleChangesetError:
                    continue
                tally.repaired += sum(problem.is_repairable for problem in findings.problems)
            break
        tally.add(findings)


class _Digests:
    """Digests of a collection's full text, if it has any; read again when a commit overtook a comparison."""

    def __init__(self, store: Store, collection: Collection | None) -> None:
        self._store = store
        self._collection = collection
        self._version = -1
        self._digests: Mapping[str, int] = {}

    async def read(self) -> Mapping[str, int]:
        if self._version < 0:
            self._version = await self._store.get_data_version()
            if self._collection is not None:
                self._digests = await self._store.inspection.digest_texts(self._collection)
        return self._digests

    async def forget_if_old(self) -> bool:
        """Return whether there was a commit since the last reading; if so, drop that reading."""
        is_old = await self._store.get_data_version() != self._version
        if is_old:
            self._version = -1
        return is_old


class _Tally:
    """Adds up the findings of a check."""

    def __init__(self, progress: TellCount | None) -> None:
        self.repaired = 0
        self._progress = progress
        self._problems: list[Problem] = []
        self._problem_count = 0
        self._counts = {"documents": 0, "chunks": 0, "entities": 0, "relations": 0}

    def add(self, findings: CheckFindings) -> None:
        self._problem_count += len(findings.problems)
        self._problems += findings.problems[: _SHOWN - len(self._problems)]
        for name, count in findings.looked_at.items():
            if count:
                self._counts[name] += count
                if self._progress:
                    self._progress(name, self._counts[name])

    def report(self) -> CheckReport:
        return CheckReport(tuple(self._problems), self._problem_count, self.repaired, **self._counts)
