"""The plan and the report of an evaluation, and the means and differences computed from its questions.

Records are frozen and can be written and read as JSON. `summarize` makes the report of one configuration from its
questions' outcomes, by question type too; `compare` gives the differences between two configurations.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from statistics import fmean
from typing import Any

import numpy as np

from heliograph.errors import InvalidRequestError
from heliograph.models import Mode
from heliograph.text.analysis import terms
from heliograph.text.sentences import sentence_spans

# Scores of one ranking: recall, nDCG, reciprocal rank, and whether all gold is near the top.
#
# A ranking is a list of *places*, best first; a place holds the ids that one hit adds to those of the hits before it.
# Where a chunk belongs to one passage every place holds one id. Chunks that span several passages give one place to all
# of them, because a reader gets them together. `recall_flat` gives every passage a place of its own instead, in the
# order of the text.

Places = Sequence[Sequence[str]]
RankingScores = dict[str, float]

CUTS = (2, 5, 10, 20)
METRICS = (*(f"recall@{cut}" for cut in CUTS), "recall_flat@5", "ndcg@10", "mrr", "all_gold@5")


def score_ranking(places: Places, gold: Mapping[str, float]) -> RankingScores:
    """Return every score of `METRICS`, each in [0, 1]; `gold` is the grade per gold id, at least one."""
    ranks = _first_ranks(places)
    found = {id_: ranks[id_] for id_ in gold if id_ in ranks}
    flat = _first_ranks([[id_] for id_ in chain.from_iterable(places)])
    scores = {f"recall@{cut}": sum(rank <= cut for rank in found.values()) / len(gold) for cut in CUTS}
    scores["recall_flat@5"] = sum(flat.get(id_, 6) <= 5 for id_ in gold) / len(gold)
    # The discounted gain with linear grades over the best possible, as in trec_eval. The best possible has one passage
    # per place; with shared places the score is capped at 1.
    gain = sum(gold[id_] / math.log2(rank + 1) for id_, rank in found.items() if rank <= 10)
    best = sorted(gold.values(), reverse=True)[:10]
    scores["ndcg@10"] = min(1.0, gain / sum(grade / math.log2(rank + 1) for rank, grade in enumerate(best, 1)))
    scores["mrr"] = 1 / min(found.values()) if found else 0.0
    scores["all_gold@5"] = float(len(found) == len(gold) and max(found.values()) <= 5)
    return scores


def _first_ranks(places: Places) -> dict[str, int]:
    ranks: dict[str, int] = {}
    for rank, ids in enumerate(places, 1):
        for id_ in ids:
            ranks.setdefault(id_, rank)
    return ranks


# Scores of answers: whether a text holds the answer, its similarity to one, and whether its citations are sound.
#
# Normalising follows SQuAD's evaluation script (lower case, no punctuation, no articles, single spaces) after NFKC;
# Chinese, Japanese and Korean characters count as words of their own, as in CMRC's script.

_ARTICLES = frozenset({"a", "an", "the"})
_UNSPACED = re.compile(r"[\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\U00020000-\U0003ffff]")
_WORD = re.compile(rf"{_UNSPACED.pattern}|(?:(?!{_UNSPACED.pattern})\w)+")
_CITATION = re.compile(r"\[(\d+(?:\s*[,，;、]\s*\d+)*)\]")
_QUOTE = re.compile(r"^- (.*?)\s*(?:\[\d+\])?$", re.MULTILINE)
# An answer laid out in parts has each part of the question on its own line, in bold.
_PART = re.compile(r"^\*\*.*\*\*$", re.MULTILINE)
_REFERENCES = re.compile(r"^#{2,3} (?:References|参考资料|参考文献)\s*$", re.MULTILINE)
# Answers that only decide are nothing that a text could hold.
_VERDICTS = frozenset({"yes", "no", "true", "false", "是", "否", "不是", "有", "没有"})


@dataclass(frozen=True, slots=True)
class Faithfulness:
    """The citations of one answer, each number of each sentence once.

    They exist if their number is among the references, and are supported if the source shares a content word with the
    sentence.
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
    """Return whether a text can hold one of these answers: not if there is none, or all are like yes and no."""
    return any(answer_words(answer) for answer in answers) and not all(
        answer.strip(" .。").casefold() in _VERDICTS for answer in answers
    )


def holds_answer(text: str, answers: Sequence[str]) -> bool:
    """Return whether one of the answers occurs in a text, both normalised, as whole words."""
    haystack = f" {' '.join(answer_words(text))} "
    return any(words and f" {' '.join(words)} " in haystack for words in map(answer_words, answers))


def exact_match(text: str, answers: Sequence[str]) -> float:
    """Return 1 if a text without its citations equals one of the answers, both normalised; else 0."""
    words = answer_words(_uncited(text))
    return float(any(words == answer_words(answer) for answer in answers))


def answer_f1(text: str, answers: Sequence[str]) -> float:
    """Return the best word F1 of a text, without its citations, and an answer; two empty ones agree."""
    words = answer_words(_uncited(text))
    best = 0.0
    for wanted in map(answer_words, answers):
        shared = sum((Counter(words) & Counter(wanted)).values())
        best = max(best, 2 * shared / (len(words) + len(wanted)) if words and wanted else float(words == wanted))
    return best


