"""A synthetic corpus whose words and names are as frequent as in real text, with extractions and questions.

Words are drawn by Zipf's law from 60,000, without the most frequent 150, which in real text are stop words: the most
frequent word left is in a tenth of all passages. A document is one chunk of some 180 words. It is *about* one entity,
names the subjects of four earlier documents, eight entities of its own and three of a common pool, which are named by
Zipf's law too (hubs). That is what local extraction gives for encyclopedic passages of that length: six new entities
and seven relations per hundred words. Everything follows from the document's number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np

from heliograph.extraction.base import Extractor, ignore_progress
from heliograph.ids import mention_rank
from heliograph.ingest.models import NewDocument
from heliograph.models import Chunk, Document, EntityMention, Extraction, RelationMention

__all__ = ["NaturalExtractor", "nameless_question", "natural_document", "natural_question"]

_WORDS, _STOP_WORDS = 60_000, 150
_FIRST_NAMES, _LAST_NAMES, _NAME_OFFSET = 3_000, 40_000, 20
_OWN, _SHARED, _LINKS = 8, 3, 4
_POOL = 5_000
_WORDS_PER_STATEMENT = (5, 12)
# Documents named are these far away, so that the graph has no short rings.
_STRIDE = 7919
_SYLLABLES = ("ka", "lor", "ven", "mi", "tas", "ru", "bel", "no", "dri", "sha", "pol", "ter")
_TYPES = ("person", "location", "organization", "event", "artifact")


class NaturalExtractor(Extractor):
    """Finds in each document's chunk what the corpus put there, at no cost."""

    @property
    def name(self) -> str:
        """See `Extractor`."""
        return "natural"

    async def extract(
        self,
        document: Document,
        chunks: Sequence[Chunk],
        on_chunk: Callable[[], None] = ignore_progress,  # noqa: ARG002
    ) -> list[Extraction]:
        """See `Extractor`."""
        return [_extraction(chunk, int(document.metadata["number"])) for chunk in chunks]


def natural_document(number: int) -> NewDocument:
    """Return a document of the corpus."""
    text = " ".join(text for _, _, text in _statements(number))
    title = _subject(number)
    return NewDocument(text=text, source=f"{number:06}-{title}.md", metadata={"number": number})


def natural_question(number: int) -> str:
    """Return a question whose answer a document's first link holds; it names one entity or two, and has six words."""
    source, target, text = _statements(number)[0]
    words = [word for word in text.split() if word.islower()]
    drawn = [_word(rank) for rank in _ranks(np.random.default_rng((3, number)), 6)]
    said = " ".join([*words[:3], *drawn[:3]])
    if number % 2:
        return f"Who was it that {said} with {source} when the {drawn[3]} of the {drawn[4]} came?"
    return f"In which {drawn[5]} did {source} and {target} {said} for the first time?"


def nameless_question(number: int) -> str:
    """Return a question about what a document's first link says that names nothing."""
    _, _, text = _statements(number)[0]
    words = [word for word in text.rstrip(".").split() if word.islower()]
    drawn = [_word(rank) for rank in _ranks(np.random.default_rng((4, number)), 4)]
    return f"In which {drawn[0]} did the {drawn[1]} of the {drawn[2]} {' '.join(words[:3])} with {drawn[3]}?"


@lru_cache(maxsize=4096)
def _statements(number: int) -> tuple[tuple[str, str, str], ...]:
    """Return what a document says: source, target and text; the subject first, then from name to name."""
    random = np.random.default_rng((1, number))
    subject = _subject(number)
    others = [_subject(place) for place in _linked_documents(number)]
    own = [_drawn_name(random) for _ in range(_OWN)]
    shared = [_drawn_name(np.random.default_rng((2, int(_POOL**value)))) for value in random.random(_SHARED)]
    names = list(dict.fromkeys((subject, *others, *own, *shared)))
    pairs = [*((subject, other) for other in others if other != subject), *pairwise(names[len(others) :])]
    return tuple((source, target, _sentence(source, target, random)) for source, target in pairs)


def _sentence(source: str, target: str, random: np.random.Generator) -> str:
    words = [_word(rank) for rank in _ranks(random, int(random.integers(*_WORDS_PER_STATEMENT)))]
    return f"{source} {' '.join(words[1:])} {target} {words[0]}."


def _linked_documents(number: int) -> list[int]:
    """Return the documents whose subjects a document names: earlier ones, so that the workspace may grow."""
    places = ((number * 3 + place * _STRIDE) % max(1, number) for place in range(1, _LINKS + 1))
    return [place for place in dict.fromkeys(places) if place != number]


def _subject(number: int) -> str:
    return _drawn_name(np.random.default_rng((0, number)))


def _drawn_name(random: np.random.Generator) -> str:
    # Zipf's law with an offset, as real names have it: the commonest in one of a hundred.
    counts, values = np.array((_FIRST_NAMES, _LAST_NAMES)), random.random(2)
    first, last = (_NAME_OFFSET * ((counts / _NAME_OFFSET + 1) ** values - 1)).astype(int).tolist()
    # Last names are other words than first names; both occur in the text in small letters too, as rare words.
    return f"{_word(first + _WORDS // 2).capitalize()} {_word(last + _WORDS // 3).capitalize()}"


def _ranks(random: np.random.Generator, count: int) -> list[int]:
    return np.searchsorted(_cumulative(), random.random(count)).tolist()


@lru_cache(maxsize=1)
def _cumulative() -> np.ndarray:
    shares = np.cumsum(1 / (np.arange(_STOP_WORDS, _STOP_WORDS + _WORDS) + 2.7))
    return shares / shares[-1]


@lru_cache(maxsize=2 * _WORDS)
def _word(rank: int) -> str:
    """Return the word of a rank: two syllables and more."""
    word, left = "", rank + len(_SYLLABLES)
    while left:
        left, place = divmod(left, len(_SYLLABLES))
        word += _SYLLABLES[place]
    return word


def _extraction(chunk: Chunk, number: int) -> Extraction:
    subject = _subject(number)
    ranks = {about: mention_rank(chunk.document_id, chunk.position, is_subject=about) for about in (True, False)}
    statements = _statements(number)
    said: dict[str, str] = {}
    for source, target, text in statements:
        said.setdefault(source, text)
        said.setdefault(target, text)
    entities = tuple(
        EntityMention(chunk.id, name, _TYPES[len(name) % len(_TYPES)], text, ranks[name == subject])
        for name, text in said.items()
    )
    pairs = {frozenset((source, target)): (source, target, text) for source, target, text in statements}
    relations = tuple(
        RelationMention(chunk.id, source, target, (text.split()[2],), text, 1.0, ranks[subject in (source, target)])
        for source, target, text in pairs.values()
        if source.casefold() != target.casefold()
    )
    return Extraction(chunk.id, "natural", entities, relations)
