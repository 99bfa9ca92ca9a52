"""File names for entities and documents: readable, safe on every system, and different for different things."""

from __future__ import annotations

import re
import unicodedata

__all__ = ["FileNames"]

# What some file system refuses, what links of notes are written with, and what cannot be seen or encoded.
_UNSAFE = re.compile(
    r'[\x00-\x1f\x7f-\x9f<>:"/\\|?*#^\[\]\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff\s]+'
)
_MAX_BYTES = 180
# Names that Windows keeps for devices.
_RESERVED = frozenset({"con", "prn", "aux", "nul", *(f"{kind}{n}" for kind in ("com", "lpt") for n in range(10))})


class FileNames:
    """Gives each id one file name, without a suffix; names differ in more than letter case and composition."""

    def __init__(self) -> None:
        self._given: dict[str, str] = {}
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}

    def name(self, id_: str, title: str) -> str:
        """Return the name of an id, made from the title that it was first asked for with."""
        if id_ not in self._given:
            base = _safe(title) or _safe(id_) or "unnamed"
            name, number = base, self._numbers.get(base, 1)
            while _key(name) in self._taken:
                number += 1
                name = f"{base} ({number})"
            self._numbers[base] = number
            self._taken.add(_key(name))
            self._given[id_] = name
        return self._given[id_]


def _safe(title: str) -> str:
    text = unicodedata.normalize("NFC", _UNSAFE.sub(" ", title)).strip(" .")
    cut = text.encode("utf-8")[:_MAX_BYTES].decode("utf-8", "ignore").rstrip(" .")
    return f"_{cut}" if cut.casefold().split(".")[0].strip() in _RESERVED else cut


def _key(name: str) -> str:
    return unicodedata.normalize("NFD", name).casefold()
