"""The outbox: one member of a sorted set per thing that changed, under the version of its last change."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from heliograph.stores.changeset import Changeset
from heliograph.stores.outbox import Outbox, OutboxEntry, OutboxKind, changed_ids
from heliograph.stores.redis.keys import Keys
from heliograph.stores.redis.lease import LeaseLock
from heliograph.stores.redis.session import Command, Session

__all__ = ["RedisOutbox", "outbox_commands", "reset_command"]

# ARGV: prefix. Drops all entries and has all readers, if there are any, make everything anew.
_RESET = f"""
local p = ARGV[1]
redis.call('DEL', p .. 'outbox', p .. 'outbox:last')
if redis.call('SCARD', p .. 'outbox:readers') > 0 then
  local version = string.format('%016x', tonumber(redis.call('GET', p .. 'version') or '0'))
  redis.call('ZADD', p .. 'outbox', 0, version .. '\\000{OutboxKind.RESET.value}\\000')
end
"""
# ARGV: prefix, entries at the most. Drops entries that all readers have taken in; tells how many.
_FORGET = """
local p = ARGV[1]
local least = nil
for _, version in ipairs(redis.call('HVALS', p .. 'outbox:acknowledged')) do
  if not least or tonumber(version) < least then least = tonumber(version) end
end
local range = '+'
if least then
  if least < 0 then return 0 end
  range = '(' .. string.format('%016x', least + 1)
end
local entries = redis.call('ZRANGEBYLEX', p .. 'outbox', '-', range, 'LIMIT', 0, ARGV[2])
for _, entry in ipairs(entries) do
  redis.call('ZREM', p .. 'outbox', entry)
  local what = entry:sub(18)
  if redis.call('HGET', p .. 'outbox:last', what) == entry:sub(1, 16) then
    redis.call('HDEL', p .. 'outbox:last', what)
  end
end
return #entries
"""
_PAGE = 5_000
_DIGITS = 16


class RedisOutbox(Outbox):
    """Entries in a sorted set; the right to take them in is a lease.

    Args:
        session: Reads and writes the keys.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._keys = session.keys

    async def register(self, reader: str) -> None:
        """See `Outbox`."""
        if reader in await self.get_readers():
            return
        # Commits watch the readers: one that is under way has not seen this one, and does its work again.
        await self._session.write(
            [
                ("SADD", self._keys.outbox_readers, reader),
                ("HSETNX", self._keys.outbox_acknowledged, reader, -1),
                reset_command(self._keys),
            ]
        )

    async def unregister(self, reader: str) -> None:
        """See `Outbox`."""
        await self._session.write(
            [("SREM", self._keys.outbox_readers, reader), ("HDEL", self._keys.outbox_acknowledged, reader)]
        )
        await self._forget()

    async def get_readers(self) -> Mapping[str, int]:
        """See `Outbox`."""
        found = await self._session.read_one("HGETALL", self._keys.outbox_acknowledged)
        return {reader: int(found[reader]) for reader in sorted(found)}

    async def read(self, after: int, limit: int) -> list[OutboxEntry]:
        """See `Outbox`."""
        start = f"[{max(0, after + 1):0{_DIGITS}x}"
        found: list[str] = await self._session.read_one(
            "ZRANGEBYLEX", self._keys.outbox, start, "+", "LIMIT", 0, max(1, limit)
        )
        if len(found) >= limit and found:
            rest = await self._session.read_one(
                "ZRANGEBYLEX", self._keys.outbox, f"({found[-1]}", f"({int(found[-1][:_DIGITS], 16) + 1:0{_DIGITS}x}"
            )
            found += rest
        return [_entry(member) for member in found]

    async def acknowledge(self, reader: str, version: int) -> None:
        """See `Outbox`."""
        if (await self.get_readers()).get(reader) != version:
            await self._session.write([("HSET", self._keys.outbox_acknowledged, reader, version)])
            await self._forget()

    async def reset(self, reader: str) -> None:
        """See `Outbox`."""
        await self._session.write(
            [
                ("SADD", self._keys.outbox_readers, reader),
                ("HSET", self._keys.outbox_acknowledged, reader, -1),
                reset_command(self._keys),
            ]
        )

    def lock(self, reader: str) -> AbstractAsyncContextManager[bool]:
        """See `Outbox`."""
        return self._lock(reader)

    @asynccontextmanager
    async def _lock(self, reader: str) -> AsyncGenerator[bool]:
        async with LeaseLock(self._session, f"outbox:{reader}").try_hold() as is_held:
            yield is_held

    async def _forget(self) -> None:
        while await self._session.read_one("EVAL", _FORGET, 0, self._keys.prefix, _PAGE) == _PAGE:
            continue


def reset_command(keys: Keys) -> Command:
    """Return what has all readers, if there are any, make everything anew; what was noted before says nothing more."""
    return "EVAL", _RESET, 0, keys.prefix


async def outbox_commands(session: Session, changeset: Changeset, version: int) -> list[Command]:
    """Return what notes the changes of a changeset; for workspaces with readers."""
    keys = session.keys
    changed = [f"{kind.value}\0{id_}" for kind, ids in changed_ids(changeset).items() for id_ in dict.fromkeys(ids)]
    if not changed:
        return []
    (before,) = await session.read([("HMGET", keys.outbox_last, *changed)])
    noted = f"{version:0{_DIGITS}x}"
    gone = [f"{last}\0{what}" for last, what in zip(before, changed, strict=True) if last]
    commands: list[Command] = [("ZREM", keys.outbox, *gone)] if gone else []
    commands.append(("HSET", keys.outbox_last, *_flat((what, noted) for what in changed)))
    commands.append(("ZADD", keys.outbox, *_flat((0, f"{noted}\0{what}") for what in changed)))
    return commands


def _flat(pairs: Iterable[tuple[str | int, str]]) -> list[str | int]:
    return [part for pair in pairs for part in pair]


def _entry(member: str) -> OutboxEntry:
    version, kind, id_ = member.split("\0", 2)
    return OutboxEntry(int(version, 16), OutboxKind(kind), id_)
