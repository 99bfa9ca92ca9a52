"""Documents and curations committed at the same time leave what they leave one after the other."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from functools import partial
from typing import Any

import pytest

from heliograph.errors import ConflictError, InvalidRequestError, NotFoundError
from heliograph.ingest.models import NewDocument
from heliograph.stores.base import DocumentQuery, RecordsStore
from tests.memory_store import MemoryStore

from .test_curation_property import World, differences, graph

NAMES = ("Ann", "Bob", "Cy", "Dot")
REFUSALS = (ConflictError, InvalidRequestError, NotFoundError)


class _Dawdling:
    """A role whose calls let others go first, now and then."""

    def __init__(self, role: Any, draw: random.Random) -> None:
        self._role = role
        self._draw = draw

    def __getattr__(self, name: str) -> Any:
        if name == "all_documents":
            # Yields what it reads by calls of its own.
            return partial(RecordsStore.all_documents, self)
        method = getattr(self._role, name)

        async def call(*args: Any, **options: Any) -> Any:
            for _ in range(self._draw.choice((0, 0, 1, 5))):
                await asyncio.sleep(0)
            return await method(*args, **options)

        return call


def dawdling_store(draw: random.Random) -> MemoryStore:
    store: Any = MemoryStore()
    for role in ("records", "graph", "curations"):
        setattr(store, role, _Dawdling(getattr(store, role), draw))
    return store


def text(draw: random.Random) -> str:
    lines = [f"{draw.choice(NAMES)} (person): {draw.randrange(9)}." for _ in range(3)]
    ends = draw.sample(NAMES, 2)
    lines.append(f"{ends[0]} -> {ends[1]} [knows] 1.0: met")
    if draw.random() < 0.4:
        lines.append(" = ".join(draw.sample(NAMES, 2)))
    return "\n\n".join(lines)


def curation(world: World, draw: random.Random) -> Coroutine[Any, Any, Any]:
    name, other = draw.sample(NAMES, 2)
    curator = world.curator
    return draw.choice(
        (
            lambda: curator.merge_entities([name], other, author="me"),
            lambda: curator.rename_entity(name, other, allow_merge=True, author="me"),
            lambda: curator.revise_entity(name, other, type="robot", description="by hand", allow_merge=True),
            lambda: curator.delete_entity(name, author="me"),
            lambda: curator.edit_entity(name, type="robot", author="me"),
            lambda: curator.create_entity(name, type="made", description="by hand", author="me"),
            lambda: curator.create_relation(name, other, keywords=["made"], author="me"),
        )
    )()


async def do(work: Coroutine[Any, Any, Any], done: list[str]) -> None:
    try:
        recorded = await work
        done.extend(item.id for item in (recorded if isinstance(recorded, list) else [recorded]))
    except REFUSALS:
        return


@pytest.mark.parametrize("seed", range(25))
async def test_documents_and_curations_at_once_leave_a_consistent_graph(seed: int) -> None:
    draw = random.Random(seed)
    world = World(dawdling_store(draw))
    done: list[str] = []
    for _ in range(3):
        documents = [NewDocument(text(draw), f"{number}.md") for number in draw.sample(range(6), 4)]
        gone = [item.id for item in (await world.store.records.find_documents(_all())).documents][:1]
        undone = [done.pop()] if done and draw.random() < 0.5 else []
        report, *_ = await asyncio.gather(
            world.pipeline.insert(documents),
            *(do(curation(world, draw), done) for _ in range(3)),
            *(do(world.curator.undo(id_, author="me"), []) for id_ in undone),
            _delete(world, gone),
        )
        assert not [item for item in report.failures if not isinstance(item.error, ConflictError)]
    fresh = await world.anew()
    assert differences(await graph(world.store), await graph(fresh.store)) == []


async def _delete(world: World, ids: list[str]) -> None:
    try:
        await world.pipeline.delete(ids)
    except ConflictError:
        return


def _all() -> DocumentQuery:
    return DocumentQuery()
