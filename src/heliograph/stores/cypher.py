"""The graph of one workspace in a database that speaks Cypher: the database's interface, labels, changes, reads."""

from __future__ import annotations

import re
import secrets
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import StoreUnavailable
from heliograph.models import FIELD_SEPARATOR, Entity, Relation
from heliograph.settings import StoreSettings
from heliograph.stores.changeset import OutboxKind
from heliograph.stores.graph import IncidentRelation
from heliograph.stores.projection import GraphProjection, ProjectionChange, first_keyword, is_alike

# Names of labels and relationship types, derived from entity types and keywords.
#
# A name holds letters, digits and underscores only, so that it can stand between backticks in a statement. Databases
# never drop a relationship type, and slow down or fail when there are too many; beyond a limit, new ones are
# `RELATED`.

RELATED = "RELATED"
_UNKNOWN = "UNKNOWN"
_OTHER = re.compile(r"\W+")
_MAX_LENGTH = 64


def label_name(entity_type: str) -> str:
    """Return the label of an entity type, such as `PERSON`; `UNKNOWN` if no character of it can be in a name."""
    return _plain(entity_type) or _UNKNOWN


def workspace_label(workspace: str) -> str:
    """Return the label of all nodes of a workspace; entity types have labels in capitals, so no two are equal."""
    return f"Workspace_{_OTHER.sub('_', workspace)}"


class TypeNames:
    """Names of relationship types, up to a limit per database, over all its workspaces."""

    def __init__(self, known: Iterable[str], most: int) -> None:
        self._known = set(known)
        self._most = most

    def name(self, keyword: str) -> str:
        """Return the type of relations with this first keyword."""
        name = _plain(keyword) or RELATED
        if name not in self._known:
            if len(self._known) >= self._most:
                return RELATED
            self._known.add(name)
        return name


def _plain(text: str) -> str:
    return _OTHER.sub("_", text).strip("_").upper()[:_MAX_LENGTH]


# Entities and relations as properties, and back.
#
# `displayName`, `description`, `entity_type`, `source_id`, `keywords` and `weight` are what programs that know
# LightRAG's graphs read: chunk ids joined by `<SEP>`, keywords by commas, an entity's type as its label has it. The
# other properties hold what these cannot reproduce exactly.

# The property of each field whose property has another name.
_OF_ENTITY = {"name": "displayName", "chunk_ids": "source_id"}
_OF_RELATION = {
    "source": "source_name",
    "target": "target_name",
    "source_id": "source_entity",
    "target_id": "target_entity",
    "keywords": "keyword_list",
    "chunk_ids": "source_id",
}
_ENTITY_FIELDS = {item.name: _OF_ENTITY.get(item.name, item.name) for item in fields(Entity)}
_RELATION_FIELDS = {item.name: _OF_RELATION.get(item.name, item.name) for item in fields(Relation)}
# The values that `to_entity` and `to_relation` take, of the node `e` and the relationship `r`.
ENTITY = ", ".join(f"e.{name}" for name in _ENTITY_FIELDS.values())
RELATION = ", ".join(f"r.{name}" for name in _RELATION_FIELDS.values())


def entity_row(entity: Entity) -> dict[str, Any]:
    """Return an entity as a row of parameters: `id`, `label`, `properties`."""
    properties = _properties(entity, _ENTITY_FIELDS) | {"entity_type": label_name(entity.type)}
    return {"id": entity.id, "label": properties["entity_type"], "properties": properties}


def relation_row(relation: Relation, type_: str) -> dict[str, Any]:
    """Return a relation as a row of parameters: `id`, `source_id`, `target_id`, `type`, `properties`."""
    named = {"keywords": ",".join(relation.keywords), "relation_type": first_keyword(relation)}
    ends = {"source_id": relation.source_id, "target_id": relation.target_id}
    return {"id": relation.id, **ends, "type": type_, "properties": _properties(relation, _RELATION_FIELDS) | named}


def _properties(item: Entity | Relation, names: Mapping[str, str]) -> dict[str, Any]:
    # The id is the key of the row, and the degree is counted by the database.
    values = {name: getattr(item, field) for field, name in names.items() if field not in ("id", "degree")}
    values["source_id"] = FIELD_SEPARATOR.join(item.chunk_ids)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def to_entity(values: Sequence[Any]) -> Entity:
    """Return the entity with these values of `ENTITY`."""
    return Entity(**_fields(values, _ENTITY_FIELDS))


