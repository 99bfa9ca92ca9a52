"""What a chunk is about, given the names in it."""

from __future__ import annotations

from heliograph.extraction.local_subjects import subject_keys
from heliograph.models import Chunk


def _keys(text: str, *names: str, title: str = "", headings: tuple[str, ...] = ()) -> set[str]:
    return subject_keys(title, Chunk("chunk-1", "doc-1", 0, text, 10, 0, len(text), headings), names)


def test_title_heading_and_opening_are_subjects() -> None:
    text = "**Mosquitto** runs in Kiel."
    assert _keys(text, "Mosquitto", "Kiel", title="Manual", headings=("Guide", "Brokers")) == {
        "manual",
        "brokers",
        "mosquitto",
    }


def test_longer_word_is_not_the_name_it_begins_with() -> None:
    assert _keys("Kieler runs here.", "Kiel") == set()


def test_every_paragraph_and_section_is_about_what_it_opens_with() -> None:
    text = "Ada Kern met Otto.\n\n## Tidal Broker\n\nMosquitto, by Otto, is in Kiel.\nOslo is far."
    assert _keys(text, "Ada Kern", "Otto", "Tidal Broker", "Mosquitto", "Kiel", "Oslo") == {
        "ada kern",
        "tidal broker",
        "mosquitto",
    }


def test_items_and_rows_between_blank_lines_are_no_paragraphs() -> None:
    assert _keys("All of them:\n\n- Kiel\n\n2. Oslo\n\n| Bonn |", "Kiel", "Oslo", "Bonn") == set()
