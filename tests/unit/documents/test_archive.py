from __future__ import annotations

import struct

import pytest

from heliograph.documents.base import Limits, RawDocument
from heliograph.documents.office import open_archive
from heliograph.errors import IngestError

from .samples import LIMITS, load, xlsx_bytes, zip_bytes


def opened(data: bytes, limits: Limits = LIMITS) -> dict[str, bytes]:
    with open_archive(RawDocument("a.docx", data), limits) as archive:
        return {name: archive.read(name) for name in archive.names}


def test_archive_gives_its_entries_and_nothing_for_missing_ones() -> None:
    with open_archive(RawDocument("a.docx", zip_bytes({"x": "1"})), LIMITS) as archive:
        assert ("x" in archive, archive.read("x"), archive.read("y")) == (True, b"1", b"")


@pytest.mark.parametrize(
    ("limits", "setting"),
    [
        (Limits(max_unpacked_bytes=1_000), "max_unpacked_bytes"),
        (Limits(max_archive_entries=1), "max_archive_entries"),
        (Limits(), "max_compression_ratio"),
    ],
)
def test_bomb_is_refused_before_it_is_unpacked(limits: Limits, setting: str) -> None:
    data = zip_bytes({"a": b"\0" * 5_000_000, "b": b""})
    with pytest.raises(IngestError, match=rf"a\.docx.*documents\.{setting}"):
        opened(data, limits)


def test_small_archive_may_compress_well() -> None:
    assert len(opened(zip_bytes({"a": b"\0" * 500_000}))["a"]) == 500_000


def test_encrypted_archive_is_refused() -> None:
    data = bytearray(zip_bytes({"a": "text"}))
    central = data.index(b"PK\x01\x02")
    struct.pack_into("<H", data, central + 8, 1)
    with pytest.raises(IngestError, match="encrypted"):
        opened(bytes(data))


def test_entry_that_unpacks_to_more_than_it_declares_is_refused() -> None:
    data = bytearray(xlsx_bytes({"A": [["x" * 5_000]]}))
    central = data.rindex(b"xl/worksheets/sheet1.xml") - 46
    struct.pack_into("<I", data, central + 24, 10)
    with pytest.raises(IngestError, match="broken"):
        load("liar.xlsx", bytes(data))


def test_plain_archive_is_no_document() -> None:
    with pytest.raises(IngestError, match="unpack it"):
        load("files.zip", zip_bytes({"a.md": "# A"}))
