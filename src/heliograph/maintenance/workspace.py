"""Re-embed a workspace with another model while the old vectors still answer, and restore one from a backup."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from heliograph.embedding.base import EmbeddingModel
from heliograph.errors import ConflictError, InvalidRequestError
from heliograph.ingest.commit import embed_entries
from heliograph.ingest.merging import (
    IndexEntry,
    Indexing,
    entity_entry,
    find_indexing,
    relation_entry,
)
from heliograph.ingest.resolution import RuleLoader, entity_overrides, relation_overrides
from heliograph.observing import TellCount
from heliograph.settings import IngestSettings, StoreSettings
from heliograph.stores.base import Store
from heliograph.stores.changeset import Collection
from heliograph.stores.registry import open_store, workspace_upkeep
from heliograph.text.analysis import chunk_index_text

# Texts are derived again from stored data, embedded in batches and stored at once, so that an interrupted run continues
# where it stopped. Items committed meanwhile are embedded last. The switch is one commit.

_BATCH = 256
# Passes after which other writers are asked to pause.
_MAX_SITTINGS = 20


@dataclass(frozen=True, slots=True)
class ReembedReport:
    """Vectors computed per collection, and the data version from which they answer."""

    chunks: int
    entities: int
    relations: int
    data_version: int


class Reembedder:
    """Computes the vectors of one workspace again, whichever embedding fills it.

    Raises:
        InvalidRequestError: The store cannot change its embedding in place.
    """

    def __init__(self, store: Store, embedding: EmbeddingModel, indexing: Indexing) -> None:
        if store.reembedding is None:
            message = f"this store cannot be embedded anew with {embedding.info.name!r} in place"
            raise InvalidRequestError(f"{message}; export the workspace, and import it into one of that embedding")
        self._store = store
        self._vectors = store.reembedding
        self._embedding = embedding
        self._indexing = indexing

    async def run(self, progress: TellCount | None = None) -> ReembedReport:
        """Embed everything and switch; `progress` gets the collection and how many items are done in this run.

        Raises:
            ConflictError: Other writers did not stop, or started another embedding.
            ModelError: The model failed; a later run continues from here.
            StoreError: The store failed; likewise.
        """
        await self._vectors.begin(self._embedding.info)
        counts = dict.fromkeys(Collection, 0)
        for _ in range(_MAX_SITTINGS):
            done = 0
            for collection in Collection:
                done += (made := await self._fill(collection, counts[collection], progress))
                counts[collection] += made
            if not done:
                break
        version = await self._vectors.finish()
        return ReembedReport(
            counts[Collection.CHUNKS], counts[Collection.ENTITIES], counts[Collection.RELATIONS], version
        )

    async def _fill(self, collection: Collection, before: int, progress: TellCount | None) -> int:
        after, made = "", 0
        while ids := await self._vectors.find_pending(collection, after, _BATCH):
            entries = await self._entries(collection, ids)
            # Items that depend on chunks committed meanwhile are left out; the next pass embeds those chunks first.
            chunk_ids = {id_ for item in entries.values() for id_ in item.chunk_ids}
            done = await self._vectors.get_next(Collection.CHUNKS, list(chunk_ids))
            pending = await self._store.vectors.get_vectors(Collection.CHUNKS, list(chunk_ids - done.keys()))
            entries = {id_: item for id_, item in entries.items() if pending.keys().isdisjoint(item.chunk_ids)}
            if entries:
                read_chunks = partial(self._vectors.get_next, Collection.CHUNKS)
                batch = await embed_entries(self._embedding, entries, read_chunks)
                await self._vectors.put(collection, batch)
            after, made = ids[-1], made + len(entries)
            if progress:
                progress(collection.value, before + made)
        return made

    async def _entries(self, collection: Collection, ids: list[str]) -> dict[str, IndexEntry]:
        rules = RuleLoader(self._store)
        match collection:
            case Collection.CHUNKS:
                chunks = await self._store.records.get_chunks(ids)
                titles = {id_: owner.title for id_, owner in (await self._store.records.get_owners(chunks)).items()}
                entries = {
                    chunk.id: IndexEntry.of(chunk_index_text(titles.get(chunk.document_id, ""), chunk))
                    for chunk in chunks
                }
            case Collection.ENTITIES:
                await rules.load(ids)
                book = rules.book
                said = {id_: entity_overrides(book, id_).is_described for id_ in ids}
                entities = await self._store.graph.get_entities(ids)
                entries = {item.id: entity_entry(item, self._indexing, is_described=said[item.id]) for item in entities}
            case Collection.RELATIONS:
                relations = await self._store.graph.get_relations(ids)
                await rules.load({end for item in relations for end in (item.source_id, item.target_id)})
                book = rules.book
                said = {
                    item.id: relation_overrides(book, item.source_id, item.target_id).is_described for item in relations
                }
                entries = {
                    item.id: relation_entry(item, self._indexing, is_described=said[item.id]) for item in relations
                }
        if not entries:
            raise ConflictError(
                f"there are vectors of {collection.value} such as {ids[0]!r} that belong to nothing; run check --repair"
            )
        return entries


async def reembed_workspace(
    store: StoreSettings,
    ingest: IngestSettings,
    embedding: EmbeddingModel,
    *,
    has_chat: bool,
    progress: TellCount | None = None,
) -> ReembedReport:
    """Re-embed a workspace, whichever embedding fills it; open engines answer from the old one meanwhile.

    Raises:
        ConflictError: Other writers did not stop; run it again.
        ModelError: The model failed; a later run continues from there.
        StoreError: There is no such workspace, or it failed.
    """
    opened = await open_store(store, None)
    try:
        indexing = find_indexing(ingest, embedding.info, has_chat=has_chat)
        return await Reembedder(opened, embedding, indexing).run(progress)
    finally:
        await opened.close()


async def restore_workspace(store: StoreSettings, backup: str | Path) -> None:
    """Create the workspace that the settings name from a backup that the same back end wrote.

    Raises:
        ConflictError: The workspace exists already.
        InvalidRequestError: The file is not a usable backup, or the back end restores none.
        SettingsError: No back end has the scheme of `settings.url`.
        StoreUnavailable: The workspace cannot be written.
    """
    path = Path(backup)
    if not await asyncio.to_thread(path.is_file):
        raise InvalidRequestError(f"there is no file {str(path)!r}; check the path of the backup")
    await asyncio.to_thread(workspace_upkeep(store).restore_workspace, store, path)
