"""Corrections of the graph: made, undone, listed."""

from __future__ import annotations

from collections.abc import Sequence

import heliograph.client.curation_calls as calls
from heliograph.client.curation_records import (
    CurationEdit,
    CurationPage,
    CurationRecord,
    DuplicateRecord,
    HistoryRecord,
)
from heliograph.client.sync_rooms import Send

__all__ = ["Curations"]


class Curations:
    """Corrections of a workspace's graph. A name may be any spelling or alias; who asks is noted as the author.

    Args:
        send: Sends calls.
    """

    def __init__(self, send: Send) -> None:
        self._send = send

    def create_entity(
        self,
        name: str,
        *,
        type: str = "",  # noqa: A002 (as the engine has it)
        description: str,
    ) -> CurationEdit:
        """Make an entity that stays without any document.

        Raises:
            InvalidRequestError: There is one of this name, or the name or description is empty.
        """
        return self._send(calls.create_entity(name, type, description))

    def edit_entity(
        self,
        name: str,
        *,
        type: str | None = None,  # noqa: A002 (as the engine has it)
        description: str | None = None,
    ) -> CurationEdit:
        """Put a type or description in place of what documents say, now and later.

        Raises:
            InvalidRequestError: There is no such entity, or nothing is given.
        """
        return self._send(calls.edit_entity(name, type, description))

    def rename_entity(
        self,
        name: str,
        new_name: str,
        *,
        type: str | None = None,  # noqa: A002 (as the engine has it)
        description: str | None = None,
        allow_merge: bool = False,
    ) -> CurationEdit:
        """Give an entity another name, and a type or description with it: all in one commit, or nothing.

        Args:
            name: The entity; its old name stays an alias.
            new_name: Its new name.
            type: In place of what documents say; None leaves it.
            description: Likewise.
            allow_merge: Whether to merge it into the entity that has the new name, if there is one.

        Raises:
            InvalidRequestError: There is no such entity, or another has the new name.
        """
        return self._send(calls.rename_entity(name, new_name, type, description, allow_merge=allow_merge))

    def merge_entities(self, names: Sequence[str], into: str) -> CurationEdit:
        """Make several entities one: one of them, another entity, or under a new name.

        Raises:
            InvalidRequestError: One of them does not exist, or they are one already.
        """
        return self._send(calls.merge_entities(names, into))

    def split_entity(
        self,
        name: str,
        new_name: str,
        *,
        document_ids: Sequence[str] = (),
        chunk_ids: Sequence[str] = (),
    ) -> CurationRecord:
        """Make what some documents or chunks call by a name an entity of its own.

        Raises:
            ConflictError: There is an entity of the new name.
            InvalidRequestError: None of these mentions the entity.
            NotFoundError: There is no such entity.
        """
        return self._send(calls.split_entity(name, new_name, document_ids, chunk_ids))

    def delete_entity(self, name: str) -> CurationEdit:
        """Hide an entity and its relations, whatever documents say; a `NotFoundError` if there is none."""
        return self._send(calls.delete_entity(name))

    def create_relation(
        self,
        name: str,
        other: str,
        *,
        keywords: Sequence[str] = (),
        description: str,
        weight: float = 1.0,
    ) -> CurationEdit:
        """Make a relation that stays, and its ends with it, without any document.

        Raises:
            InvalidRequestError: There is one already, or an end does not exist.
        """
        return self._send(calls.create_relation(name, other, keywords, description, weight))

    def edit_relation(
        self,
        name: str,
        other: str,
        *,
        keywords: Sequence[str] | None = None,
        description: str | None = None,
        weight: float | None = None,
    ) -> CurationEdit:
        """Put keywords, a description or a weight in place of what documents say.

        Raises:
            InvalidRequestError: There is no such relation, or nothing is given.
        """
        return self._send(calls.edit_relation(name, other, keywords, description, weight))

    def delete_relation(self, name: str, other: str) -> CurationEdit:
        """Hide a relation, whatever documents say; a `NotFoundError` if there is none."""
        return self._send(calls.delete_relation(name, other))

    def undo(self, curation_id: str) -> CurationRecord:
        """Take a correction back: the graph becomes what it would be without it.

        Raises:
            ConflictError: It was taken back before.
            NotFoundError: There is no such correction.
        """
        return self._send(calls.undo(curation_id))

    def list(
        self,
        *,
        name: str | None = None,
        includes_undone: bool = True,
        offset: int = 0,
        limit: int = 100,
    ) -> CurationPage:
        """Return a page of corrections, at most 1,000, the latest first; with `name`, those of one entity."""
        return self._send(calls.curations(name, offset, limit, includes_undone=includes_undone))

    def history(
        self,
        name: str,
        other: str | None = None,
        *,
        offset: int = 0,
        limit: int = 100,
    ) -> HistoryRecord:
        """Return which chunks and people said what of an entity, or with `other` of a relation.

        Raises:
            NotFoundError: Nothing was ever said of it.
        """
        return self._send(calls.history(name, other, offset, limit))

    def find_duplicates(self, *, examined: int = 500, limit: int = 100) -> tuple[DuplicateRecord, ...]:
        """Return pairs that may be one among the best connected entities, the most alike first."""
        return self._send(calls.duplicates(examined, limit)).pairs
