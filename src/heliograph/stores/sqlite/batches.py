"""Batches of the embedded store: its documents, grouped by what they were taken in with."""

from __future__ import annotations

from datetime import UTC, datetime

import apsw

from heliograph.models import Batch, DocumentStatus, Usage
from heliograph.stores.inspection import SHOWN_ERRORS
from heliograph.stores.sqlite.sql import fetch


def list_batches(connection: apsw.Connection, offset: int, limit: int) -> list[Batch]:
    """Return batches by the moment of their last change, descending, then by id."""
    query = """SELECT track_id, sum(chunk_count), sum(input_tokens), sum(output_tokens),
                      min(created_at), max(updated_at) AS changed_at
               FROM document WHERE track_id <> '' GROUP BY track_id ORDER BY changed_at DESC, track_id
               LIMIT ? OFFSET ?"""
    return [
        Batch(
            track_id,
            _statuses(connection, track_id),
            chunks,
            Usage(read, written),
            datetime.fromtimestamp(created_at, UTC),
            datetime.fromtimestamp(updated_at, UTC),
            _errors(connection, track_id),
        )
        for track_id, chunks, read, written, created_at, updated_at in fetch(connection, query, (limit, offset))
    ]


def _statuses(connection: apsw.Connection, track_id: str) -> dict[DocumentStatus, int]:
    query = "SELECT status, count(*) FROM document WHERE track_id = ? GROUP BY status"
    return {DocumentStatus(status): count for status, count in fetch(connection, query, (track_id,))}


def _errors(connection: apsw.Connection, track_id: str) -> tuple[tuple[str, str], ...]:
    query = "SELECT source, error FROM document WHERE track_id = ? AND error <> '' ORDER BY source LIMIT ?"
    return tuple((source, error) for source, error in fetch(connection, query, (track_id, SHOWN_ERRORS)))
