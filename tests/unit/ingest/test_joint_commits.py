"""Documents that are ready together are committed together, and fail, end and count each by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from heliograph.embedding.base import EmbeddingKind, Embeddings
from heliograph.errors import BadModelReply, ConflictError
from heliograph.ingest.commit import Commit, Committer, JointCommits, is_plain, joint_change
from heliograph.ingest.models import NewDocument, Outcome
from heliograph.ingest.reading import ChunkPlan, DocumentChange
from heliograph.ingest.resolution import Change
from heliograph.models import AliasMention, Document, Extraction, Usage
from heliograph.settings import IngestSettings
from heliograph.stores.changeset import Changeset
from heliograph.testing.fakes import FakeEmbeddingModel
from tests.memory_store import MemoryStore

from .world import make_pipeline, snapshot

DOCUMENTS = [
    NewDocument(f"Ann (person): Fact {n}.\nT{n} (thing): x\nAnn -> T{n} [k] 1.0: y", f"{n}.txt") for n in range(9)
]


class CountingStore(MemoryStore):
    """Notes how many finished documents each commit holds."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[int] = []

    async def apply(self, changeset: Changeset) -> int:
        version = await super().apply(changeset)
        if changeset.chunks:
            self.commits.append(len(changeset.documents))
        return version


class PickyEmbedding(FakeEmbeddingModel):
    """Refuses calls with a text that holds a word."""

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        if any("T3" in text for text in texts):
            raise BadModelReply("the service refused a text")
        return await super().embed(texts, kind)


async def one_by_one(documents: Sequence[NewDocument]) -> dict[str, object]:
    store = CountingStore()
    pipeline = make_pipeline(store, settings=IngestSettings(max_parallel_documents=1))
    for document in documents:
        await pipeline.insert([document])
    assert store.commits == [1] * len(documents)
    return await snapshot(store)


async def test_what_is_ready_goes_together_and_gives_the_same_graph() -> None:
    store, embedding = CountingStore(), FakeEmbeddingModel(16)
    report = await make_pipeline(store, embedding=embedding).insert(DOCUMENTS)
    assert [result.outcome for result in report.results] == [Outcome.PROCESSED] * 9
    assert sum(store.commits) == 9
    assert store.commits[0] == 1
    assert max(store.commits) > 1
    assert await snapshot(store) == await one_by_one(DOCUMENTS)


async def test_failure_is_that_of_one_document() -> None:
    store = CountingStore()
    report = await make_pipeline(store, embedding=PickyEmbedding(16)).insert(DOCUMENTS)
    outcomes = [result.outcome for result in report.results]
    assert outcomes.pop(3) is Outcome.FAILED
    assert outcomes == [Outcome.PROCESSED] * 8
    assert sum(store.commits) == 8


async def test_documents_that_rules_of_names_concern_go_alone() -> None:
    rules = NewDocument("Ann (person): Keeper.\n\nAnn = Annie", "rules.txt")
    later = [NewDocument(item.text.replace("Ann ", "Annie "), item.source) for item in DOCUMENTS[:5]]
    store = CountingStore()
    pipeline = make_pipeline(store)
    await pipeline.insert([rules])
    await pipeline.insert(later)
    assert store.commits == [1] * 6
    assert await snapshot(store) == await one_by_one([rules, *later])


class RefusingStore(CountingStore):
    """Refuses commits of several documents, after all in them is embedded."""

    async def apply(self, changeset: Changeset) -> int:
        if len(changeset.documents) > 1 and changeset.chunks:
            raise ConflictError("one of them was replaced")
        return await super().apply(changeset)


