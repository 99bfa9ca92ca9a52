r"""What the server does for full text in one step.

Postings are one string per term, of records of twelve bytes: three little-endian numbers, which are the row's number,
how often the row holds the term, and how many terms it has. The first record is another: how many of the others are
void. Rows are numbered upwards, so records stand in that order and one is found by halves; of a row that goes, the
count is set to 0 where it stands. When half of the records are void, they are left out. That is less than
half of the memory that hashes take, and a question gets postings as one string that needs no parsing.
"""

from __future__ import annotations

__all__ = ["COUNT", "FIND", "HOLDING", "NUMBERS", "ROWS", "WRITE"]

# ARGV: prefix, collection.
_NAMES = """
local p, c = ARGV[1], ARGV[2]
local size = p .. 'terms:' .. c .. ':size'
local numbers, rows = p .. 'terms:' .. c .. ':numbers', p .. 'terms:' .. c .. ':rows'
local postings = p .. 'postings:' .. c .. ':'
"""
# Further ARGV: how many ids to remove, these, then id and terms, joined by spaces, of each row to write.
WRITE = f"""{_NAMES}
local function count(text)
  local counts, length = {{}}, 0
  for term in string.gmatch(text, '[^ ]+') do
    counts[term] = (counts[term] or 0) + 1
    length = length + 1
  end
  return counts, length
end
local function compact(key)
  local kept, last, all = {{string.rep('\\0', 12)}}, 1, redis.call('GETRANGE', key, 12, -1)
  for at = 1, #all, 12 do
    if string.sub(all, at + 4, at + 7) == '\\0\\0\\0\\0' then
      kept[#kept + 1] = string.sub(all, last, at - 1)
      last = at + 12
    end
  end
  kept[#kept + 1] = string.sub(all, last)
  redis.call('SET', key, table.concat(kept))
end
local function drop(term, number)
  local key = postings .. term
  local low, high = 1, redis.call('STRLEN', key) / 12 - 1
  local all = high
  while low < high do
    local middle = math.floor((low + high) / 2)
    if struct.unpack('<I4', redis.call('GETRANGE', key, middle * 12, middle * 12 + 3)) < number then
      low = middle + 1
    else
      high = middle
    end
  end
  local found = redis.call('GETRANGE', key, low * 12, low * 12 + 3)
  if all < 1 or struct.unpack('<I4', found) ~= number then return end
  local void = struct.unpack('<I4', redis.call('GETRANGE', key, 0, 3)) + 1
  if void >= all then
    redis.call('DEL', key)
    return
  end
  redis.call('SETRANGE', key, low * 12 + 4, '\\0\\0\\0\\0')
  redis.call('SETRANGE', key, 0, struct.pack('<I4', void))
  if void > 64 and void * 2 > all then compact(key) end
end
local function remove(id)
  local number = redis.call('HGET', numbers, id)
  if not number then return end
  local row = redis.call('HGET', rows, number) or ''
  local counts, length = count(string.sub(row, #id + 2))
  for term in pairs(counts) do drop(term, tonumber(number)) end
  redis.call('HDEL', numbers, id)
  redis.call('HDEL', rows, number)
  redis.call('HINCRBY', size, 'rows', -1)
  redis.call('HINCRBY', size, 'terms', 0 - length)
end
local function put(id, text)
  remove(id)
  local number = redis.call('HINCRBY', size, 'next', 1)
  local counts, length = count(text)
  for term, times in pairs(counts) do
    local key = postings .. term
    local record = struct.pack('<I4I4I4', number, times, length)
    if redis.call('EXISTS', key) == 0 then record = string.rep('\\0', 12) .. record end
    redis.call('APPEND', key, record)
  end
  redis.call('HSET', numbers, id, number)
  redis.call('HSET', rows, number, id .. '\\0' .. text)
  redis.call('HINCRBY', size, 'rows', 1)
  redis.call('HINCRBY', size, 'terms', length)
end
local gone = tonumber(ARGV[3])
for i = 4, 3 + gone do remove(ARGV[i]) end
for i = 4 + gone, #ARGV, 2 do put(ARGV[i], ARGV[i + 1]) end
"""
_COUNTED = """
local function counted(term)
  local key = postings .. term
  local records = redis.call('STRLEN', key) / 12 - 1
  if records < 1 then return 0, 0 end
  return records - struct.unpack('<I4', redis.call('GETRANGE', key, 0, 3)), records
end
"""
# Further ARGV: terms. Answers in how many rows each is.
COUNT = f"""{_NAMES}{_COUNTED}
local found = {{}}
for i = 3, #ARGV do found[#found + 1] = (counted(ARGV[i])) end
return found
"""
# Further ARGV: how many records may be read, how many rows are wanted, terms. Answers rows and terms there are; per
# term in how many rows it is, how many records it has, and these, empty where they would be too many. If what is left
# are fewer rows than wanted, the first records of the next term come too.
FIND = f"""{_NAMES}{_COUNTED}
local left, wanted = tonumber(ARGV[3]), tonumber(ARGV[4])
local lives, sizes, order, found = {{}}, {{}}, {{}}, {{}}
for i = 5, #ARGV do
  local place = i - 4
  lives[place], sizes[place] = counted(ARGV[i])
  found[place] = ''
  if lives[place] > 0 then order[#order + 1] = place end
end
table.sort(order, function(a, b) return sizes[a] < sizes[b] or (sizes[a] == sizes[b] and a < b) end)
local held = 0
for _, place in ipairs(order) do
  local fits = sizes[place] <= left
  if fits or held < wanted then
    local last = fits and -1 or 12 * left + 11
    if left > 0 then found[place] = redis.call('GETRANGE', postings .. ARGV[place + 4], 12, last) end
    left = fits and left - sizes[place] or 0
    held = held + lives[place]
  end
end
local sums = redis.call('HMGET', size, 'rows', 'terms')
return {{tonumber(sums[1] or '0'), tonumber(sums[2] or '0'), lives, sizes, found}}
"""
# Further ARGV: 1 to have the terms too, numbers. Answers rows: the id, and after a NUL the terms; of one that is gone
# nothing.
ROWS = f"""{_NAMES}
local found = {{}}
for i = 4, #ARGV do
  local row = redis.call('HGET', rows, ARGV[i]) or ''
  found[#found + 1] = ARGV[3] == '1' and row or string.match(row, '^[^%z]*')
end
return found
"""
# Further ARGV: terms one after the other, each between spaces, numbers. Answers the ids of the rows that hold these.
HOLDING = f"""{_NAMES}
local found = {{}}
for i = 4, #ARGV do
  local id, terms = string.match(redis.call('HGET', rows, ARGV[i]) or '', '^([^%z]*)%z(.*)$')
  if id and string.find(' ' .. terms .. ' ', ARGV[3], 1, true) then found[#found + 1] = id end
end
return found
"""
# Further ARGV: ids. Answers the numbers of those that have a row, packed as in postings.
NUMBERS = f"""{_NAMES}
local found = {{}}
for i = 3, #ARGV do
  local number = redis.call('HGET', numbers, ARGV[i])
  if number then found[#found + 1] = struct.pack('<I4', tonumber(number)) end
end
return table.concat(found)
"""
