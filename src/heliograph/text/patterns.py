"""Regular expressions compiled on first use, which also match traditional Chinese characters.

Compiling takes 0.1 to 6 ms per pattern, and a process that asks one question uses a third of the patterns in the
modules it imports. Where text is read word by word, use `compiled`: calling a compiled pattern is a little faster.

The Chinese in our patterns and word lists is in simplified characters. Taiwan and Hong Kong use traditional ones, which
correspond one to one in nearly all of these words; `words/zh_traditional.txt` maps them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Any, cast

_HAS_HAN = re.compile("[\u4e00-\u9fff]")
# Character ranges from U+3000 on, written as escapes in a class; none of them has an ASCII case variant.
_WIDE = re.compile(r"\\u[3-9a-f][0-9a-f]{3}-\\u[3-9a-f][0-9a-f]{3}|\\U[0-9a-f]{8}-\\U[0-9a-f]{8}")
# An escaped character or any other single character.
_PIECE = re.compile(r"\\.|.", re.DOTALL)


@cache
def _forms() -> dict[str, str]:
    """Return, by simplified character, the character and its traditional forms."""
    text = (files("heliograph.text") / "words" / "zh_traditional.txt").read_text(encoding="utf-8")
    return {forms[0]: forms for forms in text.partition("\n")[2].split()}


def both_scripts(pattern: str) -> str:
    """Return a pattern in which simplified Chinese characters also match their traditional forms."""
    if _HAS_HAN.search(pattern) is None:
        return pattern
    forms, is_class, pieces = _forms(), False, list[str]()
    for piece in _PIECE.findall(pattern):
        is_class = piece == "[" or (is_class and piece != "]")
        found = forms.get(piece, piece)
        pieces.append(found if is_class or found == piece else f"[{found}]")
    return "".join(pieces)


def words_in_both_scripts(words: Iterable[str]) -> Iterator[str]:
    """Yield words, and the traditional forms of those in simplified Chinese characters."""
    for word in words:
        if _HAS_HAN.search(word) is None:
            yield word
        else:
            yield from map("".join, product(*(_forms().get(character, character) for character in word)))


class _LatePattern:
    """Provides the methods of the compiled pattern, each compiled on first access.

    ASCII text is matched with a pattern without traditional forms and wide character ranges: compiling a class takes
    time in proportion to its characters, and Han has 30,000.
    """

    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        is_alike = _HAS_HAN.search(self.pattern) is None and _WIDE.search(self.pattern) is None
        if is_alike or name in ("flags", "groups", "groupindex"):
            found = getattr(re.compile(self.pattern, self._flags), name)
        else:
            found = self._of_either_script(name)
        setattr(self, name, found)
        return found

    def _of_either_script(self, name: str) -> Callable[..., Any]:
        methods: list[Any] = [None, None]
        place = 1 if name.startswith("sub") else 0

        def call(*args: Any, **given: Any) -> Any:
            is_ascii = args[place].isascii()
            if (method := methods[is_ascii]) is None:
                pattern = _WIDE.sub(r"\\uffff", self.pattern) if is_ascii else both_scripts(self.pattern)
                method = methods[is_ascii] = getattr(re.compile(pattern, self._flags), name)
            return method(*args, **given)

        return call


def late_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a stand-in for `re.compile(both_scripts(pattern), flags)` that compiles on first use."""
    return cast("re.Pattern[str]", _LatePattern(pattern, flags))


def compiled(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return `re.compile(both_scripts(pattern), flags)`, at once."""
    return re.compile(both_scripts(pattern), flags)
