"""Patterns for paths, as `.gitignore` has them.

`*` and `?` stand for anything but `/`, `**` for any number of folders, `[ab]` for one of these characters. A pattern
with a `/` that is not its last character is matched from the folder that is walked, others at any depth; one that
matches a folder matches everything in it, and one that ends with `/` matches folders only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

__all__ = ["matches_any"]


def matches_any(path: str, patterns: Iterable[str]) -> bool:
    """Return whether a path below the folder, with `/` between its parts, matches one of the patterns."""
    return any(_compile(pattern).fullmatch(path) for pattern in patterns if pattern.strip("/"))


@lru_cache(maxsize=256)
def _compile(pattern: str) -> re.Pattern[str]:
    is_folder = pattern.endswith("/")
    body = pattern.rstrip("/")
    prefix = "" if "/" in body else "(?:.*/)?"
    below = "/.*" if is_folder else "(?:/.*)?"
    return re.compile(prefix + _translate(body.lstrip("/")) + below, re.DOTALL)


def _translate(pattern: str) -> str:
    expression = ""
    position = 0
    while position < len(pattern):
        rest = pattern[position:]
        if rest.startswith("**/"):
            expression, position = expression + "(?:.*/)?", position + 3
        elif rest.startswith("**"):
            expression, position = expression + ".*", position + 2
        elif rest[0] == "*":
            expression, position = expression + "[^/]*", position + 1
        elif rest[0] == "?":
            expression, position = expression + "[^/]", position + 1
        elif match := re.match(r"\[([!^]?)(\]?[^\]/]*)\]", rest):
            characters = match[2].replace("\\", "\\\\").replace("[", "\\[")
            expression += f"[{'^/' if match[1] else ''}{characters}]" if match[2] else re.escape(match[0])
            position += match.end()
        else:
            expression, position = expression + re.escape(rest[0]), position + 1
    return expression
