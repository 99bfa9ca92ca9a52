"""What may be wrong with the keys of a workspace beyond what a check of any store finds, and putting it right.

Compared are the neighbours, weights and degrees with the relations, the orders of documents with the documents, and the
index of names with the entities; `search_faults` has what is searched.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence

from heliograph.models import DocumentStatus
from heliograph.stores.inspection import ScanKind
from heliograph.stores.name_pieces import keys_of, terms_of
from heliograph.stores.redis.documents_write import SORTS, places_of_document, read_documents
from heliograph.stores.redis.search_faults import find_search_faults
from heliograph.stores.redis.session import Session

__all__ = ["WRONG_ENTITIES", "WRONG_RELATIONS", "find_faults", "read_names"]

_MAX_TRIES = 5
# ARGV: prefix, relation ids. Those of them that are not between neighbours as they say.
WRONG_RELATIONS = """
local p, wrong = ARGV[1], {}
for i = 2, #ARGV do
  local r = redis.call('HMGET', p .. 'relation:' .. ARGV[i], 'source', 'target', 'weight', 'relation')
  if not r[1] or redis.call('HGET', p .. 'weights:' .. r[1], r[2]) ~= r[3]
      or redis.call('HGET', p .. 'weights:' .. r[2], r[1]) ~= r[3]
      or redis.call('SISMEMBER', p .. 'neighbors:' .. r[1], r[2]) == 0
      or redis.call('SISMEMBER', p .. 'neighbors:' .. r[2], r[1]) == 0
      or redis.call('SISMEMBER', p .. 'entity_neighbors:' .. r[1], r[2]) == 0
      or redis.call('SISMEMBER', p .. 'entity_neighbors:' .. r[2], r[1]) == 0
      or redis.call('SISMEMBER', p .. 'relations:' .. r[1] .. ':' .. r[4], r[2]) == 0 then
    wrong[#wrong + 1] = ARGV[i]
  end
end
return wrong
"""
# ARGV: prefix, entity ids. Those of them that do not stand in the order of entities by their degree, or whose degree is
# not the number of their neighbours.
WRONG_ENTITIES = """
local p, wrong = ARGV[1], {}
for i = 2, #ARGV do
  local id = ARGV[i]
  local name = redis.call('HGET', p .. 'entity:' .. id, 'name')
  local degree = redis.call('SCARD', p .. 'neighbors:' .. id)
  local place = name and redis.call('ZSCORE', p .. 'entities', name .. '\\0' .. id)
  if not place or tonumber(place) ~= -degree or redis.call('HLEN', p .. 'weights:' .. id) ~= degree
      or redis.call('SCARD', p .. 'entity_neighbors:' .. id) ~= degree
      or tonumber(redis.call('HGET', p .. 'degrees', id) or '0') ~= degree then wrong[#wrong + 1] = id end
end
return wrong
"""


async def find_faults(session: Session) -> list[str]:
    """Return what is wrong, one sentence each; looked at again if a commit came in between."""
    faults: list[str] = []
    for _ in range(_MAX_TRIES):
        version = await session.read_one("GET", session.keys.version)
        faults = [*await _graph_faults(session), *await _document_faults(session), *await _name_faults(session)]
        faults += await find_search_faults(session)
        if not faults or await session.read_one("GET", session.keys.version) == version:
            break
    return faults


async def _graph_faults(session: Session) -> list[str]:
    keys = session.keys
    relations = await _count(session, ScanKind.RELATIONS, WRONG_RELATIONS)
    entities = await _count(session, ScanKind.ENTITIES, WRONG_ENTITIES)
    degrees, listed, ordered, known = await session.read_at_once(
        [
            ("HVALS", keys.degrees),
            ("ZCARD", keys.ids(ScanKind.RELATIONS)),
            ("ZCARD", keys.entities),
            ("ZCARD", keys.ids(ScanKind.ENTITIES)),
        ]
    )
    faults = {
        f"{relations} relations are not what their ends say of neighbours": relations,
        f"{entities} entities do not stand in the order of their degrees": entities,
        f"degrees add up to {sum(map(int, degrees))}, not {2 * listed}": sum(map(int, degrees)) != 2 * listed,
        f"{ordered} entities stand in order, but there are {known}": ordered != known,
    }
    return [fault for fault, is_there in faults.items() if is_there]


async def _document_faults(session: Session) -> list[str]:
    keys, wrong, count = session.keys, 0, 0
    async for ids in session.scan_pages(ScanKind.DOCUMENTS):
        documents = await read_documents(session, ids)
        places = [place for item in documents.values() for place in places_of_document(keys, item)]
        scores = await session.read([("ZSCORE", *place) for place in places])
        wrong += len(ids) - len(documents) + sum(score is None for score in scores)
        count += len(ids)
    statuses = "", *(status.value for status in DocumentStatus)
    orders = [keys.documents(status, sort) for sort in SORTS for status in statuses]
    sizes = await session.read([("ZCARD", order) for order in orders])
    chunks, owned = await session.read_at_once([("ZCARD", keys.ids(ScanKind.CHUNKS)), ("HLEN", keys.owners)])
    faults = {
        f"{wrong} places of documents in their orders are missing": wrong,
        f"orders of documents hold {sum(sizes)} places, not {2 * len(SORTS) * count}": (
            sum(sizes) != 2 * len(SORTS) * count
        ),
        f"{owned} chunks have a document, but there are {chunks}": chunks != owned,
    }
    return [fault for fault, is_there in faults.items() if is_there]


async def _name_faults(session: Session) -> list[str]:
    keys, wrong, count = session.keys, 0, 0
    async for page in read_names(session):
        named = [(id_, keys_of(names)) for id_, names in page]
        places = [(keys.names, f"{key}\0{id_}") for id_, known in named for key in known]
        pieces = [(keys.piece(piece), id_) for id_, known in named for piece in terms_of(known).split()]
        found = await session.read(
            [*(("ZSCORE", *place) for place in places), *(("SISMEMBER", *piece) for piece in pieces)]
        )
        wrong += sum(answer is None or (answer == 0 and at >= len(places)) for at, answer in enumerate(found))
        count += len(places)
    held = await session.read_one("ZCARD", keys.names)
    faults = {
        f"{wrong} names or pieces of names are not in the index": wrong,
        f"the index holds {held} names, but entities have {count}": held != count,
    }
    return [fault for fault, is_there in faults.items() if is_there]


async def read_names(session: Session) -> AsyncGenerator[list[tuple[str, Sequence[str]]]]:
    """Yield, by pages, the ids of all entities with their names and aliases."""
    async for ids in session.scan_pages(ScanKind.ENTITIES):
        rows = await session.read([("HMGET", session.keys.entity(id_), "name", "aliases") for id_ in ids])
        yield [(id_, (row[0], *json.loads(row[1]))) for id_, row in zip(ids, rows, strict=True) if row[0] is not None]


async def _count(session: Session, kind: ScanKind, script: str) -> int:
    wrong = 0
    async for ids in session.scan_pages(kind):
        wrong += len(await session.read_one("EVAL", script, 0, session.keys.prefix, *ids))
    return wrong
