"""What is under way is told as it changes, and only to who may read the workspace."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

from heliograph.ingest.models import NewDocument

from .documents.conftest import until
from .guarded import ADMIN, BOUND, READER, guarded_settings, served

EVENTS = "/api/v1/events"


def told(text: str) -> list[dict[str, Any]]:
    blocks = [block.split("\n") for block in text.strip().split("\n\n") if not block.startswith(":")]
    assert {kind for kind, _ in blocks} == {"event: work"}
    return [json.loads(data.removeprefix("data: ")) for _, data in blocks]


async def test_work_is_told_until_the_service_ends(tmp_path: Path) -> None:
    async with served(guarded_settings(tmp_path)) as (app, client):
        follower = asyncio.create_task(client.get(EVENTS, headers=READER))

        async def is_followed() -> bool:
            return getattr(app.state, "followers", 0) == 1

        async def is_done() -> bool:
            jobs = (await client.get("/documents/jobs", headers=READER)).json()["jobs"]
            return jobs[0]["state"] == "done"

        await until(is_followed)
        service = app.state.service
        async with service.workspaces.use() as kb:
            report = await service.jobs.enqueue("default", kb, [NewDocument("Ann leads.", "a.md")], "track-1", "eve")
            assert len(report.results) == 1
        await until(is_done)
        app.state.drain.begin()
        response = await follower
        assert response.headers["content-type"].startswith("text/event-stream")
        found = told(response.text)
        assert found[0]["documents"].get("processed", 0) == 0
        assert found[-1]["documents"]["processed"] == 1
        assert found[-1]["jobs"] == []
        assert (found[0]["latest"], found[-1]["latest"]["state"]) == (None, "done")
        assert all(one != other for one, other in pairwise(found))
        assert app.state.followers == 0


async def test_nobody_follows_a_foreign_or_unknown_workspace_and_not_too_many_do(tmp_path: Path) -> None:
    async with served(guarded_settings(tmp_path)) as (app, client):
        assert (await client.get(EVENTS)).status_code == 401
        assert (await client.get(EVENTS, headers=BOUND)).status_code == 403
        unknown = await client.get(EVENTS, headers={**ADMIN, "X-Heliograph-Workspace": "nowhere"})
        assert unknown.status_code == 404
        assert app.state.followers == 0
        app.state.followers = 10_000
        refused = await client.get(EVENTS, headers=READER)
        assert refused.status_code == 429
        assert int(refused.headers["Retry-After"]) > 0
