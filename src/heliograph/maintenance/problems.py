"""What a check finds and what a rebuild does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["CheckReport", "Problem", "Subject"]

Subject = Literal["document", "chunk", "entity", "relation", "store"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that does not agree with what the documents say.

    Attributes:
        subject: What it is about.
        id: Its id; empty for the store as a whole.
        message: What is wrong, in words.
        is_repairable: Whether it follows from the truth how it should be.
    """

    subject: Subject
    id: str
    message: str
    is_repairable: bool = True


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a check looked at and found.

    Attributes:
        problems: The first ones found, at most as many as were asked for.
        problem_count: All that were found.
        repaired: How many were put right.
        documents: Documents looked at.
        chunks: Chunks looked at.
        entities: Entities looked at.
        relations: Relations looked at.
    """

    problems: tuple[Problem, ...]
    problem_count: int
    repaired: int
    documents: int
    chunks: int
    entities: int
    relations: int

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong any more."""
        return self.problem_count == self.repaired
