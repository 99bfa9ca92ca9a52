"""What an import did: what it took, what it repaired, and what it left out and why. Nothing is lost silently."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum

__all__ = ["ImportKind", "ImportNote", "ImportProgress", "ImportReport", "NoteKind", "NoteList", "SourceGraph"]

# Told what is taken in and how many of it have been.
ImportProgress = Callable[[str, int], None]

_MAX_EXAMPLES = 5


class ImportKind(StrEnum):
    """What was imported."""

    ARCHIVE = "archive"
    LIGHTRAG = "lightrag"


class NoteKind(StrEnum):
    """What became of something that is not here as it was there."""

    REPAIRED = "repaired"
    LEFT_OUT = "left out"
    KNOWN = "known before"
    REMARK = "remark"


@dataclass(frozen=True, slots=True)
class ImportNote:
    """One thing that is not here as it was there, and how often.

    Attributes:
        kind: What became of it.
        text: What it is, and why.
        count: How often.
        examples: The first few, by name or id.
    """

    kind: NoteKind
    text: str
    count: int
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceGraph:
    """What the imported graph holds, after repair.

    Attributes:
        entities: Distinct entities.
        relations: Distinct relations.
        weight: Sum of the relations' weights.
    """

    entities: int = 0
    relations: int = 0
    weight: float = 0.0


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import did.

    Attributes:
        kind: What was imported.
        path: From where.
        added: Documents that are new here.
        updated: Documents that took the place of others of the same id.
        unchanged: Documents that were here already with the same text, and were left alone.
        failed: Documents that could not be taken in; the notes say why.
        chunks: Chunks of the documents that were added or updated.
        curations: Curations that were added.
        graph: Entities and relations of an imported graph; zeros for an archive, which holds none of its own.
        notes: What is not here as it was there.
        replies: Kept replies of chat models that were added.
    """

    kind: ImportKind
    path: str
    added: int = 0
    updated: int = 0
    unchanged: int = 0
    failed: int = 0
    chunks: int = 0
    curations: int = 0
    graph: SourceGraph = field(default_factory=SourceGraph)
    notes: tuple[ImportNote, ...] = ()
    replies: int = 0

    @property
    def documents(self) -> int:
        """All documents that were looked at."""
        return self.added + self.updated + self.unchanged + self.failed


class NoteList:
    """Collects notes: the same said twice is one, counted."""

    def __init__(self) -> None:
        self._notes: dict[tuple[NoteKind, str], ImportNote] = {}

    def add(self, kind: NoteKind, text: str, example: str = "", count: int = 1) -> None:
        """Note something; an empty example shows none, a count of 0 nothing at all."""
        if not count:
            return
        known = self._notes.get((kind, text)) or ImportNote(kind, text, 0)
        examples = (*known.examples, example) if example and len(known.examples) < _MAX_EXAMPLES else known.examples
        self._notes[kind, text] = replace(known, count=known.count + count, examples=examples)

    def notes(self) -> tuple[ImportNote, ...]:
        """Return all notes, by kind, in the order in which each first came up."""
        order = list(NoteKind)
        return tuple(sorted(self._notes.values(), key=lambda note: order.index(note.kind)))
