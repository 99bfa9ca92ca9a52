from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from heliograph.ingest.merging import IndexEntry, Indexing, entity_entry, make_vectors, relation_entry
from heliograph.models import Chunk, Entity, Relation
from heliograph.stores.changeset import entity_terms
from heliograph.text.analysis import chunk_index_text
from heliograph.text.tokens import count_tokens


def chunk(text: str, *headings: str) -> Chunk:
    return Chunk("chunk-1", "doc-1", 0, text, 1, 0, len(text), headings)


@pytest.mark.parametrize(
    ("title", "headings", "text", "indexed"),
    [
        ("Guide", (), "Plug it in.", "Guide\nPlug it in."),
        ("Guide", (), "The Guide says so.", "The Guide says so."),
        ("Go", (), "Going to Google.", "Go\nGoing to Google."),
        ("Go", (), "Google Go", "Google Go"),
        ("手册", (), "使用手册的方法", "使用手册的方法"),
        ("Guide", ("Guide", "Set-up", "Power"), "Plug it in.", "Guide > Set-up > Power\nPlug it in."),
        ("Guide", ("Set-up",), "## Set-up\nPlug it in.", "Guide\n## Set-up\nPlug it in."),
        ("", (), "Plug it in.", "Plug it in."),
        ("Guide", (), "[it](https://a.example/in?t=Guide_(2)&q=1 'it')", "Guide\n[it](https://a.example/in 'it')"),
        ("", (), "[![Plug](/plug.png?w=1)it](mailto:?subject=It) in", "[![Plug](/plug.png)it](mailto:) in"),
        ("", (), "[it](/a#in) (is it? Yes) x[it](a?b)", "[it](/a#in) (is it? Yes) x[it](a)"),
    ],
)
def test_chunk_is_indexed_under_what_it_does_not_say(
    title: str, headings: tuple[str, ...], text: str, indexed: str
) -> None:
    assert chunk_index_text(title, chunk(text, *headings)) == indexed


def test_rows_are_indexed_under_the_columns_of_their_table() -> None:
    row = replace(chunk("| P-1 | 3 EUR |", "Parts"), columns=("Part", "Price"))
    assert chunk_index_text("Shop", row) == "Shop > Parts\nPart; Price\n| P-1 | 3 EUR |"


def test_long_paths_are_cut() -> None:
    assert len(chunk_index_text("t" * 200, chunk("x", "h" * 200, "k" * 200))) <= 302


def test_texts_of_entities_and_relations_are_cut_by_tokens() -> None:
    description = "word " * 500
    entity = Entity("ent-1", "ESP32", "chip", description, chunk_ids=("chunk-1",), token_count=510)
    relation = Relation("rel-1", "A", "B", "ent-1", "ent-2", ("uses",), description, 1.0, token_count=510)
    cut = Indexing(64, from_chunks=False)
    for entry, start in (
        (entity_entry(entity, cut), "ESP32\nword"),
        (relation_entry(relation, cut), "uses\tA\tB\tword"),
    ):
        assert entry == IndexEntry.of(entry.text)
        assert entry.text.startswith(start)
        assert 50 < count_tokens(entry.text) <= 64
    assert entity_entry(entity, Indexing(8192, from_chunks=False)).embedded == (f"ESP32\n{description}",)


def test_what_a_local_extractor_finds_is_embedded_by_names_and_chunks() -> None:
    chunk_ids = tuple(f"chunk-{number}" for number in range(9))
    entity = Entity("ent-1", "ESP32", "chip", "A sentence.", chunk_ids=chunk_ids)
    relation = Relation("rel-1", "A", "B", "ent-1", "ent-2", ("uses",), "A sentence.", 1.0, chunk_ids=chunk_ids)
    indexing = Indexing(512, from_chunks=True)
    assert (entity_entry(entity, indexing).embedded, entity_entry(entity, indexing).chunk_ids) == (
        ("ESP32",),
        chunk_ids[:4],
    )
    assert relation_entry(relation, indexing).embedded == ("A", "B")
    # What people made has no chunk, and is embedded as they describe it.
    assert entity_entry(replace(entity, chunk_ids=()), indexing).embedded == ("ESP32\nA sentence.",)
    assert entity_entry(entity, indexing) == entity_entry(replace(entity, description="Another."), indexing)
    assert entity_entry(entity, indexing) != entity_entry(replace(entity, chunk_ids=chunk_ids[1:]), indexing)


def test_vectors_are_mixed_of_names_and_chunks() -> None:
    x, y, z = np.eye(3, dtype=np.float32)
    entries = {
        "plain": IndexEntry.of("x"),
        "pair": IndexEntry("", ("x", "y"), ("c", "gone"), 0.5),
        "alone": IndexEntry("", ("x",), ("gone",), 0.5),
        "wide": IndexEntry("", ("x",), ("c", "d"), 1.0),
    }
    made = make_vectors(entries, {"x": x, "y": y}, {"c": z, "d": x})
    pair, half = (x + y) / np.sqrt(2), (x + z) / np.sqrt(2)
    np.testing.assert_allclose(made.vectors, [x, (pair + z) / np.sqrt(2), x, half], atol=1e-6)
    assert made.ids == tuple(entries)
    np.testing.assert_array_equal(made.vectors[0], x)


def test_entity_is_found_by_its_aliases() -> None:
    entity = Entity("ent-1", "Espressif ESP32", "chip", "", aliases=("ESP-32",))
    assert {"espressif", "esp32"} <= set(entity_terms(entity).terms)
    assert set(entity_terms(entity).terms) > set(entity_terms(Entity("ent-1", "Espressif ESP32", "chip", "")).terms)
