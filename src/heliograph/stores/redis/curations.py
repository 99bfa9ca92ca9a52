"""Rules of names and the log of curations.

All rules stand in one hash and the active curations of each entity in another, so that reading those of hundreds of
names, most of which have none, is two commands. The rules of a name stay when their counts are gone, so that their
version tells every later reader that they have changed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from heliograph.models import AliasMention, Curation, NameRules
from heliograph.stores.base import CurationPage, CurationQuery, CurationStore
from heliograph.stores.changeset import Changeset
from heliograph.stores.inspection import ScanKind
from heliograph.stores.redis.codec import (
    dump_curation,
    dump_versioned,
    load_curation,
    load_versioned,
    place_chunk,
)
from heliograph.stores.redis.keys import Keys
from heliograph.stores.redis.session import Command, Session

__all__ = ["RedisCurationStore", "curation_commands"]


class RedisCurationStore(CurationStore):
    """Rules and curations in hashes.

    Args:
        session: Reads the keys.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._keys = session.keys

    async def get_rules(self, ids: Sequence[str]) -> list[NameRules]:
        """See `CurationStore`."""
        if not ids:
            return []
        rules, active = await self._session.read_at_once(
            [("HMGET", self._keys.rules, *ids), ("HMGET", self._keys.active_curations, *ids)]
        )
        found: list[NameRules] = []
        for id_, text, curations in zip(ids, rules, active, strict=True):
            if text:
                version, (names, aliases) = load_versioned(text)
                found.append(NameRules(id_, names, aliases, _load_all(curations), version))
        return found

    async def get_curations(self, ids: Sequence[str]) -> list[Curation]:
        """See `CurationStore`."""
        found = await self._session.read_one("HMGET", self._keys.curations, *ids) if ids else []
        return [load_curation(json.loads(text)) for text in found if text]

    async def find_curations(self, query: CurationQuery) -> CurationPage:
        """See `CurationStore`."""
        key = self._keys.curation_order(query.entity_id, is_active=not query.includes_undone)
        verb = "ZREVRANGE" if query.descending else "ZRANGE"
        last = query.offset + query.limit - 1
        page: Command = (verb, key, query.offset, last) if query.limit > 0 else (verb, key, 1, 0)
        ids, total = await self._session.read_at_once([page, ("ZCARD", key)])
        return CurationPage(tuple(await self.get_curations(ids)), total)

    async def find_mentioning_chunks(self, ids: Sequence[str]) -> dict[str, str]:
        """See `CurationStore`."""
        wanted = dict.fromkeys(ids)
        keys = [key for id_ in wanted for key in (self._keys.mentions("entities", id_), self._keys.moved(id_))]
        places = await self._session.read([("ZRANGE", key, 0, -1) for key in keys])
        chunks = list(dict.fromkeys(place_chunk(place) for found in places for place in found))
        owners = await self._session.read_one("HMGET", self._keys.owners, *chunks) if chunks else []
        return {id_: owner for id_, owner in zip(chunks, owners, strict=True) if owner}

    async def get_document_aliases(self, document_ids: Sequence[str]) -> dict[str, list[AliasMention]]:
        """See `CurationStore`."""
        documents = list(dict.fromkeys(document_ids))
        if not documents or not await self._session.read_one("EXISTS", self._keys.aliases):
            return {}
        held = await self._session.read([("ZRANGE", self._keys.chunks_of(id_), 0, -1) for id_ in documents])
        chunks = [id_ for ids in held for id_ in ids]
        texts = await self._session.read_one("HMGET", self._keys.aliases, *chunks) if chunks else []
        said = {id_: json.loads(text) for id_, text in zip(chunks, texts, strict=True) if text}
        aliases = {
            document: [AliasMention(id_, *names) for id_ in ids for names in said.get(id_, ())]
            for document, ids in zip(documents, held, strict=True)
        }
        return {document: found for document, found in aliases.items() if found}


def _load_all(text: str | None) -> tuple[Curation, ...]:
    return tuple(map(load_curation, json.loads(text))) if text else ()


async def curation_commands(session: Session, changeset: Changeset, version: int) -> list[Command]:
    """Return what applies the curations and rules of a changeset."""
    keys = session.keys
    commands = _rule_commands(keys, changeset, version)
    if not changeset.curations:
        return commands
    ids = [item.id for item in changeset.curations]
    subjects = list(dict.fromkeys(id_ for item in changeset.curations for id_ in item.entity_ids))
    known, active, total = await session.read(
        [
            ("HMGET", keys.curations, *ids),
            ("HMGET", keys.active_curations, *subjects),
            ("HLEN", keys.curations),
        ]
        if subjects
        else [("HMGET", keys.curations, *ids), ("HMGET", keys.active_curations, ""), ("HLEN", keys.curations)]
    )
    sequences = {id_: load_curation(json.loads(text)).sequence for id_, text in zip(ids, known, strict=True) if text}
    by_subject = {id_: {item.id: item for item in _load_all(text)} for id_, text in zip(subjects, active, strict=False)}
    for item in changeset.curations:
        total += item.id not in sequences
        sequence = sequences.setdefault(item.id, item.sequence or total)
        stored = replace(item, sequence=item.sequence or sequence)
        commands += _put_commands(keys, stored)
        for id_ in dict.fromkeys(item.entity_ids):
            by_subject[id_].pop(item.id, None)
            if item.is_active:
                by_subject[id_][item.id] = stored
    return [*commands, *(_subject_command(keys, id_, list(items.values())) for id_, items in by_subject.items())]


def _put_commands(keys: Keys, item: Curation) -> list[Command]:
    subjects = [None, *dict.fromkeys(item.entity_ids)]
    commands: list[Command] = [("HSET", keys.curations, item.id, dump_curation(item, item.sequence))]
    commands += [("ZADD", keys.curation_order(id_, is_active=False), item.sequence, item.id) for id_ in subjects]
    verb = ("ZADD", item.sequence) if item.is_active else ("ZREM",)
    return [
        *commands,
        *((verb[0], keys.curation_order(id_, is_active=True), *verb[1:], item.id) for id_ in subjects),
    ]


def _subject_command(keys: Keys, id_: str, items: Sequence[Curation]) -> Command:
    if not items:
        return "HDEL", keys.active_curations, id_
    ordered = sorted(items, key=lambda item: item.sequence)
    return "HSET", keys.active_curations, id_, f"[{','.join(dump_curation(item, item.sequence) for item in ordered)}]"


def _rule_commands(keys: Keys, changeset: Changeset, version: int) -> list[Command]:
    rules = {item.id: dump_versioned(version, (item.names, item.aliases)) for item in changeset.name_rules}
    if not rules:
        return []
    return [
        ("HSET", keys.rules, *(part for pair in rules.items() for part in pair)),
        ("ZADD", keys.ids(ScanKind.NAME_RULES), *(part for id_ in rules for part in (0, id_))),
    ]
