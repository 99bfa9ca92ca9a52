from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest
from mcp.types import LATEST_PROTOCOL_VERSION

from heliograph.mcp.tools import TOOLS
from heliograph.service.access import Role
from heliograph.testing.fakes import FakeChatModel

from ..serving import ANSWER, EVIL, Serve
from .world import checked, connected, text_of, until

ADMIN, READER, BOUND, OTHER = "admin-key", "reader-key", "bound-key", "other-key"
KEYS = [
    {"name": "reader", "key": READER, "role": "read"},
    {"name": "bound", "key": BOUND, "role": "write", "workspaces": ["alpha"]},
    {"name": "other", "key": OTHER, "role": "write"},
]
GUARDED: dict[str, Any] = {"api_key": ADMIN, "keys": KEYS}
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}


@pytest.mark.parametrize(("mode", "mcp"), [("legacy", {}), ("legacy", {"stateless": True}), ("auto", {})])
async def test_all_tools_work(serve: Serve, mode: str, mcp: dict[str, Any]) -> None:
    async with connected(serve(FakeChatModel(ANSWER), mcp), mode=mode) as client:
        assert len((await client.list_tools()).tools) == len(TOOLS)
        answer = await checked(client, "knowledge.query", query="Who leads Bob?", mode="mix", top_k=5)
        assert answer["answer"].startswith("Ann leads Bob [1]")
        assert answer["references"][0]["source"] == EVIL
        assert (await checked(client, "knowledge.get_entities", query="Ann"))["entities"]
        assert (await checked(client, "knowledge.get_relations", entity="Ann", depth=2))["relations"]
        heard: list[str | None] = []

        async def hear(_progress: float, _total: float | None, message: str | None) -> None:
            heard.append(message)

        given = {"content": "Dee (person): dances.", "metadata": {"source": "docs"}}
        done = await client.call_tool("knowledge.insert", given, progress_callback=hear)
        assert heard[-1] == "1 of 1 documents, 1 of 1 chunks read"
        id_ = (done.structured_content or {})["document_id"]
        await checked(client, "knowledge.batch_insert", documents=[{"content": "Eve (person): sings."}])
        await checked(client, "knowledge.update", document_id=id_, content="Dee (person): acts.")
        assert (await client.read_resource(f"heliograph://documents/{id_}")).contents
        assert (await checked(client, "knowledge.delete", document_ids=[id_]))["removed_entities"] == 1
        assert (await checked(client, "knowledge.stats"))["documents"] == 3
        assert (await checked(client, "knowledge.rebuild_index"))["documents"] == 3
        assert (await client.call_tool("knowledge.query", {"query": ""})).is_error


async def test_nobody_comes_in_without_a_key(serve: Serve) -> None:
    address = serve(**GUARDED)
    async with httpx2.AsyncClient(headers=ACCEPT, timeout=60) as http:
        assert (await http.post(f"{address}/mcp", json=HELLO)).status_code == 403
        assert (await http.post(f"{address}/mcp", json=HELLO, headers={"X-API-Key": "wrong"})).status_code == 403
        bearer = {"Authorization": f"Bearer {ADMIN}"}
        assert (await http.post(f"{address}/mcp", json=HELLO, headers=bearer)).status_code == 200


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_roles_are_those_of_the_keys(serve: Serve, mode: str) -> None:
    async with connected(serve(**GUARDED), READER, mode) as client:
        assert len((await client.list_tools()).tools) == len([tool for tool in TOOLS if tool.role is Role.READ])
        assert (await checked(client, "knowledge.stats"))["documents"] == 2
        told = text_of(await client.call_tool("knowledge.insert", {"content": "text"}))
        assert "'reader' has the role read, and this needs write" in told


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_workspaces_are_those_of_the_header_and_the_key(serve: Serve, mode: str) -> None:
    address = serve(**GUARDED)
    async with connected(address, BOUND, mode, X_Heliograph_Workspace="alpha") as client:
        await checked(client, "knowledge.insert", content="Dee (person): dances.")
        assert (await checked(client, "knowledge.stats"))["workspace"] == "alpha"
        assert (await checked(client, "knowledge.stats"))["documents"] == 1
    async with connected(address, OTHER, mode, X_Heliograph_Workspace="nowhere") as client:
        for name, arguments in (("stats", {}), ("insert", {"content": "text"})):
            told = await client.call_tool(f"knowledge.{name}", arguments)
            assert "there is no workspace 'nowhere'" in text_of(told)
    async with connected(address, ADMIN, mode) as client:
        assert (await checked(client, "knowledge.stats"))["documents"] == 2
    async with httpx2.AsyncClient(headers=ACCEPT | {"X-API-Key": BOUND}, timeout=60) as http:
        refused = await http.post(f"{address}/mcp", json=HELLO)
        assert (refused.status_code, refused.json()["title"]) == (403, "Not allowed")