@pytest.mark.parametrize(("remembered", "is_enough"), [(1000, True), (2, False)])
async def test_what_is_taken_apart_is_embedded_once(
    remembered: int, is_enough: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heliograph.ingest.commit._REMEMBERED_VECTORS", remembered)
    store, embedding = RefusingStore(), FakeEmbeddingModel(16)
    apart = [NewDocument(item.text.replace("Ann", f"Ann {n}"), item.source) for n, item in enumerate(DOCUMENTS)]
    await make_pipeline(store, embedding=embedding).insert(apart)
    assert store.commits == [1] * 9
    texts = [text for _, call in embedding.calls for text in call]
    assert (len(texts) == len(set(texts))) is is_enough
    assert await snapshot(store) == await one_by_one(apart)


class HeldCommitter(Committer):
    """Commits nothing, once it is let, and embeds nothing."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.may_go = asyncio.Event()
        self.cancelled = 0
        self.refuses_joint = False

    async def commit(self, change: Change) -> Commit:
        assert isinstance(change, DocumentChange)
        assert change.document is not None
        self.asked.append((change.document.id, *(item.id for item in change.others)))
        try:
            await self.may_go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.refuses_joint and change.others:
            raise ConflictError("one of them was replaced")
        return Commit(1 + len(change.others), 0, Usage())

    async def with_vectors(self, change: DocumentChange) -> DocumentChange:
        return change


def change(name: str) -> DocumentChange:
    document = Document(name, f"{name}.txt", name, f"hash of {name}")
    return DocumentChange(basis=document, document=document, extractions=(Extraction(f"{name}-1", "x"),))


async def begin(joint: JointCommits, names: str) -> list[asyncio.Task[Commit]]:
    tasks: list[asyncio.Task[Commit]] = []
    for name in names:
        tasks.append(asyncio.create_task(joint.commit(change(name))))
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


async def test_next_commit_takes_what_waits_and_tells_once_what_it_added() -> None:
    committer = HeldCommitter()
    tasks = await begin(JointCommits(committer, 3), "abcde")
    committer.may_go.set()
    commits = await asyncio.gather(*tasks)
    assert committer.asked == [("a",), ("b", "c", "d"), ("e",)]
    assert [item.entity_growth for item in commits] == [1, 3, 0, 0, 1]


async def test_refused_joint_commit_is_made_again_one_by_one() -> None:
    committer = HeldCommitter()
    committer.refuses_joint = True
    tasks = await begin(JointCommits(committer, 3), "abc")
    committer.may_go.set()
    commits = await asyncio.gather(*tasks)
    assert committer.asked == [("a",), ("b", "c"), ("b",), ("c",)]
    assert [item.entity_growth for item in commits] == [1, 1, 1]


async def test_cancelled_document_leaves_the_line() -> None:
    committer = HeldCommitter()
    tasks = await begin(JointCommits(committer, 3), "abc")
    tasks[1].cancel()
    await asyncio.wait([tasks[1]])
    committer.may_go.set()
    assert (await tasks[2]).entity_growth == 1
    assert committer.asked == [("a",), ("c",)]


async def test_commit_that_nobody_waits_for_is_cancelled_before_its_documents_end() -> None:
    committer = HeldCommitter()
    joint = JointCommits(committer, 3)
    (first,) = await begin(joint, "a")
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert committer.cancelled == 1
    committer.may_go.set()
    assert (await joint.commit(change("b"))).entity_growth == 1


async def test_joint_commit_goes_on_for_those_who_still_wait() -> None:
    committer = HeldCommitter()
    tasks = await begin(JointCommits(committer, 3), "abc")
    committer.may_go.set()
    await tasks[0]
    committer.may_go.clear()
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.sleep(0)
    assert not tasks[1].done()
    committer.may_go.set()
    assert (await tasks[2]).entity_growth in (0, 2)
    await asyncio.wait([tasks[1]])
    assert tasks[1].cancelled()
    assert committer.cancelled == 0


def test_joined_change_expects_every_document_as_it_was() -> None:
    changes = [change("a"), change("b")]
    whole = joint_change(changes)
    assert whole.is_joint
    assert whole.expected_documents == {item.basis.id: item.basis for item in changes}
    assert [item.chunk_id for item in whole.extractions] == ["a-1", "b-1"]
    assert not joint_change([change("a")]).is_joint


def test_aliases_and_replaced_chunks_are_not_plain() -> None:
    plain = change("a")
    said = Extraction("a-1", "x", aliases=(AliasMention("a-1", "World Health Organization", "WHO"),))
    assert is_plain(plain)
    for more in (
        {"extractions": (said,)},
        {"plan": ChunkPlan(replaced=plain.extractions)},
        {"document": None},
        {"is_new": True},
    ):
        assert not is_plain(replace(plain, **more))
