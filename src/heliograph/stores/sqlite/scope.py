"""What a filter leaves of the embedded store, as sorted arrays of keys: computed once per filter and data version."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

import apsw
import numpy as np
from numpy.typing import NDArray

from heliograph.filters import (
    And,
    DocumentIds,
    Equals,
    Exists,
    Filter,
    In,
    Not,
    Or,
    Range,
    Scalar,
    SourcePrefix,
    Sources,
    filter_key,
    path_keys,
)
from heliograph.models import Entity, Relation
from heliograph.stores.base import Fold
from heliograph.stores.changeset import Collection
from heliograph.stores.key_sets import Keys, KeySet
from heliograph.stores.names import end_of_prefix
from heliograph.stores.sqlite.database import array, fetch_value
from heliograph.stores.sqlite.identity import find_ids

# A filter as a condition of SQL on the table `document`; the meaning is that of `heliograph.filters.conditions`.
#
# Metadata is read with `json_each` and never with a path of SQLite's own, whose syntax has no place for some keys.
# Types are compared too, since to SQLite `true` is 1. Every condition is 0 or 1 and never NULL, so that NOT can be
# trusted.

Condition = tuple[str, list[Any]]

_NOTHING: Condition = ("0", [])
_NUMBER = "IN ('integer', 'real')"
_COMPARISONS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
# Lists are stepped into; an object is treated as a list of itself.
_STEP = """CROSS JOIN json_each(CASE v{0}.type WHEN 'array' THEN v{0}.value WHEN 'object' THEN '[' || v{0}.value || ']'
                               ELSE '[]' END) AS e{0}
           CROSS JOIN json_each(CASE e{0}.type WHEN 'object' THEN e{0}.value ELSE '{{}}' END) AS v{1}"""


def compile_filter(filter_: Filter) -> Condition:
    """Return a condition on the table `document`, and its arguments in order; each may be used once."""
    match filter_:
        case And(parts):
            return _join("AND", "1", parts)
        case Or(parts):
            return _join("OR", "0", parts)
        case Not(part):
            condition, values = compile_filter(part)
            return f"NOT {condition}", values
        case DocumentIds(ids):
            found = "SELECT identity.key FROM carray(?) AS wanted CROSS JOIN identity ON identity.id = wanted.value"
            return (f"(document.key IN ({found}))", [array(ids)]) if ids else _NOTHING
        case Sources(sources):
            listed = "(document.source IN (SELECT value FROM carray(?)))"
            return (listed, [array(sources)]) if sources else _NOTHING
        case SourcePrefix(prefix):
            return _prefix(prefix)
        case Exists(path):
            return _at(path, ("1", []))
        case _:
            return _value(filter_)


def _join(operator: str, neutral: str, parts: tuple[Filter, ...]) -> Condition:
    compiled = [compile_filter(part) for part in parts]
    conditions = f" {operator} ".join(condition for condition, _ in compiled)
    return f"({conditions or neutral})", [value for _, values in compiled for value in values]


def _prefix(prefix: str) -> Condition:
    end = end_of_prefix(prefix)
    if not end:
        return "(document.source >= ?)", [prefix]
    return "(document.source >= ? AND document.source < ?)", [prefix, end]


def _value(condition: Equals | In | Range) -> Condition:
    """Return the condition that a value at a path, or an element of a list there, meets a condition."""
    leaf, values = _leaf(condition, "item")
    inside = f"EXISTS (SELECT 1 FROM json_each({{last}}.value) AS item WHERE {leaf})"
    last = f"v{len(path_keys(condition.path)) - 1}"
    itself, own = _leaf(condition, last)
    either = f"({itself} OR ({last}.type = 'array' AND {inside.format(last=last)}))"
    return _at(condition.path, (either, [*own, *values]))


def _at(path: str, leaf: Condition) -> Condition:
    """Return the condition that something stands at a path of which `leaf`, about the last of `v0`, `v1` ..., holds."""
    keys = path_keys(path)
    tables = ["json_each(document.metadata) AS v0"]
    tables += [_STEP.format(place, place + 1) for place in range(len(keys) - 1)]
    names = " AND ".join(f"v{place}.key = ?" for place in range(len(keys)))
    condition, values = leaf
    return f"EXISTS (SELECT 1 FROM {' '.join(tables)} WHERE {names} AND {condition})", [*keys, *values]


def _leaf(condition: Equals | In | Range, name: str) -> Condition:
    match condition:
        case Equals(_, value):
            return _one_of(name, (value,))
        case In(_, values):
            return _one_of(name, values)
        case Range():
            bounds = condition.bounds
            kind = "= 'text'" if all(isinstance(bound, str) for bound in bounds.values()) else _NUMBER
            tests = " AND ".join(f"{name}.value {_COMPARISONS[bound]} ?" for bound in bounds)
            return f"({name}.type {kind} AND {tests})", list(bounds.values())


def _one_of(name: str, values: tuple[Scalar, ...]) -> Condition:
    texts = [value for value in values if isinstance(value, str)]
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    kinds = ["null"] if None in values else []
    kinds += [str(value).lower() for value in (True, False) if any(item is value for item in values)]
    conditions: list[str] = []
    arguments: list[Any] = []
    if texts:
        conditions.append(f"({name}.type = 'text' AND {name}.value IN (SELECT value FROM carray(?)))")
        arguments.append(array(texts))
    if numbers:
        conditions.append(f"({name}.type {_NUMBER} AND {name}.value IN (SELECT value FROM json_each(?)))")
        arguments.append(json.dumps(numbers))
    conditions += [f"{name}.type = '{kind}'" for kind in kinds]
    return (f"({' OR '.join(conditions)})", arguments) if conditions else _NOTHING


# Each costs some 50 bytes per entity and relation that it leaves.
_MOST_SCOPES = 8
_MOST_FOLDS = 16_000
_MILLION = 1_000_000


@dataclass(slots=True, eq=False)
class Scope:
    """The part of one data version that a filter leaves.

    Attributes:
        version: The data version.
        documents: Documents that match.
        owners: Where the chunks of a matching document are stored under a twin that does not match: the twin's key to
            that of the document which has them here.
        chunks: Chunks of these documents.
        moments: Per chunk, Unix seconds when the first matching document that has it was first seen.
        entities: Entities that they mention, and that there are.
        degrees: Per entity, the relations here that touch it.
        relations: Relations that they mention, and that there are.
        ends: Per relation the places of its two entities, `(n, 2)`.
        weights: Per relation the sum of the weights of its mentions here.
        incident: Places of relations, grouped by the entity they touch.
        incident_from: Per entity where its group begins, and one more.
        folded: Folds made so far, by key.
    """

    version: int
    documents: KeySet
    owners: Mapping[int, int]
    chunks: KeySet
    moments: NDArray[np.int64]
    entities: KeySet
    degrees: NDArray[np.int64]
    relations: KeySet
    ends: NDArray[np.int64]
    weights: NDArray[np.float64]
    incident: NDArray[np.int64]
    incident_from: NDArray[np.int64]
    folded: dict[int, Entity | Relation] = field(default_factory=dict[int, Entity | Relation])

    def keys_of(self, collection: Collection) -> KeySet:
        """Return the keys of a collection."""
        sets = {Collection.CHUNKS: self.chunks, Collection.ENTITIES: self.entities}
        return sets.get(collection, self.relations)

    def touching(self, entities: Keys) -> NDArray[np.int64]:
        """Return the places of the relations that touch any of the entities at these places, once each, ascending."""
        groups = [
            self.incident[self.incident_from[place] : self.incident_from[place + 1]] for place in entities.tolist()
        ]
        return np.unique(np.concatenate(groups)) if groups else np.empty(0, np.int64)

    def remember(self, key: int, fold: Entity | Relation) -> None:
        """Keep a fold; when there are too many, all are forgotten."""
        if len(self.folded) >= _MOST_FOLDS:
            self.folded.clear()
        self.folded[key] = fold


class ScopeMemory:
    """Scopes by filter and fold, the least recently used forgotten first; may be used from any thread."""

    def __init__(self) -> None:
        self._scopes: OrderedDict[tuple[str, Fold], Scope] = OrderedDict()
        self._lock = threading.Lock()
        # Whoever makes a scope, or waits for it, keeps its lock alive.
        self._making: WeakValueDictionary[tuple[str, Fold], threading.Lock] = WeakValueDictionary()

    def get(self, connection: apsw.Connection, filter_: Filter, fold: Fold) -> Scope:
        """Return what a filter leaves as of the transaction that is open."""
        name = filter_key(filter_), fold
        version = int(fetch_value(connection, "SELECT value FROM meta WHERE name = 'data_version'"))
        with self._lock:
            making = self._making.setdefault(name, threading.Lock())
        # Two questions under one filter that come at once make its scope once.
        with making:
            found = self._recall(name, version)
            if found is None:
                found = _make_scope(connection, filter_, version)
                self._keep(name, found)
        return found

    def _recall(self, name: tuple[str, Fold], version: int) -> Scope | None:
        with self._lock:
            found = self._scopes.get(name)
            if found is None or found.version != version:
                return None
            self._scopes.move_to_end(name)
            return found

    def _keep(self, name: tuple[str, Fold], scope: Scope) -> None:
        with self._lock:
            known = self._scopes.get(name)
            if known is not None and known.version > scope.version:
                return  # This reader's transaction is older than another's.
            self._scopes[name] = scope
            self._scopes.move_to_end(name)
            while len(self._scopes) > _MOST_SCOPES:
                self._scopes.popitem(last=False)


def _make_scope(connection: apsw.Connection, filter_: Filter, version: int) -> Scope:
    documents, seen, holders = _documents(connection, filter_)
    chunks, moments = _chunks(connection, seen, holders)
    entities = KeySet(_existing(connection, "entity_degree", _mentioned_entities(connection, chunks)))
    relations, ends, weights = _relations(connection, chunks, entities)
    touched = ends.T.reshape(-1)
    order = np.argsort(touched, kind="stable")
    degrees = np.bincount(touched, minlength=len(entities)).astype(np.int64)
    return Scope(
        version=version,
        documents=documents,
        owners=_owners(connection, documents, holders),
        chunks=KeySet(chunks),
        moments=moments,
        entities=entities,
        degrees=degrees,
        relations=KeySet(relations),
        ends=ends,
        weights=weights,
        incident=order % max(len(relations), 1),
        incident_from=np.concatenate(([0], np.cumsum(degrees))),
    )


def _documents(connection: apsw.Connection, filter_: Filter) -> tuple[KeySet, NDArray[np.int64], Keys]:
    """Return the documents that match, when each was first seen, and which document holds its chunks (0: none may).

    A twin's chunks are held by its original. They were read and are indexed under the original's title, so a twin
    with another title does not vouch for them.
    """
    condition, values = compile_filter(filter_)
    query = f"""SELECT document.key, cast(document.created_at AS INTEGER),
                       CASE WHEN document.twin_key IS NULL THEN document.key
                            WHEN original.title = document.title AND document.status IN ('processed', 'partial')
                            THEN document.twin_key ELSE 0 END
                FROM document LEFT JOIN document AS original ON original.key = document.twin_key
                WHERE {condition} ORDER BY 1"""
    documents, seen, holders = _columns(connection, query, tuple(values), 3)
    return KeySet(documents), seen, holders


def _owners(connection: apsw.Connection, documents: KeySet, holders: Keys) -> dict[int, int]:
    """Return, per document that holds chunks and does not match, the first of its twins that do, by id."""
    missing = (holders != 0) & ~documents.holds(holders)
    pairs = list(zip(holders[missing].tolist(), documents.keys[missing].tolist(), strict=True))
    ids = find_ids(connection, [twin for _, twin in pairs])
    return dict(sorted(pairs, key=lambda pair: ids[pair[1]], reverse=True))


def _chunks(connection: apsw.Connection, seen: NDArray[np.int64], holders: Keys) -> tuple[Keys, NDArray[np.int64]]:
    """Return the chunks that these documents hold, and when the first document of each was first seen."""
    if not holders.any():
        return np.empty(0, np.int64), np.empty(0, np.int64)
    order = np.lexsort((seen, holders))
    distinct, first = np.unique(holders[order], return_index=True)
    holding = KeySet(distinct)
    query = """SELECT chunk.key, document_key FROM carray(?) AS wanted
               CROSS JOIN chunk INDEXED BY chunk_by_document ON document_key = wanted.value"""
    keys, owners = _columns(connection, query, (array(holding.keys),), 2)
    ascending = np.argsort(keys)
    return keys[ascending], seen[order][first][holding.places(owners[ascending])]


def _mentioned_entities(connection: apsw.Connection, chunks: Keys) -> Keys:
    if not len(chunks):
        return chunks
    query = """SELECT entity_key FROM carray(?) AS wanted
               CROSS JOIN entity_mention INDEXED BY entity_mention_by_chunk ON chunk_key = wanted.value"""
    (keys,) = _columns(connection, query, (array(chunks),), 1)
    return np.unique(keys)


def _relations(
    connection: apsw.Connection, chunks: Keys, entities: KeySet
) -> tuple[Keys, NDArray[np.int64], NDArray[np.float64]]:
    """Return the relations that the chunks mention, the places of their ends, and their weights."""
    nothing = np.empty(0, np.int64), np.empty((0, 2), np.int64), np.empty(0, np.float64)
    if not len(chunks) or not len(entities):
        return nothing
    query = """SELECT relation_key, weight FROM carray(?) AS wanted
               CROSS JOIN relation_mention INDEXED BY relation_mention_by_chunk ON chunk_key = wanted.value"""
    rows = connection.execute(query, (array(chunks),)).fetchall()
    if not rows:
        return nothing
    mentioned, places = np.unique(np.array([key for key, _ in rows], np.int64), return_inverse=True)
    # Whole millionths, as evidence counts them: sums are exact in any order.
    millionths = np.rint(np.array([weight for _, weight in rows], np.float64) * _MILLION)
    weights = np.bincount(places, millionths) / _MILLION
    query = """SELECT key, source_key, target_key FROM carray(?) AS wanted
               CROSS JOIN relation ON key = wanted.value"""
    keys, sources, targets = _columns(connection, query, (array(mentioned),), 3)
    whole = entities.holds(sources) & entities.holds(targets)
    keys, ends = keys[whole], np.stack((sources[whole], targets[whole]), axis=1)
    return keys, entities.places(ends), weights[np.searchsorted(mentioned, keys)]


def _existing(connection: apsw.Connection, table: str, keys: Keys) -> Keys:
    """Return those of the keys, ascending, that have a row in a table."""
    if not len(keys):
        return keys
    query = f"SELECT key FROM carray(?) AS wanted CROSS JOIN {table} ON key = wanted.value"
    return _columns(connection, query, (array(keys),), 1)[0]


def _columns(connection: apsw.Connection, query: str, values: tuple[object, ...], count: int) -> list[Keys]:
    """Return the columns of a result, whole numbers all of them."""
    rows = connection.execute(query, values).fetchall()
    table = np.array(rows, np.int64).reshape(len(rows), count)
    return [np.ascontiguousarray(table[:, column]) for column in range(count)]
