from __future__ import annotations

import asyncio
import gc

import numpy as np
import pytest

from heliograph.errors import StoreUnavailable
from heliograph.filters import Filter, parse_filter
from heliograph.ingest.merging import EvidenceFold
from heliograph.models import Document, DocumentStatus, Entity
from heliograph.stores.changeset import Changeset
from heliograph.stores.view import KeySet, Scope, ScopeMemory, scoped_relations


class Asked:
    """Asks a memory for the scopes of teams, and notes which were made."""

    def __init__(self) -> None:
        self.memory: ScopeMemory[Scope] = ScopeMemory(asyncio.Lock)
        self.made: list[str] = []
        self.fold = EvidenceFold(10, 10, 1000)

    async def ask(self, team: str, version: int = 1) -> Scope:
        async def make() -> Scope:
            self.made.append(team)
            none = KeySet(np.empty(0, np.int64))
            relations = scoped_relations(none, none.keys, np.empty((0, 2), np.int64), np.empty(0))
            return Scope(version=version, documents=none, shown_as={}, chunks=none, entities=none, **relations)

        return await self.memory.get(_team(team), self.fold, version, make)


def _document(team: str) -> Document:
    return Document(f"doc-{team}", f"{team}.md", "", "", DocumentStatus.PROCESSED, metadata={"team": team})


def _team(name: str) -> Filter:
    return parse_filter({"team": name})


async def test_scope_that_is_used_again_and_again_is_not_forgotten() -> None:
    asked = Asked()
    await asked.ask("hot")
    for number in range(30):
        await asked.ask(f"cold {number}")
        await asked.ask("hot")
    assert asked.made.count("hot") == 1
    await asked.ask("cold 0")
    assert asked.made.count("cold 0") == 2


async def test_scope_of_another_version_is_made_anew() -> None:
    asked = Asked()
    assert (await asked.ask("hot")).version == 1
    assert (await asked.ask("hot", version=2)).version == 2
    assert asked.made == ["hot", "hot"]


async def test_scope_outlives_commits_of_documents_that_do_not_match() -> None:
    asked = Asked()
    first = await asked.ask("hot")
    for version, team in ((2, "cold"), (3, "cool")):
        asked.memory.note(version, Changeset(documents=(_document(team),)), {})
    found = await asked.ask("hot", version=3)
    assert asked.made == ["hot"]
    assert (found.version, found.chunks) == (3, first.chunks)
    asked.memory.note(4, Changeset(documents=(_document("hot"),)), {})
    await asked.ask("hot", version=4)
    assert asked.made == ["hot", "hot"]


async def test_scope_is_made_anew_after_commits_of_others_and_by_people() -> None:
    asked = Asked()
    await asked.ask("hot")
    # Nobody says what version 2 was.
    asked.memory.note(3, Changeset(documents=(_document("cold"),)), {})
    await asked.ask("hot", version=3)
    asked.memory.note(4, Changeset(entities=(Entity("ent-1", "Ann", "person", ""),)), {})
    await asked.ask("hot", version=4)
    assert asked.made == ["hot"] * 3


async def test_scope_that_could_not_be_made_leaves_nothing() -> None:
    asked = Asked()

    async def fail() -> Scope:
        raise StoreUnavailable("gone")

    for number in range(20):
        with pytest.raises(StoreUnavailable):
            await asked.memory.get(_team(str(number)), asked.fold, 1, fail)
    gc.collect()
    assert not asked.memory._making  # pyright: ignore[reportPrivateUsage]
