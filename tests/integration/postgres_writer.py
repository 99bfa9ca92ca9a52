"""A process of its own that commits documents which all mention one entity; prints what was acknowledged.

python postgres_writer.py URL WORKSPACE NAME COUNT
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import StaleChangesetError
from heliograph.ids import name_to_entity_id
from heliograph.settings import StoreSettings
from heliograph.stores.registry import open_store
from heliograph.testing.examples import DIMENSION, example_changeset


async def write(url: str, workspace: str, name: str, count: int) -> None:
    """Commit `count` documents, each counted from the evidence that is stored then."""
    settings = StoreSettings(url=url, workspace=workspace, pool_size=2)
    store = await open_store(settings, EmbeddingInfo("example", DIMENSION, 512))
    hub = name_to_entity_id("Hub")
    for number in range(count):
        changeset = example_changeset(
            f"{name}-{number}", ["Hub", f"{name} {number}"], [("Hub", f"{name} {number}", 1.0)]
        )
        while True:
            (evidence, _) = await store.records.get_evidence([hub], [], 0)
            known = evidence[0] if evidence else None
            counted = tuple(
                replace(item, mention_count=1 + (known.mention_count if known else 0)) if item.id == hub else item
                for item in changeset.entity_evidence
            )
            expected = {hub: known.version if known else 0}
            try:
                await store.apply(replace(changeset, entity_evidence=counted, expected=expected))
            except StaleChangesetError:
                continue
            print(changeset.documents[0].id, flush=True)
            break
    await store.close()


if __name__ == "__main__":
    asyncio.run(write(*sys.argv[1:4], int(sys.argv[4])))
