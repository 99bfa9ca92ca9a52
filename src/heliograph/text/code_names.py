"""Names of code in running text: paths, message topics, dotted names and command line options.

A text in, spans of type `artifact` out. What a single word shows by its own make (`snake_case`, `CamelCase`,
`ESP32-S3`, `a.py`) is found with the other names (`heliograph.text.name_words.is_identifier`).
"""

from __future__ import annotations

import re

from heliograph.text.language import stop_words
from heliograph.text.name_cues import FILE_SUFFIXES
from heliograph.text.name_spans import NameSpan

__all__ = ["code_names"]

_CODE = re.compile(
    r"(?<![\w/.:~-])(?P<path>(?:(?:~|\.{1,2})?/?(?:[A-Za-z_$+][\w.+-]{0,60}/){1,12}|(?:~|\.{1,2})/)[\w+#.-]{0,60}[\w#+])"
    r"|(?<![\w./-])(?P<dotted>[a-z_]\w{1,40}(?:\.[A-Za-z_]\w{1,40}){2,8})(?![\w-])"
    r"|(?<![\w-])(?P<option>--[a-z][a-z\d]{1,30}(?:-[a-z\d]{1,30}){0,5})(?![\w-])"
)
_CUE = re.compile(r"\b(?:topics?|paths?|folders?|director(?:y|ies)|endpoints?|routes?|files?|repository|module)\W*$")
_CUE_REACH = 24
_LEAST_SEGMENTS = 3
_SIGNS = ("/", "--", ".")


def code_names(text: str) -> list[NameSpan]:
    """Return the names of code in order, without overlap."""
    if not any(sign in text for sign in _SIGNS):
        return []
    return [
        NameSpan(match.group(), match.start(), match.end(), "artifact")
        for match in _CODE.finditer(text)
        if match.lastgroup != "path"
        or _is_path(match.group(), text[max(0, match.start() - _CUE_REACH) : match.start()])
    ]


def _is_path(found: str, before: str) -> bool:
    """Return whether this is a path or topic and not a choice of words such as "and/or" or "red/green/blue"."""
    segments = [segment for segment in found.split("/") if segment]
    if all(segment.lower() in stop_words("en") or len(segment) < 2 for segment in segments):
        return False
    if found[0] in "/~.":
        return len(segments) > 1
    has_suffix = "." in segments[-1] and segments[-1].rpartition(".")[2].lower() in FILE_SUFFIXES
    if len(segments) < _LEAST_SEGMENTS or has_suffix:
        return has_suffix
    return not all(map(str.isalpha, segments)) or _CUE.search(before.lower()) is not None
