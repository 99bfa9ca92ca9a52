"""Pieces of names, by which an entity is found whose name contains a text.

Pieces are every three characters that follow one another in a word, two where one of them is CJK, and words shorter
than that. They are written in hexadecimal, since what a tokenizer takes for a letter changes with Unicode's versions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from heliograph.text.names import entity_key

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
