"""Writing what views are computed from: which documents changed when, and what the mentions of chunks count for."""

from __future__ import annotations

from collections.abc import Iterable

from heliograph.models import EntityMention, RelationMention
from heliograph.stores.changeset import Changeset
from heliograph.stores.redis.changes import note_changes
from heliograph.stores.redis.session import Command, Session
from heliograph.stores.scoped.scope import MILLION
from heliograph.text.mention_ids import mention_entity_id, mention_relation_id

__all__ = ["counted_line", "view_commands"]


async def view_commands(session: Session, changeset: Changeset, version: int) -> list[Command]:
    """Return what keeps up with the documents and extractions of a changeset."""
    keys, commands = session.keys, list[Command]()
    documents = dict.fromkeys([*changeset.removed_documents, *(item.id for item in changeset.documents)])
    if documents:
        commands += note_changes(keys.changed_documents, list(documents), version)
    if changeset.removed_chunks:
        commands.append(("HDEL", keys.counted, *changeset.removed_chunks))
    if changeset.extractions:
        lines = {item.chunk_id: counted_line(item.entities, item.relations) for item in changeset.extractions}
        commands.append(("HSET", keys.counted, *(part for pair in lines.items() for part in pair)))
    return commands


def counted_line(entities: Iterable[EntityMention], relations: Iterable[RelationMention]) -> str:
    """Return what is noted of the mentions of a chunk."""
    weighed = (f"{mention_relation_id(pair)}:{round(pair.weight * MILLION)}" for pair in relations)
    return f"{' '.join(map(mention_entity_id, entities))}\n{' '.join(weighed)}"
