"""A workspace with everything that can be moved: documents, twins, aliases, curations, kept replies."""

from __future__ import annotations

from pathlib import Path

import pytest

from heliograph.embedding.base import EmbeddingInfo
from heliograph.maintenance.migration import batch_vectors
from heliograph.models import Usage, utc_now
from heliograph.settings import StoreSettings
from heliograph.stores.base import CachedReply, ScanKind, Store
from heliograph.stores.changeset import Changeset, Collection
from heliograph.stores.registry import open_store

from ....contract.congruence import DIMENSION, World, make_operations

INFO = EmbeddingInfo("fake", DIMENSION, 512)


@pytest.fixture
def source_settings(tmp_path: Path) -> StoreSettings:
    return StoreSettings(data_dir=tmp_path / "source", durability="normal")


@pytest.fixture
def target_settings(tmp_path: Path) -> StoreSettings:
    return StoreSettings(data_dir=tmp_path / "target", workspace="moved", durability="normal")


async def fill(settings: StoreSettings, operations: int = 60) -> None:
    """Fill a workspace; what it holds appeared long ago."""
    store = await open_store(settings, INFO)
    world = World(store)
    for operation in make_operations(operations, seed=11):
        await world.do(operation)
    await _date_back(store)
    chunk = (await store.inspection.scan(ScanKind.CHUNKS, "", 1))[0]
    for key, subject in (("local:extract:1", chunk), ("local:keywords:2", ""), ("mix:query:3", "")):
        await store.replies.put_reply(CachedReply(key, f"reply {key}", "model", Usage(3, 4), utc_now(), subject))
    await store.close()


async def _date_back(store: Store) -> None:
    """Have relations appear at moments that no copy made today can have by chance."""
    ids = await store.inspection.scan(ScanKind.RELATIONS, "", 1000)
    relations = await store.graph.get_relations(ids)
    vectors = batch_vectors(Collection.RELATIONS, await store.vectors.get_vectors(Collection.RELATIONS, ids))
    _, evidence = await store.records.get_evidence([], ids, 0)
    await store.apply(Changeset(removed_relations=tuple(ids), relation_evidence=tuple(evidence)))
    moments = {item.id: 1000 + place for place, item in enumerate(relations)}
    await store.apply(Changeset(relations=tuple(relations), vectors=vectors, moments=moments))
