"""What is known of entities and relations is declared once: every store is held against the declaration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from typing import Any

import apsw
import pytest

from heliograph.models import Entity, EntityEvidence, EntityMention, Relation, RelationEvidence, RelationMention
from heliograph.stores import cypher, redis
from heliograph.stores.postgres.schema import MIGRATIONS
from heliograph.stores.sql import (
    ENTITIES,
    ENTITY_EVIDENCE,
    ENTITY_MENTIONS,
    NAME_RULES,
    RELATION_EVIDENCE,
    RELATION_MENTIONS,
    RELATIONS,
    Columns,
)
from heliograph.stores.sqlite.database import insert
from heliograph.stores.sqlite.schema import migrate

ENTITY = Entity(
    "ent-1", "MQTT", "protocol", "Says\nthings", ("Mosquitto", "mq"), ("chunk-1", "chunk-2"), 7, 3, 1_700_000_000
)
RELATION = Relation(
    *(
        "rel-1",
        "ESP32",
        "MQTT",
        "ent-1",
        "ent-2",
        ("speaks", "over TLS"),
        "It speaks it",
        2.0,
        ("chunk-1",),
        9,
        1_700_000_000,
    )
)
MENTION = RelationMention("chunk-1", "ESP32", "MQTT", ("speaks",), "It speaks it", 1.5, 12, "ent-1", "ent-2")
# Per table, on SQLite and on PostgreSQL, the fields that are kept there by another name: as keys of ids, or counted.
TABLES: list[tuple[Columns[Any], str, set[str]]] = [
    (ENTITIES, "entity", {"id", "degree"}),
    (RELATIONS, "relation", {"id", "source_id", "target_id"}),
    (ENTITY_MENTIONS, "entity_mention", {"chunk_id", "entity_id"}),
    (RELATION_MENTIONS, "relation_mention", {"chunk_id", "source_id", "target_id"}),
    (ENTITY_EVIDENCE, "entity_evidence", {"id"}),
    (RELATION_EVIDENCE, "relation_evidence", {"id", "source_id", "target_id"}),
    (NAME_RULES, "name_rules", set()),
]


@pytest.mark.parametrize(("columns", "table", "as_keys"), TABLES, ids=[table for _, table, _ in TABLES])
def test_every_field_has_a_column(columns: Columns[Any], table: str, as_keys: set[str]) -> None:
    with closing(apsw.Connection(":memory:")) as connection:
        migrate(connection, "test")
        stored = {name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")}
    assert columns.types.keys() - stored == as_keys, "stores/sqlite/schema.py lacks a migration"
    script = "".join(MIGRATIONS)
    (made,) = re.findall(rf"CREATE TABLE heliograph_{table} \((.*?)\n\)", script, re.DOTALL)
    later = re.findall(rf"ALTER TABLE heliograph_{table} ADD COLUMN (\w+)", script)
    stored = {*re.findall(r"(?:^|,)\s*(\w+) (?:text|integer|bigint|json|double)", made), *later}
    assert columns.types.keys() - stored <= {"degree"}, "stores/postgres/schema.py lacks a migration"


@pytest.mark.parametrize(
    ("columns", "item"),
    [
        (ENTITIES, ENTITY),
        (RELATIONS, RELATION),
        (ENTITY_MENTIONS, EntityMention("chunk-1", "MQTT", "protocol", "", 12, "ent-1")),
        (RELATION_MENTIONS, MENTION),
    ],
)
def test_record_is_read_back_from_its_columns(columns: Columns[Any], item: Any) -> None:
    assert columns.record(columns.values(item)) == item
    assert list(columns.row(item)) == [field.name for field in fields(item)]


@dataclass(frozen=True, slots=True)
class Grown:
    """A record with fields of every kind that came later."""

    id: str
    words: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    is_sure: bool = False
    place: int | None = None


@pytest.mark.parametrize("are_lines", [False, True])
def test_records_of_before_get_the_defaults_of_fields_that_come_later(are_lines: bool) -> None:
    columns = Columns(Grown, are_lines=are_lines)
    with closing(apsw.Connection(":memory:")) as connection:
        connection.execute("CREATE TABLE grown (id text); INSERT INTO grown VALUES ('one')")
        for name in columns.without("id"):
            connection.execute(columns.added("grown", name))
        assert columns.record(connection.execute("SELECT * FROM grown").fetchall()[0]) == Grown("one")
        later = Grown("two", ("a", "b"), {"a": 2}, is_sure=True, place=3)
        connection.execute(insert("grown", list(columns.types)), columns.values(later))
        found = connection.execute(f"SELECT {columns.select('grown')} FROM grown WHERE id = 'two'").fetchall()
        assert columns.record(found[0]) == later


def test_evidence_is_read_back_with_its_mentions() -> None:
    entity = EntityEvidence(
        "ent-1", {"MQTT": 2}, {"protocol": 2}, 2, (EntityMention("c", "MQTT", "protocol", "", 1),), 5
    )
    assert ENTITY_EVIDENCE.record(ENTITY_EVIDENCE.values(entity), leading=entity.leading) == entity
    relation = RelationEvidence("rel-1", "ent-1", "ent-2", {"speaks": 1}, 1_500_000, 1, (MENTION,), 5)
    assert RELATION_EVIDENCE.record(RELATION_EVIDENCE.values(relation), leading=relation.leading) == relation


@pytest.mark.parametrize("item", [replace(ENTITY, aliases=(), chunk_ids=()), ENTITY])
def test_entity_is_read_back_from_properties_and_hashes(item: Entity) -> None:
    node = cypher.entity_row(item)["properties"] | {"id": item.id, "degree": item.degree}
    names = [name.removeprefix("e.") for name in cypher.ENTITY.split(", ")]
    assert cypher.to_entity([node[name] for name in names]) == item
    hashed = redis.entity_hash(item, {"chunk-1": "doc-1"})
    assert redis.to_entity(item.id, [hashed[name] for name in redis.ENTITY_FIELDS], item.degree) == item


def test_relation_is_read_back_from_properties_and_hashes() -> None:
    edge = cypher.relation_row(RELATION, "SPEAKS")["properties"] | {"id": RELATION.id, "weight": 2}
    names = [name.removeprefix("r.") for name in cypher.RELATION.split(", ")]
    assert cypher.to_relation([edge[name] for name in names]) == RELATION
    hashed = redis.relation_hash(RELATION)
    assert redis.to_relation(RELATION.id, [hashed[name] for name in redis.RELATION_FIELDS]) == RELATION
