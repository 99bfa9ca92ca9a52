"""Which sentences of a context answer a question, and whether any does.

A sentence scores by the share of the question's terms that it holds, weighted by how rare they are in the context; by
how well its chunk was found; and by whether it holds the kind of thing asked for. The best is taken first. Every next
one is worth more the more of the question it adds, and if it speaks of what a sentence taken before has named: so the
sentence that leads to the answer is followed by the one that gives it. What is quoted first is then for `answer_order`
to say. Docs: `docs/answers.md`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from heliograph.query.answers.answer_order import answer_first
from heliograph.query.answers.candidates import AskedQuestion, Candidate, plain_name
from heliograph.query.answers.comparison import compared_sides
from heliograph.query.answers.expected_answer import expected_type, type_match
from heliograph.query.answers.question_focus import find_focus, nearness
from heliograph.query.answers.quotable import Quotable
from heliograph.query.modes import Channel
from heliograph.query.understanding.models import Understanding
from heliograph.query.understanding.rules import LONGEST_READ
from heliograph.text.analysis import detect_language, terms
from heliograph.text.language import is_chinese
from heliograph.text.phrases import read_texts

# Sentences whose names are read; the rest score too low to be taken.
_CANDIDATES = 20
# Of a whole question's terms worth 1: what nearby terms, the chunk's score, its place, and a fitting name are worth.
_NEARBY = 0.1
_CHUNK_SCORE = 1.0
_CHUNK_PLACE = 0.3
_PLACE_ALONE = 0.6
_LAST_PLACE = 10
_TYPE = 0.25
_LENGTH = 0.1
_OTHER_SCRIPT = 0.6
# Of what was covered before what is no longer counted; what leads on from a name is worth; a document taken before.
_REPEATED = 0.8
_LEADS_ON = 0.3
_SAME_DOCUMENT = 0.2
# Below this share of the question's terms no sentence says anything of it; where the cosine of the best chunk is known,
# the share and half of the cosine must come to this.
_LEAST_COVERED = 0.22
_NEARNESS = 0.5
_LEAST_TOLD = 0.5


def best_sentences(
    question: str,
    sentences: Sequence[Quotable],
    titles: Mapping[str, str],
    limit: int,
    understanding: Understanding | None = None,
) -> list[Quotable]:
    """Return the sentences to quote, most telling first; empty if none says anything of the question.

    A question without content words is answered by the first sentences.

    Args:
        question: The question.
        sentences: Sentences of the context, the best chunk's first.
        titles: Titles of documents by id.
        limit: Sentences at the most.
        understanding: What the question asks for, if it is known; else rules say so.
    """
    words = frozenset(terms(question))
    asked = _read_question(question, words, sentences, understanding)
    if words and _is_comparable(question, sentences) and not _says_anything(words, asked, sentences):
        return []
    titled = {id_: frozenset(terms(title)) for id_, title in titles.items()}
    telling = _beyond_titles(sentences, titled)
    scored = sorted(_scored(asked, telling, titled), key=lambda item: -item[0])[:_CANDIDATES]
    candidates = _with_names(asked, scored, titles)
    ordered = answer_first(asked, _chosen(asked, candidates, titles, limit), candidates)
    return [candidate.sentence for candidate in ordered[:limit]]


def term_weights(wanted: Iterable[str], texts: Sequence[frozenset[str]]) -> dict[str, float]:
    """Return a weight for each wanted term that a text holds: the rarer among the texts, the more."""
    frequencies = Counter(term for text in texts for term in text)
    return {term: math.log1p(len(texts) / frequencies[term]) for term in wanted if frequencies[term]}


def _read_question(
    question: str, words: frozenset[str], sentences: Sequence[Quotable], understanding: Understanding | None
) -> AskedQuestion:
    chunks: dict[str, set[str]] = {}
    for sentence in sentences:
        chunks.setdefault(sentence.item.chunk.id, set()).update(sentence.words)
    weights = term_weights(words, [frozenset(held) for held in chunks.values()])
    total = sum(weights.values()) or 1.0
    read = question[:LONGEST_READ]
    focus = find_focus(read)
    return AskedQuestion(
        question.casefold(),
        weights,
        total,
        nearness(focus),
        is_chinese(question),
        expected_type(focus),
        compared_sides(read, understanding),
    )


def _beyond_titles(sentences: Sequence[Quotable], titled: Mapping[str, frozenset[str]]) -> Sequence[Quotable]:
    """Return the sentences that say more than the title of their document, or all if none does."""
    none = frozenset[str]()
    telling = [item for item in sentences if not item.words <= titled.get(item.item.chunk.document_id, none)]
    return telling or sentences


def _says_anything(words: frozenset[str], asked: AskedQuestion, sentences: Sequence[Quotable]) -> bool:
    """Return whether some sentence holds enough of the question, words that nothing holds counted in.

    What is near the question may say it in other words, so the nearer the best chunk, the fewer must be shared. Pairs
    of Chinese characters cross the borders of words, so one that is missing says nothing.
    """
    total = asked.total
    if not asked.is_chinese:
        count = 1 + max(sentence.place for sentence in sentences)
        total += math.log1p(count) * len(words - asked.weights.keys())
    covered = max(asked.share(sentence.words) for sentence in sentences) * asked.total / total
    cosines = [cosine for sentence in sentences if (cosine := sentence.item.scores.get(Channel.VECTOR)) is not None]
    if not cosines:
        return covered >= _LEAST_COVERED
    return covered + _NEARNESS * max(cosines) >= _LEAST_TOLD


def _is_comparable(question: str, sentences: Sequence[Quotable]) -> bool:
    """Return whether the best chunk is in the question's language; else shared words say nothing."""
    best = " ".join(sentence.shown for sentence in sentences if sentence.place == sentences[0].place)
    return detect_language(question) == detect_language(best)


