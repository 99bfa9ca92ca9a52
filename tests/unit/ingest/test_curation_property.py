"""Whatever the order in which documents and curations come and go, the graph is that of what is left of them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from heliograph.curation.curator import Curator
from heliograph.errors import ConflictError, InvalidRequestError, NotFoundError
from heliograph.ids import entity_key, relation_id
from heliograph.ingest.models import NewDocument
from heliograph.ingest.resolution import find_entity_ids
from heliograph.settings import StoreSettings
from heliograph.stores.base import CurationQuery, DocumentQuery, Store
from heliograph.stores.registry import open_store
from heliograph.testing.fakes import FakeEmbeddingModel
from tests.memory_store import MemoryStore

from .world import make_pipeline, snapshot

T = TypeVar("T")

NAMES = ("Ann", "Bob", "Cy", "ann", "Dot", "New")
REFUSALS = (ConflictError, InvalidRequestError, NotFoundError)

names = st.sampled_from(NAMES)
pairs = st.tuples(names, names).filter(lambda pair: pair[0] != pair[1])
lines = st.one_of(
    st.builds("{} (person): {}.".format, names, st.sampled_from(("one", "two"))),
    st.builds(lambda pair: f"{pair[0]} -> {pair[1]} [knows] 1.5: met", pairs),
    st.builds(lambda pair: f"{pair[0]} = {pair[1]}", pairs),
)
paragraphs = st.lists(lines, min_size=1, max_size=4).map("\n".join)
texts = st.lists(paragraphs, min_size=1, max_size=3).map("\n\n".join)
sources = st.sampled_from(("a.md", "b.md", "c.md"))


class World:
    """One store with what writes to it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.pipeline = make_pipeline(store, embedding=FakeEmbeddingModel(16))
        self.curator = Curator(store, self.pipeline.committer)

    async def documents(self) -> dict[str, str]:
        found = (await self.store.records.find_documents(DocumentQuery())).documents
        return {item.source: await self.store.records.get_document_text(item.id) or "" for item in found}

    async def anew(self) -> World:
        """What a fresh store makes of the documents and the active curations."""
        fresh = World(MemoryStore())
        active = await self.store.curations.find_curations(CurationQuery(includes_undone=False, limit=1_000))
        await fresh.curator.replay(active.curations)
        for source, text in sorted((await self.documents()).items(), reverse=True):
            await fresh.pipeline.insert([NewDocument(text, source)])
        return fresh


