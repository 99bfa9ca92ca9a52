"""Keywords of a question and what each of them finds on its own.

Modes search with all keywords of a level together; here each is searched alone, a low-level one among the entities
(mode `local`) and a high-level one among the relations (mode `global`), so that one that leads nowhere, or elsewhere,
is seen. The marks at which a list of keywords is called long are those of seed 000, section 3.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from heliograph.analysis.asking import checked_modes
from heliograph.query.models import Keywords, Mode, QueryParam, Retrieval
from heliograph.sync import Heliograph

__all__ = ["KeywordFinding", "KeywordReport", "inspect_keywords"]

_MANY_HIGH_LEVEL = 5
_MANY_LOW_LEVEL = 10

Level = Literal["high_level", "low_level"]


@dataclass(frozen=True, slots=True)
class KeywordFinding:
    """What one keyword finds alone.

    Attributes:
        keyword: The keyword.
        level: `high_level` or `low_level`.
        entities: Entities found, best first.
        relations: Pairs of entities whose relation is found, best first.
        chunks: Chunks that these lead to.
        in_result: Share, 0 to 1, of its entities (low) or relations (high) that the whole question shows too; 0 if
            it finds none.
    """

    keyword: str
    level: Level
    entities: tuple[str, ...]
    relations: tuple[tuple[str, str], ...]
    chunks: int
    in_result: float


@dataclass(frozen=True, slots=True)
class KeywordReport:
    """Keywords of a question, and what is to be said of them.

    Attributes:
        question: The question.
        mode: The mode whose result `in_result` speaks of.
        keywords: What was searched for.
        findings: One a keyword, high-level ones first.
        warnings: Too many, none, or some that find nothing; in words.
    """

    question: str
    mode: Mode
    keywords: Keywords
    findings: tuple[KeywordFinding, ...]
    warnings: tuple[str, ...]


def inspect_keywords(kb: Heliograph, question: str, param: QueryParam | None = None) -> KeywordReport:
    """Return the keywords of a question and what each finds.

    Args:
        kb: The workspace, open.
        question: The question.
        param: How it is asked; in a mode without keywords there are none. None means mode `hybrid`.

    Raises:
        InvalidRequestError: The question or a parameter cannot be served.
        ModelError: A model failed.
        StoreError: The store failed.
    """
    given = param or QueryParam(mode=Mode.HYBRID)
    checked_modes([given.mode])
    whole = kb.retrieve(question, given)
    findings = (
        *(_find(kb, question, given, whole, "high_level", keyword) for keyword in whole.keywords.high_level),
        *(_find(kb, question, given, whole, "low_level", keyword) for keyword in whole.keywords.low_level),
    )
    said = (*_warnings(whole.keywords, findings), *whole.warnings)
    return KeywordReport(whole.question, whole.mode, whole.keywords, findings, said)


def _find(
    kb: Heliograph, question: str, param: QueryParam, whole: Retrieval, level: Level, keyword: str
) -> KeywordFinding:
    is_low = level == "low_level"
    alone = kb.retrieve(
        question,
        replace(
            param,
            mode=Mode.LOCAL if is_low else Mode.GLOBAL,
            channels=(),
            ll_keywords=(keyword,) if is_low else (),
            hl_keywords=() if is_low else (keyword,),
            enable_rerank=False,
        ),
    )
    ids, known = _ids(alone, is_low=is_low), _ids(whole, is_low=is_low)
    return KeywordFinding(
        keyword=keyword,
        level=level,
        entities=tuple(item.entity.name for item in alone.context.entities),
        relations=tuple((item.relation.source, item.relation.target) for item in alone.context.relations),
        chunks=len(alone.context.chunks),
        in_result=len(ids & known) / len(ids) if ids else 0.0,
    )


def _ids(retrieval: Retrieval, *, is_low: bool) -> set[str]:
    if is_low:
        return {item.entity.id for item in retrieval.context.entities}
    return {item.relation.id for item in retrieval.context.relations}


def _warnings(keywords: Keywords, findings: Sequence[KeywordFinding]) -> list[str]:
    said: list[str] = []
    if not (keywords.high_level or keywords.low_level):
        said.append("there are no keywords: entities and relations are not searched; give some, or use mode naive")
    if len(keywords.high_level) > _MANY_HIGH_LEVEL:
        said.append(f"{len(keywords.high_level)} high-level keywords are many: the result may wander off")
    if len(keywords.low_level) > _MANY_LOW_LEVEL:
        said.append(f"{len(keywords.low_level)} low-level keywords are many: they may fill the token budgets")
    said += [f"keyword {item.keyword!r} finds nothing" for item in findings if not (item.entities or item.relations)]
    return said
