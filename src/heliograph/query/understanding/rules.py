"""Understanding a question without a model: cue words, names, coordination.

The same question gives the same understanding. Nothing is added that the question does not say: `entities` are its
names and `expansions` its other content words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from heliograph.query.understanding.cues import CUES
from heliograph.query.understanding.models import QuestionKind, Understanding
from heliograph.query.understanding.parts import find_parts
from heliograph.query.understanding.sides import find_sides
from heliograph.text.language import detect_language
from heliograph.text.phrases import SentenceReading, read_texts

_MAX_WORDS = 64
# What comes later in a question of pages is material, not the question.
LONGEST_READ = 4_000


def understand_by_rules(question: str) -> Understanding:
    """Return what rules find in a question; takes about a millisecond, so it belongs into a thread."""
    text = question[:LONGEST_READ]
    (sentences,) = read_texts([text])
    entities = _names(sentences)
    phrases = _unique(phrase.text.casefold() for sentence in sentences for phrase in sentence.phrases)
    kind = classify(text, entities)
    sides = find_sides(text, entities) if kind is QuestionKind.COMPARE else ()
    # A comparison is retrieved by its sides, so its question stays whole.
    parts = () if sides else find_parts(text, entities)
    return Understanding(kind, entities, phrases, detect_language(text), parts, sides)


def sides_by_rules(question: str) -> tuple[str, ...]:
    """Return what a question compares, as `understand_by_rules` does; takes about as long."""
    text = question[:LONGEST_READ]
    (sentences,) = read_texts([text])
    entities = _names(sentences)
    return find_sides(text, entities) if classify(text, entities) is QuestionKind.COMPARE else ()


def classify(question: str, entities: Sequence[str]) -> QuestionKind:
    """Return the kind of a question.

    Args:
        question: The question.
        entities: The names in it; weak cues count only where there are none.
    """
    text = " ".join(question.casefold().split())
    for cue in CUES:
        if cue.pattern.search(text) and not (cue.is_weak and entities):
            return cue.kind
    return QuestionKind.FACT


def _names(sentences: Iterable[SentenceReading]) -> tuple[str, ...]:
    return _unique(name.text for sentence in sentences for name in sentence.names)


def _unique(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for word in words if word.strip()))[:_MAX_WORDS]
