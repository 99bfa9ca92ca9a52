from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp.types import ReadResourceResult, TextResourceContents

from heliograph.service.access import Role
from mcp import Client

from .world import checked, offered


async def read(client: Client, uri: str) -> TextResourceContents:
    result = await client.read_resource(uri)
    assert isinstance(result, ReadResourceResult)
    (contents,) = result.contents
    assert isinstance(contents, TextResourceContents)
    return contents


async def test_latest_documents_are_listed_and_read(tmp_path: Path) -> None:
    async with offered(tmp_path, Role.READ) as world:
        listed = (await world.client.list_resources()).resources
        assert {item.name for item in listed} == {"one.md", "two.md"}
        (one,) = [item for item in listed if item.name == "one.md"]
        contents = await read(world.client, str(one.uri))
        assert contents.text.startswith("Ann (person): leads the team.")
        assert contents.mime_type == one.mime_type == "text/markdown"
        assert contents.meta == {
            "source": "one.md",
            "title": one.title,
            "offset": 0,
            "totalCharacters": len(contents.text),
            "isTruncated": False,
        }


async def test_document_is_read_in_parts(tmp_path: Path) -> None:
    async with offered(tmp_path) as world:
        uri = str((await world.client.list_resources()).resources[0].uri)
        whole = (await read(world.client, uri)).text
        part = await read(world.client, f"{uri}?offset=4&limit=10")
        assert part.text == whole[4:14]
        assert part.meta is not None
        assert part.meta["isTruncated"] is True
        assert (await read(world.client, f"{uri}?offset=100000")).text == ""


async def test_listing_goes_on_page_by_page(tmp_path: Path) -> None:
    async with offered(tmp_path) as world:
        given = [{"content": f"D{index} (person): dances."} for index in range(150)]
        await checked(world.client, "knowledge.batch_insert", documents=given)
        first = await world.client.list_resources()
        assert (len(first.resources), first.next_cursor) == (100, "100")
        second = await world.client.list_resources(cursor=first.next_cursor)
        assert (len(second.resources), second.next_cursor) == (52, None)
        assert not {item.uri for item in first.resources} & {item.uri for item in second.resources}
        for cursor in ("-1", "x", "9" * 99):
            with pytest.raises(MCPError, match="cursor is"):
                await world.client.list_resources(cursor=cursor)


async def test_entity_is_read_by_any_name(tmp_path: Path) -> None:
    async with offered(tmp_path) as world:
        await checked(world.client, "knowledge.insert", content="Zoë / K (person): a name with marks.")
        contents = await read(world.client, "heliograph://entities/ann")
        detail: dict[str, Any] = json.loads(contents.text)
        assert contents.mime_type == "application/json"
        assert (detail["entity"]["name"], detail["sources"]) == ("Ann", ["one.md"])
        assert [item["description"] for item in detail["relations"]] == ["Ann leads Bob."]
        marked = json.loads((await read(world.client, "heliograph://entities/Zo%C3%AB%20%2F%20K")).text)
        assert marked["entity"]["name"] == "Zoë / K"


async def test_templates_name_both_kinds(tmp_path: Path) -> None:
    async with offered(tmp_path) as world:
        found = (await world.client.list_resource_templates()).resource_templates
        assert [(item.uri_template, item.mime_type) for item in found] == [
            ("heliograph://documents/{id}{?offset,limit}", "text/markdown"),
            ("heliograph://entities/{name}", "application/json"),
        ]


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("heliograph://documents/doc-nope", "there is no document 'doc-nope'"),
        ("heliograph://entities/Nobody", "there is no entity 'Nobody'"),
        ("heliograph://documents/", "is no resource"),
        ("heliograph://other/x", "is no resource"),
        ("file:///etc/passwd", "is no resource"),
        ("heliograph://documents/..%2F..%2Fetc%2Fpasswd", "there is no document"),
        ("heliograph://documents/x?limit=0", "give a number from 1"),
        ("heliograph://[", "is no resource"),
    ],
)
async def test_what_is_no_resource_is_told(tmp_path: Path, uri: str, told: str) -> None:
    async with offered(tmp_path) as world:
        with pytest.raises(MCPError, match=re.escape(told)) as caught:
            await world.client.read_resource(uri)
        assert caught.value.error.data == {"uri": uri}
