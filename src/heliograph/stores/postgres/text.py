"""Full text on PostgreSQL: a `tsvector` of our own terms finds rows, BM25 by exact counts ranks them.

Terms are taken as they are, no dictionary of the server sees them. In a large collection only rows that can be among
the best are ranked: those that hold one of the rarest terms or, where no term is rare, several of them.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Mapping, Sequence
from itertools import accumulate, combinations
from typing import Any, Protocol

from heliograph.stores.base import Hit, TextStore
from heliograph.stores.bm25 import K1, B, inverse_frequency
from heliograph.stores.changeset import Collection
from heliograph.stores.postgres.codec import to_json
from heliograph.stores.postgres.database import Database
from heliograph.stores.postgres.session import Row
from heliograph.stores.postgres.text_write import TERMS_TABLES, mark

__all__ = ["PostgresTextStore", "choose_candidates", "find_phrases", "search_terms"]

_MAX_TERMS = 256
# Rows that a question is ranked over, at some 5 microseconds each on the server, where it can be told beforehand.
_MOST_RANKED = 20_000
_MOST_READ = 100_000
# Rows read for a phrase that very many hold, where fewer are wanted.
_MOST_PHRASE_ROWS = 1_000
# Frequent terms whose combinations are candidates.
_MOST_COMBINED = 8
_COUNTS = """SELECT size.rows, size.terms, term.term, term.rows FROM heliograph_text_size AS size
  LEFT JOIN heliograph_term AS term ON term.workspace = size.workspace AND term.collection = size.collection
   AND term.rows > 0 AND term.term = ANY (ARRAY(SELECT json_array_elements_text(%s)))
  WHERE size.workspace = %s AND size.collection = %s"""
# How often a term occurs is what its removal takes from the length. The limit keeps a question of frequent words from
# ranking a whole collection.
_RANK = f"""
SELECT id, sum(weight * count * {K1 + 1} / (count + {K1} * ({1 - B} + {B} * length / %s::double precision)))
  AS score
FROM (
  -- The empty addition unpacks a row's terms once, not again for every term asked.
  SELECT id, terms || '' AS terms, length FROM {{table}} WHERE workspace = %s AND lexemes @@ %s::tsquery
  LIMIT {_MOST_READ}
) AS row
CROSS JOIN LATERAL (
  SELECT weight, (octet_length(terms) - octet_length(replace(terms, needle, '')))::double precision
                 / octet_length(needle) AS count
  FROM json_to_recordset(%s) AS asked (needle text, weight double precision)
) AS held WHERE count > 0 GROUP BY id ORDER BY score DESC, id LIMIT %s"""
_PHRASES = """
SELECT phrase.place, held.id FROM ROWS FROM (json_to_recordset(%s) AS (query text, needle text))
  WITH ORDINALITY AS phrase (query, needle, place)
CROSS JOIN LATERAL (
  SELECT id FROM (
    SELECT id FROM {table}
    WHERE workspace = %s AND lexemes @@ phrase.query::tsquery AND strpos(terms, phrase.needle) > 0 LIMIT %s
  ) AS met ORDER BY id LIMIT %s
) AS held ORDER BY phrase.place, held.id"""


class PostgresTextStore(TextStore):
    """Two tables of terms."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def search(self, collection: Collection, terms: Sequence[str], limit: int) -> list[Hit]:
        """See `TextStore`; a question is cut at 256 distinct terms."""
        return await search_terms(self._database.fetch, self._database.workspace, collection, terms, limit)

    async def find_phrases(
        self, collection: Collection, phrases: Sequence[Sequence[str]], limit: int
    ) -> list[list[str]]:
        """See `TextStore`; the first by id are returned, of the first thousand where very many hold a phrase.

        Terms of a phrase after the 256th are not looked for.
        """
        return await find_phrases(self._database.fetch, self._database.workspace, collection, phrases, limit)


