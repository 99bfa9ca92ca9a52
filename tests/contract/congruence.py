"""The same random operations and questions on two stores, and what both show of them.

Ties in rankings may fall either way, and scores may differ in their last digits; all else must be equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from heliograph.curation.curator import Curator
from heliograph.errors import HeliographError
from heliograph.filters import And, Equals, Filter, In, Not, Or, Range, SourcePrefix
from heliograph.ids import document_id, name_to_entity_id
from heliograph.ingest.merging import EvidenceFold
from heliograph.ingest.models import NewDocument
from heliograph.settings import IngestSettings
from heliograph.stores.base import DocumentQuery, Hit, Store, StoreView
from heliograph.stores.changeset import Collection
from heliograph.testing.fakes import FakeEmbeddingModel
from heliograph.text.analysis import terms

from ..unit.ingest.world import make_pipeline, snapshot

DIMENSION = 16
FOLD = EvidenceFold.of(IngestSettings())
NAMES = ("Ann", "ann", "Bonn", "Rex Regis", "Cy", "知识图谱", "ESP32-S3", "O'Neil \\ Sons", 'Q"t', "Dot", "Eve", "Fay")
WORDS = ("river", "town", "dog", "graph", "rhine", "rhine rhine", "walks", "sleeps", "图谱", "don't", "100%", "a_b")
TYPES = ("person", "place", "unknown")


@dataclass(frozen=True)
class Operation:
    """One step: a verb and its arguments."""

    verb: str
    arguments: tuple[Any, ...]


def make_operations(count: int, seed: int) -> list[Operation]:
    """Return random operations: documents put, changed, doubled and deleted, entities merged, edited and deleted."""
    random = Random(seed)
    made: list[Operation] = []
    for _ in range(count):
        source = f"{random.choice('ab')}/{random.randrange(25)}.md"
        draw = random.random()
        if draw < 0.78:
            metadata = {"team": random.choice(["red", "blue"]), "year": random.randrange(2020, 2026), "tags": ["x", 1]}
            made.append(Operation("insert", (source, _text(random), metadata)))
        elif draw < 0.92:
            made.append(Operation("delete", (source,)))
        elif draw < 0.95:
            made.append(Operation("merge", tuple(random.sample(NAMES, 2))))
        elif draw < 0.98:
            made.append(Operation("edit", (random.choice(NAMES), f"edited {random.choice(WORDS)}")))
        else:
            made.append(Operation("remove", (random.choice(NAMES),)))
    return made


def _text(random: Random) -> str:
    return "\n\n".join(
        "\n".join(_line(random) for _ in range(random.randint(1, 4))) for _ in range(random.randint(1, 3))
    )


def _line(random: Random) -> str:
    one, two = random.sample(NAMES, 2)
    said = " ".join(random.choices(WORDS, k=random.randint(2, 6)))
    draw = random.random()
    if draw < 0.45:
        return f"{one} ({random.choice(TYPES)}): {said}"
    if draw < 0.75:
        return f"{one} -> {two} [{random.choice(WORDS)}] {random.choice(['0.3', '1.0', '2.5'])}: {said}"
    return f"{one} = {two}" if draw < 0.78 else said


class World:
    """A store with what writes to it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.embedding = FakeEmbeddingModel(DIMENSION)
        self.pipeline = make_pipeline(store, embedding=self.embedding)
        self.curator = Curator(store, self.pipeline.committer)

    async def do(self, operation: Operation) -> str:
        """Do one operation; return what came of it."""
        match operation.verb, operation.arguments:
            case "insert", (source, text, metadata):
                report = await self.pipeline.insert([NewDocument(text, source, "Title", metadata=metadata)])
                return repr([(item.source, item.outcome, item.error) for item in report.results])
            case "delete", (source,):
                report = await self.pipeline.delete([document_id(source)])
                return repr(report)
        try:
            await self._curate(operation)
        except HeliographError as error:
            return type(error).__name__
        return "done"

    async def _curate(self, operation: Operation) -> None:
        match operation.verb, operation.arguments:
            case "merge", (one, two):
                await self.curator.merge_entities([one], two, author="me")
            case "edit", (name, description):
                await self.curator.edit_entity(name, description=description, author="me")
            case "remove", (name,):
                await self.curator.delete_entity(name, author="me")


