"""The entries of LightRAG's `PROMPTS` that programs read: extraction delimiters, and the answer without results."""

from __future__ import annotations

from typing import Any

from heliograph.lightrag.utils import warn_once


class _Prompts(dict[str, Any]):
    def __setitem__(self, name: str, value: Any) -> None:
        warn_once(f"PROMPTS[{name!r}] has no effect: prompts are Heliograph's; say what you want in addon_params")
        super().__setitem__(name, value)

    def __missing__(self, name: str) -> Any:
        raise KeyError(f"{name}: Heliograph's prompts are its own and are not read from here")


# `fail_response` is the answer to a question without results; programs look for the mark at its end.
PROMPTS = _Prompts(
    DEFAULT_TUPLE_DELIMITER="<|#|>",
    DEFAULT_COMPLETION_DELIMITER="<|COMPLETE|>",
    fail_response="Sorry, I'm not able to provide an answer to that question.[no-context]",
)