async def test_session_is_there_for_its_owner_alone(serve: Serve) -> None:
    address = serve(**GUARDED)
    async with httpx2.AsyncClient(headers=ACCEPT, timeout=60) as http:
        opened = await http.post(f"{address}/mcp", json=HELLO, headers={"X-API-Key": ADMIN})
        session = {"Mcp-Session-Id": opened.headers["Mcp-Session-Id"]}
        own = await http.post(f"{address}/mcp", json=LIST, headers=session | {"X-API-Key": ADMIN})
        assert own.status_code == 200
        for key in (READER, OTHER):
            for method in ("POST", "GET", "DELETE"):
                content = json.dumps(LIST) if method == "POST" else None
                found = await http.request(
                    method, f"{address}/mcp", content=content, headers=session | {"X-API-Key": key}
                )
                assert (found.status_code, found.json()["error"]["message"]) == (404, "Session not found")
        assert (await http.post(f"{address}/mcp", json=LIST, headers=session)).status_code == 403


async def test_sessions_are_limited_and_end_when_idle(serve: Serve) -> None:
    address = serve(mcp={"max_sessions": 2, "session_idle_seconds": 0.5})
    async with httpx2.AsyncClient(headers=ACCEPT, timeout=60) as http:
        opened = [await http.post(f"{address}/mcp", json=HELLO) for _ in range(3)]
        assert [response.status_code for response in opened] == [200, 200, 503]
        session = {"Mcp-Session-Id": opened[0].headers["Mcp-Session-Id"]}

        async def has_room() -> bool:
            return (await http.post(f"{address}/mcp", json=HELLO)).status_code != 503

        await until(has_room)
        assert (await http.post(f"{address}/mcp", json=LIST, headers=session)).status_code == 404


async def test_one_key_leaves_sessions_to_others(serve: Serve) -> None:
    address = serve(mcp={"max_sessions": 5, "max_client_sessions": 2}, **GUARDED)
    async with httpx2.AsyncClient(headers=ACCEPT, timeout=60) as http:

        async def opened(key: str) -> httpx2.Response:
            return await http.post(f"{address}/mcp", json=HELLO, headers={"X-API-Key": key})

        responses = [await opened(READER) for _ in range(4)]
        assert [response.status_code for response in responses] == [200, 200, 429, 429]
        assert "mcp.max_client_sessions" in responses[2].json()["detail"]
        assert int(responses[2].headers["Retry-After"]) > 0
        assert [(await opened(key)).status_code for key in (ADMIN, OTHER)] == [200, 200]
        ended = {"Mcp-Session-Id": responses[0].headers["Mcp-Session-Id"], "X-API-Key": READER}
        assert (await http.delete(f"{address}/mcp", headers=ended)).status_code == 200
        # What opens no session takes no place.
        assert (await http.post(f"{address}/mcp", json=LIST, headers={"X-API-Key": READER})).status_code == 400
        assert [(await opened(READER)).status_code for _ in range(2)] == [200, 429]


async def test_one_address_leaves_sessions_of_an_open_service_to_others(serve: Serve) -> None:
    address = serve(mcp={"max_client_sessions": 1})
    statuses: list[int] = []
    foreign: list[int] = []
    sessions: list[dict[str, str]] = []
    for host in ("127.0.0.1", "127.0.0.1", "127.0.0.2"):
        transport = httpx2.AsyncHTTPTransport(local_address=host)
        async with httpx2.AsyncClient(headers=ACCEPT, transport=transport) as http:
            found = await http.post(f"{address}/mcp", json=HELLO)
            statuses.append(found.status_code)
            if found.status_code == 200:
                sessions.append({"Mcp-Session-Id": found.headers["Mcp-Session-Id"]})
                foreign = [(await http.post(f"{address}/mcp", json=LIST, headers=s)).status_code for s in sessions]
    assert statuses == [200, 429, 200]
    assert foreign == [404, 200]