def quoted_sentences(answer: str) -> list[str]:
    """Return the sentences that an extractive answer quotes, in order, without their citations."""
    return [quote for quote in _QUOTE.findall(_without_references(answer)) if quote]


def leading_quotes(answer: str) -> list[str]:
    """Return the first quote of an extractive answer, or of each part if it is laid out in parts of the question."""
    parts = _PART.split(_without_references(answer))
    return [quotes[0] for part in parts if (quotes := [quote for quote in _QUOTE.findall(part) if quote])]


def check_citations(answer: str, sources: Mapping[str, str]) -> Faithfulness:
    """Return how sound the citations of an answer are; its list of references at the end is left out.

    A citation belongs to the sentence that it stands in, or directly after. It is supported if the cited source and the
    sentence share a content word (stop words dropped, words stemmed); a sentence without content words needs none.

    `sources` are texts per reference number, such as the retrieved chunks of that document.
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
    """Return sentences; one with only citations belongs to the one before it."""
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


# The significance of a difference between two configurations: the paired bootstrap over questions.
#
# Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993; paired as in Smucker, Allan and Carterette, CIKM
# 2007. The seed is fixed, so the same scores give the same interval.

RESAMPLES = 10_000
_SEED = 20_240_917
# Values drawn at once: 10,000 resamples of 10,000 questions would take 800 MB.
_MOST_DRAWN = 4_000_000


@dataclass(frozen=True, slots=True)
class Difference:
    """The gain of one configuration over another: the mean of paired differences, and its 95% interval."""

    mean: float
    low: float
    high: float
    questions: int

    @property
    def is_certain(self) -> bool:
        """Return whether the interval excludes zero."""
        return self.low > 0 or self.high < 0


def paired_difference(base: Sequence[float], other: Sequence[float], resamples: int = RESAMPLES) -> Difference:
    """Return the mean of `other - base` with its 95% percentile interval; empty lists give zeros.

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


