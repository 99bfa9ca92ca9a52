"""What every store must do for finding entities by parts of their names, and relations among given ones."""

from __future__ import annotations

from dataclasses import replace

from heliograph.stores.base import Store
from heliograph.stores.changeset import Changeset
from heliograph.testing.examples import example_changeset
from heliograph.text.names import name_to_entity_id as entity
from heliograph.text.names import names_to_relation_id as relation

__all__ = ["NameContract"]


class NameContract:
    """The index of names."""

    async def test_names_are_found_by_what_they_are_begin_with_and_contain(self, store: Store) -> None:
        names = ["Graph", "Graph engine", "GRAPH store", "Heliograph", "Deep graph walk", "Vector"]
        await store.apply(example_changeset("a.md", names, [("GRAPH store", "Vector", 1.0)]))
        assert await self._names(store, "graph") == [
            *("Graph", "GRAPH store", "Graph engine"),
            *("Deep graph walk", "Heliograph"),
        ]
        assert await self._names(store, "GRAPH ") == await self._names(store, "graph")
        assert await self._names(store, "graph", 2) == ["Graph", "GRAPH store"]
        assert await self._names(store, "eep gra") == ["Deep graph walk"]
        assert await self._names(store, "raph st") == ["GRAPH store"]
        assert await self._names(store, "graphs") == []
        assert await self._names(store, "graph", 0) == []
        for nothing in ("", "  ", "\x00"):
            assert await self._names(store, nothing) == []

    async def test_short_and_chinese_names_are_found(self, store: Store) -> None:
        names = ["AI", "Generative AI", "Air", "深度学习", "机器学习", "习", "C++", 'x"y OR z*', "🛰️ link"]
        await store.apply(example_changeset("a.md", names))
        assert await self._names(store, "ai") == ["AI", "Air", "Generative AI"]
        assert await self._names(store, "学习") == ["机器学习", "深度学习"]
        assert await self._names(store, "深") == ["深度学习"]
        assert await self._names(store, "c++") == ["C++"]
        assert await self._names(store, "y or z*") == ['x"y OR z*']
        assert await self._names(store, "🛰️ li") == ["🛰️ link"]

    async def test_names_follow_the_entities(self, store: Store) -> None:
        changeset = example_changeset("a.md", ["Alpha", "Beta"])
        await store.apply(changeset)
        alpha, beta = changeset.entities
        await store.apply(Changeset(entities=(replace(alpha, name="ALPHA One", aliases=("First letter", "Alpha")),)))
        assert await store.names.find_names("letter", 9) == [alpha.id]
        assert await store.names.find_names("alpha", 9) == [alpha.id]
        await store.apply(Changeset(entities=(replace(alpha, name="Omega"),)))
        assert await store.names.find_names("alpha", 9) == []
        assert await store.names.find_names("mega", 9) == [alpha.id]
        await store.apply(Changeset(removed_entities=(beta.id,)))
        assert await store.names.find_names("beta", 9) == []
        await store.clear()
        assert await store.names.find_names("omega", 9) == []
        await store.apply(changeset)
        assert await store.names.find_names("eta", 9) == [beta.id]

    async def test_relations_among_entities_are_those_with_both_ends_there(self, store: Store) -> None:
        relations = [("A", "B", 1.0), ("B", "C", 3.0), ("C", "D", 1.0)]
        await store.apply(example_changeset("a.md", ["A", "B", "C", "D"], relations))
        found = await store.graph.find_relations_among([entity(name) for name in ("A", "B", "C", "none", "A")])
        assert [item.id for item in found] == [relation("B", "C"), relation("A", "B")]
        assert await store.graph.find_relations_among([]) == []
        assert await store.graph.find_relations_among([entity("A"), entity("D")]) == []

    async def _names(self, store: Store, text: str, limit: int = 9) -> list[str]:
        found = await store.graph.get_entities(await store.names.find_names(text, limit))
        return [item.name for item in found]