@pytest.mark.slow
async def test_hundred_sessions_ask_at_once(serve: Serve) -> None:
    address = serve(FakeChatModel(ANSWER), max_concurrent_queries=4)
    ready = asyncio.Barrier(100)

    async def ask(number: int) -> None:
        async with connected(address) as client:
            await ready.wait()
            answer = await checked(client, "knowledge.query", query=f"Who leads Bob, {number}?", mode="naive")
            assert answer["answer"].startswith("Ann leads Bob [1]")
            assert not (await client.call_tool("knowledge.get_relations", {"entity": "Ann"})).is_error

    async with asyncio.TaskGroup() as group:
        for number in range(100):
            group.create_task(ask(number))


async def test_pages_of_other_names_do_not_get_at_an_open_service(serve: Serve) -> None:
    address = serve()
    async with httpx2.AsyncClient(headers=ACCEPT, timeout=60) as http:
        for headers, status in (
            ({"Host": "evil.example"}, 403),
            ({"Origin": "http://evil.example"}, 403),
            ({"Origin": "http://localhost:6274"}, 200),
            ({"Host": "host.docker.internal:9621"}, 200),
            ({"Host": "192.168.1.5:9621"}, 200),
        ):
            assert (await http.post(f"{address}/mcp", json=HELLO, headers=headers)).status_code == status
            modern = headers | {"MCP-Protocol-Version": LATEST_PROTOCOL_VERSION}
            found = await http.post(f"{address}/mcp", json=LIST, headers=modern)
            assert (found.status_code == status) is (status != 200)


async def test_names_given_to_an_open_service_come_beside_those_of_its_machine(serve: Serve) -> None:
    address = serve(allowed_hosts=["kb.example.org:*"])
    async with httpx2.AsyncClient(headers=ACCEPT, timeout=60) as http:
        for host, status in (("kb.example.org:8080", 200), ("127.0.0.1:9621", 200), ("evil.example", 403)):
            found = await http.post(f"{address}/mcp", json=HELLO, headers={"Host": host})
            assert found.status_code == status


async def test_only_named_hosts_are_served_where_some_are_named(serve: Serve) -> None:
    address = serve(allowed_hosts=["kb.example.org"], **GUARDED)
    async with httpx2.AsyncClient(headers=ACCEPT | {"X-API-Key": ADMIN}, timeout=60) as http:
        for host, status in (("kb.example.org", 200), ("evil.example", 403)):
            found = await http.post(f"{address}/mcp", json=HELLO, headers={"Host": host})
            assert found.status_code == status


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "1999-01-01", "x"])
async def test_protocol_versions_are_negotiated(serve: Serve, version: str) -> None:
    address = serve()
    async with httpx2.AsyncClient(headers=ACCEPT, timeout=60) as http:
        hello = HELLO | {"params": HELLO["params"] | {"protocolVersion": version}}  # type: ignore[operator]
        (line,) = [
            line for line in (await http.post(f"{address}/mcp", json=hello)).text.splitlines() if "protocol" in line
        ]
        agreed = json.loads(line.removeprefix("data: "))["result"]["protocolVersion"]
        assert agreed == (version if version.startswith("202") else "2025-11-25")


async def test_hostile_bodies_are_refused_and_the_service_goes_on(serve: Serve) -> None:
    address = serve()
    async with httpx2.AsyncClient(headers=ACCEPT, timeout=60) as http:
        deep = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":' + b"[" * 5_000 + b"]" * 5_000 + b"}"
        for body in (b"", b"garbage", b"[]", b"null", b'{"jsonrpc":"2.0"}', deep, b"\xff\xfe", b'{"a":NaN}'):
            found = await http.post(f"{address}/mcp", content=body)
            assert 400 <= found.status_code < 500, body[:40]
    async with connected(address) as client:
        assert (await checked(client, "knowledge.stats"))["documents"] == 2


async def test_service_that_offers_no_tools_has_no_such_path(serve: Serve) -> None:
    address = serve(mcp={"serve": False})
    async with httpx2.AsyncClient(headers=ACCEPT, timeout=60) as http:
        assert (await http.post(f"{address}/mcp", json=HELLO)).status_code in (404, 405)


async def is_asked(chat: FakeChatModel, expected: bool) -> bool:
    return bool(chat.under_way) is expected


async def test_cancelled_question_gives_its_turn_back(serve: Serve) -> None:
    chat = FakeChatModel(ANSWER, delay_seconds=30)
    address = serve(chat, max_concurrent_queries=1)
    async with connected(address) as client:
        asking = asyncio.create_task(client.call_tool("knowledge.query", {"query": "Who leads Bob?", "mode": "naive"}))
        await until(lambda: is_asked(chat, True))
        asking.cancel()
        await until(lambda: is_asked(chat, False))
        found = await checked(client, "knowledge.query", query="Who leads Bob?", mode="naive", answer=False)
        assert found["passages"]
