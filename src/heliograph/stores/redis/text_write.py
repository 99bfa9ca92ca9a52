"""Writing full text to Redis, within a commit: one script per collection does all of it on the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heliograph.stores.changeset import Changeset, Collection
from heliograph.stores.redis.keys import Keys
from heliograph.stores.redis.session import Command, Session
from heliograph.stores.redis.text_scripts import WRITE

__all__ = ["SEARCHED", "encode", "put_rows", "text_commands"]

SEARCHED = (Collection.CHUNKS, Collection.ENTITIES)


def encode(text: str) -> bytes:
    """Return the bytes of a text, whatever it holds."""
    return text.encode("utf-8", "surrogatepass")


async def text_commands(
    session: Session,
    changeset: Changeset,
    version: int,  # noqa: ARG001 (as all roles are asked)
) -> list[Command]:
    """Return what applies the full-text part of a changeset."""
    removed = {Collection.CHUNKS: changeset.removed_chunks, Collection.ENTITIES: changeset.removed_entities}
    commands: list[Command] = []
    for collection in SEARCHED:
        rows = {entry.id: encode(" ".join(entry.terms)) for entry in changeset.texts.get(collection, ())}
        gone = [id_ for id_ in removed[collection] if id_ not in rows]
        if gone or rows:
            commands.append(put_rows(session.keys, collection, gone, rows))
    return commands


def put_rows(keys: Keys, collection: Collection, gone: Sequence[str], rows: Mapping[str, bytes]) -> Command:
    """Return what removes the rows of some ids and writes others: terms, joined by spaces, by id."""
    pairs = (item for id_, terms in rows.items() for item in (encode(id_), terms))
    return ("EVAL", WRITE, 0, keys.prefix, collection.value, len(gone), *map(encode, gone), *pairs)
