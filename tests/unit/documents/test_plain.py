from __future__ import annotations

import os
from pathlib import Path

import pytest

from heliograph.documents.plain import load_text_file
from heliograph.errors import IngestError


def write(path: Path, data: str | bytes) -> Path:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def test_title_comes_from_the_first_heading(tmp_path: Path) -> None:
    path = write(tmp_path / "guide.md", "\n# ESP32 guide\n\ntext\r\n")
    document = load_text_file(path)
    assert (document.source, document.title, document.text) == (str(path), "ESP32 guide", "\n# ESP32 guide\n\ntext\n")


def test_title_of_front_matter_wins_and_its_fields_are_metadata(tmp_path: Path) -> None:
    path = write(tmp_path / "a.md", "---\ntitle: Named\nlang: en\n---\n# Heading\n")
    document = load_text_file(path)
    assert (document.title, document.text, document.metadata) == ("Named", "# Heading\n", {"lang": "en"})


def test_title_falls_back_to_the_file_name(tmp_path: Path) -> None:
    assert load_text_file(write(tmp_path / "手册.v2.txt", "只有正文。")).title == "手册.v2"


def test_empty_file_loads_as_empty_text(tmp_path: Path) -> None:
    assert load_text_file(write(tmp_path / "empty.txt", b"")).text == ""


def test_binary_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(IngestError, match=r"doc\.txt.*PDF"):
        load_text_file(write(tmp_path / "doc.txt", b"%PDF-1.4 ..."))


def test_too_long_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "huge.txt"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(IngestError, match=r"huge\.txt.*max_document_characters"):
        load_text_file(path)


def test_limit_counts_characters_not_bytes(tmp_path: Path) -> None:
    path = write(tmp_path / "zh.txt", "字" * 10)
    assert len(load_text_file(path, max_characters=10).text) == 10
    with pytest.raises(IngestError):
        load_text_file(path, max_characters=9)


@pytest.mark.parametrize("name", ["missing.md", "nul\x00byte", ""])
def test_unreadable_path_is_an_ingest_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(IngestError):
        load_text_file(f"{tmp_path}/{name}")


def test_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(IngestError, match="not a regular file"):
        load_text_file(tmp_path / "pipe.txt")
