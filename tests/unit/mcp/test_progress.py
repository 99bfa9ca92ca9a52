from __future__ import annotations

import asyncio
from pathlib import Path

import anyio
import pytest

from heliograph.errors import StoreUnavailable
from heliograph.mcp.tools import ProgressSender

from ...mcp.world import until
from .world import World, offered


async def is_asked(world: World, expected: bool) -> bool:
    return bool(world.chat.under_way) is expected


class Heard:
    def __init__(self) -> None:
        self.told: list[tuple[float, float | None, str | None]] = []

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        self.told.append((progress, total, message))


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_stages_and_counts_are_told_and_rise(tmp_path: Path, mode: str) -> None:
    async with offered(tmp_path, mode=mode) as world:
        for name, arguments, part in (
            ("query", {"query": "Who leads Bob?", "mode": "mix"}, "generating response"),
            ("insert", {"content": "Dee (person): dances."}, "1 of 1 documents"),
            (
                "batch_insert",
                {"documents": [{"content": f"E{i} (person): sings."} for i in range(9)]},
                "9 of 9 documents",
            ),
            ("rebuild_index", {}, "entities: "),
        ):
            heard = Heard()
            result = await world.client.call_tool(f"knowledge.{name}", arguments, progress_callback=heard)
            assert not result.is_error
            numbers = [progress for progress, _, _ in heard.told]
            assert numbers == sorted(set(numbers)), name
            assert any(part in (message or "") for _, _, message in heard.told), heard.told
            assert all(total is None or progress <= total for progress, total, _ in heard.told)


async def test_nothing_is_sent_to_who_did_not_ask() -> None:
    sender = ProgressSender(None)
    tasks = asyncio.all_tasks()
    async with sender.sending():
        sender.tell_stage("searching")
        assert asyncio.all_tasks() == tasks
        # What waits for nobody would pile up.
        assert sender._waiting.empty()  # pyright: ignore[reportPrivateUsage]


async def test_slow_listener_gets_the_latest_and_holds_nobody_up() -> None:
    heard: list[str | None] = []
    gate = asyncio.Event()

    async def send(_progress: float, _total: float | None, message: str | None) -> None:
        heard.append(message)
        await gate.wait()

    sender = ProgressSender(send)
    async with sender.sending():
        for number in range(1_000):
            sender.tell_count("chunks", number)
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0.05, gate.set)
    assert len(heard) <= 65
    assert heard[-1] == "chunks: 999"


async def test_listener_that_fails_does_not_end_the_work() -> None:
    async def send(_progress: float, _total: float | None, _message: str | None) -> None:
        raise StoreUnavailable("gone")

    sender = ProgressSender(send)
    async with sender.sending():
        sender.tell_stage("searching")
        await asyncio.sleep(0.01)
        sender.tell_stage("answering")


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_cancelled_call_ends_the_call_to_the_model(tmp_path: Path, mode: str) -> None:
    async with offered(tmp_path, mode=mode) as world:
        world.chat.gate = asyncio.Event()

        async with anyio.create_task_group() as group:
            group.start_soon(world.client.call_tool, "knowledge.query", {"query": "Who leads Bob?", "mode": "naive"})
            await until(lambda: is_asked(world, True))
            group.cancel_scope.cancel()
        await until(lambda: is_asked(world, False))
        assert world.chat.cancelled == 1
        world.chat.gate.set()
        assert (await world.client.call_tool("knowledge.stats", {})).is_error is False


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_cancelled_insert_leaves_a_document_that_waits(tmp_path: Path, mode: str) -> None:
    async with offered(tmp_path, mode=mode) as world:
        world.extractor.gate = asyncio.Event()
        content = "Dee (person): dances."
        async with anyio.create_task_group() as group, world.workspaces.use() as engine:
            group.start_soon(world.client.call_tool, "knowledge.insert", {"content": content})

            async def is_stored() -> bool:
                return (await engine.documents()).total == 3

            await until(is_stored)
            group.cancel_scope.cancel()
        # The message that cancels comes before this one.
        assert (await world.client.call_tool("knowledge.stats", {})).is_error is False
        world.extractor.gate.set()
        async with world.workspaces.use() as engine:
            report = await engine.resume()
        assert [result.outcome.value for result in report.results] == ["processed"]
