"""Finding entities while somebody types: by what their names and aliases are, begin with, or contain."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from heliograph.text.names import entity_key

# Prefixes as ranges: all strings that begin alike stand next to one another in the order of code points.

_LAST_CHARACTER = 0x10FFFF
_SURROGATES = 0xD800, 0xE000


def end_of_prefix(prefix: str) -> str:
    """Return the least string greater than all that begin with a prefix; empty if there is none.

    A half-open range can use an index, unlike LIKE with its wildcards.
    """
    stem = prefix.rstrip(chr(_LAST_CHARACTER))
    if not stem:
        return ""
    following = ord(stem[-1]) + 1
    return stem[:-1] + chr(_SURROGATES[1] if following == _SURROGATES[0] else following)


# Pieces of names, by which an entity is found whose name contains a text.
#
# Pieces are every three characters that follow one another in a word, two where one of them is CJK, and words shorter
# than that. They are written in hexadecimal, since what a tokenizer takes for a letter changes with Unicode's
# versions.

_MOST_PIECES = 16
_FIRST_CJK = "\u2e80"


def name_keys_json(*row: Any) -> str:
    """Return, as a JSON list, the keys of a row's name and of its aliases, which stand one a line."""
    return json.dumps(sorted(_row_keys(row)))


def name_terms(*row: Any) -> str:
    """Return the pieces of a row's name and aliases, as `names_terms` holds them."""
    return terms_of(_row_keys(row))


def _row_keys(row: Sequence[Any]) -> set[str]:
    name, aliases = map(str, row)
    return keys_of((name, *aliases.split("\n")))


def keys_of(names: Iterable[str]) -> set[str]:
    """Return the keys of names; those without one are left out."""
    return {entity_key(name) for name in names} - {""}


def terms_of(keys: Iterable[str]) -> str:
    """Return the pieces of names with these keys, separated by spaces."""
    pieces = {piece for key in keys for word in key.split() for piece in (_pieces(word) or [word])}
    return " ".join(sorted(map(_encode, pieces)))


def pieces_within(key: str) -> list[str]:
    """Return pieces that every name has that contains the key, as a name's words may go on beyond its ends."""
    words = key.split()
    pieces = [piece for word in words for piece in _pieces(word)]
    # Words between others are whole, so one without pieces is a piece itself; a lone short word is found as a word.
    certain = pieces + [word for word in words[1:-1] if not _pieces(word)] or words[:1]
    return [_encode(piece) for piece in list(dict.fromkeys(certain))[:_MOST_PIECES]]


def _pieces(word: str) -> list[str]:
    pairs = [word[at : at + 2] for at in range(len(word) - 1) if max(word[at : at + 2]) >= _FIRST_CJK]
    triples = [word[at : at + 3] for at in range(len(word) - 2) if max(word[at : at + 3]) < _FIRST_CJK]
    return pairs + triples


def _encode(piece: str) -> str:
    return piece.encode("utf-8", "surrogatepass").hex()


def rank_names(entities: Iterable[tuple[str, str, Iterable[str], int]], text: str, limit: int) -> list[str]:
    """Return the ids of those that match, in the order of `NameIndex`, of entities by id, name, aliases and degree."""
    ranked = [
        (match, -degree, name, id_)
        for id_, name, aliases, degree in entities
        if (match := name_match((name, *aliases), text)) is not None
    ]
    return [id_ for *_, id_ in sorted(ranked)[: max(0, limit)]]


def name_match(names: Iterable[str], text: str) -> int | None:
    """Return how the best of these names matches: 0 is it, 1 begins with it, 2 contains it, None does none of these."""
    wanted = entity_key(text)
    found = (_match(entity_key(name), wanted) for name in names)
    return min((match for match in found if match is not None), default=None)


def _match(key: str, wanted: str) -> int | None:
    if not wanted or wanted not in key:
        return None
    return 0 if key == wanted else 1 if key.startswith(wanted) else 2
