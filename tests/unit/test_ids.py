"""Names of entities and their ids."""

from __future__ import annotations

import tracemalloc

from heliograph.ids import clean_name, entity_key, name_to_entity_id, names_to_relation_id


def test_spellings_of_one_name_have_one_id() -> None:
    assert clean_name(" “Ａcme   Corp” ") == "Acme Corp"
    assert entity_key("ACME\u2011Corp") == entity_key("Acme-Corp") == "acme-corp"
    assert name_to_entity_id("ACME Corp") == name_to_entity_id("acme corp")
    assert names_to_relation_id("Acme", "Kiel") == names_to_relation_id("KIEL", "acme")


def test_very_long_names_are_cut_and_not_remembered() -> None:
    text = "x" * 30_000
    assert clean_name(text) == "x" * 256
    assert name_to_entity_id(text) == name_to_entity_id("X" * 256)
    tracemalloc.start()
    try:
        for number in range(100):
            names_to_relation_id(f"{number} {text}", f"{text} {number}")
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Remembered, they would hold six million bytes.
    assert held < 1_000_000
