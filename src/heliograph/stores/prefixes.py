"""Prefixes as ranges: all strings that begin alike stand next to one another in the order of code points."""

from __future__ import annotations

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
