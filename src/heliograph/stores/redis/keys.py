r"""The names of all keys of a workspace, and what stands under each.

They begin with `heliograph:{<workspace>}:`. Where the score is not said, members of sorted sets have score 0, so that
they stand in the order of their bytes. `<sort>` is a field by which documents are sorted.

Of the whole workspace:
    home                          hash: format, embedding_name, embedding_dimension, and made, a token of its own; it
                                  is there where the truth is kept
    version                       data version, a number; whoever watches it sees every commit
    commits                       list: tokens of the last commits, latest first
    lock:<purpose>                token of who holds it
    lock:<purpose>:taken          token of who took it last; watched by commits

Documents and chunks:
    doc:<id>                      hash
    text:<document id>            the whole text
    documents::<sort>             sorted set "<value>\0<id>" of all documents
    documents:<status>:<sort>     the same of documents of one status
    track:<track id>, hash:<content hash>, twins:<document id>
                                  sets of ids of documents
    tracks                        sorted set of batches, latest change first
    chunk:<id>                    JSON
    chunks_of:<document id>       sorted set of ids of chunks, by position
    owners                        hash: id of its document per chunk id
    ids:<kind>                    sorted set of all ids of a `ScanKind`, those of `entities`, `relations` and
                                  `*_vectors` too

What was read in chunks:
    extractions                   hash: JSON per chunk id
    aliases                       hash: JSON per chunk id, of chunks that give any
    said:entities:<chunk id>      list: JSON of entity mentions, in the order they were written; `said:relations:`
    mentions:entities:<id>        sorted set "<rank><chunk id>\0<ordinal>", the mentions that count for an entity;
                                  `mentions:relations:`
    moved:<id>                    the same of mentions whose name stands for this entity, but which count for another
    evidence:entities             hash: "<version> <JSON>" per id; `evidence:relations`

Names and curations:
    rules                         hash: "<version> <JSON>" per id of a name
    active_curations              hash: JSON list of active curations per id of an entity
    curations                     hash: JSON per id
    curation_order                sorted set of ids by sequence; `curation_order:active`, and of those that name an
                                  entity `curation_order::<id>` and `curation_order:active:<id>`
    names                         sorted set "<key>\0<entity id>"
    pieces:<piece>                set of ids of entities

Graph:
    entity:<id>, relation:<id>    hashes
    neighbors:<entity id>         set of entity ids
    entity_neighbors:<entity id>  the same, under the other name that programs know it by
    weights:<entity id>           hash: weight of the relation per entity id of the other end
    degrees                       hash: relations per entity id
    relations:<source id>:<type>  set of target ids; the type is the first keyword
    entities                      sorted set "<name>\0<id>", well connected first
    touched                       set of entity ids, only within a transaction

Vectors, of each `Collection`; their ids are in `ids:<kind>`:
    vectors:<collection>          hash: float32, little-endian, per id
    vectors:<collection>:changed  sorted set of ids by the data version of their last change, and "" by the one up to
                                  which changes are not known
    next:<collection>             hash: vectors of another embedding, on their way in; its name and dimension are
                                  fields of `home`, next_embedding_name and next_embedding_dimension

Views:
    changed:documents             of documents what `vectors:<collection>:changed` is of vectors
    counted                       hash: per chunk id, ids of the entities that its mentions count for, in their order,
                                  and after a line break "<id>:<weight in millionths>" of relations

Full text, of chunks and of entities (`text_scripts`):
    terms:<collection>:size       hash: rows and terms there are, next number
    terms:<collection>:numbers    hash: number per id; a row that is written anew gets the next number
    terms:<collection>:rows       hash: "<id>\0<terms in order>" per number
    postings:<collection>:<term>  string of records: number, count, length of the row

Replies of models (`replies`):
    reply:<key>                   hash
    replies                       sorted set of keys
    types, type:<type>            sets of types, and of keys of a type
    subject:<id>                  set of keys of replies about it

Outbox:
    outbox                        sorted set "<version>\0<kind>\0<id>"
    outbox:last                   hash: version per "<kind>\0<id>"
    outbox:readers                set of readers; watched by commits
    outbox:acknowledged           hash: version per reader
"""

from __future__ import annotations

from heliograph.stores.changeset import Collection
from heliograph.stores.inspection import ScanKind

__all__ = ["WORKSPACES", "Keys"]

# Names of all workspaces, a set; the only key that belongs to none.
WORKSPACES = "heliograph:workspaces"