def to_relation(values: Sequence[Any]) -> Relation:
    """Return the relation with these values of `RELATION`."""
    found = _fields(values, _RELATION_FIELDS)
    # Databases return 1.0 as 1.
    found["weight"] = float(found["weight"])
    return Relation(**found)


def _fields(values: Sequence[Any], names: Iterable[str]) -> dict[str, Any]:
    found: dict[str, Any] = dict(zip(names, values, strict=True))
    chunks = found["chunk_ids"]
    found["chunk_ids"] = chunks.split(FIELD_SEPARATOR) if chunks else ()
    return {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}


# Changes as statements of one transaction.
#
# A relation whose end is missing gets a placeholder node with an id only; readers skip such nodes, and a placeholder is
# deleted with its last relation. No index covers relationships of all types, so a node `RelationEnds` per relation
# records its ends and type.

# Both take `ids`, and return what is stored now.
_LABELS = """
UNWIND $ids AS id MATCH (e:Entity {workspace: $workspace, id: id}) WHERE e.entity_type IS NOT NULL
RETURN e.id, e.entity_type
"""
_ENDS = """
UNWIND $ids AS id MATCH (k:RelationEnds {workspace: $workspace, id: id}) RETURN k.id, k.source_id, k.target_id, k.type
"""
_UNLABEL = "UNWIND $ids AS id MATCH (e:Entity {{workspace: $workspace, id: id}}) REMOVE e:{label}"
_UNRELATE = """
UNWIND $rows AS row
MATCH (k:RelationEnds {workspace: $workspace, id: row.id})
WITH k, row MATCH (a:Entity {workspace: $workspace, id: row.source_id})
WITH k, row, a MATCH (b:Entity {workspace: $workspace, id: row.target_id})
WITH k, row, a, b MATCH (a)-[r]->(b) WHERE r.id = row.id
DELETE r, k
"""
_CHANGE = """
UNWIND $rows AS row
MATCH (a:Entity {workspace: $workspace, id: row.source_id})
WITH row, a MATCH (b:Entity {workspace: $workspace, id: row.target_id})
WITH row, a, b MATCH (a)-[r]->(b) WHERE r.id = row.id
SET r += row.properties
"""
_PUT = """
UNWIND $rows AS row
MERGE (e:Entity {{workspace: $workspace, id: row.id}})
SET e += row.properties SET e:{workspace_label} SET e.degree = coalesce(e.degree, 0)
"""
_EMPTY = """
UNWIND $ids AS id MATCH (e:Entity {workspace: $workspace, id: id})
SET e = {workspace: $workspace, id: id, degree: e.degree}
"""
_COUNT = "UNWIND $ids AS id MATCH (e:Entity {{workspace: $workspace, id: id}}) SET e.degree = {degree}"
_PRUNE = """
UNWIND $ids AS id MATCH (e:Entity {workspace: $workspace, id: id})
WHERE e.displayName IS NULL AND e.degree = 0 DELETE e
"""


