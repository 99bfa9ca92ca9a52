"""What a database has to offer to keep a graph in it, and the few things that databases say differently."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = Mapping[str, Any]

_LABEL = """
UNWIND $rows AS row MATCH (e:Entity {{workspace: $workspace, id: row.id}}) SET e:{label}
"""
_RELATE = """
UNWIND $rows AS row
MERGE (a:Entity {{workspace: $workspace, id: row.source_id}})
MERGE (b:Entity {{workspace: $workspace, id: row.target_id}})
{verb} (k:RelationEnds {{workspace: $workspace, id: row.id}})
SET k.source_id = row.source_id, k.target_id = row.target_id, k.type = row.type
WITH a, b, row {verb} (a)-[r:{type} {{id: row.id}}]->(b) SET r += row.properties
"""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement and the values of its parameters."""

    text: str
    parameters: Row = field(default_factory=dict[str, Any])


def quote(name: str) -> str:
    """Return a name, made by `heliograph.stores.cypher.graph`, as it stands in a statement."""
    return f"`{name}`"


class Dialect(ABC):
    """What databases say differently.

    Attributes:
        degree: Expression: how many relationships the node `e` has; must not read them one by one.
        constraints: Statements that make constraints and indexes where they are missing.
        most_types: Relationship types that a database bears.
    """

    degree: str
    constraints: tuple[str, ...]
    most_types: int

    @abstractmethod
    def label_entities(self, rows: Sequence[Row]) -> list[Statement]:
        """Give each entity (`id`) its label (`label`)."""

    @abstractmethod
    def relate(self, rows: Sequence[Row]) -> list[Statement]:
        """Make relationships that are not there: `id`, `source_id`, `target_id`, `type`, `properties`; ends too."""


class DynamicDialect(Dialect):
    """Labels and types may be values; a transaction that was done is never done again, as ids are unique."""

    def label_entities(self, rows: Sequence[Row]) -> list[Statement]:
        return [Statement(_LABEL.format(label="$(row.label)"), {"rows": rows})] if rows else []

    def relate(self, rows: Sequence[Row]) -> list[Statement]:
        return [Statement(_RELATE.format(verb="CREATE", type="$(row.type)"), {"rows": rows})] if rows else []


class GroupedDialect(Dialect):
    """Labels and types stand in the text, so there is a statement for each; any may be done again."""

    def label_entities(self, rows: Sequence[Row]) -> list[Statement]:
        groups = _groups(rows, "label").items()
        return [Statement(_LABEL.format(label=quote(label)), {"rows": group}) for label, group in groups]

    def relate(self, rows: Sequence[Row]) -> list[Statement]:
        groups = _groups(rows, "type").items()
        return [Statement(_RELATE.format(verb="MERGE", type=quote(type_)), {"rows": group}) for type_, group in groups]


def _groups(rows: Sequence[Row], name: str) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row[name]].append(row)
    return groups


class CypherDatabase(ABC):
    """Runs statements, and raises `StoreError`s only.

    Attributes:
        engine: Its name, for messages.
        where: Host, port and such, for messages; no secrets.
        dialect: What it says in its own way.
    """

    engine: str
    where: str
    dialect: Dialect

    @abstractmethod
    async def read(self, statement: Statement, *, is_patient: bool = True) -> list[list[Any]]:
        """Return the rows that a statement finds.

        Args:
            statement: Changes nothing.
            is_patient: Whether to try for some seconds if the database is out of reach.

        Raises:
            StoreUnavailable: It is out of reach.
        """

    @abstractmethod
    async def write(self, statements: Sequence[Statement]) -> list[list[Any]]:
        """Run statements in one transaction, durably, and return the rows of the last.

        Raises:
            StoreUnavailable: It is out of reach; all or nothing was done.
        """

    @abstractmethod
    async def prepare(self) -> Mapping[str, str]:
        """Make constraints and indexes where they are missing; return what `doctor` should tell of the database.

        Raises:
            StoreUnavailable: It is out of reach.
        """

    @abstractmethod
    async def close(self) -> None:
        """Let go of connections; closing twice does nothing."""
