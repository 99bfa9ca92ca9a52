"""What one window of ids is found to be, and what would put it right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from heliograph.maintenance.problems import Problem
from heliograph.stores.changeset import Changeset, Collection

__all__ = ["Findings"]


@dataclass(frozen=True, slots=True)
class Findings:
    """Problems of one window.

    Attributes:
        problems: What is wrong.
        repair: What puts it right but for vectors; None if nothing does.
        vectors: Texts to embed again, per id.
        documents: Documents looked at.
        chunks: Chunks looked at.
        entities: Entities looked at.
        relations: Relations looked at.
    """

    problems: tuple[Problem, ...] = ()
    repair: Changeset | None = None
    vectors: Mapping[Collection, Mapping[str, str]] = field(default_factory=dict[Collection, Mapping[str, str]])
    documents: int = 0
    chunks: int = 0
    entities: int = 0
    relations: int = 0
