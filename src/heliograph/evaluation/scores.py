"""Scores: of a ranking, of an answer, and how sure a difference between two configurations is.

Rankings: recall, nDCG, reciprocal rank, all gold near the top. Answers: exact match and F1 as SQuAD (and CMRC for
Chinese) normalises them, and whether citations are sound. Differences: the paired bootstrap over questions (Efron
and Tibshirani, 1993; Smucker, Allan and Carterette, CIKM 2007) with a fixed seed.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from heliograph.text.analysis import terms
from heliograph.text.sentences import sentence_spans

# Scores of one ranking: recall, nDCG, reciprocal rank, and whether everything wanted is near the top.
#
# A ranking is a list of *places*, best first; a place holds the ids that one hit brings and that no hit before it
# brought. Where a chunk belongs to one passage every place holds one id. Chunks that span several passages bring them
# together: a reader gets them in one place, so they share it. `recall_flat` gives every passage a place of its own
# instead, in the order of the text.

Places = Sequence[Sequence[str]]
RankingScores = dict[str, float]

CUTS = (2, 5, 10, 20)
METRICS = (*(f"recall@{cut}" for cut in CUTS), "recall_flat@5", "ndcg@10", "mrr", "all_gold@5")


def score_ranking(places: Places, gold: Mapping[str, float]) -> RankingScores:
    """Return every score of `METRICS`, each in [0, 1].

    Args:
        places: The ranking; an id counts where it first appears.
        gold: Grade per wanted id; at least one.
    """
    ranks = _first_ranks(places)
    found = {id_: ranks[id_] for id_ in gold if id_ in ranks}
    flat = _first_ranks([[id_] for id_ in chain.from_iterable(places)])
    scores = {f"recall@{cut}": sum(rank <= cut for rank in found.values()) / len(gold) for cut in CUTS}
    scores["recall_flat@5"] = sum(flat.get(id_, 6) <= 5 for id_ in gold) / len(gold)
    scores["ndcg@10"] = _ndcg(found, gold, 10)
    scores["mrr"] = 1 / min(found.values()) if found else 0.0
    scores["all_gold@5"] = float(len(found) == len(gold) and max(found.values()) <= 5)
    return scores


def _first_ranks(places: Places) -> dict[str, int]:
    ranks: dict[str, int] = {}
    for rank, ids in enumerate(places, 1):
        for id_ in ids:
            ranks.setdefault(id_, rank)
    return ranks


def _ndcg(found: Mapping[str, int], gold: Mapping[str, float], cut: int) -> float:
    """Return the discounted gain with linear grades over the best possible, as trec_eval has it.

    The best possible is that of one passage a place; passages that share places can do no better than 1.
    """
    gain = sum(gold[id_] / math.log2(rank + 1) for id_, rank in found.items() if rank <= cut)
    best = sorted(gold.values(), reverse=True)[:cut]
    return min(1.0, gain / sum(grade / math.log2(rank + 1) for rank, grade in enumerate(best, 1)))


# Scores of answers: does a text hold the answer, how near is it to one, and are its citations sound.
#
# Normalising follows SQuAD's evaluation script (lower case, no punctuation, no articles, single spaces) after NFKC;
# Chinese, Japanese and Korean characters count as words of their own, as in CMRC's script.

_ARTICLES = frozenset({"a", "an", "the"})
_UNSPACED = re.compile(r"[\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\U00020000-\U0003ffff]")
_WORD = re.compile(rf"{_UNSPACED.pattern}|(?:(?!{_UNSPACED.pattern})\w)+")
_CITATION = re.compile(r"\[(\d+(?:\s*[,，;、]\s*\d+)*)\]")
_QUOTE = re.compile(r"^- (.*?)\s*(?:\[\d+\])?$", re.MULTILINE)
# An answer that is laid out by parts has each part of the question on a line of its own, in bold.
_PART = re.compile(r"^\*\*.*\*\*$", re.MULTILINE)
_REFERENCES = re.compile(r"^#{2,3} (?:References|参考资料|参考文献)\s*$", re.MULTILINE)
# What only decides says nothing that a text could hold.
_VERDICTS = frozenset({"yes", "no", "true", "false", "是", "否", "不是", "有", "没有"})


@dataclass(frozen=True, slots=True)
class Faithfulness:
    """The citations of one answer.

    Attributes:
        sentences: Sentences of the answer.
        cited_sentences: Those that cite something.
        citations: Citations, each number of each sentence once.
        existing: Those whose number is among the references.
        supported: Those whose source shares a content word with the sentence.
    """

    sentences: int = 0
    cited_sentences: int = 0
    citations: int = 0
    existing: int = 0
    supported: int = 0


def answer_words(text: str) -> list[str]:
    """Return the normalised words of a text, in order."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("_", " ")
    joined = re.sub(r"(?<=\d)[,.](?=\d)|(?<=\w)['’.](?=\w)", "", folded)
    return [word for word in _WORD.findall(joined) if word not in _ARTICLES]


def is_findable(answers: Sequence[str]) -> bool:
    """Whether a text can hold one of these answers: not if there is none, or all are like yes and no."""
    return any(answer_words(answer) for answer in answers) and not all(
        answer.strip(" .。").casefold() in _VERDICTS for answer in answers
    )


