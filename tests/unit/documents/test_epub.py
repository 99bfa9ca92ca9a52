from __future__ import annotations

import io
import zipfile

import pytest

from heliograph.documents.base import Limits
from heliograph.errors import IngestError

from .samples import epub_bytes, load, zip_bytes

CHAPTERS = {"one": "<h1>One</h1><p>First.</p>", "two": "<h1>Two</h1><p>Second.</p>"}


def test_chapters_come_in_the_order_of_the_spine() -> None:
    document = load("book.epub", epub_bytes(CHAPTERS, ["two", "one"]))
    assert document.text == "# Two\n\nSecond.\n\n# One\n\nFirst.\n"
    assert (document.title, document.metadata["author"], document.metadata["chapter_count"]) == ("Lamps", "Ada", 2)


def test_book_that_is_too_long_is_refused_with_the_place_where_it_is() -> None:
    with pytest.raises(IngestError, match=r"chapter 2 of 2, more than 20; .*raise ingest\.max_document_characters"):
        load("book.epub", epub_bytes(CHAPTERS, ["two", "one"]), Limits(max_characters=20))


def test_protected_book_is_refused_and_obfuscated_fonts_are_not() -> None:
    def encryption(uri: str) -> str:
        return f'<encryption><CipherReference URI="{uri}"/></encryption>'

    fonts = epub_bytes(CHAPTERS, ["one"], **{"META-INF__encryption.xml": encryption("OEBPS/a.otf")})
    assert load("book.epub", fonts).text == "# One\n\nFirst.\n"
    protected = epub_bytes(CHAPTERS, ["one"], **{"META-INF__encryption.xml": encryption("OEBPS/one.xhtml")})
    with pytest.raises(IngestError, match="copy-protected"):
        load("book.epub", protected)


def test_book_without_a_package_is_refused() -> None:
    with pytest.raises(IngestError, match="package is missing"):
        load("book.epub", zip_bytes({"mimetype": "application/epub+zip", "META-INF/container.xml": "<a/>"}))


def test_book_that_was_packed_with_its_folder_is_read() -> None:
    with zipfile.ZipFile(io.BytesIO(epub_bytes(CHAPTERS, ["one"]))) as archive:
        entries = {f"book/{name}": archive.read(name) for name in archive.namelist() if name != "mimetype"}
    document = load("book.zip", zip_bytes({"book/": "", **entries}))
    assert (document.text, document.title) == ("# One\n\nFirst.\n", "Lamps")


def test_what_stands_outside_of_the_reading_order_is_read_where_the_book_leads_to_it() -> None:
    chapters = {
        "one": "<p>First<a href='notes.xhtml#n1'>1</a>.</p>",
        "notes": "<p>A note.</p>",
        "eins": "<p>Zuerst.</p>",
    }
    assert load("book.epub", epub_bytes(chapters, ["one"], ["notes", "eins"])).text == "First1.\n\nA note.\n"
    assert load("book.epub", epub_bytes(chapters, [], ["eins", "notes"])).text == "Zuerst.\n\nA note.\n"


def test_bars_of_links_in_chapters_go() -> None:
    bar = "<div role='navigation'><h3>Navigation</h3><ul><li><a href='two.xhtml'>next</a></li></ul></div>"
    assert load("book.epub", epub_bytes({"one": f"{bar}<h1>One</h1><p>First.</p>{bar}"}, ["one"])).text == (
        "# One\n\nFirst.\n"
    )
