"""Making the indexes of a workspace anew from what they are of: neighbours, orders of documents, names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import chain

from heliograph.stores.inspection import ScanKind
from heliograph.stores.name_pieces import keys_of
from heliograph.stores.redis.committer import Committer, Head
from heliograph.stores.redis.documents_write import dating_command, listing_commands, read_documents
from heliograph.stores.redis.faults import read_names
from heliograph.stores.redis.graph_write import link_commands, rank_command
from heliograph.stores.redis.names import NameChange, change_commands
from heliograph.stores.redis.search_faults import count_commands, text_commands_anew, vector_commands_anew
from heliograph.stores.redis.session import Command, CommitSession
from heliograph.stores.redis.traversal import RedisGraphStore

__all__ = ["repair"]

# Returns what makes an index anew, given the data version of the commit.
Renew = Callable[[CommitSession, int], Awaitable[list[Command]]]


async def repair(committer: Committer) -> None:
    """Make all indexes anew, one commit each."""
    await _renew(
        committer, ("neighbors:", "entity_neighbors:", "weights:", "relations:", "degrees", "entities"), _graph
    )
    await _renew(committer, ("documents:", "hash:", "track:", "twins:", "tracks", "owners"), _documents)
    await _renew(committer, ("pieces:", "names"), _names)
    await _renew(committer, ("postings:", "terms:"), _searched)


async def _renew(committer: Committer, beginnings: tuple[str, ...], renew: Renew) -> None:
    async def draft(session: CommitSession, head: Head) -> Sequence[Command]:
        doomed = tuple(session.keys.of(beginning) for beginning in beginnings)
        pages = [[key for key in page if key.startswith(doomed)] async for page in committer.connection.pages()]
        return [*(("UNLINK", *page) for page in pages if page), *await renew(session, head.version + 1)]

    await committer.run(draft)


async def _graph(session: CommitSession, _version: int) -> list[Command]:
    keys, graph = session.keys, RedisGraphStore(session)
    commands: list[Command] = []
    async for ids in session.scan_pages(ScanKind.RELATIONS):
        commands += link_commands(keys, await graph.get_relations(ids))
    async for ids in session.scan_pages(ScanKind.ENTITIES):
        commands.append(("SADD", keys.touched, *ids))
    return [*commands, rank_command(keys)]


async def _documents(session: CommitSession, _version: int) -> list[Command]:
    keys, tracks = session.keys, set[str]()
    commands: list[Command] = []
    async for ids in session.scan_pages(ScanKind.DOCUMENTS):
        for item in (await read_documents(session, ids)).values():
            commands += listing_commands(keys, item)
            tracks.add(item.track_id)
        held = await session.read([("ZRANGE", keys.chunks_of(id_), 0, -1) for id_ in ids])
        owners = [part for id_, chunks in zip(ids, held, strict=True) for chunk in chunks for part in (chunk, id_)]
        if owners:
            commands.append(("HSET", keys.owners, *owners))
    if tracks - {""}:
        commands.append(dating_command(keys, tracks - {""}))
    return commands


async def _names(session: CommitSession, _version: int) -> list[Command]:
    commands: list[Command] = []
    async for page in read_names(session):
        commands += change_commands(session.keys, [NameChange(id_, set(), keys_of(names)) for id_, names in page])
    return commands


async def _searched(session: CommitSession, version: int) -> list[Command]:
    anew = (
        await text_commands_anew(session),
        await vector_commands_anew(session, version),
        await count_commands(session),
    )
    return list(chain.from_iterable(anew))
