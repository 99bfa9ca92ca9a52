from __future__ import annotations

import pytest

from heliograph.ingest.merging import entity_index_text, relation_index_text
from heliograph.models import Chunk, Entity, Relation
from heliograph.stores.bm25 import entity_terms
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
        ("Guide", (), 'Plug [it](https://a.example/Guide_(2) "Guide") in.', "Guide\nPlug [it] in."),
        ("", (), "[![Plug](/plug.png)it](mailto:?subject=It%27s) in](#in).", "[![Plug]it] in]."),
        (
            "",
            (),
            "call handlers[it](event) at https://a.example/it",
            "call handlers[it](event) at https://a.example/it",
        ),
        ("", (), "[](https://a.example/it)", "[](https://a.example/it)"),
    ],
)
def test_chunk_is_indexed_under_what_it_does_not_say(
    title: str, headings: tuple[str, ...], text: str, indexed: str
) -> None:
    assert chunk_index_text(title, chunk(text, *headings)) == indexed


def test_long_paths_are_cut() -> None:
    assert len(chunk_index_text("t" * 200, chunk("x", "h" * 200, "k" * 200))) <= 302


def test_texts_of_entities_and_relations_are_cut_by_tokens() -> None:
    description = "word " * 500
    entity = Entity("ent-1", "ESP32", "chip", description, token_count=510)
    relation = Relation("rel-1", "A", "B", "ent-1", "ent-2", ("uses",), description, 1.0, token_count=510)
    for text, start in (
        (entity_index_text(entity, 64), "ESP32\nword"),
        (relation_index_text(relation, 64), "uses\tA\tB\tword"),
    ):
        assert text.startswith(start)
        assert 50 < count_tokens(text) <= 64
    assert entity_index_text(entity, 8192) == f"ESP32\n{description}"


def test_entity_is_found_by_its_aliases() -> None:
    entity = Entity("ent-1", "Espressif ESP32", "chip", "", aliases=("ESP-32",))
    assert {"espressif", "esp32"} <= set(entity_terms(entity).terms)
    assert set(entity_terms(entity).terms) > set(entity_terms(Entity("ent-1", "Espressif ESP32", "chip", "")).terms)