@dataclass(frozen=True, slots=True)
class Configuration:
    """One way to ask: a mode, and the fields of `QueryParam` that differ from their defaults."""

    name: str
    mode: Mode
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def parse(cls, text: str) -> Configuration:
        """Parse `MODE` or `MODE:FIELD=VALUE,FIELD=VALUE`, for example `mix:top_k=60,enable_rerank=false`.

        Raises:
            InvalidRequestError: There is no such mode, or a field has no value.
        """
        mode, _, options = text.partition(":")
        if mode not in Mode.__members__.values() or mode == Mode.BYPASS:
            known = ", ".join(item.value for item in Mode if item is not Mode.BYPASS)
            raise InvalidRequestError(f"{text!r} names no mode that retrieves; choose of {known}")
        pairs = [pair.partition("=") for pair in options.split(",") if pair]
        for name, sign, _ in pairs:
            if not sign or not name.strip():
                raise InvalidRequestError(f"{text!r} has an option without a value; write MODE:FIELD=VALUE")
        return cls(text, Mode(mode), {name.strip(): _value(value.strip()) for name, _, value in pairs})


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.casefold() in words:
        return words[text.casefold()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@dataclass(frozen=True, slots=True)
class AnswerOutcome:
    """The outcome of the answer to one question.

    Attributes:
        kind: A value of `AnswerKind`.
        is_hit: Whether an accepted answer occurs in it: in the first three quoted sentences of an extractive one. None
            if the set gives no answer that a text could hold.
        in_context: Whether one occurs in the retrieved chunks; None likewise.
        in_graph: Whether one occurs in the names and descriptions of the retrieved entities and relations; None
            likewise, and if the mode shows none.
        f1: Best F1 with an accepted answer; None unless a chat model wrote it.
        is_unanswered: As the `Answer` says.
    """

    text: str
    kind: str
    is_hit: bool | None = None
    in_context: bool | None = None
    in_graph: bool | None = None
    f1: float | None = None
    exact: float | None = None
    citations: Faithfulness | None = None
    is_unanswered: bool = False


@dataclass(frozen=True, slots=True)
class QuestionOutcome:
    """The outcome of one question in one configuration.

    Attributes:
        gold: Ids of the gold passages; empty for a question that has none.
        found: Places of the ranking, as in `heliograph.evaluation.results`.
        cpu_seconds: CPU time of this process, all threads, for the question.
        contexts: Texts of the retrieved chunks; left out of the written report.
    """

    id: str
    question: str
    type: str
    gold: tuple[str, ...]
    found: tuple[tuple[str, ...], ...]
    scores: dict[str, float]
    wall_seconds: float
    cpu_seconds: float
    answers: tuple[str, ...] = ()
    answer: AnswerOutcome | None = None
    contexts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """Means per metric over the questions with gold; a metric that none of them has is absent."""

    questions: int
    scores: dict[str, float]


@dataclass(frozen=True, slots=True)
class Unanswerable:
    """The questions without gold.

    Declined are those whose answer is `is_unanswered`; None if no answers were asked for.
    """

    questions: int
    without_context: int
    declined: int | None


@dataclass(frozen=True, slots=True)
class Latency:
    """Latency per question in milliseconds, from question to context."""

    median_wall_ms: float = 0.0
    p95_wall_ms: float = 0.0
    median_cpu_ms: float = 0.0
    p95_cpu_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Cost:
    """The use of models in a run: chat calls and their tokens, embedding calls, texts and tokens."""

    chat_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    embedding_calls: int = 0
    embedding_texts: int = 0
    embedding_tokens: int = 0


@dataclass(frozen=True, slots=True)
class RunReport:
    """All questions of a set in one configuration."""

    configuration: Configuration
    summary: GroupSummary
    by_type: dict[str, GroupSummary]
    unanswerable: Unanswerable
    latency: Latency
    cost: Cost
    questions: tuple[QuestionOutcome, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The gain of one configuration over another, per metric, with bootstrap intervals."""

    base: str
    other: str
    differences: dict[str, Difference]


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """The index that a run searched, its contents, and how many documents could not be indexed."""

    folder: str
    fingerprint: str
    was_reused: bool
    seconds: float
    documents: int
    chunks: int
    entities: int
    relations: int
    failures: int = 0


@dataclass(frozen=True, slots=True)
class SetReport:
    """One set in one or several configurations; the others are compared with the first."""

    name: str
    passages: int
    join: int
    index: IndexInfo
    runs: tuple[RunReport, ...]
    comparisons: tuple[Comparison, ...] = ()


@dataclass(frozen=True, slots=True)
class EvaluationRun:
    """The result of one evaluation."""

    created_at: datetime
    heliograph: str
    embedding: str
    chat: str
    sets: tuple[SetReport, ...]
    format: int = 1


ANSWER_METRICS = (
    "answer_hit",
    "answer_in_context",
    "answer_in_graph",
    "answer_f1",
    "answer_exact",
    "citations_exist",
    "citations_supported",
    "sentences_cited",
)


def summarize(configuration: Configuration, outcomes: Sequence[QuestionOutcome], cost: Cost) -> RunReport:
    """Return the report of a run.

    Questions without gold are counted apart; if no question has gold, only answers are scored.
    """
    with_gold = [item for item in outcomes if item.gold]
    without = [item for item in outcomes if not item.gold]
    answers = [item.answer for item in without if item.answer is not None]
    declined = sum(answer.is_unanswered for answer in answers)
    no_context = sum(not item.contexts for item in without)
    unanswerable = Unanswerable(len(without), no_context, declined if answers else None)
    types = sorted({item.type for item in with_gold if item.type})
    latency = Latency()
    if outcomes:
        wall = np.percentile([1000 * item.wall_seconds for item in outcomes], (50, 95))
        cpu = np.percentile([1000 * item.cpu_seconds for item in outcomes], (50, 95))
        latency = Latency(*(round(float(value), 3) for value in (*wall, *cpu)))
    return RunReport(
        configuration,
        _group(with_gold),
        {name: _group([item for item in with_gold if item.type == name]) for name in types},
        unanswerable,
        latency,
        cost,
        tuple(outcomes),
    )


def compare(base: RunReport, other: RunReport) -> Comparison:
    """Return the gain of `other` over `base`, per metric, over the questions for which both have it."""
    theirs = {item.id: question_scores(item) for item in other.questions if item.gold}
    ours = {item.id: question_scores(item) for item in base.questions if item.gold}
    differences: dict[str, Difference] = {}
    for metric in (*METRICS, *ANSWER_METRICS):
        ids = [id_ for id_, scores in ours.items() if metric in scores and metric in theirs.get(id_, {})]
        if ids:
            pairs = [ours[id_][metric] for id_ in ids], [theirs[id_][metric] for id_ in ids]
            differences[metric] = paired_difference(*pairs)
    return Comparison(base.configuration.name, other.configuration.name, differences)


def question_scores(outcome: QuestionOutcome) -> dict[str, float]:
    """Return every score of one question: those of its ranking, and the applicable ones of its answer."""
    scores, answer = dict(outcome.scores), outcome.answer
    if answer is None:
        return scores
    plain = (answer.is_hit, answer.in_context, answer.in_graph, answer.f1, answer.exact)
    scores |= {name: float(value) for name, value in zip(ANSWER_METRICS, plain, strict=False) if value is not None}
    cited = answer.citations
    if cited is not None and cited.citations:
        scores["citations_exist"] = cited.existing / cited.citations
        scores["citations_supported"] = cited.supported / cited.citations
    if cited is not None and cited.sentences:
        scores["sentences_cited"] = cited.cited_sentences / cited.sentences
    return scores


def _group(outcomes: Sequence[QuestionOutcome]) -> GroupSummary:
    scores = [question_scores(item) for item in outcomes]
    means = {
        metric: fmean(known)
        for metric in (*METRICS, *ANSWER_METRICS)
        if (known := [item[metric] for item in scores if metric in item])
    }
    return GroupSummary(len(outcomes), means)
