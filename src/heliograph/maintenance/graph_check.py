"""Comparing entities and relations with what the mentions add up to.

A window of ids comes in; what differs comes out, with the changeset that makes it right: evidence, fold, full text, and
the texts whose vectors are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import TypeVar

from heliograph.ingest.folding import is_same_entity, is_same_relation
from heliograph.ingest.merging import empty_entity_evidence, unmentioned_relation_evidence
from heliograph.maintenance.findings import Findings
from heliograph.maintenance.problems import Problem, Subject
from heliograph.maintenance.recount import Recounter, Refolded
from heliograph.maintenance.windows import Window
from heliograph.models import Entity, EntityEvidence, Relation, RelationEvidence
from heliograph.stores.base import Store
from heliograph.stores.changeset import Changeset, Collection
from heliograph.stores.inspection import ScanKind, digest_terms

__all__ = ["ENTITY_KINDS", "RELATION_KINDS", "check_entities", "check_relations"]

E = TypeVar("E", EntityEvidence, RelationEvidence)
F = TypeVar("F", Entity, Relation)

ENTITY_KINDS = (ScanKind.MENTIONED_ENTITIES, ScanKind.ENTITY_EVIDENCE, ScanKind.ENTITIES, ScanKind.ENTITY_VECTORS)
_LEFT_OVER = "nothing mentions it"
RELATION_KINDS = (
    *(ScanKind.MENTIONED_RELATIONS, ScanKind.RELATION_EVIDENCE),
    *(ScanKind.RELATIONS, ScanKind.RELATION_VECTORS),
)


async def check_entities(
    store: Store, recounter: Recounter, window: Window, texts: Mapping[str, int], *, every: bool
) -> Findings:
    """Compare the entities of a window.

    Args:
        store: Read only.
        recounter: Says what they should be.
        window: Ids per kind of `ENTITY_KINDS`.
        texts: Digest of the stored full text per id of the whole workspace.
        every: Whether vectors and full text are made anew even where nothing is wrong.
    """
    ids = sorted(set(chain.from_iterable(window.values())))
    wanted = await recounter.entities(ids)
    evidence, _ = await store.records.get_evidence(ids, [], 0)
    stored = {item.id: item for item in evidence}
    folds = {item.id: item for item in await store.graph.get_entities(ids)}
    problems = [
        *_differences("entity", wanted, stored, folds, _same_entity_counts, is_same_entity),
        *(Problem("entity", id_, _LEFT_OVER) for id_ in ids if id_ not in wanted),
        *(Problem("entity", id_, "its full text is not that of its names") for id_ in _stale_texts(wanted, texts)),
        *_missing_vectors("entity", wanted, window[ScanKind.ENTITY_VECTORS]),
    ]
    broken = {problem.id for problem in problems}
    chosen = {id_: item for id_, item in wanted.items() if every or id_ in broken}
    gone = tuple(id_ for id_ in ids if id_ not in wanted)
    hidden = tuple(id_ for id_, item in chosen.items() if item.fold is None)
    repair = Changeset(
        entity_evidence=(*(item.evidence for item in chosen.values()), *map(empty_entity_evidence, gone)),
        entities=tuple(item.fold for item in chosen.values() if item.fold is not None),
        removed_entities=(*gone, *hidden),
        texts={Collection.ENTITIES: tuple(item.terms for item in chosen.values() if item.terms is not None)},
        expected={id_: stored[id_].version if id_ in stored else 0 for id_ in (*chosen, *gone)},
    )
    vectors = {Collection.ENTITIES: {id_: item.index_text for id_, item in chosen.items() if item.fold is not None}}
    return Findings(tuple(problems), repair if chosen or gone else None, vectors, entities=len(wanted))


async def check_relations(store: Store, recounter: Recounter, window: Window, *, every: bool) -> Findings:
    """Compare the relations of a window; as `check_entities`."""
    ids = sorted(set(chain.from_iterable(window.values())))
    wanted = await recounter.relations(ids)
    _, evidence = await store.records.get_evidence([], ids, 0)
    stored = {item.id: item for item in evidence}
    folds = {item.id: item for item in await store.graph.get_relations(ids)}
    problems = [
        *_differences("relation", wanted, stored, folds, _same_relation_counts, is_same_relation),
        *(Problem("relation", id_, _LEFT_OVER) for id_ in ids if id_ not in wanted),
        *_missing_vectors("relation", wanted, window[ScanKind.RELATION_VECTORS]),
    ]
    broken = {problem.id for problem in problems}
    chosen = {id_: item for id_, item in wanted.items() if every or id_ in broken}
    gone = tuple(id_ for id_ in ids if id_ not in wanted)
    hidden = tuple(id_ for id_, item in chosen.items() if item.fold is None)
    empty = (
        unmentioned_relation_evidence(id_, (stored[id_].source_id, stored[id_].target_id))
        for id_ in gone
        if id_ in stored
    )
    repair = Changeset(
        relation_evidence=(*(item.evidence for item in chosen.values()), *empty),
        relations=tuple(item.fold for item in chosen.values() if item.fold is not None),
        removed_relations=(*gone, *hidden),
        expected={id_: stored[id_].version if id_ in stored else 0 for id_ in (*chosen, *gone)},
    )
    vectors = {Collection.RELATIONS: {id_: item.index_text for id_, item in chosen.items() if item.fold is not None}}
    return Findings(tuple(problems), repair if chosen or gone else None, vectors, relations=len(wanted))


def _differences(
    subject: Subject,
    wanted: Mapping[str, Refolded[E, F]],
    stored: Mapping[str, E],
    folds: Mapping[str, F],
    same_counts: Callable[[E, E], bool],
    same_fold: Callable[[F, F], bool],
) -> Iterable[Problem]:
    for id_, item in wanted.items():
        if bool(item.evidence.mention_count) != (id_ in stored) or (
            id_ in stored and not same_counts(stored[id_], item.evidence)
        ):
            yield Problem(subject, id_, "its evidence is not what its mentions add up to")
        if item.fold is None:
            if id_ in folds:
                yield Problem(subject, id_, "it was deleted by hand and is in the graph")
        elif id_ not in folds:
            yield Problem(subject, id_, f"{_brief(item.fold)} is not in the graph")
        elif not same_fold(folds[id_], item.fold):
            yield Problem(subject, id_, f"it is {_brief(folds[id_])}, and should be {_brief(item.fold)}")


def _missing_vectors(
    subject: Subject, wanted: Mapping[str, Refolded[E, F]], vectors: frozenset[str]
) -> Iterable[Problem]:
    for id_, item in wanted.items():
        if item.fold is not None and id_ not in vectors:
            yield Problem(subject, id_, "it has no vector")


def _stale_texts(wanted: Mapping[str, Refolded[EntityEvidence, Entity]], texts: Mapping[str, int]) -> list[str]:
    return [id_ for id_, item in wanted.items() if item.terms and texts.get(id_, 0) != digest_terms(item.terms.terms)]


def _same_entity_counts(left: EntityEvidence, right: EntityEvidence) -> bool:
    return (dict(left.names), dict(left.types), left.mention_count) == (
        *(dict(right.names), dict(right.types), right.mention_count),
    )


def _same_relation_counts(left: RelationEvidence, right: RelationEvidence) -> bool:
    ends = (left.source_id, left.target_id) == (right.source_id, right.target_id)
    counts = (dict(left.keywords), left.weight_millionths, left.mention_count)
    return ends and counts == (dict(right.keywords), right.weight_millionths, right.mention_count)


def _brief(fold: Entity | Relation) -> str:
    name = fold.name if isinstance(fold, Entity) else f"{fold.source} - {fold.target}"
    return f"{name!r:.80} ({fold.description!r:.120})"