class CuratedGraph(RuleBasedStateMachine):
    """Documents and curations in a random order."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.curations: list[str] = []

    def make_store(self) -> Store:
        return MemoryStore()

    @initialize(text=texts, other=texts)
    def open(self, text: str, other: str) -> None:
        self.world = World(self.make_store())
        self.insert("a.md", text)
        self.insert("b.md", other)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def entity_id(self, name: str) -> str:
        return self.run(find_entity_ids(self.world.store, [name]))[0]

    def curate(self, work: Coroutine[Any, Any, Any]) -> None:
        try:
            self.curations.append(self.run(work).id)
        except REFUSALS:
            return

    @rule(source=sources, text=texts)
    def insert(self, source: str, text: str) -> None:
        report = self.run(self.world.pipeline.insert([NewDocument(text, source)]))
        assert not report.failures

    @rule(doubles=st.sets(sources, min_size=1), data=st.data())
    def double(self, doubles: set[str], data: st.DataObject) -> None:
        texts_now = sorted(self.run(self.world.documents()).values())
        if texts_now:
            text = data.draw(st.sampled_from(texts_now))
            report = self.run(self.world.pipeline.insert([NewDocument(text, source) for source in sorted(doubles)]))
            assert not report.failures

    @rule(changes=st.dictionaries(sources, texts, min_size=1))
    def update_together(self, changes: dict[str, str]) -> None:
        report = self.run(self.world.pipeline.insert([NewDocument(text, source) for source, text in changes.items()]))
        assert not report.failures

    @rule(source=sources)
    def delete(self, source: str) -> None:
        found = self.run(self.world.store.records.find_documents(DocumentQuery(source_prefix=source)))
        self.run(self.world.pipeline.delete([item.id for item in found.documents]))

    @rule(name=names, description=st.sampled_from(("", "by hand")))
    def create(self, name: str, description: str) -> None:
        self.curate(self.world.curator.create_entity(name, type="made", description=description, author="me"))

    @rule(name=names, type_=st.sampled_from((None, "robot")), description=st.sampled_from((None, "", "edited")))
    def edit(self, name: str, type_: str | None, description: str | None) -> None:
        self.curate(self.world.curator.edit_entity(name, type=type_, description=description, author="me"))

    @rule(name=names, new=names, allow_merge=st.booleans())
    def rename(self, name: str, new: str, allow_merge: bool) -> None:
        self.curate(self.world.curator.rename_entity(name, new, allow_merge=allow_merge, author="me"))

    @rule(name=names, new=names, type_=st.sampled_from((None, "robot")), allow_merge=st.booleans())
    def revise(self, name: str, new: str, type_: str | None, allow_merge: bool) -> None:
        work = self.world.curator.revise_entity(
            name, new, type=type_, description="revised", allow_merge=allow_merge, author="me"
        )
        try:
            self.curations += [item.id for item in self.run(work)]
        except REFUSALS:
            return

    @rule(merged=st.lists(names, min_size=1, max_size=2), into=names)
    def merge(self, merged: list[str], into: str) -> None:
        self.curate(self.world.curator.merge_entities(merged, into, author="me"))

    @rule(name=names, new=names, data=st.data())
    def split(self, name: str, new: str, data: st.DataObject) -> None:
        found = self.run(self.world.store.records.find_documents(DocumentQuery()))
        ids = [item.id for item in found.documents]
        chunks = [chunk.id for id_ in ids for chunk in self.run(self.world.store.records.get_document_chunks(id_))]
        if not chunks:
            return
        places = (
            data.draw(st.lists(st.sampled_from(ids), max_size=1)),
            data.draw(st.lists(st.sampled_from(chunks), max_size=2)),
        )
        self.curate(
            self.world.curator.split_entity(name, new, document_ids=places[0], chunk_ids=places[1], author="me")
        )

    @rule(name=names)
    def hide(self, name: str) -> None:
        self.curate(self.world.curator.delete_entity(name, author="me"))

    @rule(name=names, other=names, how=st.sampled_from(("delete", "merge", "rename")))
    def name_is_free_once_it_is_taken_away(self, name: str, other: str, how: str) -> None:
        """Who is given a name anew has nothing of whoever had it, and undoing that gives it back."""
        curator, graph = self.world.curator, self.world.store.graph
        taken = {
            "delete": lambda: curator.delete_entity(name, author="me"),
            "merge": lambda: curator.merge_entities([name], other, author="me"),
            "rename": lambda: curator.rename_entity(name, other, author="me"),
        }
        try:
            self.curations.append(self.run(taken[how]()).id)
            left = self.run(graph.get_entities([self.entity_id(name)]))
            made = self.run(curator.create_entity(name, type="robot", description="made anew", author="me"))
        except REFUSALS:
            return
        self.curations.append(made.id)
        id_ = self.entity_id(name)
        (entity,) = self.run(graph.get_entities([id_]))
        assert entity_key(entity.name) == entity_key(name)
        assert (entity.type, entity.description, entity.chunk_ids) == ("robot", "made anew", ())
        assert self.run(graph.get_entities([item.id for item in left])) == left
        self.run(curator.undo(self.curations.pop(), author="me"))
        assert self.run(graph.get_entities([self.entity_id(name)])) == left

    @rule(pair=pairs)
    def relation_is_free_once_it_is_deleted(self, pair: tuple[str, str]) -> None:
        try:
            self.curations.append(self.run(self.world.curator.delete_relation(*pair, author="me")).id)
        except REFUSALS:
            return
        try:
            made = self.run(
                self.world.curator.create_relation(
                    *pair, keywords=["anew"], description="made anew", weight=3.0, author="me"
                )
            )
        except NotFoundError:
            return  # an end was there for the sake of this relation alone, and went with it
        self.curations.append(made.id)
        ids = self.run(find_entity_ids(self.world.store, pair))
        (relation,) = self.run(self.world.store.graph.get_relations([relation_id(*ids)]))
        assert (relation.description, relation.keywords, relation.weight) == ("made anew", ("anew",), 3.0)
        assert relation.chunk_ids == ()

    @rule(pair=pairs)
    def relate(self, pair: tuple[str, str]) -> None:
        self.curate(
            self.world.curator.create_relation(*pair, keywords=["made"], description="by hand", weight=2.0, author="me")
        )

    @rule(pair=pairs, weight=st.sampled_from((None, 7.0)))
    def edit_relation(self, pair: tuple[str, str], weight: float | None) -> None:
        self.curate(self.world.curator.edit_relation(*pair, description="edited", weight=weight, author="me"))

    @rule(pair=pairs)
    def unrelate(self, pair: tuple[str, str]) -> None:
        self.curate(self.world.curator.delete_relation(*pair, author="me"))

    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        if self.curations:
            id_ = data.draw(st.sampled_from(self.curations))
            try:
                self.run(self.world.curator.undo(id_, author="me"))
            except ConflictError:
                # The name that it took away belongs to another now.
                return
            self.curations.remove(id_)

    @invariant()
    def graph_is_that_of_documents_and_curations(self) -> None:
        if not hasattr(self, "world"):
            return
        fresh = self.run(self.world.anew())
        assert differences(self.run(graph(self.world.store)), self.run(graph(fresh.store))) == []

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.run(self.world.store.close())
        self.loop.close()


async def graph(store: Store) -> dict[str, Any]:
    """All projections, relations of hidden ends included."""
    found = await snapshot(store)
    # BM25 depends on the order of sums in its last digits.
    found["found"] = [[hit.id for hit in sorted(hits, key=lambda hit: hit.id)] for hits in found["found"]]
    return found


def differences(found: dict[str, Any], expected: dict[str, Any]) -> list[Any]:
    """What is in one of two graphs only."""
    return [
        (part, [item for item in left if item not in right], [item for item in right if item not in left])
        for part, left, right in ((part, _items(found[part]), _items(expected[part])) for part in expected)
        if left != right
    ]


def _items(part: Any) -> list[Any]:
    if isinstance(part, dict):
        return list(part.items())
    return list(part)


def test_an_alias_of_two_names_follows_what_it_was_merged_into_when_one_of_them_is_renamed() -> None:
    world = CuratedGraph()
    world.open(text="Bob -> New [knows] 1.5: met\nDot = New\nCy = New", other="Dot (person): two.")
    for name, new in (("New", "Ann"), ("Ann", "Cy"), ("Dot", "Ann")):
        world.rename(name=name, new=new, allow_merge=True)
        world.graph_is_that_of_documents_and_curations()
    world.teardown()


class CuratedSqliteGraph(CuratedGraph):
    """The same in the embedded store."""

    def make_store(self) -> Store:
        self.folder = TemporaryDirectory()
        info = FakeEmbeddingModel(16).info
        return self.run(open_store(StoreSettings(data_dir=Path(self.folder.name), durability="normal"), info))

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "folder"):
            self.folder.cleanup()


def _settings(machine: type[RuleBasedStateMachine], examples: int, steps: int) -> Any:
    case = machine.TestCase
    case.settings = settings(
        max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=list(HealthCheck)
    )
    return case


TestCuratedGraph = _settings(CuratedGraph, 30, 15)
TestCuratedSqliteGraph = _settings(CuratedSqliteGraph, 6, 10)
