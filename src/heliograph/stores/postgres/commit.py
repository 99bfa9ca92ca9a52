"""One commit on PostgreSQL: lock the workspace, compare what the changeset expects, write all of it.

Two round trips. The first takes the lock of the workspace's row, by which commits of all processes come one after the
other, and reads what is expected, as of after the lock. The second sends every statement and `COMMIT`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from heliograph.errors import SchemaMismatch, StaleChangesetError, StoreUnavailable
from heliograph.stores.changeset import Changeset
from heliograph.stores.postgres.codec import to_json
from heliograph.stores.postgres.curations import curation_statements
from heliograph.stores.postgres.graph_write import graph_statements
from heliograph.stores.postgres.names import name_statements
from heliograph.stores.postgres.outbox import outbox_statements
from heliograph.stores.postgres.records_write import chunk_statements, record_statements, removal_statements
from heliograph.stores.postgres.replies import reply_statements
from heliograph.stores.postgres.session import Row, Session, Statement
from heliograph.stores.postgres.text_write import text_statements
from heliograph.stores.postgres.vector_write import check_dimensions, vector_statements

CommitSettings = tuple[float, bool]

_LIMITS = "SELECT set_config('lock_timeout', %s, true), set_config('synchronous_commit', %s, true)"
_LOCK = """SELECT data_version, embedding_name, embedding_dimension FROM heliograph_workspace WHERE name = %s
  FOR UPDATE"""
_HAS_READERS = "SELECT EXISTS (SELECT 1 FROM heliograph_outbox_reader WHERE workspace = %s)"
_STALE_EVIDENCE = """
SELECT wanted.key FROM json_each_text(%s) AS wanted
LEFT JOIN heliograph_entity_evidence AS entity ON entity.workspace = %s AND entity.id = wanted.key
LEFT JOIN heliograph_relation_evidence AS relation ON relation.workspace = %s AND relation.id = wanted.key
WHERE coalesce(entity.version, relation.version, 0) <> wanted.value::bigint LIMIT 1"""
_STALE_RULES = """
SELECT wanted.key FROM json_each_text(%s) AS wanted
LEFT JOIN heliograph_name_rules AS rules ON rules.workspace = %s AND rules.id = wanted.key
WHERE coalesce(rules.version, 0) <> wanted.value::bigint LIMIT 1"""
_STALE_DOCUMENTS = """
SELECT wanted.key FROM json_each_text(%s) AS wanted
LEFT JOIN heliograph_document AS document ON document.workspace = %s AND document.id = wanted.key
WHERE coalesce(document.content_hash, '') <> wanted.value LIMIT 1"""
_RAISE_VERSION = "UPDATE heliograph_workspace SET data_version = %s WHERE name = %s"


async def commit(
    session: Session, changeset: Changeset, embedding: tuple[str, int], vector_type: int, settings: CommitSettings
) -> int:
    """Apply a changeset; return the new data version.

    Args:
        session: Outside a transaction.
        changeset: What changes.
        embedding: What the workspace was opened with.
        vector_type: The type id of vectors.
        settings: Seconds to wait for another commit, and whether the new state must survive a crash of the server.

    Raises:
        StaleChangesetError: Something that it was computed from has changed; nothing was applied.
        SchemaMismatch: The workspace is of another embedding than it was opened with.
        StoreUnavailable: It was removed since then.
        psycopg.Error: The server failed, or somebody else has held the workspace for too long.
    """
    check_dimensions(changeset, embedding[1])
    workspace = session.workspace
    checks = list(_checks(workspace, changeset))
    begin = Statement("BEGIN"), _limits(settings), Statement(_LOCK, (workspace,)), Statement(_HAS_READERS, (workspace,))
    _, _, locked, ((has_readers,),), *stale = await session.run(*begin, *(query for _, query in checks))
    version = _locked_version(locked, embedding) + 1
    for (said, _), rows in zip(checks, stale, strict=True):
        if rows:
            raise StaleChangesetError(f"{said.format(rows[0][0])} changed since it was read; read it and try again")
    if changeset.expected_version not in (None, version - 1):
        raise StaleChangesetError("something was committed since the changeset was computed; compute it again")
    noted = outbox_statements(workspace, changeset, version) if has_readers else ()
    await session.commit(*_statements(workspace, changeset, version, vector_type), *noted)
    return version


def _limits(settings: CommitSettings) -> Statement:
    timeout_seconds, is_durable = settings
    # 0 would mean to wait for ever.
    milliseconds = max(1, int(timeout_seconds * 1000))
    return Statement(_LIMITS, (str(milliseconds), "on" if is_durable else "off"))


def _checks(workspace: str, changeset: Changeset) -> Iterator[tuple[str, Statement]]:
    if changeset.expected:
        values = to_json(changeset.expected), workspace, workspace
        yield "the evidence of {!r} has", Statement(_STALE_EVIDENCE, values)
    if changeset.expected_rules:
        yield "the rules of the name {!r} have", Statement(_STALE_RULES, (to_json(changeset.expected_rules), workspace))
    if changeset.expected_documents:
        values = to_json(changeset.expected_documents), workspace
        yield "the document {!r} has", Statement(_STALE_DOCUMENTS, values)


def _locked_version(locked: Sequence[Row], embedding: tuple[str, int]) -> int:
    if not locked:
        raise StoreUnavailable("the workspace was removed since it was opened; open it again")
    ((version, *stored),) = locked
    if tuple(stored) != embedding:
        raise SchemaMismatch(
            f"the store was embedded anew with {tuple(stored)!r} since it was opened with {embedding!r}; "
            "configure that embedding and open the store again"
        )
    return int(version)


def _statements(workspace: str, changeset: Changeset, version: int, vector_type: int) -> Iterator[Statement]:
    # Removals first, so that a changeset may replace what it removes; vectors last, beside which stands what the graph
    # says.
    return chain(
        (Statement(_RAISE_VERSION, (version, workspace)),),
        removal_statements(workspace, changeset),
        record_statements(workspace, changeset, version),
        chunk_statements(workspace, changeset, vector_type),
        curation_statements(workspace, changeset, version),
        graph_statements(workspace, changeset),
        name_statements(workspace, changeset),
        vector_statements(workspace, changeset, vector_type),
        text_statements(workspace, changeset),
        reply_statements(workspace, changeset),
    )
