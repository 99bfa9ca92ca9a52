"""What is understood of a question, frozen."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class QuestionKind(StrEnum):
    """What a question asks for; the first four are the seed's, the others ours."""

    FACT = "fact"
    HOW_TO = "how_to"
    COMPARE = "compare"
    REASON = "reason"
    AGGREGATE = "aggregate"
    GLOBAL = "global"


@dataclass(frozen=True, slots=True)
class Understanding:
    """What a question asks for.

    Attributes:
        kind: One particular thing, instructions, a comparison, a cause or a chain of steps, everything of a kind, or
            the documents as a whole.
        entities: Names in it, in order, each once.
        expansions: Further words to search with.
        language: ISO 639-1 code.
        parts: The questions that it is made of, each to be read on its own; empty for a single question.
        sides: What it compares, at least two; empty unless `kind` is `COMPARE` and the sides are named.
        by_model: Whether a chat model said so; else it was found by rules.
    """

    kind: QuestionKind = QuestionKind.FACT
    entities: tuple[str, ...] = ()
    expansions: tuple[str, ...] = ()
    language: str = "en"
    parts: tuple[str, ...] = ()
    sides: tuple[str, ...] = ()
    by_model: bool = False
