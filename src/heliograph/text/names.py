"""Cleans names of entities and makes their keys and ids.

`clean_name` gives the name that is stored and shown; `entity_key` gives what is hashed into an id. Letter case,
full-width forms, spacing, quotation marks and kinds of dash do not distinguish entities; everything else does. A
mention counts for the entity that its resolution names, else for the one that its own name stands for.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from functools import lru_cache, wraps

from heliograph.ids import entity_id, relation_id
from heliograph.models import EntityMention, RelationMention

MAX_NAME_LENGTH = 256

_CACHED = 65_536
# Longer ones are no names but slips of an extractor, seldom seen twice.
_LONGEST_CACHED = MAX_NAME_LENGTH

_QUOTES = "\"'`“”‘’«»„‚‹›「」『』《》〈〉【】"
_DASHES = re.compile(r"[\u2010-\u2015\u2212\uFE58\uFE63\uFF0D]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060\ufeff\ud800-\udfff]")
_SPACE = re.compile(r"\s+")
_CJK = r"\u3400-\u9fff\uf900-\ufaff\u3040-\u30ff"
_CJK_SPACE = re.compile(rf"(?<=[{_CJK}]) (?=[{_CJK}])")

_relation_id = lru_cache(maxsize=_CACHED)(relation_id)


def _remembered(function: Callable[[str], str]) -> Callable[[str], str]:
    """Remember what a function says of names, but of very long ones."""
    cached = lru_cache(maxsize=_CACHED)(function)

    @wraps(function)
    def call(name: str) -> str:
        return cached(name) if len(name) <= _LONGEST_CACHED else function(name)

    return call


@_remembered
def clean_name(name: str) -> str:
    """Return a name as it is stored: NFKC, one space between words, none between CJK characters, no outer quotes.

    Case is kept. An empty result means that there is no name. Longer names are cut at 256 characters.
    """
    text = unicodedata.normalize("NFKC", _CONTROL.sub(" ", name))
    text = _CJK_SPACE.sub("", _SPACE.sub(" ", text)).strip()
    stripped = text.strip(_QUOTES + " ")
    return stripped[:MAX_NAME_LENGTH].rstrip()


@_remembered
def entity_key(name: str) -> str:
    """Return the key of an entity: equal for spellings that differ in case, width, spacing, quotes or dash."""
    text = _DASHES.sub("-", clean_name(name)).casefold()
    return "".join(character for character in text if character not in _QUOTES)


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
    """Return the type that most votes speak for; `unknown` if they are less than a fifth of all votes.

    One sentence in which a program "said" something makes no person of it, however many others leave its type open.
    """
    known = {kind: count for kind, count in votes.items() if kind and kind != _UNKNOWN}
    if not known:
        return _UNKNOWN
    best = min(known, key=lambda kind: (-known[kind], kind))
    return best if known[best] * _LEAST_SHARE >= sum(votes.values()) else _UNKNOWN


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

    One whose two ends are the same entity counts for no relation; it gets the id of that entity, with which it stays.
    """
    if mention.source_id or mention.target_id:
        source, target = end_ids(mention)
        return source if source == target else relation_id(source, target)
    return names_to_relation_id(mention.source, mention.target)
