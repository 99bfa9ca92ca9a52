"""What every text goes through before it is stored, whether it comes from a file or from a caller.

Any string goes in. What comes out has the line feed as its only line end, no NUL or other control character but tab,
no byte order mark and no lone surrogate, so every later room may encode, store and show it. Clean text comes back as
it is.
"""

from __future__ import annotations

import re

__all__ = ["clean_text", "replace_surrogates"]

_LINE_ENDS = re.compile("\r\n|[\r\v\f\x85\u2028\u2029]")
_REMOVED = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ufeff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_UNCLEAN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")


def clean_text(text: str) -> str:
    """Return a text with line feeds as its line ends, control characters removed and lone surrogates replaced.

    Two surrogates that form a pair become the character they stand for; a lone one becomes U+FFFD.
    """
    if not _UNCLEAN.search(text):
        return text
    return _REMOVED.sub("", _LINE_ENDS.sub("\n", replace_surrogates(text)))


def replace_surrogates(text: str) -> str:
    """Return a text that can be encoded: pairs of surrogates made one character, lone ones U+FFFD."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
