"""Aliases that a passage itself introduces: an acronym in brackets beside its expansion, or the other way round.

Only what can be checked by its letters counts, since an alias holds in all documents: every letter of the acronym must
begin a word of the expansion, in order, and only small words may be left over. "MQTT" after "Message Queuing Telemetry
Transport" is one, "XML" after "Extensible Markup Language" is none. What chat models say of aliases comes in by
`heliograph.ingest.extraction`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from heliograph.ingest.mentions import canonical_aliases
from heliograph.models import AliasMention, Chunk, Extraction
from heliograph.text.abbreviations import find_abbreviations
from heliograph.text.phrases import SentenceReading
from heliograph.text.sentences import sentence_spans

__all__ = ["with_introduced_aliases"]

# Most passages hold no acronym beside a bracket and need not be cut into sentences.
_HINT = re.compile(r"[(（][A-Z][A-Za-z0-9&/.-]{1,11}[)）]|[A-Z][A-Za-z0-9&/.-]{1,11} ?[(（][^()（）\n]{4,80}[)）]")
_WORD = re.compile(r"[^\W_]+")
_SMALL_WORDS = frozenset(
    {"a", "an", "and", "as", "at", "by", "de", "del", "der", "des", "di", "du", "for", "from", "in", "la", "le", "of"}
    | {"on", "or", "per", "the", "to", "und", "van", "von", "with"}
)


def with_introduced_aliases(extraction: Extraction, chunk: Chunk) -> Extraction:
    """Return an extraction with the aliases that its chunk introduces; the same if it introduces none."""
    if not extraction.entities or not _HINT.search(chunk.text):
        return extraction
    found = tuple(AliasMention(chunk.id, long, short) for short, long in _introduced(chunk.text))
    return replace(extraction, aliases=canonical_aliases((*extraction.aliases, *found))) if found else extraction


def _introduced(text: str) -> Iterator[tuple[str, str]]:
    sentences = [SentenceReading(start, end, (), ()) for start, end in sentence_spans(text)]
    for found in find_abbreviations(text, sentences):
        short, long = text[slice(*found.short)], text[slice(*found.long)]
        if _spells(short, long):
            yield short, long


def _spells(short: str, long: str) -> bool:
    """Whether the letters of a short form are the first letters of the words of a long one."""
    letters = [character.casefold() for character in short if character.isalnum()]
    words = _WORD.findall(long)
    if len(letters) < 2 or not words or words[0].casefold()[0] != letters[0]:
        return False
    index = 0
    for word in words:
        if index < len(letters) and word.casefold()[0] == letters[index]:
            index += 1
        elif word.casefold() not in _SMALL_WORDS:
            return False
    return index == len(letters)
