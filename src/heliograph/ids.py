"""Normalised entity names, and deterministic ids: the same input gives the same id on every machine.

`clean_name` returns the name that is stored and shown; `entity_key` returns the key that is hashed into an id. Letter
case, full-width forms, spacing, quotation marks and kinds of dash do not distinguish entities; everything else does. A
mention counts for the entity that it was resolved to, else for the entity of its own name.

Ids are `<kind>-<24 hex digits>` of BLAKE2b over length-prefixed parts. `mention_rank` gives every mention its place
in one canonical order that does not depend on when its document arrived; folds over mentions read in that order.
"""

from __future__ import annotations

import re
import secrets
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache, wraps
from hashlib import blake2b

from heliograph.models import EntityMention, RelationMention

# Characters that are dropped or replaced in every ingested text.
_UNSTORED = re.compile("[\0\ud800-\udfff]")
_POSITION_BITS = 20
_DOCUMENT_BITS = 42
# Ranks below this belong to chunks that are about the entity or relation.
SUBJECT_RANKS = 1 << (_DOCUMENT_BITS + _POSITION_BITS)


# Precomputed digest states: a question has hundreds of candidate phrases that are looked up as entities, and a document
# has dozens of relations.
_ENTITY = blake2b(len(b"entity").to_bytes(8, "little") + b"entity", digest_size=12)
_RELATION = blake2b(len(b"relation").to_bytes(8, "little") + b"relation", digest_size=12)


def _digest(*parts: str) -> str:
    state = blake2b(digest_size=12)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()


def is_storable(text: str) -> bool:
    """Return whether a store can hold a text as an id: no id has a NUL or a lone surrogate, in any store."""
    return not _UNSTORED.search(text)


def content_hash(text: str) -> str:
    """Return the hash that identifies equal texts."""
    return _digest(text)


def document_id(source: str) -> str:
    """Return the id of the document from `source` (a path or URI as given, or the text of a document without one)."""
    return f"doc-{_digest('document', source)}"


def chunk_ids(document: str, texts: Iterable[str]) -> list[str]:
    """Return the ids of all chunks of a document, by their texts in order; see `chunk_id`."""
    seen: Counter[str] = Counter()
    ids: list[str] = []
    for text in texts:
        ids.append(chunk_id(document, text, seen[text]))
        seen[text] += 1
    return ids


def chunk_id(document: str, text: str, occurrence: int) -> str:
    """Return a chunk's id.

    Args:
        document: Id of the document that holds it.
        text: The chunk's own text; its position does not count, so a chunk that moves keeps its id.
        occurrence: 0 for the first chunk of the document with this exact text, 1 for the next, and so on.
    """
    return f"chunk-{_digest('chunk', document, text, str(occurrence))}"


def entity_id(key: str) -> str:
    """Return the id of the entity with this key (`entity_key`)."""
    data = key.encode("utf-8", "surrogatepass")
    state = _ENTITY.copy()
    state.update(len(data).to_bytes(8, "little") + data)
    return f"ent-{state.hexdigest()}"


def succeeding_entity_id(id_: str) -> str:
    """Return the id of a new entity of the same name, used after a curation took the name from this one."""
    return f"ent-{_digest('successor', id_)}"


def relation_id(entity: str, other: str) -> str:
    """Return the id of the undirected relation between two entity ids; their order does not matter."""
    state = _RELATION.copy()
    for part in (entity, other) if entity <= other else (other, entity):
        data = part.encode("utf-8", "surrogatepass")
        state.update(len(data).to_bytes(8, "little") + data)
    return f"rel-{state.hexdigest()}"


def curation_id() -> str:
    """Return a new curation id; unlike other ids it is random, since a person may make the same correction twice."""
    return f"cur-{secrets.token_hex(12)}"


def mention_rank(document: str, position: int, *, is_subject: bool) -> int:
    """Return a mention's place in the canonical order, as an integer below 2**63.

    Mentions in chunks that are *about* the entity or relation come first. Within each group, documents are ordered by
    the hash of their id, and a document's mentions by the order of its chunks. Two documents share a place with
    probability 2**-42; then the chunk id decides.

    Args:
        document: Id of the document.
        position: Order index of the chunk in its document.
        is_subject: Whether the chunk is about the entity or relation, and does not only mention it.
    """
    place = int(_digest("rank", document)[:16], 16) >> (64 - _DOCUMENT_BITS)
    group = 0 if is_subject else 1
    return moved_rank(((group << _DOCUMENT_BITS) | place) << _POSITION_BITS, position)


def is_subject_rank(rank: int) -> bool:
    """Return whether a rank of `mention_rank` belongs to a chunk that is about the entity or relation."""
    return rank < SUBJECT_RANKS