def _scored(
    asked: AskedQuestion, sentences: Sequence[Quotable], titled: Mapping[str, frozenset[str]]
) -> list[tuple[float, int, Quotable]]:
    best = max((sum(sentence.item.scores.values()) for sentence in sentences), default=0.0)
    found: list[tuple[float, int, Quotable]] = []
    for order, sentence in enumerate(sentences):
        nearby = (sentence.nearby | titled.get(sentence.item.chunk.document_id, frozenset())) - sentence.words
        score = asked.share(sentence.words) + _NEARBY * asked.share(nearby)
        score += _standing(sentence, best) - _LENGTH * math.log1p(len(sentence.shown) / 100)
        score *= 1.0 if is_chinese(sentence.shown) == asked.is_chinese else _OTHER_SCRIPT
        found.append((score, order, sentence))
    return found


def _standing(sentence: Quotable, best: float) -> float:
    """Return how well a sentence's chunk was found; by its place alone where channels were not fused."""
    place = max(0.0, 1.0 - sentence.place / _LAST_PLACE)
    if best <= 0.0:
        return _PLACE_ALONE * place
    return _CHUNK_SCORE * max(0.0, sum(sentence.item.scores.values())) / best + _CHUNK_PLACE * place


def _with_names(
    asked: AskedQuestion, scored: Sequence[tuple[float, int, Quotable]], titles: Mapping[str, str]
) -> list[Candidate]:
    readings = read_texts([sentence.shown for _, _, sentence in scored])
    best = max((sum(sentence.item.scores.values()) for _, _, sentence in scored), default=0.0)
    candidates: list[Candidate] = []
    for (score, _, sentence), reading in zip(scored, readings, strict=True):
        names = [name for part in reading for name in part.names]
        new = tuple(name for name in names if name.text.casefold() not in asked.folded)
        candidates.append(
            Candidate(
                sentence,
                score + _TYPE * type_match(asked.expected, sentence.shown, new),
                _standing(sentence, best),
                max(0.0, sentence.item.scores.get(Channel.BRIDGE, 0.0)) / best if best > 0.0 else 0.0,
                plain_name(titles.get(sentence.item.chunk.document_id, "")),
                sentence.words & asked.weights.keys(),
                frozenset(name.text.casefold() for name in names),
                new,
            )
        )
    return candidates


def _chosen(
    asked: AskedQuestion, candidates: Sequence[Candidate], titles: Mapping[str, str], limit: int
) -> list[Candidate]:
    left, taken = list(candidates), list[Candidate]()
    covered: set[str] = set()
    named: set[str] = set()
    documents: set[str] = set()

    def leads_on(candidate: Candidate) -> bool:
        title = titles.get(candidate.document_id, "").casefold()
        return not named.isdisjoint(candidate.names) or any(name in title for name in named)

    def value(candidate: Candidate) -> float:
        score = candidate.score - _REPEATED * asked.share(candidate.own & covered) + _LEADS_ON * leads_on(candidate)
        return score - _SAME_DOCUMENT * (candidate.document_id in documents)

    while len(taken) < limit:
        # What shares no word with the question answers it only by what was said of the name it leads on from.
        telling = [item for item in left if item.own or not asked.weights or leads_on(item)]
        if not telling:
            break
        best = max(telling, key=value)
        left.remove(best)
        taken.append(best)
        covered |= best.own
        named |= best.new_names
        documents.add(best.document_id)
    return taken
