"""Which names of files are titles."""

from __future__ import annotations

import asyncio

import pytest

from heliograph.documents.markdown import name_title
from heliograph.extraction.local import LocalExtractor
from heliograph.extraction.local_subjects import spoken_title
from heliograph.models import Chunk, Document
from heliograph.text.tokens import count_tokens

TEXT = "The tower of the town was built in 1830 by the council."


@pytest.mark.parametrize(
    "stem",
    [
        *("notes", "scan_0001", "doc17", "report-final-v2", "3f2a9c8d7e6b5a4f", "3F2A9C8D7E6B5A4F", "a1b2c3", "page1"),
        *("550E8400-E29B-41D4-A716-446655440000", "IMG_2034", "DSC01234", "Chapter 3", "new file (1)", "Draft2"),
        *("Untitled 2", "Document1", "q3_2024_results", "2024-05-01", "新建文档", "扫描 3", "user-guide"),
        *("Xk29QpZ7Lm4", "스캔 3", "スキャン_0001", "無題"),
    ],
)
def test_name_of_a_file_becomes_no_entity(stem: str) -> None:
    assert spoken_title(Document("doc-1", f"docs/{stem}.txt", title=stem)) == ""
    assert _entities(Document("doc-1", f"docs/{stem}.txt", title=stem)) == []


def test_id_in_place_of_a_source_becomes_no_entity() -> None:
    name = "doc-99550c7ad8d7753c8dd4a962"
    assert _entities(Document(name, name, title=name)) == []


@pytest.mark.parametrize("end", ["page7.html", "page7.html?x=1", "scan%2001.pdf", "scan%2001.jpg#top", "Draft%202/"])
def test_end_of_an_address_becomes_no_entity(end: str) -> None:
    source = f"https://example.org/a/{end}"
    assert spoken_title(Document("doc-1", source, title=name_title(source))) == ""


def test_end_of_an_address_that_reads_as_a_title_stays() -> None:
    source = "https://example.org/wiki/Apollo%2011?action=raw"
    assert spoken_title(Document("doc-1", source, title=name_title(source))) == "Apollo 11"


@pytest.mark.parametrize(
    "stem",
    [
        *("Apollo 11", "COVID-19", "ESP32", "望江钟", "Docker-Compose", "R2D2", "Fabaceae"),
        *("서울", "トヨタ", "とうきょう", "القاهرة", "תל-אביב", "दिल्ली", "กรุงเทพ"),
    ],
)
def test_name_of_a_file_that_reads_as_a_title_stays(stem: str) -> None:
    assert _entities(Document("doc-1", f"docs/{stem}.txt", title=stem)) == [stem]


@pytest.mark.parametrize("title", ["scan_0001", "mqtt", "IMG_2034"])
def test_title_that_is_not_the_name_of_the_file_stays(title: str) -> None:
    assert _entities(Document("doc-1", "docs/other.txt", title=title)) == [title]


def _entities(document: Document) -> list[str]:
    chunk = Chunk("chunk-0", document.id, 0, TEXT, count_tokens(TEXT), 0, len(TEXT))
    (found,) = asyncio.run(LocalExtractor().extract(document, [chunk]))
    return [mention.name for mention in found.entities]
