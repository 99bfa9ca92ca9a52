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

from heliograph.ids import SUBJECT_RANKS
from heliograph.models import EntityEvidence, EntityMention, RelationEvidence, RelationMention
from heliograph.stores.changeset import Changeset
from heliograph.stores.base import EntityPlaces
from heliograph.stores.sqlite.identity import find_ids
from heliograph.stores.sqlite.known_ids import KnownIds
from heliograph.stores.sqlite.sql import Row, array, fetch

E = TypeVar("E", EntityEvidence, RelationEvidence)

_MENTION = "identity.id, name, type, description, rank"
_LEADING_MENTIONS = f"""SELECT {_MENTION}, iif(name_hash IS NULL, '', ?)
                        FROM entity_mention CROSS JOIN identity ON identity.key = chunk_key
                        WHERE entity_key = ? ORDER BY rank, chunk_key, ordinal LIMIT ?"""
_PLACE = "entity_key, chunk_key, rank"
# Nothing of a mention is read but the start of its row; rows come in the order of the table, the canonical one.
_ALL_PLACES = f"""SELECT {_PLACE} FROM carray(?) AS wanted
                  CROSS JOIN entity_mention ON entity_key = wanted.value"""
_SUBJECT_PLACES = f"""SELECT {_PLACE} FROM entity_mention
                      WHERE entity_key = ? AND rank < ? ORDER BY rank, chunk_key, ordinal LIMIT ?"""
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
        stored = _entity_counts(connection, ids)
        recalled = (self._recall(row[0], row[-1], leading) for row in stored)
        known = {item.id: item for item in recalled if isinstance(item, EntityEvidence)}
        read = _read_entities(connection, [row for row in stored if row[0] not in known], leading)
        for evidence in read.values():
            self._remember(evidence)
        known |= read
        return [_shortened(known[row[0]], leading) for row in stored]

    def read_relations(self, connection: apsw.Connection, ids: Sequence[str], leading: int) -> list[RelationEvidence]:
        """Return what is stored for these relations, with the first `leading` mentions."""
        found: list[RelationEvidence] = []
        for id_, key, version in _relation_versions(connection, ids):
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


def read_mention_places(
    connection: apsw.Connection, known: KnownIds, ids: Sequence[str], most: int
) -> list[EntityPlaces]:
    """Return where these entities are mentioned, as `RecordsStore.get_mention_places` does."""
    stored = _mention_counts(connection, ids)
    mentions: dict[int, list[Row]] = {key: [] for _, key, _ in stored}
    rare = [key for _, key, count in stored if count <= most]
    for row in fetch(connection, _ALL_PLACES, (array(rare),)) if rare else ():
        mentions[row[0]].append(row)
    for _, key, count in stored:
        if count > most:
            mentions[key] = fetch(connection, _SUBJECT_PLACES, (key, SUBJECT_RANKS, most))
    chunk_ids = known.find_ids(connection, {chunk for rows in mentions.values() for _, chunk, _ in rows})
    return [to_places(id_, count, mentions[key][:most], chunk_ids) for id_, key, count in stored]


def to_places(id_: str, mention_count: int, rows: Sequence[Row], chunk_ids: Mapping[int, str]) -> EntityPlaces:
    """Return where an entity is mentioned, given its key, a chunk's key and a rank for each place, in order."""
    subjects = sum([rank < SUBJECT_RANKS for _, _, rank in rows])
    return EntityPlaces(id_, mention_count, tuple([chunk_ids[chunk] for _, chunk, _ in rows]), subjects)


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


def _entity_counts(connection: apsw.Connection, ids: Sequence[str]) -> list[Row]:
    """Return, per entity that is stored: id, key, names and types as JSON, number of mentions, version."""
    if not ids:
        return []
    query = """SELECT identity.id, key, names, types, mention_count, version FROM carray(?) AS wanted
               CROSS JOIN identity ON identity.id = wanted.value CROSS JOIN entity_evidence USING (key)"""
    return fetch(connection, query, (array(ids),))


def _mention_counts(connection: apsw.Connection, ids: Sequence[str]) -> list[Row]:
    """Return, per entity that is stored: id, key, number of mentions."""
    if not ids:
        return []
    query = """SELECT identity.id, key, mention_count FROM carray(?) AS wanted
               CROSS JOIN identity ON identity.id = wanted.value CROSS JOIN entity_evidence USING (key)"""
    return fetch(connection, query, (array(ids),))


def _relation_versions(connection: apsw.Connection, ids: Sequence[str]) -> list[Row]:
    if not ids:
        return []
    query = """SELECT identity.id, key, version FROM carray(?) AS wanted
               CROSS JOIN identity ON identity.id = wanted.value CROSS JOIN relation_evidence USING (key)"""
    return fetch(connection, query, (array(ids),))


def _shortened(evidence: E, leading: int) -> E:
    return evidence if len(evidence.leading) <= leading else replace(evidence, leading=evidence.leading[:leading])


def _read_entities(connection: apsw.Connection, stored: Sequence[Row], leading: int) -> dict[str, EntityEvidence]:
    """Return the evidence of entities, by id, given their rows of `_entity_counts`.

    All that have no more mentions than are wanted are read by one statement, and any other by one of its own, which
    stops where enough are read.
    """
    short = [row for row in stored if row[4] <= leading]
    mentions = _all_mentions(connection, short) if leading else {}
    for id_, key, *_ in (row for row in stored if row[4] > leading > 0):
        mentions[key] = list(starmap(EntityMention, fetch(connection, _LEADING_MENTIONS, (id_, key, leading))))
    return {
        id_: EntityEvidence(id_, json.loads(names), json.loads(types), count, tuple(mentions.get(key, ())), version)
        for id_, key, names, types, count, version in stored
    }


def _all_mentions(connection: apsw.Connection, stored: Sequence[Row]) -> dict[int, list[EntityMention]]:
    found: dict[int, list[EntityMention]] = {row[1]: [] for row in stored}
    if not stored:
        return found
    ids = {row[1]: row[0] for row in stored}
    # A key's mentions come in the order of the table's own key, which is the canonical one.
    query = f"""SELECT entity_key, {_MENTION}, name_hash IS NULL FROM carray(?) AS wanted
                CROSS JOIN entity_mention ON entity_key = wanted.value
                CROSS JOIN identity ON identity.key = chunk_key"""
    for key, chunk, name, kind, said, rank, counts_for_name in fetch(connection, query, (array(list(found)),)):
        found[key].append(EntityMention(chunk, name, kind, said, rank, "" if counts_for_name else ids[key]))
    return found


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
