"""Line ends that mean something: a title above a paragraph ends early, a wrapped line ends when it is full."""

from __future__ import annotations

import re

from heliograph.text.language import HAN

__all__ = ["is_own_line"]

_LONGEST_TITLE = 60
_HAN = re.compile(rf"[《“]?[{HAN}]")
_ENDS = frozenset(".,;:!?。，；：！？、")


def is_own_line(text: str, line_end: int) -> bool:
    """Return whether the line that ends here was ended on purpose.

    It was when the first word after it would still have fitted: the next line is longer than this one with that word.
    Chinese lines are filled to the last character.

    Args:
        text: The text.
        line_end: Place of a line feed in it.
    """
    start = text.rfind("\n", 0, line_end) + 1
    line = text[start:line_end].strip()
    after = text[line_end + 1 : line_end + 3 * _LONGEST_TITLE].partition("\n")[0].strip()
    if not line or len(line) > _LONGEST_TITLE or line[-1] in _ENDS or not after or after[0].islower():
        return False
    first = after[0] if _HAN.match(after) else after.split(maxsplit=1)[0]
    return len(line) + 1 + len(first) < len(after)