def moved_rank(rank: int, position: int) -> int:
    """Return the rank of a mention whose chunk now stands at another position of its document."""
    last = (1 << _POSITION_BITS) - 1
    return (rank & ~last) | min(position, last)


def track_id(action: str) -> str:
    """Return a new batch id such as `insert_20260102_030405_9f86d081`."""
    return f"{action}_{datetime.now(UTC):%Y%m%d_%H%M%S}_{secrets.token_hex(4)}"


# Names, and the entity or relation that a mention counts for.

MAX_NAME_LENGTH = 256

_CACHED = 65_536
# Longer texts are no names but mistakes of an extractor, seldom seen twice.
_LONGEST_CACHED = MAX_NAME_LENGTH

_QUOTES = "\"'`“”‘’«»„‚‹›「」『』《》〈〉【】"
_WITHOUT_QUOTES = dict.fromkeys(map(ord, _QUOTES))
_DASHES = re.compile(r"[\u2010-\u2015\u2212\uFE58\uFE63\uFF0D]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060\ufeff\ud800-\udfff]")
_SPACE = re.compile(r"\s+")
_CJK = r"\u3400-\u9fff\uf900-\ufaff\u3040-\u30ff"
_CJK_SPACE = re.compile(rf"(?<=[{_CJK}]) (?=[{_CJK}])")

_relation_id = lru_cache(maxsize=_CACHED)(relation_id)


def _remembered(function: Callable[[str], str]) -> Callable[[str], str]:
    """Cache a function of names, except for very long names."""
    cached = lru_cache(maxsize=_CACHED)(function)

    @wraps(function)
    def call(name: str) -> str:
        return cached(name) if len(name) <= _LONGEST_CACHED else function(name)

    return call


@_remembered
def clean_name(name: str) -> str:
    """Return a name as it is stored: NFKC, one space between words, none between CJK characters, no outer quotes.

    Case is kept. An empty result means that there is no name. Names are cut at 256 characters.
    """
    if name.isascii() and name.isprintable():
        # Equivalent to the steps below, and faster.
        text = " ".join(name.split())
    else:
        text = unicodedata.normalize("NFKC", _CONTROL.sub(" ", name))
        text = _CJK_SPACE.sub("", _SPACE.sub(" ", text)).strip()
    stripped = text.strip(_QUOTES + " ")
    return stripped[:MAX_NAME_LENGTH].rstrip()


@_remembered
def entity_key(name: str) -> str:
    """Return the key of an entity: equal for spellings that differ in case, width, spacing, quotes or dash."""
    return _DASHES.sub("-", clean_name(name)).casefold().translate(_WITHOUT_QUOTES)


@_remembered
def name_to_entity_id(name: str) -> str:
    """Return the id of the entity that a name stands for."""
    return entity_id(entity_key(name))


def names_to_relation_id(name: str, other: str) -> str:
    """Return the id of the undirected relation between the entities that two names stand for."""
    return _relation_id(name_to_entity_id(name), name_to_entity_id(other))


_UNKNOWN = "unknown"
_LEAST_SHARE = 5


def prevailing_type(votes: Mapping[str, int]) -> str:
    """Return the type with the most votes; `unknown` if these are less than a fifth of all votes.

    So one sentence in which a program "said" something does not make it a person if most mentions have no known type.
    """
    known = {kind: count for kind, count in votes.items() if kind and kind != _UNKNOWN}
    if not known:
        return _UNKNOWN
    best = min(known, key=lambda kind: (-known[kind], kind))
    return best if known[best] * _LEAST_SHARE >= sum(votes.values()) else _UNKNOWN


def written_type(text: str) -> str:
    """Return an entity type as written by a person in its stored form: lower case, single spaces."""
    return " ".join(text.lower().split())


def mention_entity_id(mention: EntityMention) -> str:
    """Return the id of the entity that a mention counts for."""
    return mention.entity_id or name_to_entity_id(mention.name)


def end_ids(mention: RelationMention) -> tuple[str, str]:
    """Return the ids of the entities that the source and the target of a mention count for."""
    return (
        mention.source_id or name_to_entity_id(mention.source),
        mention.target_id or name_to_entity_id(mention.target),
    )


def mention_relation_id(mention: RelationMention) -> str:
    """Return the id of the relation that a mention counts for.

    A mention whose two ends are the same entity counts for no relation; the result is then the id of that entity.
    """
    if mention.source_id or mention.target_id:
        source, target = end_ids(mention)
        return source if source == target else relation_id(source, target)
    return names_to_relation_id(mention.source, mention.target)
