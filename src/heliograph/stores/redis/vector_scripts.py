r"""What the server does for vectors in one step: tell what changed, hand over exact ones, page by page or by id.

Vectors come back as one string, one after the other, and ids joined by NUL: many small answers would keep the event
loop busy. All answers begin with data version, name and dimension of the embedding.
"""

from __future__ import annotations

from heliograph.stores.redis.changes import CHANGED_IDS

__all__ = ["CHANGED", "EXACT", "PAGE"]

# ARGV: prefix, collection.
_HEAD = """
local p, c = ARGV[1], ARGV[2]
local version = tonumber(redis.call('GET', p .. 'version') or '0')
local embedding = redis.call('HMGET', p .. 'home', 'embedding_name', 'embedding_dimension')
local head = {version, embedding[1] or '', embedding[2] or '0'}
local vectors = p .. 'vectors:' .. c
local function found(ids)
  local there, rows = {}, {}
  for _, id in ipairs(ids) do
    local row = redis.call('HGET', vectors, id)
    if row then
      there[#there + 1] = id
      rows[#rows + 1] = row
    end
  end
  return table.concat(there, '\\0'), table.concat(rows)
end
"""
# Further ARGV: data version known (or -1) and the token of its commit, how many changes are too many, ids. Answers
# head, token of the last commit, 1 if too many changed, ids that changed, and, of these or, if there are none, of the
# ids given, those that have a vector, and these.
CHANGED = f"""{_HEAD}{CHANGED_IDS}
local known, token, latest = tonumber(ARGV[3]), ARGV[4], redis.call('LINDEX', p .. 'commits', 0) or ''
local ids, given = {{}}, {{}}
for i = 6, #ARGV do given[#given + 1] = ARGV[i] end
if version ~= known or latest ~= token then
  ids = changed_ids(p, vectors .. ':changed', version, known, token, tonumber(ARGV[5]))
  if not ids then return {{head, latest, 1, '', '', ''}} end
end
local there, rows = found(#ids > 0 and ids or given)
return {{head, latest, 0, table.concat(ids, '\\0'), there, rows}}
"""
# Further ARGV: ids. Answers head, those of them that have a vector, and these.
EXACT = f"""{_HEAD}
local ids = {{}}
for i = 3, #ARGV do ids[#ids + 1] = ARGV[i] end
local there, rows = found(ids)
return {{head, there, rows}}
"""
# Further ARGV: key of all ids, id to begin after, how many. Answers head, the last id looked at, those that have a
# vector, and these.
PAGE = f"""{_HEAD}
local least = ARGV[4] == '' and '-' or '(' .. ARGV[4]
local ids = redis.call('ZRANGEBYLEX', ARGV[3], least, '+', 'LIMIT', 0, ARGV[5])
local there, rows = found(ids)
return {{head, ids[#ids] or '', there, rows}}
"""
