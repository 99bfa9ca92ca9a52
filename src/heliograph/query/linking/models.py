"""What a question names, and how its names were read, frozen."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LinkedEntity:
    """An entity that the question names.

    Attributes:
        id: The entity.
        name: Its name as the question writes it.
        start: First character of it in the question.
        end: One past the last.
        chunk_ids: Chunks that are about it, in canonical order, at most as many as were read.
    """

    id: str
    name: str
    start: int
    end: int
    chunk_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Respelling:
    """One word as it was written, and as it was read."""

    written: str
    read: str


@dataclass(frozen=True, slots=True)
class Respelt:
    """A question as it was read, and the words in which that differs from what was written."""

    question: str
    changes: tuple[Respelling, ...] = ()

    def read(self, part: str) -> str:
        """Return a part of the question, or what was made of it, read in the same way."""
        for change in self.changes:
            part = re.sub(rf"\b{re.escape(change.written)}\b", lambda _, read=change.read: read, part)
        return part
