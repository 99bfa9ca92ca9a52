from __future__ import annotations

import os
from pathlib import Path

import pytest

from heliograph.documents.sources import read_file
from heliograph.errors import IngestError


def test_file_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"12345")
    raw = read_file(tmp_path / "a.bin", 5)
    assert (raw.name, raw.data) == (str(tmp_path / "a.bin"), b"12345")


def test_too_long_file_is_refused_unread(tmp_path: Path) -> None:
    with (tmp_path / "huge.txt").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(IngestError, match=r"huge\.txt.*documents\.max_file_bytes"):
        read_file(tmp_path / "huge.txt", 1_000_000)


@pytest.mark.parametrize("name", ["missing.md", "nul\x00byte", "", "x" * 5_000])
def test_unreadable_path_is_an_ingest_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(IngestError):
        read_file(f"{tmp_path}/{name}", 10)


def test_pipe_and_folder_are_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(IngestError, match="not a regular file"):
        read_file(tmp_path / "pipe.txt", 10)
    (tmp_path / "x.pdf").mkdir()
    with pytest.raises(IngestError, match="is a folder"):
        read_file(tmp_path / "x.pdf", 10)
