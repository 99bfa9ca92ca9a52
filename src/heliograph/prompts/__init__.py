"""The texts given to chat models, one file per task, and their loader; each is read where its task is done.

`load_prompt("answer")` is the text of `answer.txt` beside this file, read once. Templates mark what is filled in
with `$name`, for `string.Template`; its `substitute` raises when something is left out.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from heliograph.errors import InvalidRequestError
from heliograph.ids import content_hash

__all__ = ["data_marker", "load_prompt"]


@cache
def load_prompt(name: str) -> str:
    """Return the text of a prompt.

    Args:
        name: File name without `.txt`, in lower case, digits and underscores.

    Raises:
        InvalidRequestError: There is no prompt of that name.
    """
    path = files(__name__) / f"{name}.txt"
    if not re.fullmatch(r"[a-z0-9_]+", name) or not path.is_file():
        raise InvalidRequestError(f"there is no prompt {name!r}; use one of {_names()}")
    return path.read_text(encoding="utf-8")


def data_marker(text: str) -> str:
    """Return a line that fences `text` off from the instructions, and does not occur in it."""
    return f"=== {content_hash(text)[:16]} ==="


def _names() -> list[str]:
    return sorted(entry.name.removesuffix(".txt") for entry in files(__name__).iterdir() if entry.name.endswith(".txt"))
