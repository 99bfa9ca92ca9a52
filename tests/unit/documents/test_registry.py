from __future__ import annotations

import struct
from collections import Counter

import pytest

from heliograph.documents import registry
from heliograph.documents.base import RawDocument
from heliograph.documents.registry import find_loader, known_suffixes
from heliograph.errors import IngestError, MissingDependencyError, import_optional

from .samples import load


@pytest.mark.parametrize(
    ("name", "mime_type", "data", "loader"),
    [
        ("a.md", "", b"# A", "MarkdownLoader"),
        ("A.MD", "", b"# A", "MarkdownLoader"),
        ("https://x.org/a.md?v=1", "text/plain", b"# A", "MarkdownLoader"),
        ("https://x.org/a", "text/html", b"<p>a", "HtmlLoader"),
        ("https://x.org/a.php", "text/html", b"<p>a", "HtmlLoader"),
        ("https://x.org/", "application/json", b"{}", "JsonLoader"),
        ("https://x.org/a.csv", "application/octet-stream", b"a,b", "DelimitedLoader"),
        ("https://x.org/a", "text/html", b"%PDF-1.4", "PdfLoader"),
        ("Makefile", "", b"all:", "TextLoader"),
        ("a.unknown", "", b"words", "TextLoader"),
    ],
)
def test_loader_follows_content_then_type_then_ending(name: str, mime_type: str, data: bytes, loader: str) -> None:
    assert type(find_loader(RawDocument(name, data, mime_type))).__name__ == loader


@pytest.mark.parametrize(
    ("stream", "advice"),
    [
        ("WordDocument", r"\.docx"),
        ("PowerPoint Document", r"\.pptx"),
        ("EncryptedPackage", "password"),
        ("x", "format"),
    ],
)
def test_older_and_encrypted_office_files_are_refused_with_advice(stream: str, advice: str) -> None:
    data = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600 + stream.encode("utf-16-le") + b"\0" * 600
    with pytest.raises(IngestError, match=advice):
        load("a.doc", data)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a", b"%!PS-Adobe-3.0\n(words) show\n"),
        ("a.txt", b"\x04%!PS-Adobe-3.0\n"),
        ("a.prn", b"\x1b%-12345X@PJL ENTER LANGUAGE = POSTSCRIPT\n%!PS\n"),
        ("a.eps", b"\xc5\xd0\xd3\xc6\x1e\0\0\0"),
        ("a.ps", b"%!\n(words) show\n"),
        ("A.EPS", b"(words) show\n"),
    ],
)
def test_postscript_is_refused_with_advice(name: str, data: bytes) -> None:
    with pytest.raises(IngestError, match=r"PostScript.* to PDF"):
        load(name, data)


def test_what_is_no_postscript_is_read_whatever_it_is_called() -> None:
    assert type(find_loader(RawDocument("a.ps", b"<html><p>gone"))).__name__ == "HtmlLoader"
    assert type(find_loader(RawDocument("a.eps", b"%PDF-1.4"))).__name__ == "PdfLoader"
    assert type(find_loader(RawDocument("a.txt", b"A file begins with %!PS."))).__name__ == "TextLoader"


def test_document_within_an_older_workbook_does_not_tell_what_it_is() -> None:
    none, end = 0xFFFFFFFF, 0xFFFFFFFE

    def entry(name: str, kind: int, right: int = none, child: int = none) -> bytes:
        text = f"{name}\0".encode("utf-16-le")
        return text.ljust(64, b"\0") + struct.pack("<HBBIII", len(text), kind, 1, none, right, child).ljust(64, b"\0")

    def header(first: int) -> bytes:
        fixed = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".ljust(30, b"\0") + struct.pack("<H", 9).ljust(18, b"\0")
        return (fixed + struct.pack("<I", first)).ljust(76, b"\0") + struct.pack("<I", 0) + b"\xff" * 432

    table = struct.pack("<II", 0xFFFFFFFD, end).ljust(512, b"\xff")
    entries = (
        entry("Root Entry", 5, child=1)
        + entry("Workbook", 2, right=2)
        + entry("MBD", 1, child=3)
        + entry("WordDocument", 2)
    )
    data = header(1) + table + entries
    assert registry.detect_mime_type(RawDocument("a.xls", data)) == "application/vnd.ms-excel"
    with pytest.raises(IngestError, match="docx"):
        registry.detect_mime_type(RawDocument("a.xls", header(9) + table + entries))


def test_ending_belongs_to_one_loader() -> None:
    claims = Counter(suffix for loader in registry._loaders() for suffix in loader.suffixes)
    assert [suffix for suffix, count in claims.items() if count > 1] == []


def test_known_suffixes_are_those_of_all_loaders() -> None:
    expected = {
        ".txt",
        ".md",
        ".html",
        ".pdf",
        ".docx",
        ".pptx",
        ".xlsx",
        ".csv",
        ".epub",
        ".json",
        ".jsonl",
        ".py",
        ".eml",
        ".mbox",
    }
    assert expected <= known_suffixes()


def test_missing_package_is_an_error_that_names_the_extra() -> None:
    with pytest.raises(MissingDependencyError, match=r"pip install 'heliograph\[watch\]'"):
        import_optional("no_such_module", "watch")


@pytest.mark.parametrize(
    ("head", "loader"),
    [
        (b"\xef\xbb\xbf\n<!DOCTYPE html>", "HtmlLoader"),
        (b'<?xml version="1.0"?>\n<!-- a --> <!-- b -->\n<html lang="en">', "HtmlLoader"),
        (b"<!-- only a comment", "TextLoader"),
        (b"<!-- --> " * 220 + b"<", "TextLoader"),
        (b"<htmlish>", "TextLoader"),
    ],
)
def test_page_is_told_by_its_start(head: bytes, loader: str) -> None:
    assert type(find_loader(RawDocument("a", head))).__name__ == loader


def test_all_that_lightrag_takes_as_text_is_read() -> None:
    taken = """txt md mdx pdf docx pptx xlsx odt tex epub html htm csv json xml yaml yml log conf ini properties sql
        bat sh c h cpp hpp py java js ts swift go rb php css scss less"""
    assert known_suffixes() >= {f".{name}" for name in taken.split()}


def test_older_office_file_whose_directory_leads_in_circles_is_refused() -> None:
    fixed = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".ljust(30, b"\0") + struct.pack("<H", 9).ljust(18, b"\0")
    header = (fixed + struct.pack("<I", 100)).ljust(512, b"\0")
    with pytest.raises(IngestError, match="older Office kind"):
        load("a.doc", header + struct.pack("<128I", *[100] * 128))