_CLEAR_BATCH = 2000
_TYPES = "CALL db.relationshipTypes() YIELD relationshipType RETURN relationshipType"
# An index is used only where a condition is on all of its properties.
_NODES = ("Entity", "RelationEnds")
_SCANS = {
    OutboxKind.ENTITIES: """MATCH (e:Entity) WHERE e.workspace = $workspace AND e.id > $after
      AND e.displayName IS NOT NULL RETURN e.id ORDER BY e.workspace, e.id LIMIT $limit""",
    OutboxKind.RELATIONS: """MATCH (k:RelationEnds) WHERE k.workspace = $workspace AND k.id > $after
      RETURN k.id ORDER BY k.workspace, k.id LIMIT $limit""",
}
_FROM = "UNWIND $ids AS id MATCH (e:Entity {workspace: $workspace, id: id})"
# Results that may have many rows are collected into one row: drivers spend longer per row than on its contents.
_ENTITIES = f"{_FROM} WHERE e.displayName IS NOT NULL RETURN collect([{ENTITY}])"
_RELATIONS = f"""
UNWIND $ids AS id MATCH (k:RelationEnds {{workspace: $workspace, id: id}})
WITH k MATCH (a:Entity {{workspace: $workspace, id: k.source_id}})
WITH k, a MATCH (b:Entity {{workspace: $workspace, id: k.target_id}})
WITH k, a, b MATCH (a)-[r]->(b) WHERE r.id = k.id RETURN collect([{RELATION}])
"""
_INCIDENT = f"""
{_FROM} WITH e MATCH (e)-[r]-(o) WITH DISTINCT r.id AS id, e.degree + o.degree AS degree, r.weight AS weight
RETURN collect([id, degree, weight])
"""
_LIST = f"""
MATCH (e:Entity) WHERE e.workspace = $workspace AND e.degree >= 0 AND e.displayName IS NOT NULL
RETURN {ENTITY} ORDER BY e.workspace DESC, e.degree DESC, e.displayName, e.id SKIP $offset LIMIT $limit
"""
_AMONG = f"{_FROM} WITH e MATCH (e)-[r]->(o) WHERE o.id IN $ids RETURN collect([{RELATION}])"
_STEPS = f"{_FROM} WITH e MATCH (e)-[r]-(o) RETURN e.id, o.id, r.weight"
_LEVEL = f"""
{_FROM} WITH e MATCH (e)--(o) WITH DISTINCT o WHERE o.displayName IS NOT NULL AND NOT o.id IN $behind
RETURN o.id ORDER BY o.degree DESC, o.displayName, o.id LIMIT $limit
"""
_ORDER = f"""
{_FROM} WITH e WHERE e.displayName IS NOT NULL
RETURN e.id ORDER BY e.degree DESC, e.displayName, e.id LIMIT $limit
"""
# The layout's number: data of an earlier layout has no cursor here, and is rebuilt.
_LAYOUT = 2
_GET_CURSOR = f"""
MATCH (c:HeliographCursor {{workspace: $workspace}}) WHERE c.version IS NOT NULL AND c.layout = {_LAYOUT}
RETURN c.version
"""
# A restarted database may have lost its last changes: the cursor must not advance past those.
_MARK = "MERGE (c:HeliographCursor {workspace: $workspace}) SET c.applied = $mark"
_SET_CURSOR = f"""
MERGE (c:HeliographCursor {{workspace: $workspace}})
WITH c WHERE ($seen IS NULL OR coalesce(c.version, -1) IN [$seen, $version]) AND ($mark IS NULL OR c.applied = $mark)
SET c.version = $version, c.layout = {_LAYOUT} RETURN c.version
"""
# Compared with the state a change would leave; degrees are counted, so that an extra relationship shows.
_KEPT_ENTITIES = f"{_FROM} RETURN e.id, labels(e), properties(e), "
_KEPT_RELATIONS = """
UNWIND $ids AS id MATCH (k:RelationEnds {workspace: $workspace, id: id})
WITH k MATCH (a:Entity {workspace: $workspace, id: k.source_id})
WITH k, a MATCH (b:Entity {workspace: $workspace, id: k.target_id})
WITH k, a, b MATCH (a)-[r]->(b) WHERE r.id = k.id RETURN k.id, k.source_id, k.target_id, k.type, type(r), properties(r)
"""
# Nodes without an id are in no index.
_NAMELESS = "MATCH (e:Entity) WHERE e.workspace = $workspace AND e.id IS NULL"
_DROP_CURSOR = "MATCH (c:HeliographCursor {workspace: $workspace}) DELETE c"


