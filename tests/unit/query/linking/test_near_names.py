from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from heliograph import AsyncHeliograph
from heliograph.query.linking import near_entities
from heliograph.testing.fakes import FakeEmbeddingModel

NAMES = ("ESP32", "ESP32-S3", "ESP8266", "Raspberry Pi 4", "Ann", "Annie", "Kubernetes", "深度学习方法", "K")


@pytest.fixture
async def kb(tmp_path: Path) -> AsyncGenerator[AsyncHeliograph]:
    async with AsyncHeliograph(tmp_path, embedding=FakeEmbeddingModel(16)) as engine:
        for name in NAMES:
            await engine.create_entity(name)
        await engine.rename_entity("K", "Keeper of Secrets")
        yield engine


@pytest.mark.parametrize(
    ("written", "near"),
    [
        ("ESP33", ["ESP32"]),
        ("esp 32", ["ESP32"]),
        ("ASP32", ["ESP32"]),
        ("ES932", ["ESP32"]),
        ("SEP8266", ["ESP8266"]),
        ("ESP23", ["ESP32"]),
        ("ESP32-S2", ["ESP32-S3"]),
        ("ESP8267", ["ESP8266"]),
        ("Raspberry Pi 5", ["Raspberry Pi 4"]),
        ("Rasberry Pi 5", ["Raspberry Pi 4"]),
        ("Kubernets", ["Kubernetes"]),
        ("Qubernetes", ["Kubernetes"]),
        ("Keeper of Secret", ["Keeper of Secrets"]),
        ("深度学系方法", ["深度学习方法"]),
        ("Anm", []),
        ("ESP", []),
        ("Zigbee", []),
        ("", []),
    ],
)
async def test_entities_are_proposed_whose_names_are_a_slip_or_two_away(
    kb: AsyncHeliograph, written: str, near: list[str]
) -> None:
    assert [entity.name for entity in await near_entities(kb.store, written)] == near


async def test_only_what_a_view_leaves_is_proposed(kb: AsyncHeliograph) -> None:
    assert await near_entities(kb.store, "ESP33", kb.view({"team": "red"})) == []
