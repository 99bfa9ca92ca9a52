"""Documents read on two nodes of a Ray cluster into PostgreSQL, while a node is killed; skipped without Ray."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

pytest.importorskip("ray", reason="needs: pip install 'heliograph[ray]'")
pytest.importorskip("psycopg", reason="needs: pip install 'heliograph[postgres]'")

from heliograph import AsyncHeliograph, Settings
from heliograph.chat.base import ChatReply, ChatRequest
from heliograph.errors import ClusterUnavailable
from heliograph.ingest.models import Outcome, Progress
from heliograph.models import DocumentStatus, Usage
from heliograph.testing.fakes import FakeChatModel, FakeEmbeddingModel

from ..servers.ray_nodes import RayNodes, running_ray_nodes
from ..unit.ingest.world import snapshot

pytestmark = pytest.mark.slow

REPLY = """{"entities": [{"name": "Hester Tarrant", "type": "person", "description": "Keeps the light."},
{"name": "Gannet Head", "type": "location", "description": "A light."}], "relationships":
[{"source": "Hester Tarrant", "target": "Gannet Head", "keywords": "keeping", "description": "She keeps it."}]}"""
TEXTS = [f"Hester Tarrant wrote letter {number} at Gannet Head." for number in range(24)]


@pytest.fixture(scope="module")
def nodes() -> Generator[RayNodes]:
    with running_ray_nodes() as running:
        yield running


def opened(url: str, workspace: str, chat: FakeChatModel, address: str = "") -> AsyncHeliograph:
    settings = Settings.load(
        store={"url": url, "workspace": workspace, "durability": "normal"},
        ray={"workers": 4, "address": address, "start_timeout_seconds": 40},
    )
    embedding = FakeEmbeddingModel(16, record=False)
    return AsyncHeliograph(settings=settings, engine="ray" if address else "local", embedding=embedding, chat=chat)


async def expect_plain(kb: AsyncHeliograph, url: str) -> None:
    """Check that there is what a plain run of one process makes of the texts."""
    assert (await kb.stats()).documents == {DocumentStatus.PROCESSED: len(TEXTS)}
    assert (await kb.check()).is_clean
    async with opened(url, f"w{uuid4().hex}", FakeChatModel(REPLY)) as other:
        await other.insert(TEXTS)
        assert await seen(kb) == await seen(other)


async def seen(kb: AsyncHeliograph) -> dict[str, Any]:
    """Return all that is stored, but for what each extraction cost: a reply that was kept costs nothing again."""
    found = await snapshot(kb.store)
    return {**found, "extractions": [replace(item, usage=Usage()) for item in found["extractions"]]}


async def test_a_node_is_killed_in_the_middle_and_nothing_is_lost(
    nodes: RayNodes, postgres_database: str, tmp_path: Path
) -> None:
    both = {nodes.add(2), nodes.add(2)}
    chat = _PlacedChatModel(tmp_path / "calls", seconds=0.3)
    killed: list[str] = []

    def watch(progress: Progress) -> None:
        if not killed and progress.documents_done > 3 and set(chat.places()) == both:
            killed.append(chat.places()[-1])
            nodes.kill(killed[0])

    async with opened(postgres_database, f"w{uuid4().hex}", chat, nodes.address) as kb:
        report = await kb.insert(TEXTS, progress=watch)
        assert {item.outcome for item in report.results} == {Outcome.PROCESSED}
        assert set(chat.places()) == both
        assert killed
        (left,) = both - set(killed)
        assert chat.places()[-1] == left
        await expect_plain(kb, postgres_database)
    nodes.kill(left)


async def test_a_run_whose_nodes_are_all_gone_is_resumed_on_others(
    nodes: RayNodes, postgres_database: str, tmp_path: Path
) -> None:
    first, workspace = nodes.add(2), f"w{uuid4().hex}"
    chat = _PlacedChatModel(tmp_path / "calls", seconds=0.3)
    killed: list[str] = []

    def watch(progress: Progress) -> None:
        if not killed and progress.documents_done > 3:
            killed.append(first)
            nodes.kill(first)

    async with opened(postgres_database, workspace, chat, nodes.address) as kb:
        with pytest.raises(ClusterUnavailable):
            await kb.insert(TEXTS, progress=watch)
        before = (await kb.stats()).documents
        assert before[DocumentStatus.PENDING] > 0
        kept, paid = len(await kb.store.replies.list_replies("", 1_000)), len(chat.places())
    second = nodes.add(2)
    async with opened(postgres_database, workspace, chat, nodes.address) as kb:
        report = await kb.resume()
        assert {item.outcome for item in report.results} == {Outcome.PROCESSED}
        assert set(Counter(chat.places()[paid:])) == {second}
        assert len(chat.places()) - paid == len(await kb.store.replies.list_replies("", 1_000)) - kept
        await expect_plain(kb, postgres_database)
    nodes.kill(second)


class _PlacedChatModel(FakeChatModel):
    """Writes on which node each call is made into a file, which workers share."""

    def __init__(self, path: Path, seconds: float) -> None:
        super().__init__(REPLY, delay_seconds=seconds)
        self._path = path

    def places(self) -> list[str]:
        return self._path.read_text("utf-8").split() if self._path.exists() else []

    async def complete(self, request: ChatRequest) -> ChatReply:
        place = import_module("ray").get_runtime_context().get_node_id()
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{place}\n")
        return await super().complete(request)
