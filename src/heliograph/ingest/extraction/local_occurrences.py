"""Where entities stand in a chunk: the parts of what `local_reading` gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from heliograph.models import Chunk
from heliograph.text.phrases import SentenceReading

__all__ = ["Definition", "Occurrence", "ReadChunk", "Topic"]


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An entity stands somewhere in a chunk.

    Attributes:
        key: What makes two spellings one entity.
        name: The name to store.
        sentence: Index of the sentence.
        start: First character in the chunk.
        end: One past the last character.
        is_phrase: Whether it is a term found among common words and not a name.
    """

    key: str
    name: str
    sentence: int
    start: int
    end: int
    is_phrase: bool = False


@dataclass(frozen=True, slots=True)
class Definition:
    """A sentence introduces an abbreviation; both forms are keys of entities."""

    short: str
    long: str
    sentence: int


@dataclass(frozen=True, slots=True)
class Topic:
    """What a part of a chunk is about.

    Attributes:
        key: Key of the entity; empty when it is not known.
        name: Its name.
        nouns: What it is said to be, in lower case: "the film" stands for it.
    """

    key: str = ""
    name: str = ""
    nouns: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ReadChunk:
    """A chunk, read.

    Attributes:
        chunk: The chunk.
        sentences: Its sentences.
        occurrences: All occurrences in order.
        references: Places that mean an entity without naming it, in order.
        definitions: The abbreviations that it introduces.
        subjects: Keys and names of what the chunk is about, in order; they need not occur in its text.
        topics: Per sentence what its part of the chunk is about.
        type_of: Gives the type of an entity by its key.
    """

    chunk: Chunk
    sentences: Sequence[SentenceReading]
    occurrences: Sequence[Occurrence]
    references: Sequence[Occurrence]
    definitions: Sequence[Definition]
    subjects: dict[str, str]
    topics: Sequence[Topic]
    type_of: Callable[[str], str]
