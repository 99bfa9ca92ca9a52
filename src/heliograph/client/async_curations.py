"""Corrections of the graph, for async code; see `sync_curations`."""

from __future__ import annotations

from collections.abc import Sequence

import heliograph.client.curation_calls as calls
from heliograph.client.async_rooms import AsyncSend
from heliograph.client.curation_records import (
    CurationEdit,
    CurationPage,
    CurationRecord,
    DuplicateRecord,
    HistoryRecord,
)

__all__ = ["AsyncCurations"]


class AsyncCurations:
    """Corrections of a workspace's graph.

    Args:
        send: Sends calls.
    """

    def __init__(self, send: AsyncSend) -> None:
        self._send = send

    async def create_entity(
        self,
        name: str,
        *,
        type: str = "",  # noqa: A002 (as the engine has it)
        description: str,
    ) -> CurationEdit:
        """See `Curations.create_entity`."""
        return await self._send(calls.create_entity(name, type, description))

    async def edit_entity(
        self,
        name: str,
        *,
        type: str | None = None,  # noqa: A002 (as the engine has it)
        description: str | None = None,
    ) -> CurationEdit:
        """See `Curations.edit_entity`."""
        return await self._send(calls.edit_entity(name, type, description))

    async def rename_entity(
        self,
        name: str,
        new_name: str,
        *,
        type: str | None = None,  # noqa: A002 (as the engine has it)
        description: str | None = None,
        allow_merge: bool = False,
    ) -> CurationEdit:
        """See `Curations.rename_entity`."""
        return await self._send(calls.rename_entity(name, new_name, type, description, allow_merge=allow_merge))

    async def merge_entities(self, names: Sequence[str], into: str) -> CurationEdit:
        """See `Curations.merge_entities`."""
        return await self._send(calls.merge_entities(names, into))

    async def split_entity(
        self,
        name: str,
        new_name: str,
        *,
        document_ids: Sequence[str] = (),
        chunk_ids: Sequence[str] = (),
    ) -> CurationRecord:
        """See `Curations.split_entity`."""
        return await self._send(calls.split_entity(name, new_name, document_ids, chunk_ids))

    async def delete_entity(self, name: str) -> CurationEdit:
        """See `Curations.delete_entity`."""
        return await self._send(calls.delete_entity(name))

    async def create_relation(
        self,
        name: str,
        other: str,
        *,
        keywords: Sequence[str] = (),
        description: str,
        weight: float = 1.0,
    ) -> CurationEdit:
        """See `Curations.create_relation`."""
        return await self._send(calls.create_relation(name, other, keywords, description, weight))

    async def edit_relation(
        self,
        name: str,
        other: str,
        *,
        keywords: Sequence[str] | None = None,
        description: str | None = None,
        weight: float | None = None,
    ) -> CurationEdit:
        """See `Curations.edit_relation`."""
        return await self._send(calls.edit_relation(name, other, keywords, description, weight))

    async def delete_relation(self, name: str, other: str) -> CurationEdit:
        """See `Curations.delete_relation`."""
        return await self._send(calls.delete_relation(name, other))

    async def undo(self, curation_id: str) -> CurationRecord:
        """See `Curations.undo`."""
        return await self._send(calls.undo(curation_id))

    async def list(
        self,
        *,
        name: str | None = None,
        includes_undone: bool = True,
        offset: int = 0,
        limit: int = 100,
    ) -> CurationPage:
        """See `Curations.list`."""
        return await self._send(calls.curations(name, offset, limit, includes_undone=includes_undone))

    async def history(
        self,
        name: str,
        other: str | None = None,
        *,
        offset: int = 0,
        limit: int = 100,
    ) -> HistoryRecord:
        """See `Curations.history`."""
        return await self._send(calls.history(name, other, offset, limit))

    async def find_duplicates(self, *, examined: int = 500, limit: int = 100) -> tuple[DuplicateRecord, ...]:
        """See `Curations.find_duplicates`."""
        return (await self._send(calls.duplicates(examined, limit))).pairs