def holds_answer(text: str, answers: Sequence[str]) -> bool:
    """Whether one of the answers occurs in a text, both normalised, as whole words."""
    haystack = f" {' '.join(answer_words(text))} "
    return any(words and f" {' '.join(words)} " in haystack for words in map(answer_words, answers))


def exact_match(text: str, answers: Sequence[str]) -> float:
    """Return 1 if a text, its citations left out, is one of the answers, both normalised; else 0."""
    words = answer_words(_uncited(text))
    return float(any(words == answer_words(answer) for answer in answers))


def answer_f1(text: str, answers: Sequence[str]) -> float:
    """Return the best F1 of words that a text, its citations left out, and an answer share; two empty ones agree."""
    words = answer_words(_uncited(text))
    return max((_f1(words, answer_words(answer)) for answer in answers), default=0.0)


def _f1(words: list[str], wanted: list[str]) -> float:
    if not words or not wanted:
        return float(words == wanted)
    shared = sum((Counter(words) & Counter(wanted)).values())
    return 2 * shared / (len(words) + len(wanted))


def quoted_sentences(answer: str) -> list[str]:
    """Return the sentences that an extractive answer quotes, in order, without their citations."""
    return [quote for quote in _QUOTE.findall(_without_references(answer)) if quote]


def leading_quotes(answer: str) -> list[str]:
    """Return the first quote of an extractive answer; where it is laid out by parts of the question, of each part."""
    parts = _PART.split(_without_references(answer))
    return [quotes[0] for part in parts if (quotes := [quote for quote in _QUOTE.findall(part) if quote])]


def check_citations(answer: str, sources: Mapping[str, str]) -> Faithfulness:
    """Return how sound the citations of an answer are; its list of references at the end is left out.

    A citation belongs to the sentence that it stands in, or right after. It is supported if the cited source and
    the sentence share a content word (stop words dropped, words stemmed); a sentence without content words needs none.

    Args:
        answer: The text.
        sources: Text per reference number, such as the retrieved chunks of that document.
    """
    wanted = {number: set(terms(text)) for number, text in sources.items()}
    total = Counter[str]()
    for sentence in _sentences_with_citations(_without_references(answer)):
        numbers = set(re.findall(r"\d+", " ".join(_CITATION.findall(sentence))))
        said = set(terms(_CITATION.sub(" ", sentence)))
        shared = [number for number in numbers & wanted.keys() if not said or said & wanted[number]]
        total.update(
            sentences=1,
            cited=bool(numbers),
            citations=len(numbers),
            existing=len(numbers & wanted.keys()),
            supported=len(shared),
        )
    return Faithfulness(total["sentences"], total["cited"], total["citations"], total["existing"], total["supported"])


def _sentences_with_citations(text: str) -> list[str]:
    """Return sentences; one that is nothing but citations belongs to the one before it."""
    found: list[str] = []
    for start, end in sentence_spans(text):
        sentence = text[start:end].strip()
        lead = re.match(r"(?:\s*\[[\d\s,，;、]+\])+[.。]?", sentence)
        if lead and found:
            found[-1] += lead[0]
            sentence = sentence[lead.end() :].strip()
        if re.search(r"\w", sentence):
            found.append(sentence)
    return found


def _uncited(answer: str) -> str:
    return _CITATION.sub(" ", _without_references(answer))


def _without_references(answer: str) -> str:
    return _REFERENCES.split(answer, maxsplit=1)[0]


# How sure a difference between two configurations is: the paired bootstrap over questions.
#
# Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993; paired as in Smucker, Allan and Carterette,
# CIKM 2007. The seed is fixed, so the same scores give the same interval.

RESAMPLES = 10_000
_SEED = 20_240_917
# Resamples drawn at once: 10,000 of 10,000 questions would take 800 MB.
_MOST_DRAWN = 4_000_000


@dataclass(frozen=True, slots=True)
class Difference:
    """What a configuration gains over another.

    Attributes:
        mean: Mean of the paired differences.
        low: Lower end of the 95% interval.
        high: Upper end.
        questions: Pairs.
    """

    mean: float
    low: float
    high: float
    questions: int

    @property
    def is_certain(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0


def paired_difference(base: Sequence[float], other: Sequence[float], resamples: int = RESAMPLES) -> Difference:
    """Return the mean of `other - base` with its 95% percentile interval.

    Args:
        base: One score per question.
        other: Scores of the same questions in the same order; none at all gives zeros.
        resamples: Bootstrap samples.

    Raises:
        ValueError: The lists differ in length.
    """
    if len(base) != len(other):
        raise ValueError(f"{len(base)} scores cannot be paired with {len(other)}")
    if not base:
        return Difference(0.0, 0.0, 0.0, 0)
    gains = np.asarray(other, np.float64) - np.asarray(base, np.float64)
    random = np.random.default_rng(_SEED)
    step = max(1, _MOST_DRAWN // len(gains))
    blocks = [min(step, resamples - start) for start in range(0, resamples, step)]
    low, high = np.percentile(
        np.concatenate([gains[random.integers(len(gains), size=(size, len(gains)))].mean(axis=1) for size in blocks]),
        (2.5, 97.5),
    )
    return Difference(float(gains.mean()), float(low), float(high), len(gains))
