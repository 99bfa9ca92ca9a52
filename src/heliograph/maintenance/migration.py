"""Move a whole workspace from one store to another; no model is called, and everything is compared.

`migrate_workspace` opens both stores and passes over each section (documents, chunks, curations, name rules, and the
evidence, entities and relations derived from them) and over cached replies of chat models, page by page: items that
differ or are missing in the target are written, extra ones are removed, until a pass finds everything equal. Then the
target's projections are filled. A page is one commit; an interrupted run is run again. A target with other data is left
alone. The result is a `MigrationReport`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import cache, partial
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import ConflictError, InvalidRequestError, NotFoundError, StoreError, StoreUnavailable
from heliograph.models import Curation, EntityEvidence, NameRules, RelationEvidence
from heliograph.observing import TellCount
from heliograph.settings import StoreSettings, hide_password
from heliograph.stores.base import ReplyCache, ScanKind, Store
from heliograph.stores.changeset import Changeset, Collection, TextEntry, VectorBatch, entity_terms
from heliograph.stores.composed import TwofoldReplyCache, id_windows
from heliograph.stores.projection import CacheProjection
from heliograph.stores.registry import find_workspaces, open_projection, open_store
from heliograph.text.analysis import chunk_index_text, passage_terms


@dataclass(frozen=True, slots=True)
class MigratedKind:
    """One kind of item that both stores now hold alike; the checksum over all is 16 hexadecimal digits."""

    kind: str
    count: int
    checksum: str


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """The counts of a migration.

    Attributes:
        copied: Items written by this run; fewer than exist if an earlier run had been interrupted.
        remade_texts: Chunks and entities whose full text was stale in the source and is right in the target.
        lags: Commits that each projection of the target is behind, by its name.
    """

    kinds: tuple[MigratedKind, ...]
    copied: int
    remade_texts: int
    data_version: int
    lags: Mapping[str, int] = field(default_factory=dict[str, int])


# Comparison: the number of items of one kind, and the sum of their checksums, so that the order in which a back
# end lists them does not matter. Numbers that a back end assigns (versions, the sequence of curations) are left out.


def _digest(item: Any) -> int:
    """Return the checksum of a text, a vector (its exact numbers), or one of the models."""
    match item:
        case str():
            data = item.encode("utf-8", "surrogatepass")
        case np.ndarray():
            data = np.ascontiguousarray(item, "<f4").tobytes()
        case Curation():
            data = _as_json(replace(item, sequence=0))
        case NameRules():
            data = _as_json(replace(item, version=0, curations=()))
        case EntityEvidence() | RelationEvidence():
            data = _as_json(replace(item, version=0, leading=()))
        case _:
            data = _as_json(item)
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


_adapter = cache(TypeAdapter[Any])


def _as_json(item: Any) -> bytes:
    return json.dumps(_adapter(type(item)).dump_python(item, mode="python"), sort_keys=True, default=str).encode()


# The sections of a workspace, in an order in which no item is written before its owner.
#
# The item stored under one id has parts, by kind: for a chunk the chunk itself, its extraction, and its vector.

_PAGE = 500
_MAX_CHARACTERS = 2_000_000
# None: curations are listed in their own order.
_SECTIONS: Mapping[str, ScanKind | None] = {
    "documents": ScanKind.DOCUMENTS,
    "chunks": ScanKind.CHUNKS,
    "curations": None,
    "name rules": ScanKind.NAME_RULES,
    "entity evidence": ScanKind.ENTITY_EVIDENCE,
    "relation evidence": ScanKind.RELATION_EVIDENCE,
    "entities": ScanKind.ENTITIES,
    "relations": ScanKind.RELATIONS,
}
# In these sections an earlier run may have copied items that the source has lost since. In the others, items that only
# the target has show that it belongs to another workspace.
_REMOVABLE = ("chunks", "entity evidence", "relation evidence", "entities", "relations")
_VECTORS = {
    "chunk vectors": Collection.CHUNKS,
    "entity vectors": Collection.ENTITIES,
    "relation vectors": Collection.RELATIONS,
}

Parts = Mapping[str, Any]


async def _pages(store: Store, section: str) -> AsyncIterator[list[str]]:
    """Yield all ids of a section, a page at a time; for documents in pages whose texts fit into memory."""
    kind = _SECTIONS[section]
    if kind is None:
        async for page in store.curations.pages(_PAGE):
            yield [item.id for item in page]
        return
    async for ids in store.inspection.pages(kind, _PAGE):
        if kind is not ScanKind.DOCUMENTS:
            yield ids
            continue
        group, characters = list[str](), 0
        for document in await store.records.get_documents(ids):
            if group and characters + document.length > _MAX_CHARACTERS:
                yield group
                group, characters = [], 0
            group.append(document.id)
            characters += document.length
        if group:
            yield group


async def _read(store: Store, section: str, ids: Sequence[str]) -> dict[str, Parts]:
    """Return the stored records under these ids, without degrees, which the target counts itself."""
    records, beside = store.records, dict[str, Mapping[str, Any]]()
    match section:
        case "documents":
            items = await records.get_documents(ids)
            # The text of a twin is that of its original.
            own = [item.id for item in items if not item.twin_of]
            beside["document texts"] = {id_: await records.get_document_text(id_) for id_ in own}
        case "chunks":
            items = await records.get_chunks(ids)
            beside["extractions"] = {item.chunk_id: item for item in await records.get_extractions(ids)}
            beside["chunk vectors"] = await store.vectors.get_vectors(Collection.CHUNKS, ids)
        case "curations":
            items = await store.curations.get_curations(ids)
        case "name rules":
            items = await store.curations.get_rules(ids)
        case "entity evidence":
            items, _ = await records.get_evidence(ids, [], 0)
        case "relation evidence":
            _, items = await records.get_evidence([], ids, 0)
        case "entities":
            items = [replace(item, degree=0) for item in await store.graph.get_entities(ids)]
            beside["entity vectors"] = await store.vectors.get_vectors(Collection.ENTITIES, ids)
        case _:
            items = await store.graph.get_relations(ids)
            beside["relation vectors"] = await store.vectors.get_vectors(Collection.RELATIONS, ids)
    return {item.id: {section: item, **{kind: found.get(item.id) for kind, found in beside.items()}} for item in items}


def _digests(parts: Parts) -> dict[str, int]:
    return {kind: _digest(item) for kind, item in parts.items() if item is not None}


async def _changeset(source: Store, items: Mapping[str, Parts]) -> Changeset:
    """Return the changeset that writes the parts of one section into the target, replacing those under their ids."""

    def all_of(kind: str) -> tuple[Any, ...]:
        return tuple(parts[kind] for parts in items.values() if parts.get(kind) is not None)

    documents, chunks, entities, relations = map(all_of, ("documents", "chunks", "entities", "relations"))
    # Full text cannot be read back from a store, and is derived again.
    titles = {id_: owner.title for id_, owner in (await source.records.get_owners(chunks)).items()}
    passages = [(chunk.id, chunk_index_text(titles.get(chunk.document_id, ""), chunk)) for chunk in chunks]
    texts = {
        Collection.CHUNKS: tuple(TextEntry(id_, tuple(passage_terms(text))) for id_, text in passages),
        Collection.ENTITIES: tuple(map(entity_terms, entities)),
    }
    vectors: dict[Collection, VectorBatch] = {}
    for kind, collection in _VECTORS.items():
        vectors |= batch_vectors(collection, {id_: parts.get(kind) for id_, parts in items.items()})
    return Changeset(
        documents=documents,
        document_texts={id_: text for id_, parts in items.items() if (text := parts.get("document texts")) is not None},
        removed_texts=tuple(item.id for item in documents if item.twin_of),
        chunks=chunks,
        extractions=all_of("extractions"),
        curations=tuple(replace(item, sequence=0) for item in all_of("curations")),
        name_rules=all_of("name rules"),
        entity_evidence=all_of("entity evidence"),
        relation_evidence=all_of("relation evidence"),
        entities=entities,
        relations=relations,
        vectors=vectors,
        texts={collection: entries for collection, entries in texts.items() if entries},
        moments={item.id: item.created_at for item in (*entities, *relations)},
    )


async def _removal(target: Store, section: str, ids: Sequence[str]) -> Changeset:
    """Return the changeset that removes items from the target that the source does not have."""
    if section == "chunks":
        return Changeset(removed_chunks=tuple(ids))
    is_entity = section in ("entity evidence", "entities")
    entity_ids, relation_ids = (ids, []) if is_entity else ([], ids)
    entities, relations = await target.records.get_evidence(entity_ids, relation_ids, 0)
    if section in ("entity evidence", "relation evidence"):
        # An entity or relation is removed with its evidence, and copied again if people made it.
        entities = [replace(item, mention_count=0) for item in entities]
        relations = [replace(item, mention_count=0) for item in relations]
    # Otherwise the evidence stays: people deleted its entity or relation.
    return Changeset(
        entity_evidence=tuple(entities),
        relation_evidence=tuple(relations),
        removed_entities=tuple(entity_ids),
        removed_relations=tuple(relation_ids),
    )


def batch_vectors(
    collection: Collection, vectors: Mapping[str, NDArray[np.float32] | None]
) -> dict[Collection, VectorBatch]:
    """Return the vectors that exist as batches for a changeset."""
    found = {id_: vector for id_, vector in vectors.items() if vector is not None}
    return {collection: VectorBatch(tuple(found), np.stack(list(found.values())))} if found else {}


# No progress is stored: items that the target holds alike are skipped, different ones are written again, items that the
# source does not have (any more) are removed, and a pass without changes compares everything. A target belongs to
# another workspace, and is left alone, if it has a document, a curation or a rule that the source has not, or a
# document that was first seen at another moment.

_REPLIES = "replies"
_REPLY_PAGE = 200
# Passes after the first: one after leftovers of an earlier run were removed, one that compares, one to spare.
_MOST_MORE = 3


class WorkspaceCopy:
    """Copies one workspace, only read, into a store that is empty or holds part of it.

    Replies come from a separate cache; progress gets the section and how many of its items are done.
    """

    def __init__(self, source: Store, replies: ReplyCache, target: Store, progress: TellCount) -> None:
        self._source = source
        self._replies = replies
        self._target = target
        self._progress = progress
        self._copied = 0

    async def run(self) -> MigrationReport:
        """Copy everything and compare it.

        Raises:
            ConflictError: The target holds other data, or the source was written to meanwhile.
            StoreError: A store failed, or an item arrived changed; a later run continues.
        """
        async with AsyncExitStack() as stack:
            for store in (self._source, self._target):
                await stack.enter_async_context(store.ingest_lock())
            version = await self._source.get_data_version()
            await self._refuse_another()
            kinds, changed = await self._pass("")
            for _ in range(_MOST_MORE):
                if changed:
                    kinds, changed = await self._pass("comparing ")
            if await self._source.get_data_version() != version:
                raise ConflictError("somebody wrote to the source meanwhile; run the migration again, it goes on")
            if changed:
                raise StoreError(
                    f"the {changed[0]} did not arrive as they were; run 'heliograph check' on the source, then the "
                    "migration again"
                )
            if faults := await self._target.inspection.find_faults():
                raise StoreError(f"the target is not sound: {faults[0]}; run 'heliograph check --repair' on it")
            remade = 0
            for collection in (Collection.CHUNKS, Collection.ENTITIES):
                before = await self._source.inspection.digest_texts(collection)
                after = await self._target.inspection.digest_texts(collection)
                remade += sum(before.get(id_) != digest for id_, digest in after.items())
            return MigrationReport(kinds, self._copied, remade, await self._target.get_data_version())

    async def _refuse_another(self) -> None:
        """Refuse a target with other data, checking everything that people gave it before anything is written."""
        async for ids in _pages(self._target, "documents"):
            moments = {item.id: item.created_at for item in await self._source.records.get_documents(ids)}
            for document in await self._target.records.get_documents(ids):
                if moments.get(document.id) != document.created_at:
                    raise ConflictError(
                        f"the target holds {document.source!r}, which is not from the source; move into an empty "
                        "workspace"
                    )
        for section in ("curations", "name rules"):
            async for strays in self._strays(section):
                raise ConflictError(
                    f"the target holds {section} that are not from the source, such as {strays[0]!r}; "
                    "move into an empty workspace"
                )

    async def _strays(self, section: str) -> AsyncIterator[list[str]]:
        """Yield, a page at a time, ids that only the target has."""
        if (kind := _SECTIONS[section]) is not None:
            scans = [partial(store.inspection.scan, kind) for store in (self._target, self._source)]
            async for there, here in id_windows(scans, _PAGE):
                if strays := sorted(set(there) - set(here)):
                    yield strays
            return
        async for ids in _pages(self._target, section):
            if strays := sorted(set(ids) - (await _read(self._source, section, ids)).keys()):
                yield strays

    async def _pass(self, doing: str) -> tuple[tuple[MigratedKind, ...], list[str]]:
        """Make the target equal the source; return the compared kinds, and the names of those that differed."""
        counts, checksums, changed = Counter[str](), Counter[str](), list[str]()
        for section in _SECTIONS:
            done = 0
            async for ids in _pages(self._source, section):
                items, there = [await _read(store, section, ids) for store in (self._source, self._target)]
                digests = {id_: _digests(parts) for id_, parts in items.items()}
                missing = {id_: items[id_] for id_ in items if digests[id_] != _digests(there.get(id_, {}))}
                if missing:
                    await self._target.apply(await _changeset(self._source, missing))
                    changed.append(section)
                self._copied += len(missing)
                for found in digests.values():
                    counts.update(found.keys())
                    checksums.update(found)
                done += len(items)
                self._progress(doing + section, done)
        # Items that an earlier run copied and the source has lost since.
        for section in reversed(_REMOVABLE):
            async for strays in self._strays(section):
                await self._target.apply(await _removal(self._target, section, strays))
                changed.append(section)
        # Answers are left out: they hold only for one state of one workspace. The target may hold more.
        counts[_REPLIES] = 0
        async for page in self._replies.lasting_pages(_REPLY_PAGE):
            there = await asyncio.gather(*(self._target.replies.get_reply(item.key) for item in page))
            different = [item for item, other in zip(page, there, strict=True) if _digest(item) != _digest(other)]
            if different:
                await asyncio.gather(*map(self._target.replies.put_reply, different))
                changed.append(_REPLIES)
            self._copied += len(different)
            counts[_REPLIES] += len(page)
            checksums[_REPLIES] += sum(map(_digest, page))
        kinds = (MigratedKind(kind, count, f"{checksums[kind] % (1 << 64):016x}") for kind, count in counts.items())
        return tuple(kinds), changed


# Stores are read and written through their contracts, so any pair works. Projections beside the target are filled from
# it afterwards. Replies in a cache beside the source are copied into the target itself, where they are found as well: a
# cache that both share belongs to the target from then on, and starts empty.


async def migrate_workspace(
    source: StoreSettings, target: StoreSettings, progress: TellCount | None = None
) -> MigrationReport:
    """Copy a workspace into another store, everything with its ids and moments; no model is called.

    An interrupted run is run again and continues: the target may hold what an earlier run has copied. The source is not
    changed; it must not be written to meanwhile.

    Raises:
        ConflictError: The target holds other data, or the source was written to meanwhile.
        InvalidRequestError: Both are the same store.
        NotFoundError: There is no such workspace.
        SchemaMismatch: The target is filled with another embedding.
        StoreError: A store failed, or an item arrived changed; a later run continues.
    """
    if _place(source) == _place(target):
        raise InvalidRequestError(
            f"the workspace {source.workspace!r} is to be moved to where it is; name another place"
        )
    if source.workspace not in await find_workspaces(source):
        place = hide_password(source.url)
        raise NotFoundError(
            f"there is no workspace {source.workspace!r} at {place!r}; check the source and its options"
        )
    async with AsyncExitStack() as stack:
        here = await open_store(_alone(source), None)
        stack.push_async_callback(here.close)
        if here.embedding is None:
            raise InvalidRequestError(f"the store {here.describe()!r} does not say which embedding fills it; export it")
        embedding = EmbeddingInfo(*here.embedding, max_input_tokens=1)
        there = await open_store(_alone(target), embedding)
        stack.push_async_callback(there.close)
        # Replies are stored at home, unless a cache beside it has followed it.
        replies = here.replies
        if source.cache_url and here.outbox is not None:
            cache = await open_projection("cache", source, embedding)
            stack.push_async_callback(cache.close)
            if cache.name in await here.outbox.get_readers() and isinstance(cache, CacheProjection):
                replies = TwofoldReplyCache(cache, here.replies)
        report = await WorkspaceCopy(here, replies, there, progress or (lambda _section, _count: None)).run()
    # Projections beside the target are brought up to date, as far as they are in reach.
    store = await open_store(target, embedding)
    try:
        for follower in store.followers:
            # A projection that is away joins when the workspace is opened with it there.
            with contextlib.suppress(StoreUnavailable):
                await follower.finish()
        return replace(report, lags=dict(await store.get_lags()))
    finally:
        await store.close()


def _place(settings: StoreSettings) -> tuple[object, ...]:
    folder = settings.data_dir.resolve() if settings.is_embedded else None
    return settings.url, folder, settings.workspace


def _alone(settings: StoreSettings) -> StoreSettings:
    return settings.model_copy(update={"graph_url": "", "vectors_url": "", "text_url": "", "cache_url": ""})
