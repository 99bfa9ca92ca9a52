"""The rules of names and the curations of `MemoryStore`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from heliograph.errors import StaleChangesetError
from heliograph.models import AliasMention, Chunk, Curation, Extraction, NameRules
from heliograph.stores.base import CurationPage, CurationQuery, CurationStore
from heliograph.stores.changeset import Changeset
from heliograph.text.mention_ids import mention_entity_id
from heliograph.text.names import name_to_entity_id

__all__ = ["MemoryCurationStore"]


class MemoryCurationStore(CurationStore):
    """Rules and curations in dictionaries; mentions are those of the records."""

    def __init__(self, chunks: Mapping[str, Chunk], extractions: Mapping[str, Extraction]) -> None:
        self._chunks = chunks
        self._extractions = extractions
        self._rules: dict[str, NameRules] = {}
        self._curations: dict[str, Curation] = {}

    async def get_rules(self, ids: Sequence[str]) -> list[NameRules]:
        return [replace(self._rules[id_], curations=tuple(self._active(id_))) for id_ in ids if id_ in self._rules]

    async def get_curations(self, ids: Sequence[str]) -> list[Curation]:
        return [self._curations[id_] for id_ in ids if id_ in self._curations]

    async def find_curations(self, query: CurationQuery) -> CurationPage:
        found = [item for item in self._in_order() if _fits(item, query)]
        if query.descending:
            found.reverse()
        return CurationPage(tuple(found[query.offset : query.offset + query.limit]), len(found))

    async def find_mentioning_chunks(self, ids: Sequence[str]) -> dict[str, str]:
        wanted = set(ids)
        return {
            id_: self._chunks[id_].document_id
            for id_, extraction in self._extractions.items()
            if any(
                not wanted.isdisjoint((mention_entity_id(m), name_to_entity_id(m.name))) for m in extraction.entities
            )
        }

    async def get_document_aliases(self, document_ids: Sequence[str]) -> dict[str, list[AliasMention]]:
        found: dict[str, list[AliasMention]] = {}
        for chunk in sorted(self._chunks.values(), key=lambda item: item.position):
            extraction = self._extractions.get(chunk.id)
            if extraction is not None and extraction.aliases and chunk.document_id in document_ids:
                found.setdefault(chunk.document_id, []).extend(extraction.aliases)
        return found

    def check(self, expected: Mapping[str, int]) -> None:
        """Compare versions of rules with those there are.

        Raises:
            StaleChangesetError: One differs.
        """
        for id_, version in expected.items():
            known = self._rules.get(id_)
            if (known.version if known else 0) != version:
                raise StaleChangesetError(f"the rules of the name {id_!r} have changed since they were read")

    def apply(self, changeset: Changeset, version: int) -> None:
        """Put in the curations and rules of a changeset that is committed as `version`."""
        for item in changeset.curations:
            known = self._curations.get(item.id)
            sequence = item.sequence or (known.sequence if known else len(self._curations) + 1)
            self._curations[item.id] = replace(item, sequence=sequence)
        for rules in changeset.name_rules:
            self._rules[rules.id] = replace(rules, curations=(), version=version)

    def rule_ids(self) -> Iterable[str]:
        """Return the ids of all names that have rules."""
        return list(self._rules)

    def clear(self) -> None:
        """Drop everything."""
        self._rules.clear()
        self._curations.clear()

    def _in_order(self) -> list[Curation]:
        return sorted(self._curations.values(), key=lambda item: item.sequence)

    def _active(self, id_: str) -> Iterable[Curation]:
        return (item for item in self._in_order() if item.is_active and id_ in item.entity_ids)


def _fits(item: Curation, query: CurationQuery) -> bool:
    is_about = query.entity_id is None or query.entity_id in item.entity_ids
    return is_about and (query.includes_undone or item.is_active)