class Keys:
    """Names of the keys of one workspace.

    Args:
        prefix: What all of them begin with.

    Attributes:
        prefix: As given.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.home = f"{prefix}home"
        self.version = f"{prefix}version"
        self.commits = f"{prefix}commits"
        self.tracks = f"{prefix}tracks"
        self.owners = f"{prefix}owners"
        self.extractions = f"{prefix}extractions"
        self.aliases = f"{prefix}aliases"
        self.rules = f"{prefix}rules"
        self.active_curations = f"{prefix}active_curations"
        self.curations = f"{prefix}curations"
        self.names = f"{prefix}names"
        self.degrees = f"{prefix}degrees"
        self.entities = f"{prefix}entities"
        self.touched = f"{prefix}touched"
        self.outbox = f"{prefix}outbox"
        self.outbox_last = f"{prefix}outbox:last"
        self.outbox_readers = f"{prefix}outbox:readers"
        self.outbox_acknowledged = f"{prefix}outbox:acknowledged"

    def of(self, *parts: str) -> str:
        """Return the key with these parts, joined by colons."""
        return self.prefix + ":".join(parts)

    def ids(self, kind: ScanKind) -> str:
        """Return where all ids of a kind stand, ascending."""
        return f"{self.prefix}ids:{kind.value}"

    def document(self, id_: str) -> str:
        """Return where a document stands."""
        return f"{self.prefix}doc:{id_}"

    def chunk(self, id_: str) -> str:
        """Return where a chunk stands."""
        return f"{self.prefix}chunk:{id_}"

    def entity(self, id_: str) -> str:
        """Return where an entity stands."""
        return f"{self.prefix}entity:{id_}"

    def relation(self, id_: str) -> str:
        """Return where a relation stands."""
        return f"{self.prefix}relation:{id_}"

    def weights(self, entity_id: str) -> str:
        """Return where the weights of an entity's relations stand."""
        return f"{self.prefix}weights:{entity_id}"

    def text(self, document_id: str) -> str:
        """Return where the text of a document stands."""
        return f"{self.prefix}text:{document_id}"

    def chunks_of(self, document_id: str) -> str:
        """Return where the ids of a document's chunks stand."""
        return f"{self.prefix}chunks_of:{document_id}"

    def twins(self, document_id: str) -> str:
        """Return where the ids of a document's twins stand."""
        return f"{self.prefix}twins:{document_id}"

    def documents(self, status: str, sort: str) -> str:
        """Return where documents stand in an order; an empty status is all of them."""
        return f"{self.prefix}documents:{status}:{sort}"

    def said(self, kind: str, chunk_id: str) -> str:
        """Return where the mentions of a chunk stand; `kind` is `entities` or `relations`."""
        return f"{self.prefix}said:{kind}:{chunk_id}"

    def mentions(self, kind: str, id_: str) -> str:
        """Return where the mentions of an entity or relation stand, in canonical order."""
        return f"{self.prefix}mentions:{kind}:{id_}"

    def moved(self, id_: str) -> str:
        """Return where the mentions stand that are written with a name, but count for another entity."""
        return f"{self.prefix}moved:{id_}"

    def evidence(self, kind: str) -> str:
        """Return where evidence stands."""
        return f"{self.prefix}evidence:{kind}"

    def curation_order(self, entity_id: str | None, *, is_active: bool) -> str:
        """Return where ids of curations stand by sequence: all, or those that name an entity."""
        parts = ["curation_order", *(["active"] if is_active else [""] if entity_id is not None else [])]
        return self.of(*parts, *([] if entity_id is None else [entity_id]))

    def vectors(self, collection: Collection) -> str:
        """Return where the vectors of a collection stand."""
        return f"{self.prefix}vectors:{collection.value}"

    def changed_vectors(self, collection: Collection) -> str:
        """Return where it stands which vectors changed when."""
        return f"{self.prefix}vectors:{collection.value}:changed"

    @property
    def changed_documents(self) -> str:
        """Where it stands which documents changed when."""
        return f"{self.prefix}changed:documents"

    @property
    def counted(self) -> str:
        """Where it stands what the mentions of chunks count for."""
        return f"{self.prefix}counted"

    def next_vectors(self, collection: Collection) -> str:
        """Return where the vectors of another embedding stand."""
        return f"{self.prefix}next:{collection.value}"

    def piece(self, piece: str) -> str:
        """Return where the ids of entities stand whose names have a piece."""
        return f"{self.prefix}pieces:{piece}"
