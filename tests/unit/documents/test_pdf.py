from __future__ import annotations

import zlib
from itertools import pairwise
from pathlib import Path

import pytest

from heliograph.documents.base import Limits
from heliograph.documents.isolation import DocumentReader
from heliograph.errors import IngestError

from .samples import SENTENCE, PdfPages, load

LEFT = [f"left line {index:02} goes on with words to the edge" for index in range(20)]
RIGHT = [f"right line {index:02} goes on with words to the end" for index in range(20)]


def pages_of(document) -> list[str]:
    bounds = [*document.page_starts, len(document.text)]
    return [document.text[start:end].strip() for start, end in pairwise(bounds)]


def test_pages_start_where_their_text_starts() -> None:
    pdf = PdfPages("Three pages")
    for number in range(3):
        pdf.line(72, 100 + 90 * number, f"Words of page {number}.").next()
    document = load("a.pdf", pdf.data())
    assert pages_of(document) == [f"Words of page {number}." for number in range(3)]
    assert (document.title, document.metadata["page_count"]) == ("Three pages", 3)


def test_running_heads_feet_and_page_numbers_are_left_out() -> None:
    pdf = PdfPages()
    for number in range(4):
        pdf.line(72, 40, f"Gateway manual, chapter {number}").line(72, 300, f"Body {'abcd'[number]}.")
        pdf.line(290, 810, str(number + 11)).next()
    assert pages_of(load("a.pdf", pdf.data())) == ["Body a.", "Body b.", "Body c.", "Body d."]


def test_a_line_that_one_page_alone_has_at_its_edge_is_kept() -> None:
    pdf = PdfPages()
    for number in range(3):
        pdf.line(72, 40, ["Alpha begins.", "Beta goes on.", "Gamma ends."][number]).next()
    assert pages_of(load("a.pdf", pdf.data())) == ["Alpha begins.", "Beta goes on.", "Gamma ends."]


@pytest.mark.parametrize("by_rows", [False, True])
def test_columns_are_read_one_after_the_other(by_rows: bool) -> None:
    pdf = PdfPages().line(72, 80, "A title that stretches over both of the columns of this page and says so", 11)
    if by_rows:
        for index, (left, right) in enumerate(zip(LEFT, RIGHT, strict=True)):
            pdf.line(50, 120 + 12 * index, left).line(310, 120 + 12 * index, right)
    else:
        pdf.lines(50, 120, LEFT).lines(310, 120, RIGHT)
    text = load("a.pdf", pdf.data()).text
    assert text.index("A title") < text.index("left line 00") < text.index("left line 19") < text.index("right line 00")
    assert " ".join(RIGHT) in text


def test_table_is_read_by_rows() -> None:
    pdf = PdfPages().line(72, 100, "Ports of the gateway:")
    for index, cells in enumerate([("Name", "Port", "Use"), ("MQTT", "8883", "messages"), ("NTP", "123", "time")]):
        for column, cell in enumerate(cells):
            pdf.line(72 + 120 * column, 130 + 16 * index, cell)
    text = load("a.pdf", pdf.data()).text
    assert "| Name | Port | Use |\n| --- | --- | --- |\n| MQTT | 8883 | messages |\n| NTP | 123 | time |" in text


def test_words_parted_at_line_ends_are_joined() -> None:
    lines = ["The con-", "figuration of a well-known gate-", "way is well-", "known."]
    text = load("a.pdf", PdfPages().lines(72, 100, lines).data()).text
    assert text == "The configuration of a well-known gateway is well-known.\n"


def test_headings_paragraphs_and_lists_are_told_apart() -> None:
    pdf = PdfPages().line(72, 80, "Operation", 18).line(72, 110, "Starting", 14)
    pdf.lines(72, 130, [SENTENCE[:52], SENTENCE[53:]]).lines(72, 170, ["Another paragraph stands", "after a gap."])
    pdf.lines(72, 210, ["\u2022 one", "\u2022 two"])
    assert load("a.pdf", pdf.data()).text == (
        f"# Operation\n\n## Starting\n\n{SENTENCE}\n\nAnother paragraph stands after a gap.\n\n- one\n- two\n"
    )


def test_encrypted_file_is_refused() -> None:
    data = PdfPages(password="secret").line(72, 100, "hidden").data()
    with pytest.raises(IngestError, match=r"'a\.pdf' is encrypted; remove its password"):
        load("a.pdf", data)


def test_broken_file_is_refused() -> None:
    with pytest.raises(IngestError, match="no PDF that can be read"):
        load("a.pdf", b"%PDF-1.7\nnothing of the kind")


def test_pages_without_text_are_refused() -> None:
    with pytest.raises(IngestError, match="1 pages without text, as scans have; nothing in it can be read"):
        load("blank.pdf", PdfPages().next().data())


def test_limits_of_pages_and_characters_hold() -> None:
    data = PdfPages().line(72, 100, "some words").next().line(72, 100, "more").data()
    with pytest.raises(IngestError, match=r"2 pages.*documents\.max_pages"):
        load("a.pdf", data, Limits(max_pages=1))
    with pytest.raises(IngestError, match=r"6 characters by page 1 of 2, more than 5; .*max_document_characters"):
        load("a.pdf", data, Limits(max_characters=5))


def test_pdf_under_another_name_is_read_as_one() -> None:
    assert load("notes.txt", PdfPages().line(72, 100, "Words.").data()).text == "Words.\n"


def test_page_is_drawn_as_png_of_the_width_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(PdfPages().line(72, 100, "First.").next().line(72, 100, "Second.").next().data())
    reader = DocumentReader(Limits())
    try:
        one, other = (reader.draw_page(path, "a.pdf", number, 300) for number in (1, 2))
        with pytest.raises(IngestError, match="has 2 pages, and no page 3"):
            reader.draw_page(path, "a.pdf", 3, 300)
        path.write_bytes(b"%PDF-1.4 no more")
        with pytest.raises(IngestError, match="no PDF that can be read"):
            reader.draw_page(path, "a.pdf", 1, 300)
    finally:
        reader.close()
    assert one != other
    assert one.startswith(b"\x89PNG\r\n\x1a\n")
    assert abs(int.from_bytes(one[16:20], "big") - 300) <= 1
    # Pixels are there and not all white.
    start = one.index(b"IDAT") + 4
    assert len(set(zlib.decompress(one[start:-16]))) > 3


def test_accent_that_is_drawn_over_its_letter_becomes_one_with_it() -> None:
    pages = PdfPages()
    # Widths of Helvetica at 10 points: f 2.8, u 5.6, r 3.3, the dieresis 3.3.
    pages.line(100, 100, "f").line(103.9, 100, "¨").line(102.8, 100, "u").line(108.3, 100, "r alle")
    pages.line(100, 130, "`ls` und ´x´")
    text = load("old.pdf", pages.data()).text
    assert "für alle" in text
    assert "`ls` und ´x´" in text.replace("\\", "")


def test_quote_below_its_line_opens_a_word() -> None:
    pages = PdfPages()
    pages.line(100, 100, "der").line(118, 106, "”").line(121.4, 100, "alten“ Art")
    assert "der „alten“ Art" in load("old.pdf", pages.data()).text
