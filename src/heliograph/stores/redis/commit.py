"""What a commit writes for a changeset: all roles say their part, after what the changeset expects was compared."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import chain

from heliograph.errors import StaleChangesetError
from heliograph.stores.changeset import Changeset
from heliograph.stores.redis.codec import version_of
from heliograph.stores.redis.committer import Head
from heliograph.stores.redis.curations import curation_commands
from heliograph.stores.redis.documents_write import document_commands
from heliograph.stores.redis.graph_commit import graph_commands
from heliograph.stores.redis.mentions_write import mention_commands
from heliograph.stores.redis.names import name_commands
from heliograph.stores.redis.outbox import outbox_commands
from heliograph.stores.redis.replies import reply_commands
from heliograph.stores.redis.session import Command, CommitSession, Session
from heliograph.stores.redis.text_write import text_commands
from heliograph.stores.redis.vectors import vector_commands
from heliograph.stores.redis.view_write import view_commands

__all__ = ["changeset_commands"]

_ROLES = (
    document_commands,
    mention_commands,
    curation_commands,
    name_commands,
    graph_commands,
    vector_commands,
    text_commands,
    reply_commands,
    view_commands,
)


async def changeset_commands(session: CommitSession, changeset: Changeset, head: Head) -> list[Command]:
    """Return what applies a changeset.

    Raises:
        StaleChangesetError: Something that it was computed from has changed.
    """
    version = head.version + 1
    roles = [*_ROLES, outbox_commands] if head.has_readers else list(_ROLES)
    # Each asks for what it needs at the same time, so that all of it is one round trip or two.
    asked = asyncio.gather(*(commands(session, changeset, version) for commands in roles))
    _, parts = await asyncio.gather(_check(session, changeset, head), asked)
    return list(chain.from_iterable(parts))


async def _check(session: Session, changeset: Changeset, head: Head) -> None:
    if changeset.expected_version not in (None, head.version):
        raise StaleChangesetError("something was committed since the changeset was computed; compute it again")
    await asyncio.gather(
        _check_documents(session, changeset.expected_documents),
        _check_evidence(session, changeset.expected),
        _check_rules(session, changeset.expected_rules),
    )


async def _check_documents(session: Session, expected: Mapping[str, str]) -> None:
    stored = await session.read([("HGET", session.keys.document(id_), "content_hash") for id_ in expected])
    for id_, content_hash in zip(expected, stored, strict=True):
        if (content_hash or "") != expected[id_]:
            raise _stale(f"the document {id_!r} has")


async def _check_evidence(session: Session, expected: Mapping[str, int]) -> None:
    if expected:
        kinds = [session.keys.evidence(kind) for kind in ("entities", "relations")]
        for id_, *stored in zip(
            expected, *await session.read([("HMGET", key, *expected) for key in kinds]), strict=True
        ):
            if version_of(stored[0] or stored[1]) != expected[id_]:
                raise _stale(f"the evidence of {id_!r} has")


async def _check_rules(session: Session, expected: Mapping[str, int]) -> None:
    if expected:
        for id_, stored in zip(expected, await session.read_one("HMGET", session.keys.rules, *expected), strict=True):
            if version_of(stored) != expected[id_]:
                raise _stale(f"the rules of the name {id_!r} have")


def _stale(what: str) -> StaleChangesetError:
    return StaleChangesetError(f"{what} changed since it was read; read it and try again")
