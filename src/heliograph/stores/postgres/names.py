"""Names of entities on PostgreSQL: a B-tree of their keys for beginnings, a `tsvector` of pieces for the rest.

Candidates are found by these, and their names looked at, so that order and distance of the pieces need not be kept.
"""

from __future__ import annotations

from collections.abc import Iterator

from heliograph.stores.changeset import Changeset
from heliograph.stores.name_pieces import keys_of, pieces_within, terms_of
from heliograph.stores.names import NameIndex, rank_names
from heliograph.stores.postgres.codec import split_lines, to_json
from heliograph.stores.postgres.database import Database
from heliograph.stores.postgres.session import Statement
from heliograph.text.names import entity_key

_MOST_READ = 2_000
_LAST = "\U0010ffff"
_FIND = f"""
WITH begins AS (
  SELECT id FROM heliograph_entity_name WHERE workspace = %s AND name >= %s AND name < %s
  ORDER BY name LIMIT {_MOST_READ}
), contains AS (
  SELECT id FROM heliograph_entity_name WHERE workspace = %s AND pieces @@ %s::tsquery LIMIT {_MOST_READ}
)
SELECT entity.id, entity.name, entity.aliases, degree.degree
FROM (SELECT id FROM begins UNION SELECT id FROM contains) AS found
JOIN heliograph_entity AS entity ON entity.workspace = %s AND entity.id = found.id
JOIN heliograph_degree AS degree ON degree.workspace = %s AND degree.id = found.id"""
_REMOVE = (
    "DELETE FROM heliograph_entity_name WHERE workspace = %s AND id = ANY (ARRAY(SELECT json_array_elements_text(%s)))"
)
# Most entities keep their names, whatever else is said of them.
_PUT = """
WITH new AS MATERIALIZED (SELECT * FROM json_to_recordset(%s) AS new (id text, name text, pieces text)), gone AS (
  DELETE FROM heliograph_entity_name AS known USING (SELECT DISTINCT id FROM new) AS changed
  WHERE known.workspace = %s AND known.id = changed.id
    AND NOT EXISTS (SELECT 1 FROM new WHERE new.id = known.id AND new.name = known.name)
)
INSERT INTO heliograph_entity_name (workspace, id, name, pieces)
SELECT %s, id, name, array_to_tsvector(string_to_array(pieces, ' ')) FROM new WHERE name <> ''
ON CONFLICT DO NOTHING"""


class PostgresNameIndex(NameIndex):
    """One table of names."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_names(self, text: str, limit: int) -> list[str]:
        """See `NameIndex`; 2,000 names that begin with the text are ranked, and as many that contain it."""
        key = entity_key(text)
        if not key or limit < 1:
            return []
        pieces = " & ".join(f"'{piece}'" for piece in pieces_within(key)) or None
        workspace = self._database.workspace
        values = workspace, key, key + _LAST, workspace, pieces, workspace, workspace
        rows = await self._database.fetch(_FIND, values, is_planned_anew=True)
        found = ((id_, name, split_lines(aliases), degree) for id_, name, aliases, degree in rows)
        return rank_names(found, text, limit)


def name_statements(workspace: str, changeset: Changeset) -> Iterator[Statement]:
    """Yield what applies to names what a changeset does to entities."""
    if changeset.removed_entities:
        yield Statement(_REMOVE, (workspace, to_json(changeset.removed_entities)))
    if changeset.entities:
        named = ((item.id, keys_of((item.name, *item.aliases)) or {""}) for item in changeset.entities)
        rows = [{"id": id_, "name": key, "pieces": terms_of([key])} for id_, keys in named for key in keys]
        yield Statement(_PUT, (to_json(rows), workspace, workspace))
