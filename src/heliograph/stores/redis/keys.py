r"""The names of all keys of a workspace, and what stands under each.

They begin with `heliograph:{<workspace>}:`. Where the score is not said, members of sorted sets have score 0, so that
they stand in the order of their bytes. `<sort>` is a field by which documents are sorted.

Of the graph (`store.graph_url`):
    doc:<id>                      hash: the document and the ids of its chunks
    documents, relations          sets of the ids there are
    entity:<id>, relation:<id>    hashes
    neighbors:<entity id>         set of entity ids
    entity_neighbors:<entity id>  the same, under the other name that programs know it by
    weights:<entity id>           hash: weight of the relation per entity id of the other end
    degrees                       hash: relations per entity id
    relations:<source id>:<type>  set of target ids; the type is the first keyword
    entities                      sorted set "<name>\0<id>", well connected first
    touched                       set of entity ids, only within a transaction

Of replies of models (`store.cache_url`; the workspace's name then ends in `:cache`):
    reply:<key>                   hash
    replies                       sorted set of keys
    types, type:<type>            sets of types, and of keys of a type
    subject:<id>                  set of keys of replies about it

Of both:
    cursor:2                      data version up to which changes of the home store have been applied
    applied                       token of the last change
"""

from __future__ import annotations


class Keys:
    """Names of the keys of one workspace.

    Args:
        prefix: What all of them begin with.

    Attributes:
        prefix: As given.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.degrees = f"{prefix}degrees"
        self.entities = f"{prefix}entities"
        self.touched = f"{prefix}touched"

    def of(self, *parts: str) -> str:
        """Return the key with these parts, joined by colons."""
        return self.prefix + ":".join(parts)

    def document(self, id_: str) -> str:
        """Return where a document stands."""
        return f"{self.prefix}doc:{id_}"

    def entity(self, id_: str) -> str:
        """Return where an entity stands."""
        return f"{self.prefix}entity:{id_}"

    def relation(self, id_: str) -> str:
        """Return where a relation stands."""
        return f"{self.prefix}relation:{id_}"

    def weights(self, entity_id: str) -> str:
        """Return where the weights of an entity's relations stand."""
        return f"{self.prefix}weights:{entity_id}"
