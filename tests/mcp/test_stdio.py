from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from heliograph.mcp.tools import TOOLS
from heliograph.service.access import Role

from .world import checked, over_stdio, text_of

# Each starts the command in a process of its own.
pytestmark = pytest.mark.slow

TEXT = "# ESP32\n\nThe ESP32 connects to an MQTT broker over TLS. Espressif makes the ESP32."
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
STARTED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


@contextmanager
def started(folder: Path, *options: str) -> Generator[subprocess.Popen[bytes]]:
    """Start the command on a folder; it is killed at the end if it has not ended by then."""
    command = (sys.executable, "-m", "heliograph", "mcp", "--data-dir", str(folder), *options)
    process = subprocess.Popen(
        command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def send(process: subprocess.Popen[bytes], *messages: dict[str, Any] | bytes) -> None:
    assert process.stdin is not None
    for message in messages:
        process.stdin.write(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")
    process.stdin.flush()


def receive(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert process.stdout is not None
    found: dict[str, Any] = json.loads(process.stdout.readline())
    return found


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_all_tools_work_offline(tmp_path: Path, mode: str) -> None:
    async with over_stdio(tmp_path, mode=mode) as client:
        heard: list[str | None] = []

        async def hear(_progress: float, _total: float | None, message: str | None) -> None:
            heard.append(message)

        given = {"content": TEXT, "metadata": {"source": "docs", "category": "hardware"}}
        done = await client.call_tool("knowledge.insert", given, progress_callback=hear)
        assert heard[-1] == "1 of 1 documents, 1 of 1 chunks read"
        id_ = (done.structured_content or {})["document_id"]
        found = await checked(client, "knowledge.query", query="How does the ESP32 connect?", mode="hybrid", top_k=5)
        assert "over TLS" in found["answer"]
        assert found["kind"] == "extractive"
        assert found["references"][0]["document_ids"] == [id_]
        around = await checked(client, "knowledge.get_relations", entity="ESP32", depth=2)
        assert "Espressif" in {item["name"] for item in around["entities"]}
        assert (await checked(client, "knowledge.get_entities", query="ESP32"))["entities"][0]["name"] == "ESP32"
        await checked(client, "knowledge.batch_insert", documents=[{"content": "Zigbee is a radio standard."}])
        await checked(client, "knowledge.update", document_id=id_, content=TEXT.replace("TLS", "WiFi"))
        assert (await checked(client, "knowledge.rebuild_index"))["problems_found"] == 0
        assert (await checked(client, "knowledge.stats"))["documents"] == 2
        assert len((await client.list_resources()).resources) == 2
        assert (await checked(client, "knowledge.delete", document_ids=[id_]))["deleted"] == [id_]
        assert "failed: " in text_of(await client.call_tool("knowledge.delete", {"document_ids": [id_]}))
    async with over_stdio(tmp_path, "--read-only", "--name-separator", "_", "--workspace", "default") as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names == [f"knowledge_{tool.name}" for tool in TOOLS if tool.role is Role.READ]
        assert (await checked(client, "knowledge_stats"))["documents"] == 1


def test_garbage_on_input_is_refused_and_output_carries_the_protocol_alone(tmp_path: Path) -> None:
    with started(tmp_path, "--verbose") as process:
        send(process, b"garbage {\n", b"\xff\xfe\n", b"\n", b'{"jsonrpc":"2.0"}\n', b"[" * 100_000 + b"\n", b"null\n")
        refused = [receive(process) for _ in range(5)]
        assert [item["error"]["code"] for item in refused] == [-32700, -32700, -32600, -32700, -32600]
        assert {item["id"] for item in refused} == {None}
        send(process, HELLO)
        assert receive(process)["result"]["serverInfo"]["name"] == "heliograph"
        send(process, STARTED, b'{"jsonrpc":"2.0","id":2,"method":"nothing/here"}\n')
        assert receive(process)["error"]["code"] == -32601
        call = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "knowledge.stats"}}
        send(process, b"more garbage\n", call)
        assert receive(process)["error"]["code"] == -32700
        assert receive(process)["result"]["structuredContent"]["documents"] == 0
        assert process.stdin is not None
        process.stdin.close()
        assert process.stdout is not None
        assert process.stdout.read() == b""
        assert process.wait(60) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_it_cleanly_while_input_is_open(tmp_path: Path, number: signal.Signals) -> None:
    with started(tmp_path) as process:
        send(process, HELLO)
        assert receive(process)["id"] == 1
        process.send_signal(number)
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_input_that_ends_at_once_ends_it_cleanly(tmp_path: Path) -> None:
    with started(tmp_path) as process:
        found, told = process.communicate(json.dumps(HELLO).encode())
        assert [json.loads(line)["id"] for line in found.splitlines()] == [1]
        assert (process.returncode, told) == (0, b"")


def test_client_that_reads_no_answers_any_more_ends_it_cleanly(tmp_path: Path) -> None:
    with started(tmp_path) as process:
        send(process, HELLO)
        receive(process)
        assert process.stdout is not None
        process.stdout.close()
        send(process, b"garbage\n")
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_calls_under_way_are_answered_before_it_ends(tmp_path: Path) -> None:
    with started(tmp_path) as process:
        send(process, HELLO, STARTED)
        assert receive(process)["id"] == 1
        tools = {
            2: ("knowledge.insert", {"content": TEXT}),
            3: ("knowledge.query", {"query": "How does the ESP32 connect?"}),
            4: ("knowledge.get_entities", {"query": "ESP32"}),
            5: ("knowledge.stats", {}),
        }
        calls = [
            {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": {"name": name, "arguments": given}}
            for id_, (name, given) in tools.items()
        ]
        found, told = process.communicate(b"".join(json.dumps(call).encode() + b"\n" for call in calls))
        replies = {reply["id"]: reply for reply in map(json.loads, found.splitlines())}
        assert set(replies) == {2, 3, 4, 5}
        assert [reply["result"] for reply in replies.values() if reply["result"].get("isError")] == []
        assert (process.returncode, told) == (0, b"")
    with started(tmp_path) as process:
        send(process, HELLO, STARTED)
        receive(process)
        send(process, {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "knowledge.stats"}})
        assert receive(process)["result"]["structuredContent"]["documents"] == 1


def test_setting_that_is_not_valid_is_told_on_standard_error(tmp_path: Path) -> None:
    with started(tmp_path, "--name-separator", "::") as process:
        found, told = process.communicate()
        assert (process.returncode, found) == (2, b"")
        assert b"mcp.name_separator" in told