class CypherGraphProjection(GraphProjection):
    """Nodes and relationships that other programs can read."""

    def __init__(self, database: CypherDatabase, workspace: str) -> None:
        self.name = f"graph:{database.product.lower()}:{database.where}"
        self._database = database
        self._workspace = workspace
        self._label = workspace_label(workspace)
        self._types = TypeNames((), 0)
        self._facts: Mapping[str, str] = {}
        self._seen: int | None = None
        self._mark: str | None = None

    @classmethod
    async def open(
        cls,
        settings: StoreSettings,
        url: str,
        embedding: EmbeddingInfo,  # noqa: ARG003 (as all projections open)
    ) -> Self:
        """Read the address, or raise `SettingsError`; `prepare` is the first to call the database."""
        return cls(cls.connect(url, settings.workspace), settings.workspace)

    @staticmethod
    @abstractmethod
    def connect(url: str, workspace: str) -> CypherDatabase:
        """Return the database at an address, or raise `SettingsError`; nothing is called yet."""

    async def prepare(self) -> None:
        """Creates constraints and indexes, and reads the existing types."""
        self._facts = await self._database.prepare()
        rows = await self._database.read(Statement(_TYPES))
        self._types = TypeNames((str(name) for (name,) in rows), self._database.dialect.most_types)

    async def get_entities(self, ids: Sequence[str]) -> list[Entity]:
        found = {row[0]: to_entity(row) for row in await self._read_list(_ENTITIES, ids)}
        return [found[id_] for id_ in ids if id_ in found]

    async def get_relations(self, ids: Sequence[str]) -> list[Relation]:
        found = {row[0]: to_relation(row) for row in await self._read_list(_RELATIONS, ids)}
        return [found[id_] for id_ in ids if id_ in found]

    async def rank_incident_relations(self, entity_ids: Sequence[str]) -> list[IncidentRelation]:
        rows = await self._read_list(_INCIDENT, entity_ids)
        ranked = [IncidentRelation(id_, degree, float(weight)) for id_, degree, weight in rows]
        return sorted(ranked, key=lambda item: (-item.degree, -item.weight, item.id))

    async def list_entities(self, offset: int, limit: int) -> list[Entity]:
        rows = await self._read(_LIST, offset=offset, limit=limit) if limit > 0 else []
        return [to_entity(row) for row in rows]

    async def find_relations_among(self, entity_ids: Sequence[str]) -> list[Relation]:
        found = map(to_relation, await self._read_list(_AMONG, entity_ids))
        return sorted(found, key=lambda relation: (-relation.weight, relation.id))

    async def find_steps(self, nodes: Collection[str], limit: int | None) -> list[tuple[str, str, float]]:
        if limit is None:
            rows = await self._read(_STEPS, ids=_distinct(nodes))
        else:
            rows = await self._read(f"{_STEPS} LIMIT $limit", ids=_distinct(nodes), limit=limit)
        return [(near, far, float(weight)) for near, far, weight in rows]

    async def order_nodes(self, nodes: Collection[str], limit: int) -> list[str]:
        return [id_ for (id_,) in await self._read(_ORDER, ids=_distinct(nodes), limit=limit)]

    async def find_next_level(self, frontier: Sequence[str], behind: Collection[str], limit: int) -> list[str]:
        """The database orders and cuts a level, so that little is sent for a hub."""
        return [id_ for (id_,) in await self._read(_LEVEL, ids=list(frontier), behind=list(behind), limit=limit)]

    async def get_cursor(self) -> int:
        rows = await self._read(_GET_CURSOR, is_patient=False)
        self._seen, self._mark = int(rows[0][0]) if rows else -1, None
        return self._seen

    async def set_cursor(self, version: int) -> None:
        values = {"version": version, "seen": self._seen, "mark": self._mark}
        if not await self._write([Statement(_SET_CURSOR, values)]):
            raise StoreUnavailable(
                f"{self.name!r} was started again and has lost what it was given last; it is filled again"
            )
        self._seen, self._mark = version, None

    async def apply(self, change: ProjectionChange) -> None:
        """Apply a change in one transaction."""
        gone = list(change.removed.get(OutboxKind.ENTITIES, ()))
        entity_ids = [*gone, *(item.id for item in change.entities)]
        relation_ids = [*change.removed.get(OutboxKind.RELATIONS, ()), *(item.id for item in change.relations)]
        labels = await self._read(_LABELS, is_patient=False, ids=entity_ids) if entity_ids else []
        ends = await self._read(_ENDS, is_patient=False, ids=relation_ids) if relation_ids else []
        if statements := self._statements(change, gone, dict(labels), {id_: tuple(row) for id_, *row in ends}):
            self._mark = secrets.token_hex(8)
            await self._write([*statements, Statement(_MARK, {"mark": self._mark})])

    def _statements(
        self, change: ProjectionChange, gone: Sequence[str], labels: Mapping[str, str], ends: Mapping[str, Ends]
    ) -> list[Statement]:
        """Return the statements that apply a change, given the stored labels and ends of the items it names."""
        dialect = self._database.dialect
        entities = [entity_row(item) for item in change.entities]
        relations = [relation_row(item, self._types.name(first_keyword(item))) for item in change.relations]
        wanted: dict[str, Ends] = {row["id"]: (row["source_id"], row["target_id"], row["type"]) for row in relations}
        stale = {id_: stored for id_, stored in ends.items() if wanted.get(id_) != stored}
        loose = {*gone, *(end for stored in stale.values() for end in stored[:2])}
        touched = loose | {end for placed in wanted.values() for end in placed[:2]}
        new_labels = {row["id"]: row["label"] for row in entities}
        unlabelled: dict[str, list[str]] = defaultdict(list)
        for id_, label in labels.items():
            # Labels that other programs wrote in place of a type are not ours.
            if label == label_name(label) and new_labels.get(id_) != label:
                unlabelled[label].append(id_)
        unrelated = [
            {"id": id_, "source_id": source, "target_id": target} for id_, (source, target, _) in stale.items()
        ]
        put = _PUT.format(workspace_label=quote(self._label))
        return [
            *(
                Statement(_UNLABEL.format(label=quote(label)), {"ids": ids})
                for label, ids in sorted(unlabelled.items())
            ),
            *_over("rows", unrelated, _UNRELATE),
            *_over("rows", entities, put),
            *dialect.label_entities(entities),
            *dialect.relate([row for row in relations if ends.get(row["id"]) != wanted[row["id"]]]),
            *_over("rows", [row for row in relations if ends.get(row["id"]) == wanted[row["id"]]], _CHANGE),
            *_over("ids", gone, _EMPTY),
            *_over("ids", sorted(touched), _COUNT.format(degree=dialect.degree)),
            *_over("ids", sorted(loose), _PRUNE),
        ]

    async def clear(self) -> None:
        """Clears in batches, the cursor first, so that an interrupted removal is started over."""
        await self.prepare()
        await self._write([Statement(_DROP_CURSOR)])
        self._seen, self._mark = -1, None
        known = (f"MATCH (e:{name}) WHERE e.workspace = $workspace AND e.id > ''" for name in _NODES)
        for nodes in (*known, _NAMELESS):
            text = f"{nodes} WITH e LIMIT {_CLEAR_BATCH} DETACH DELETE e RETURN count(*)"
            while int((await self._write([Statement(text)]))[0][0]):
                pass

    async def compare(self, expected: ProjectionChange) -> set[str]:
        """Ignores properties and labels that other programs added."""
        entities = {item.id: item for item in expected.entities}
        relations = {item.id: item for item in expected.relations}
        kept = _KEPT_ENTITIES + self._database.dialect.degree
        nodes = await self._read(kept, ids=list(entities)) if entities else []
        joined = await self._read(_KEPT_RELATIONS, ids=list(relations)) if relations else []
        alike = set[str]()
        for id_, labels, properties, degree in nodes:
            entity = entities[id_]
            row = entity_row(entity)
            wanted = row["properties"] | {"id": id_, "workspace": self._workspace, "degree": entity.degree}
            is_labelled = {"Entity", self._label, row["label"]} <= set(labels)
            if is_labelled and degree == entity.degree and _holds(properties, wanted):
                alike.add(id_)
        right = Counter[str]()
        for id_, source, target, noted_type, type_, properties in joined:
            relation = relations[id_]
            is_named = noted_type == type_ and type_ in (self._types.name(first_keyword(relation)), RELATED)
            is_placed = (source, target) == (relation.source_id, relation.target_id)
            wanted = relation_row(relation, type_)["properties"] | {"id": id_}
            right[id_] += is_named and is_placed and _holds(properties, wanted)
        # A duplicate is an error even if both copies are alike.
        once = Counter(id_ for id_, *_ in joined)
        alike |= {id_ for id_ in right if right[id_] == once[id_] == 1}
        return (entities.keys() | relations.keys()) - alike

    async def find_faults(self) -> list[str]:
        ((count,),) = await self._read(f"{_NAMELESS} RETURN count(e)")
        return [f"{count:,} nodes labelled Entity have no id"] if count else []

    async def scan(self, kind: OutboxKind, after: str, limit: int) -> list[str]:
        return [id_ for (id_,) in await self._read(_SCANS[kind], after=after, limit=limit)] if kind in _SCANS else []

    async def close(self) -> None:
        await self._database.close()

    def describe(self) -> Mapping[str, str]:
        return {"back end": self._database.product.lower(), "address": self._database.where, **self._facts}

    async def _read(self, text: str, *, is_patient: bool = True, **parameters: Any) -> list[list[Any]]:
        """Run a reading statement; impatient ones are not retried, as the next commit repeats a failed change."""
        statement = Statement(text, {"workspace": self._workspace, **parameters})
        return await self._database.read(statement, is_patient=is_patient)

    async def _read_list(self, text: str, ids: Sequence[str]) -> list[list[Any]]:
        """Return the rows that a statement collects for these ids."""
        return (await self._read(text, ids=_distinct(ids)))[0][0] if ids else []

    async def _write(self, statements: Sequence[Statement]) -> list[list[Any]]:
        mine = {"workspace": self._workspace}
        return await self._database.write([Statement(item.text, {**mine, **item.parameters}) for item in statements])


