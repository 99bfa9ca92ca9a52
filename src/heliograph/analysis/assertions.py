"""Expectations of retrieval, checked: entities a result must show, documents it must quote, and how many are enough.

An entity is expected by any of its names, spellings and aliases included. A source is met by that very source, by one
that ends in it after a `/`, or by a document with the same text. An expectation of nothing is refused: it would
always pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from heliograph.analysis.asking import checked_modes
from heliograph.analysis.questions import AskedQuestion
from heliograph.errors import InvalidRequestError
from heliograph.query.models import Mode, QueryParam, Retrieval
from heliograph.sync import Heliograph

__all__ = ["DEFAULT_RECALL", "AssertionReport", "CheckedQuestion", "check_expectations"]

# That of seed 000, section 3.5.
DEFAULT_RECALL = 0.8


@dataclass(frozen=True, slots=True)
class CheckedQuestion:
    """What became of one expectation.

    Attributes:
        question: The question.
        mode: The mode it was asked in.
        found: Expected entities and sources that are there, as they were written.
        missed: Those that are not.
        unknown: Those of `missed` that name no entity of the workspace at all.
        recall: Found over expected, 0 to 1.
        min_recall: What passes.
        passed: Whether `recall` reaches it.
    """

    question: str
    mode: Mode
    found: tuple[str, ...]
    missed: tuple[str, ...]
    unknown: tuple[str, ...]
    recall: float
    min_recall: float
    passed: bool


@dataclass(frozen=True, slots=True)
class AssertionReport:
    """All expectations checked; `passed` if each of them is."""

    passed: bool
    failures: int
    questions: tuple[CheckedQuestion, ...]


def check_expectations(
    kb: Heliograph,
    questions: Iterable[AskedQuestion],
    param: QueryParam | None = None,
    min_recall: float = DEFAULT_RECALL,
) -> AssertionReport:
    """Ask each question and compare what it shows with what is expected.

    Args:
        kb: The workspace, open.
        questions: The questions with what is expected of them; their own mode and threshold win.
        param: How to ask; None means the defaults.
        min_recall: Least share that passes, 0 to 1.

    Raises:
        InvalidRequestError: There is no question, one expects nothing, or one cannot be served.
        ModelError: A model failed.
        StoreError: The store failed.
    """
    if not 0 <= min_recall <= 1:
        raise InvalidRequestError(f"min_recall is {min_recall!r}; give a number from 0 to 1")
    given = param or QueryParam()
    asked = [(item, _param_of(item, given)) for item in questions]
    if not asked:
        raise InvalidRequestError("there is no question to check; give at least one")
    checked = tuple(_check(kb, item, own, min_recall) for item, own in asked)
    failures = sum(not item.passed for item in checked)
    return AssertionReport(failures == 0, failures, checked)


def _param_of(item: AskedQuestion, given: QueryParam) -> QueryParam:
    if not (item.entities or item.sources):
        raise InvalidRequestError(
            f"nothing is expected of the question {item.question!r:.100}; give entities or sources"
        )
    return replace(given, mode=checked_modes([item.mode or given.mode])[0])


def _check(kb: Heliograph, item: AskedQuestion, param: QueryParam, min_recall: float) -> CheckedQuestion:
    retrieval = kb.retrieve(item.question, param)
    shown = {entity.entity.id for entity in retrieval.context.entities}
    known = {name: kb.entity(name) for name in item.entities}
    met = {name: entity is not None and entity.id in shown for name, entity in known.items()}
    sources = _sources(retrieval)
    met |= {source: any(_is_source(source, one) for one in sources) for source in item.sources}
    recall = sum(met.values()) / len(met)
    least = min_recall if item.min_recall is None else item.min_recall
    return CheckedQuestion(
        question=retrieval.question,
        mode=retrieval.mode,
        found=tuple(name for name, is_met in met.items() if is_met),
        missed=tuple(name for name, is_met in met.items() if not is_met),
        unknown=tuple(name for name, entity in known.items() if entity is None),
        recall=recall,
        min_recall=least,
        passed=recall >= least,
    )


def _sources(retrieval: Retrieval) -> Sequence[str]:
    return [source for item in retrieval.context.references for source in (item.source, *item.other_sources)]


def _is_source(expected: str, source: str) -> bool:
    return source == expected or source.endswith(f"/{expected}")
