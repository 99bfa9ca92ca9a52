"""Ending replies that go on for no reason: small models fall into loops and write until their window is full.

A reply's pieces go in as they come; out comes whether it is to end there, because its end repeats itself or because it
is longer than any sound reply to its task. Thoughts are watched for loops as well, but have no bound. Time is linear in
the length of the reply.
"""

from __future__ import annotations

# Shorter repeats are tables, rules and lists.
_LEAST_LOOP = 600
_LEAST_TIMES = 3
# The longest loop that is seen is a third of this.
_WINDOW = 12_000
_STEP = 200
_PROBE = 80
_MOST_PROBES = 16
# Prose of any language has no more bytes a token.
_BYTES_PER_TOKEN = 4


class ReplyBounds:
    """Watches one reply.

    Args:
        most_tokens: Of a sound reply, about; None sets no bound.
    """

    def __init__(self, most_tokens: int | None) -> None:
        self._bytes_left = None if most_tokens is None else most_tokens * _BYTES_PER_TOKEN
        self._tail = ""
        self._unchecked = 0

    def passes(self, written: str, shown: str) -> bool:
        """Return whether the reply has gone on for too long with this piece.

        Args:
            written: What the model wrote, thoughts included.
            shown: What of that is part of the reply.
        """
        self._tail += written
        self._unchecked += len(written)
        if self._bytes_left is not None:
            self._bytes_left -= len(shown.encode("utf-8", "replace"))
            if self._bytes_left < 0:
                return True
        if self._unchecked < _STEP:
            return False
        self._unchecked = 0
        self._tail = self._tail[-_WINDOW:]
        return _period(self._tail) > 0


def without_repeats(text: str) -> str:
    """Return a text whose end repeats itself with that said twice at the most; any other as it is."""
    period = _period(text[-_WINDOW:])
    if not period:
        return text
    start = len(text) - period - _repeated(text, period)
    # Where a round begins cannot be told, so only two of them surely hold one that is whole.
    return text[: start + 2 * period]


def _period(text: str) -> int:
    """Return after how many characters the end of a text repeats itself, three times or more; 0 if it does not."""
    length, place = _PROBE, len(text) - _PROBE
    for _ in range(_MOST_PROBES):
        # The end of the text, as it stands once more before.
        place = text.rfind(text[-length:], 0, place + length - 1)
        if place < 0:
            return 0
        period = len(text) - length - place
        repeated = _repeated(text, period)
        if repeated + period >= max(_LEAST_LOOP, _LEAST_TIMES * period):
            return period
        # What repeats over a longer way does not break off where this does.
        length, place = repeated + 1, len(text) - repeated - 1 - period
    return 0


def _repeated(text: str, period: int) -> int:
    """Return how many characters at the end of a text are the same as those so far before them."""
    low, high = 0, len(text) - period
    while low < high:
        middle = (low + high + 1) // 2
        is_same = text[len(text) - middle :] == text[len(text) - middle - period : len(text) - period]
        low, high = (middle, high) if is_same else (low, middle - 1)
    return low
