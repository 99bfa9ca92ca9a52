"""Regular expressions that are compiled when they are first used.

Compiling takes 0.1 to 6 ms each, and a process that asks one question uses a third of what the modules that it imports
have. Where text is read word by word, use `re.compile`: a compiled pattern is called a little faster.
"""

from __future__ import annotations

import re
from typing import Any, cast


class _LatePattern:
    """Takes on the methods of the compiled pattern, each when it is first asked for."""

    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(re.compile(self.pattern, self._flags), name)
        setattr(self, name, found)
        return found


def late_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return what can be used as `re.compile(pattern, flags)`, which it is when it is first used."""
    return cast("re.Pattern[str]", _LatePattern(pattern, flags))
