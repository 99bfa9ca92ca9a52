from __future__ import annotations

import pytest

from heliograph.extraction.base import with_introduced_aliases
from heliograph.models import Chunk, EntityMention, Extraction


def aliases(text: str) -> list[tuple[str, str]]:
    extraction = Extraction("chunk-1", "x", (EntityMention("chunk-1", "A", "x", "", 0),))
    chunk = Chunk("chunk-1", "doc-1", 0, text, 9, 0, len(text))
    return [(item.name, item.alias) for item in with_introduced_aliases(extraction, chunk).aliases]


@pytest.mark.parametrize(
    ("text", "name", "alias"),
    [
        (
            "It speaks Message Queuing Telemetry Transport (MQTT) over TLS.",
            "Message Queuing Telemetry Transport",
            "MQTT",
        ),
        ("OTA (Over-the-Air) updates are signed.", "Over-the-Air", "OTA"),
        ("The Department of Energy (DOE) pays.", "Department of Energy", "DOE"),
    ],
)
def test_acronym_that_its_expansion_spells_is_an_alias(text: str, name: str, alias: str) -> None:
    assert aliases(text) == [(name, alias)]


@pytest.mark.parametrize(
    "text",
    [
        "Extensible Markup Language (XML) is text.",
        "The new sensor (BME280) measures.",
        "The company (see ABC) grew.",
        "Our Gateway (GW) forwards.",
        "A text without any bracket.",
    ],
)
def test_what_letters_do_not_prove_is_no_alias(text: str) -> None:
    assert aliases(text) == []


def test_extraction_without_entities_gives_no_alias() -> None:
    chunk = Chunk("chunk-1", "doc-1", 0, "Message Queuing Telemetry Transport (MQTT)", 9, 0, 40)
    assert with_introduced_aliases(Extraction("chunk-1", "none"), chunk).aliases == ()