async def see(world: World) -> dict[str, Any]:
    """Return all that a store holds."""
    found = await snapshot(world.store)
    found["found"] = [_ranks(hits) for hits in found["found"]]
    batches = await world.store.records.list_batches(0, 1000)
    return found | {"batches": len(batches), "faults": await world.store.inspection.find_faults()}


def make_questions(count: int, seed: int) -> list[tuple[str, int, Filter | None]]:
    """Return random questions: words, how many hits, and a filter or none."""
    random = Random(seed)
    filters: list[Filter | None] = [
        None,
        Equals("team", "red"),
        And((Equals("team", "blue"), Range("year", gte=2022))),
        Not(In("year", (2020, 2021))),
        Or((SourcePrefix("a/"), Equals("tags", 1))),
        SourcePrefix("b/1"),
    ]
    return [
        (" ".join(random.choices((*WORDS, *NAMES), k=random.randint(1, 5))), random.choice([3, 10, 100]), filter_)
        for filter_ in random.choices(filters, k=count)
    ]


async def answer(world: World, question: tuple[str, int, Filter | None]) -> dict[str, Any]:
    """Return what a store finds for a question, everywhere that a question looks."""
    words, limit, filter_ = question
    view: StoreView = world.store if filter_ is None else world.store.view(filter_, FOLD)
    (vector,) = (await world.embedding.embed([words], "query")).vectors
    near = {item: await view.vectors.search(item, vector, limit, 0.1) for item in Collection}
    held = {
        item: await view.text.search(item, terms(words), limit) for item in (Collection.CHUNKS, Collection.ENTITIES)
    }
    phrases = [terms(name) for name in NAMES]
    named = await view.text.find_phrases(Collection.ENTITIES, phrases, 50)
    # What a limit cuts among equals may differ; what is looked up next is without limit.
    whole = await view.text.search(Collection.CHUNKS, terms(words), 10_000)
    chunk_ids = sorted(hit.id for hit in whole)
    ids = [name_to_entity_id(name) for name in NAMES[:8]]
    ranked = await view.graph.rank_incident_relations(ids)
    paths = await view.graph.find_shortest_paths(*[name_to_entity_id(name) for name in NAMES[1:3]], 4, 5)
    page = await view.records.find_documents(DocumentQuery(sort="source", limit=limit))
    return {
        "near": {item.value: _ranks(hits) for item, hits in near.items()},
        "held": {item.value: _ranks(hits) for item, hits in held.items()},
        "named": [sorted(found) for found in named],
        "entities": [replace(item, created_at=0) for item in await view.graph.get_entities(ids)],
        "ranked": ranked,
        "relations": [replace(item, created_at=0) for item in await view.graph.get_relations([r.id for r in ranked])],
        "around": _around(await view.graph.get_neighbourhood(ids[-1], 2, 6)),
        "listed": [item.name for item in await view.graph.list_entities(1, 5)],
        "paths": [[item.id for item in path.entities] for path in paths],
        "documents": ([(item.source, item.twin_of, item.metadata) for item in page.documents], page.total),
        "sources": await view.records.get_sources(chunk_ids),
        "twins": await view.records.get_twin_sources(chunk_ids),
        "names": await world.store.names.find_names(words[:4], 20),
    }


def _around(found: Any) -> Any:
    return [item.id for item in found.entities], {item.id for item in found.relations}, found.is_truncated


class _Score(float):
    """A score that engines may compute in different orders of rounding."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, float) and abs(self - other) < 1e-4

    __hash__ = None  # pyright: ignore[reportAssignmentType]


def _ranks(hits: Sequence[Hit]) -> list[tuple[float, set[str]]]:
    """Return hits by score, those of one score as a set; of the last score only how many, as a tie may be cut."""
    groups: list[tuple[float, set[str]]] = []
    for hit in hits:
        if not groups or abs(groups[-1][0] - hit.score) > 1e-5:
            groups.append((_Score(hit.score), set()))
        groups[-1][1].add(hit.id)
    if groups:
        score, ids = groups.pop()
        groups.append((score, {str(len(ids))}))
    return groups
