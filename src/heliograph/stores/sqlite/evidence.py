"""Reading evidence from the embedded store, and remembering what was read or written last.

A hub is touched by every other document, and its first few hundred mentions are most of what such a document would
have to read. They are remembered together with the version of the evidence, and every use compares that version with
the one stored, so what another process writes is seen at once.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, starmap
from typing import TypeVar

import apsw

from heliograph.models import EntityEvidence, EntityMention, RelationEvidence, RelationMention
from heliograph.stores.changeset import Changeset
from heliograph.stores.sqlite.identity import find_ids
from heliograph.stores.sqlite.sql import Row, array, fetch

__all__ = ["EvidenceMemory", "read_relation_mention"]

E = TypeVar("E", EntityEvidence, RelationEvidence)

# What has fewer mentions is read about as fast as it is remembered.
_LEAST_MENTIONS = 4
# Of all remembered evidence together; some 10 MB.
_MOST_MENTIONS = 32_768


class EvidenceMemory:
    """Evidence by id, the least recently used forgotten first; may be used from any thread."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, EntityEvidence | RelationEvidence] = OrderedDict()
        self._mentions = 0
        self._lock = threading.Lock()

    def read_entities(self, connection: apsw.Connection, ids: Sequence[str], leading: int) -> list[EntityEvidence]:
        """Return what is stored for these entities, with the first `leading` mentions."""
        found: list[EntityEvidence] = []
        for id_, key, version in _versions(connection, "entity_evidence", ids):
            evidence = self._recall(id_, version, leading)
            if not isinstance(evidence, EntityEvidence):
                evidence = _read_entity(connection, id_, key, leading)
                self._remember(evidence)
            found.append(_shortened(evidence, leading))
        return found

    def read_relations(self, connection: apsw.Connection, ids: Sequence[str], leading: int) -> list[RelationEvidence]:
        """Return what is stored for these relations, with the first `leading` mentions."""
        found: list[RelationEvidence] = []
        for id_, key, version in _versions(connection, "relation_evidence", ids):
            evidence = self._recall(id_, version, leading)
            if not isinstance(evidence, RelationEvidence):
                evidence = _read_relation(connection, id_, key, leading)
                self._remember(evidence)
            found.append(_shortened(evidence, leading))
        return found

    def note(self, changeset: Changeset, version: int) -> None:
        """Remember the evidence of a changeset that was committed as `version`."""
        for evidence in chain(changeset.entity_evidence, changeset.relation_evidence):
            if len(evidence.leading) >= _LEAST_MENTIONS:
                self._remember(replace(evidence, version=version))

    def _recall(self, id_: str, version: int, leading: int) -> EntityEvidence | RelationEvidence | None:
        with self._lock:
            evidence = self._known.get(id_)
            if evidence is None or evidence.version != version:
                return None
            self._known.move_to_end(id_)
            return evidence if len(evidence.leading) >= min(leading, evidence.mention_count) else None

    def _remember(self, evidence: EntityEvidence | RelationEvidence) -> None:
        if len(evidence.leading) < _LEAST_MENTIONS:
            return
        with self._lock:
            before = self._known.pop(evidence.id, None)
            # A reader may come back with what a writer has replaced meanwhile.
            kept = before if before is not None and before.version > evidence.version else evidence
            self._known[evidence.id] = kept
            self._mentions += len(kept.leading) - (len(before.leading) if before else 0)
            while self._mentions > _MOST_MENTIONS:
                _, oldest = self._known.popitem(last=False)
                self._mentions -= len(oldest.leading)


def read_relation_mention(
    chunk_id: str,
    source: str,
    target: str,
    keywords: str,
    description: str,
    weight: float,
    rank: int,
    source_id: str | None = None,
    target_id: str | None = None,
) -> RelationMention:
    """Return a mention as it was stored."""
    return RelationMention(
        *(chunk_id, source, target, tuple(json.loads(keywords)), description, weight, rank),
        *(source_id or "", target_id or ""),
    )


def _versions(connection: apsw.Connection, table: str, ids: Sequence[str]) -> list[Row]:
    if not ids:
        return []
    query = f"""SELECT identity.id, key, version FROM carray(?) AS wanted
                CROSS JOIN identity ON identity.id = wanted.value CROSS JOIN {table} USING (key)"""
    return fetch(connection, query, (array(ids),))


def _shortened(evidence: E, leading: int) -> E:
    return evidence if len(evidence.leading) <= leading else replace(evidence, leading=evidence.leading[:leading])


def _read_entity(connection: apsw.Connection, id_: str, key: int, leading: int) -> EntityEvidence:
    query = "SELECT names, types, mention_count, version FROM entity_evidence WHERE key = ?"
    ((names, types, mention_count, version),) = fetch(connection, query, (key,))
    query = """SELECT identity.id, name, type, description, rank, iif(name_hash IS NULL, '', ?)
               FROM entity_mention CROSS JOIN identity ON identity.key = chunk_key
               WHERE entity_key = ? ORDER BY rank, chunk_key, ordinal LIMIT ?"""
    mentions = tuple(starmap(EntityMention, connection.execute(query, (id_, key, leading)))) if leading else ()
    counts: tuple[Mapping[str, int], ...] = (json.loads(names), json.loads(types))
    return EntityEvidence(id_, *counts, mention_count, mentions, version)


def _read_relation(connection: apsw.Connection, id_: str, key: int, leading: int) -> RelationEvidence:
    query = """SELECT source_key, target_key, keywords, weight_millionths, mention_count, version
               FROM relation_evidence WHERE key = ?"""
    ((source_key, target_key, keywords, weight, mention_count, version),) = fetch(connection, query, (key,))
    query = """SELECT identity.id, source, target, keywords, description, weight, rank,
                      (SELECT id FROM identity WHERE key = source_key), (SELECT id FROM identity WHERE key = target_key)
               FROM relation_mention CROSS JOIN identity ON identity.key = chunk_key
               WHERE relation_key = ? ORDER BY rank, chunk_key, ordinal LIMIT ?"""
    mentions = tuple(starmap(read_relation_mention, connection.execute(query, (key, leading)))) if leading else ()
    ids = find_ids(connection, (source_key, target_key))
    ends = ids[source_key], ids[target_key]
    return RelationEvidence(id_, *ends, json.loads(keywords), weight, mention_count, mentions, version)
