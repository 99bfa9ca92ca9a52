"""Workspaces of a back end that is found through entry points."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from heliograph.errors import InvalidRequestError
from heliograph.settings import StoreSettings
from heliograph.stores import registry


class _Upkeep:
    """One workspace, which can be dropped."""

    IDENTITY_SECONDS = 3.0

    def __init__(self) -> None:
        self.names = ["alpha"]

    def find_workspaces(self, _: StoreSettings) -> list[str]:
        return self.names

    def drop_workspace(self, settings: StoreSettings) -> None:
        self.names.remove(settings.workspace)

    def workspace_identity(self, settings: StoreSettings) -> object:
        return settings.workspace in self.names or None


def _install(monkeypatch: pytest.MonkeyPatch, **loaded: object) -> StoreSettings:
    def entry_points(group: str, name: str = "") -> list[Any]:
        value = loaded.get(group.rpartition(".")[2])
        return [SimpleNamespace(name="own", load=lambda: value)] if value is not None and name in ("", "own") else []

    monkeypatch.setattr(registry, "entry_points", entry_points)
    return StoreSettings(url="own://here", workspace="alpha")


async def test_upkeep_of_an_entry_point_lists_and_removes_workspaces(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = _install(monkeypatch, stores=object(), upkeep=_Upkeep())
    assert await registry.find_workspaces(settings) == ["alpha"]
    assert registry.identifier(settings)[1] == 3.0
    assert registry.workspace_identity(settings) is True
    await registry.drop_workspace(settings)
    assert await registry.find_workspaces(settings) == []


async def test_store_without_upkeep_says_what_it_cannot_do(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = _install(monkeypatch, stores=object())
    assert registry.workspace_identity(settings) is None
    assert await registry.salvage_store(settings) is None
    with pytest.raises(InvalidRequestError, match="cannot list, restore or remove workspaces"):
        await registry.find_workspaces(settings)
    with pytest.raises(InvalidRequestError, match="cannot list, restore or remove workspaces"):
        registry.workspace_upkeep(settings)
