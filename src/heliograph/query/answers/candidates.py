"""What is known of a question and of each sentence that may answer it, as the ranking reads them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from heliograph.query.answers.expected_answer import AnswerType
from heliograph.query.answers.quotable import Quotable
from heliograph.text.name_spans import NameSpan

_IN_BRACKETS = re.compile(r"\s*[(（][^()（）]*[)）]$")
_ARTICLE = re.compile(r"^(?:the|an?) ")
# A shorter title, such as "Who", may be any word or part of a number.
_LEAST_TITLE = 4


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question against a context.

    Attributes:
        folded: The question in lower case.
        weights: Weight of each of its terms that the context holds.
        total: Their sum, above 0.
        near: Of each term, how near it stands to the question word, from 0 to 1.
        is_chinese: Whether it is Chinese.
        expected: What it asks for.
        sides: What it lets choose between, in lower case; empty unless it compares.
    """

    folded: str
    weights: Mapping[str, float]
    total: float
    near: Mapping[str, float]
    is_chinese: bool
    expected: AnswerType
    sides: tuple[str, ...] = ()

    def names(self, title: str) -> bool:
        """Return whether the question says a plain title."""
        return (len(title) >= _LEAST_TITLE or not title.isascii()) and says(self.folded, title)

    def share(self, words: Iterable[str]) -> float:
        """Return the share of the question that these distinct terms make up, by weight."""
        return sum(self.weights.get(word, 0.0) for word in words) / self.total

    def near_share(self, words: Iterable[str]) -> float:
        """Return the same, each term counted by how near it stands to the question word."""
        total = sum(weight * self.near.get(word, 0.0) for word, weight in self.weights.items())
        return sum(self.weights.get(word, 0.0) * self.near.get(word, 0.0) for word in words) / (total or 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A sentence that may be quoted.

    Attributes:
        sentence: The sentence.
        score: What it is worth by itself.
        standing: How well its chunk was found, from 0 to 1.3.
        bridged: What its chunk was given for being reached over a name in another chunk, as a share of the best score.
        title: Title of its document as `plain_name` gives it; empty where it has none.
        own: Terms of the question that it holds.
        names: Names in it, in lower case.
        new: Names in it that the question does not say.
    """

    sentence: Quotable
    score: float
    standing: float
    bridged: float
    title: str
    own: frozenset[str]
    names: frozenset[str]
    new: tuple[NameSpan, ...]

    @property
    def document_id(self) -> str:
        """The document that holds it."""
        return self.sentence.item.chunk.document_id

    @property
    def new_names(self) -> frozenset[str]:
        """The names that the question does not say, in lower case."""
        return frozenset(name.text.casefold() for name in self.new)


def plain_name(name: str) -> str:
    """Return a name as names are compared: in lower case, without brackets behind it and an article before it."""
    return _ARTICLE.sub("", _IN_BRACKETS.sub("", name.strip()).casefold())


def says(text: str, name: str) -> bool:
    """Return whether a text in lower case holds a plain name, not as a part of longer words."""
    if not name.isascii():
        return name in text
    return bool(name) and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None
