"""Filters and listings as conditions of SQL: what of them is the same in every dialect.

The meaning of a filter is that of `heliograph.filters.conditions`. Every condition is true or false and never NULL, so
that NOT can be trusted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from heliograph.filters import And, DocumentIds, Equals, Exists, Filter, In, Not, Or, Range, SourcePrefix, Sources
from heliograph.stores.base import DocumentQuery
from heliograph.stores.names import end_of_prefix

# SQL, and its parameters in order.
Condition = tuple[str, list[Any]]
COMPARISONS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


class Dialect(ABC):
    """How a database writes conditions on its table `document`.

    Attributes:
        mark: What stands for a parameter.
        true: What always holds.
        false: What never does.
    """

    mark: ClassVar[str]
    true: ClassVar[str]
    false: ClassVar[str]

    @abstractmethod
    def one_of(self, column: str, values: Sequence[str]) -> Condition:
        """Return the condition that a column, or `id`, is one of these texts, at least one."""

    @abstractmethod
    def twin_of(self, document_id: str) -> Condition:
        """Return the condition that a document is a twin of this one."""

    @abstractmethod
    def metadata(self, condition: Exists | Equals | In | Range) -> Condition:
        """Return the condition that metadata meet one."""

    def compile_filter(self, filter_: Filter) -> Condition:
        """Return the condition that a document matches a filter; in SQLite, parameters may be used once."""
        match filter_:
            case And(parts):
                return self._join("AND", self.true, parts)
            case Or(parts):
                return self._join("OR", self.false, parts)
            case Not(part):
                condition, values = self.compile_filter(part)
                return f"NOT {condition}", values
            case DocumentIds(values) | Sources(values):
                column = "id" if isinstance(filter_, DocumentIds) else "source"
                return self.one_of(column, list(values)) if values else (self.false, [])
            case SourcePrefix(prefix):
                return self._begins(prefix)
            case _:
                return self.metadata(filter_)

    def where(self, query: DocumentQuery) -> Condition:
        """Return what follows WHERE to list documents; in SQLite, parameters may be used once."""
        conditions: list[Condition] = []
        if query.statuses:
            conditions.append(self.one_of("status", [status.value for status in query.statuses]))
        if query.track_id is not None:
            conditions.append((f"document.track_id = {self.mark}", [query.track_id]))
        if query.source_prefix is not None:
            conditions.append(self._begins(query.source_prefix))
        if query.content_hashes:
            conditions.append(self.one_of("content_hash", query.content_hashes))
        if query.twin_of is not None:
            conditions.append(self.twin_of(query.twin_of))
        conditions.append(self.compile_filter(query.filter or And(())))
        return " AND ".join(sql for sql, _ in conditions), [value for _, values in conditions for value in values]

    def _join(self, operator: str, neutral: str, parts: tuple[Filter, ...]) -> Condition:
        compiled = [self.compile_filter(part) for part in parts]
        conditions = f" {operator} ".join(condition for condition, _ in compiled)
        return f"({conditions or neutral})", [value for _, values in compiled for value in values]

    def _begins(self, prefix: str) -> Condition:
        # A half-open range can use the index, unlike LIKE with its wildcards.
        end = end_of_prefix(prefix)
        if not end:
            return f"(document.source >= {self.mark})", [prefix]
        return f"(document.source >= {self.mark} AND document.source < {self.mark})", [prefix, end]