class Fetch(Protocol):
    """Runs one statement; `Database.fetch` or `Session.fetch`."""

    def __call__(
        self, query: str, values: Sequence[Any] = (), *, is_planned_anew: bool = False
    ) -> Awaitable[list[Row]]:
        """Return its rows."""
        ...


async def search_terms(
    fetch: Fetch, workspace: str, collection: Collection, terms: Sequence[str], limit: int
) -> list[Hit]:
    """Return the best rows that hold any of the terms, as `TextStore.search` does."""
    wanted = list(dict.fromkeys(terms))[:_MAX_TERMS]
    if not wanted or limit < 1 or collection not in TERMS_TABLES:
        return []
    rows = await fetch(_COUNTS, (to_json(wanted), workspace, collection.value))
    frequencies = {term: count for *_, term, count in rows if term is not None}
    if not frequencies:
        return []
    total, length = rows[0][:2]
    asked = to_json(
        {"needle": mark([term]), "weight": inverse_frequency(count, total)} for term, count in frequencies.items()
    )
    ranking, hits = _RANK.format(table=TERMS_TABLES[collection]), list[Row]()
    for query in choose_candidates(frequencies, total):
        values = (max(length / total, 1e-9), workspace, query, asked, limit)
        hits = await fetch(ranking, values, is_planned_anew=True)
        if len(hits) >= limit:
            break
    return [Hit(id_, score) for id_, score in hits]


async def find_phrases(
    fetch: Fetch, workspace: str, collection: Collection, phrases: Sequence[Sequence[str]], limit: int
) -> list[list[str]]:
    """Return, per phrase, the first rows that hold it, as `TextStore.find_phrases` does; all phrases in one trip."""
    found: list[list[str]] = [[] for _ in phrases]
    places = [place for place, phrase in enumerate(phrases) if phrase]
    if not places or limit < 1 or collection not in TERMS_TABLES:
        return found
    cut = ([*phrases[place]][:_MAX_TERMS] for place in places)
    rows = to_json({"query": " & ".join(map(_quote, phrase)), "needle": mark(phrase)} for phrase in cut)
    query = _PHRASES.format(table=TERMS_TABLES[collection])
    values = rows, workspace, max(limit, _MOST_PHRASE_ROWS), limit
    for place, id_ in await fetch(query, values, is_planned_anew=True):
        found[places[place - 1]].append(id_)
    return found


def choose_candidates(frequencies: Mapping[str, int], total: int) -> list[str]:
    """Return queries whose rows are worth ranking, to be tried in order until there are enough.

    Where terms occur in few rows together, that is one query: any of them. Else it is first the rarest terms, as many
    as occur in few rows, or enough of the others at once; last, any of them.

    Args:
        frequencies: Rows per term, at least one of each.
        total: Rows in the collection.
    """
    order = sorted(frequencies, key=lambda term: frequencies[term])
    any_term = " | ".join(map(_quote, order))
    sums = accumulate(frequencies[term] for term in order)
    rare = [term for term, rows in zip(order, sums, strict=True) if rows <= _MOST_RANKED]
    if len(rare) == len(order):
        return [any_term]
    together = _combinations([term for term in order if term not in rare][:_MOST_COMBINED], frequencies, total)
    narrow = " | ".join([*map(_quote, rare), *together])
    return [narrow, any_term] if narrow else [any_term]


def _combinations(terms: Sequence[str], frequencies: Mapping[str, int], total: int) -> list[str]:
    """Return the queries for as few of the terms at once as few rows hold, if terms occur independently."""
    for size in range(2, len(terms) + 1):
        sets = list(combinations(terms, size))
        rows = sum(total * math.prod(frequencies[term] / total for term in chosen) for chosen in sets)
        if rows <= _MOST_RANKED or size == len(terms):
            return [f"({' & '.join(map(_quote, chosen))})" for chosen in sets]
    return []


def _quote(term: str) -> str:
    escaped = term.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"
