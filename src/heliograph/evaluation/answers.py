"""Scores of answers: does a text hold the answer, how near is it to one, and are its citations sound.

Normalising follows SQuAD's evaluation script (lower case, no punctuation, no articles, single spaces) after NFKC;
Chinese, Japanese and Korean characters count as words of their own, as in CMRC's script.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from heliograph.text.analysis import terms
from heliograph.text.sentences import sentence_spans

__all__ = [
    "Faithfulness",
    "answer_f1",
    "answer_words",
    "check_citations",
    "exact_match",
    "holds_answer",
    "is_findable",
    "quoted_sentences",
]

_ARTICLES = frozenset({"a", "an", "the"})
_UNSPACED = re.compile(r"[\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\U00020000-\U0003ffff]")
_WORD = re.compile(rf"{_UNSPACED.pattern}|(?:(?!{_UNSPACED.pattern})\w)+")
_CITATION = re.compile(r"\[(\d+(?:\s*[,，;、]\s*\d+)*)\]")
_QUOTE = re.compile(r"^- (.*?)\s*(?:\[\d+\])?$", re.MULTILINE)
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