def _over(name: str, values: Sequence[Any], text: str) -> list[Statement]:
    return [Statement(text, {name: values})] if values else []


def _holds(properties: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return is_alike(wanted, {name: properties.get(name) for name in wanted})


def _distinct(ids: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(ids))


Row = Mapping[str, Any]
# The ends and type of a stored relation: the ids of its two entities, and its type.
Ends = tuple[str, ...]

_LABEL = """
UNWIND $rows AS row MATCH (e:Entity {{workspace: $workspace, id: row.id}}) SET e:{name}
"""
_RELATE = """
UNWIND $rows AS row
MERGE (a:Entity {{workspace: $workspace, id: row.source_id}})
MERGE (b:Entity {{workspace: $workspace, id: row.target_id}})
{verb} (k:RelationEnds {{workspace: $workspace, id: row.id}})
SET k.source_id = row.source_id, k.target_id = row.target_id, k.type = row.type
WITH a, b, row {verb} (a)-[r:{name} {{id: row.id}}]->(b) SET r += row.properties
"""


# The interface of a database that keeps a graph, and its dialect.


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement and the values of its parameters."""

    text: str
    parameters: Row = field(default_factory=dict[str, Any])


def quote(name: str) -> str:
    """Return a name, made by `heliograph.stores.cypher`, as it stands in a statement."""
    return f"`{name}`"


@dataclass(frozen=True, slots=True)
class Dialect:
    """What differs between databases.

    Attributes:
        degree: Expression: how many relationships the node `e` has; must not read them one by one.
        constraints: Statements that create constraints and indexes where they are missing.
        has_dynamic_names: Whether labels and types may be parameters, and a transaction that was committed is never
            repeated, as ids are unique. Otherwise they stand in the text, so there is a statement for each, and any may
            be repeated.
    """

    degree: str
    constraints: tuple[str, ...]
    most_types: int
    has_dynamic_names: bool

    def label_entities(self, rows: Sequence[Row]) -> list[Statement]:
        """Give each entity (`id`) its label (`label`)."""
        return self._over_names(_LABEL, "label", rows)

    def relate(self, rows: Sequence[Row]) -> list[Statement]:
        """Create missing relationships, and missing ends: `id`, `source_id`, `target_id`, `type`, `properties`."""
        return self._over_names(_RELATE, "type", rows)

    def _over_names(self, text: str, column: str, rows: Sequence[Row]) -> list[Statement]:
        if self.has_dynamic_names:
            return _over("rows", rows, text.format(name=f"$(row.{column})", verb="CREATE"))
        groups: dict[str, list[Row]] = defaultdict(list)
        for row in rows:
            groups[row[column]].append(row)
        return [Statement(text.format(name=quote(of), verb="MERGE"), {"rows": group}) for of, group in groups.items()]


class CypherDatabase(ABC):
    """Runs statements, and raises `StoreError`s only."""

    product: str
    where: str
    dialect: Dialect

    @abstractmethod
    async def read(self, statement: Statement, *, is_patient: bool = True) -> list[list[Any]]:
        """Return the rows of a reading statement; a patient one is retried for some seconds.

        Raises:
            StoreUnavailable: The database is out of reach.
        """

    @abstractmethod
    async def write(self, statements: Sequence[Statement]) -> list[list[Any]]:
        """Run statements in one transaction, durably, and return the rows of the last.

        Raises:
            StoreUnavailable: The database is out of reach; the transaction was committed whole or not at all.
        """

    @abstractmethod
    async def prepare(self) -> Mapping[str, str]:
        """Create missing constraints and indexes; return the facts about the database that `doctor` shows.

        Raises:
            StoreUnavailable: The database is out of reach.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close all connections; closing twice does nothing."""
