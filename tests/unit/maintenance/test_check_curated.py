"""Checks know what people said of the graph, and what names count for."""

from __future__ import annotations

from pathlib import Path

from heliograph import AsyncHeliograph
from heliograph.maintenance.check import Maintenance

from .test_check import damage, found


async def curate(kb: AsyncHeliograph) -> None:
    await kb.insert("Message Queuing Telemetry Transport (MQTT) is a protocol.", sources=["d.md"])
    await kb.create_entity("Zephyr", type="artifact", description="Made by hand.")
    await kb.create_relation("Zephyr", "ESP32", description="Zephyr runs on ESP32.", keywords=["runs"])
    await kb.edit_entity("Shanghai", description="A large city.")
    await kb.merge_entities(["Espressif"], "Eclipse Foundation")
    await kb.delete_entity("Brussels")


async def test_curated_workspace_is_clean_and_stays_so_when_rebuilt(
    kb: AsyncHeliograph, maintenance: Maintenance
) -> None:
    await curate(kb)
    assert (await maintenance.check()).problems == ()
    before = [await found(kb), await kb.entities()]
    assert (await maintenance.rebuild()).problems == ()
    assert [await found(kb), await kb.entities()] == before
    assert (await maintenance.check()).problems == ()


async def test_lost_curated_projections_come_back(
    kb: AsyncHeliograph, maintenance: Maintenance, tmp_path: Path
) -> None:
    await curate(kb)
    before = await kb.entity("Shanghai")
    damage(tmp_path, "UPDATE entity SET description = 'wrong' WHERE name = 'Shanghai'")
    assert (await maintenance.check(repair=True)).problem_count > 0
    assert await kb.entity("Shanghai") == before
    assert await kb.entity("Brussels") is None
    assert (await maintenance.check()).is_clean
