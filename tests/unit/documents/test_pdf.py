from __future__ import annotations

import zlib
from itertools import pairwise
from pathlib import Path

import pytest

from heliograph.documents.base import Limits
from heliograph.documents.sources import SourceReader
from heliograph.errors import IngestError
from heliograph.settings import DocumentSettings

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


def test_running_heads_feet_and_page_numbers_are_left_out_but_for_what_they_say_first() -> None:
    pdf = PdfPages()
    for number in range(4):
        pdf.line(72, 40, f"Gateway manual | {number}").line(72, 300, f"Body {'abcd'[number]}.")
        pdf.line(290, 810, str(number + 11)).next()
    pages = pages_of(load("a.pdf", pdf.data()))
    assert pages == ["Gateway manual | 0\n\nBody a.", "Body b.", "Body c.", "Body d."]


def test_running_lines_that_the_text_says_too_are_left_out() -> None:
    pdf = PdfPages()
    for number, name in enumerate(("Oil", "Oil", "Oil", "Wicks", "Wicks", "Wicks")):
        pdf.line(72, 40, f"{number // 3 + 1}. {name}").line(500, 40, f"Page {number + 1} of 6")
        pdf.line(72, 90, f"{number // 3 + 1} {name}", 16).line(72, 300, f"The body {'abcdef'[number]}.").next()
    pages = pages_of(load("a.pdf", pdf.data()))
    assert pages == [f"# {1 + at // 3} {('Oil', 'Wicks')[at // 3]}\n\nThe body {'abcdef'[at]}." for at in range(6)]


def test_what_feet_say_of_each_part_of_a_file_is_kept_once() -> None:
    pdf = PdfPages()
    for number in range(6):
        pdf.lines(72, 100, [f"Line {index} of page {'abcdef'[number]}." for index in range(20)])
        pdf.line(72, 790, f"Invoice 2026-{317 + number // 2}").line(72, 802, "IBAN DE00 1234 5678").next()
    document = load("a.pdf", pdf.data())
    assert [document.text.count(f"Invoice 2026-{number}") for number in (317, 318, 319)] == [1, 1, 1]
    assert document.text.count("IBAN DE00 1234 5678") == 1
    assert pages_of(document)[0].endswith("Invoice 2026-317\n\nIBAN DE00 1234 5678")


@pytest.mark.parametrize("factor", [1.2, 1.5, 1.8, 2.2, 3.0])
@pytest.mark.parametrize("size", [8, 12, 20])
def test_first_and_last_lines_of_ordinary_pages_are_kept(size: int, factor: float) -> None:
    pdf, lines = PdfPages(), int(690 / (size * factor))
    for page in range(6):
        # Lines of one height that differ in their numbers only, as those of logs and lists do.
        texts = [f"The keeper trims lamp {100 * page + index}." for index in range(lines)]
        pdf.lines(72, 80, texts, pitch=size * factor, size=size).next()
    text = load("a.pdf", pdf.data()).text
    assert all(f"lamp {100 * page + index}." in text for page in range(6) for index in range(lines))


@pytest.mark.parametrize("factor", [1.5, 2.2])
def test_rows_of_a_table_over_pages_are_kept_with_its_header(factor: float) -> None:
    pdf, pitch = PdfPages(), 10 * factor
    for page in range(5):
        rows = [("No", "Thing", "Price"), *((f"I{page}x{row}", "Oil", f"{10 + row}.50") for row in range(30))]
        for row, cells in enumerate(rows):
            for column, cell in enumerate(cells):
                pdf.line(72 + 150 * column, 70 + pitch * row, cell)
        pdf.line(280, 815, f"Page {page + 1}").next()
    pages = pages_of(load("a.pdf", pdf.data()))
    assert all(f"I{page}x{row} " in pages[page] for page in range(5) for row in range(30))
    assert all(page.startswith("| No | Thing | Price |") and "Page" not in page for page in pages)


def test_letters_and_slides_keep_what_stands_at_their_edges() -> None:
    letters, slides = PdfPages(), PdfPages()
    names = ("Ada", "Bob", "Cyd", "Dan", "Eve")
    for number, name in enumerate(names):
        letters.lines(72, 70, [f"{name} Miller", f"Street {70 - 9 * number}", "12345 Town"])
        letters.lines(72, 200, [SENTENCE] * 20).line(72, 780, f"Signed by {name}").next()
        slides.line(72, 70, f"{name} of the tower", 20).lines(72, 140, [SENTENCE[:30]] * 4, pitch=60, size=20).next()
    pages = pages_of(load("a.pdf", letters.data()))
    for number, (name, page) in enumerate(zip(names, pages, strict=True)):
        assert f"{name} Miller Street {70 - 9 * number} 12345 Town" in page
        assert f"Signed by {name}" in page
    shown = load("b.pdf", slides.data()).text
    assert all(f"{name} of the tower" in shown for name in names)


def test_numbers_that_count_no_pages_are_kept() -> None:
    single = PdfPages().line(72, 100, SENTENCE).line(290, 810, "137")
    assert load("a.pdf", single.data()).text.endswith("137\n")
    notes = PdfPages()
    for number in range(12):
        notes.lines(72, 100, [f"Line {index} of page {'abcdefghijkl'[number]}." for index in range(40)])
        # Three footnotes are numbered as pages are by chance.
        if number < 3:
            notes.line(72, 780, f"{number + 1} See lamp {'abc'[number]}.", 7)
        notes.next()
    text = load("b.pdf", notes.data()).text
    assert all(f"{number + 1} See lamp {'abc'[number]}." in text for number in range(3))


@pytest.mark.parametrize(
    "says",
    [
        "Delivery note no. {0}",
        "Ticket {1}",
        "Hamburg, {1} May 2026",
        "Contract 2026-{1}",
        "Sum carried over {0}.50",
        "{1}/20 points",
        "{2}",
    ],
)
def test_numbers_of_documents_made_in_series_are_kept(says: str) -> None:
    pdf, said = PdfPages(), [says.format(1001 + number, 1 + number, 2017 + number) for number in range(8)]
    for text in said:
        pdf.line(72, 50, text).lines(72, 150, [SENTENCE] * 20).line(72, 800, "Harbour Works | Page 1 of 1").next()
    pages = pages_of(load("a.pdf", pdf.data()))
    assert all(text in page for text, page in zip(said, pages, strict=True))
    assert sum("Harbour Works" in page for page in pages) == 1


def test_what_a_running_line_says_is_kept_with_its_label() -> None:
    pdf = PdfPages()
    for number in range(6):
        pdf.line(72, 50, "Invoice no.:").line(180, 50, str(1001 + number)).lines(72, 150, [SENTENCE] * 20)
        # The sum is one that the text has by chance.
        pdf.line(72, 170 + 240, "100.00").line(72, 780, "Sum").line(300, 780, f"{100 + number // 3}.00").next()
    pages = pages_of(load("a.pdf", pdf.data()))
    assert all(page.startswith(f"Invoice no.: {1001 + number}") for number, page in enumerate(pages))
    assert (pages[0].endswith("Sum 100.00"), pages[3].endswith("Sum 101.00")) == (True, True)


def test_words_and_marks_that_look_like_page_numbers_are_kept() -> None:
    pdf = PdfPages()
    for number in range(5):
        pdf.line(72, 40, "civil").line(400, 40, "mix").lines(72, 150, [SENTENCE] * 20)
        pdf.line(290, 800, f"{17 - 3 * number}/20").next()
    pages = pages_of(load("a.pdf", pdf.data()))
    assert pages[0].startswith("civil mix")
    assert all(page.endswith(f"{17 - 3 * number}/20") for number, page in enumerate(pages))


def test_words_that_lie_over_a_running_line_are_kept() -> None:
    pdf = PdfPages()
    for number in range(4):
        pdf.lines(72, 100, [SENTENCE] * 5).line(72, 800, "Harbour Works").line(
            290, 804, "overflow" * (number == 2)
        ).next()
    assert "overflow" in load("a.pdf", pdf.data()).text


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
    reader = SourceReader(DocumentSettings(), max_characters=1_000)
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


# Lines of one width, so that they reach the edge of their column.
_FULL = "the keeper of the lamp trims its wick at dusk, fills the oil and writes down the ships that pass"


def test_sentence_goes_on_over_pages_past_captions_and_notes() -> None:
    pdf = PdfPages().lines(72, 100, [f"First {_FULL[6:]}", _FULL, f"{_FULL[:-8]}dis-"])
    pdf.line(72, 690, "Figure 1: A lamp.").line(72, 720, "1 See the list of lamps.", 7).next()
    pdf.line(200, 90, "Figure 2. A wick.").lines(72, 140, ["tance of each ship from the", "tower, and sleeps."]).next()
    document = load("a.pdf", pdf.data())
    assert document.text == (
        f"Figure 1: A lamp.\n\n1 See the list of lamps.\n\nFirst {_FULL[6:]} {_FULL} {_FULL[:-8]}distance of each ship "
        "from the tower, and sleeps.\n\nFigure 2. A wick.\n"
    )
    # Each page is cited as that on which it stands.
    assert document.text[document.page_starts[1] :].startswith("tance of each ship")


def test_sentence_goes_on_over_three_pages_but_past_no_figure_of_the_second() -> None:
    for figure in ([], ["Figure 1: A lamp."]):
        pdf = PdfPages().lines(72, 100, [_FULL] * 4).next()
        pdf.lines(72, 100, [_FULL] * 4).lines(72, 400, figure).next()
        pdf.lines(72, 100, [_FULL, "and sleeps."])
        document = load("a.pdf", pdf.data())
        part = " ".join([_FULL] * 4)
        end = f"\n\n{figure[0]}\n\n" if figure else " "
        assert document.text == f"{part} {part}{end}{_FULL} and sleeps.\n"
        starts = (0, len(part) + 1, 2 * len(part) + 1 + len(end))
        assert document.page_starts == starts


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([_FULL, f"{_FULL[:-5]}by."], [_FULL, "and more."]),
        ([_FULL, "and lights it"], ["chapter two begins here", "with a small letter."]),
        (["Options of the program trim-lamp, in order"], ["color sets the color of the lamp."]),
        ([_FULL, _FULL], ["\u2022 oil", "\u2022 wicks"]),
        ([_FULL, _FULL], ["1. Oil is kept dry."]),
        ([_FULL, _FULL], ["Oil is kept dry."]),
    ],
)
def test_pages_that_do_not_go_on_with_a_sentence_are_paragraphs_of_their_own(before: list, after: list) -> None:
    pages = pages_of(load("a.pdf", PdfPages().lines(72, 100, before).next().lines(72, 100, after).data()))
    assert pages[0] == " ".join(before)


def test_sentence_that_speaks_of_a_figure_is_no_caption() -> None:
    pdf = (
        PdfPages().lines(72, 100, [f"Figure 3 shows that {_FULL[:70]}", _FULL]).next().lines(72, 100, [_FULL, "here."])
    )
    assert load("a.pdf", pdf.data()).text.count("\n\n") == 0


def test_table_of_contents_is_a_list() -> None:
    pdf = PdfPages().line(72, 80, "Contents", 16)
    entries = [("1.1 Oil", "3"), ("1.2 Wicks of the lamps", "12"), ("1.3 Glass", "xvii")]
    for index, (title, page) in enumerate(entries):
        pdf.line(72, 110 + 14 * index, f"{title} {'. ' * (60 - len(title))}{page}")
    text = load("a.pdf", pdf.data()).text
    assert text.endswith("- 1.1 Oil 3\n- 1.2 Wicks of the lamps 12\n- 1.3 Glass xvii\n")


def test_few_dots_before_a_number_make_no_table_of_contents() -> None:
    lines = [
        "The screw is tightened with 5 N \u00b7 m and the mass is 6 \u00b7 10",
        "and the values are 1, 2, \u2026 20",
        "as he said ... 12",
    ]
    assert load("a.pdf", PdfPages().lines(72, 100, lines).data()).text == " ".join(lines) + "\n"


def test_titles_that_bookmarks_lead_to_are_headings_of_their_levels() -> None:
    pdf = PdfPages()
    pdf.mark("The lamp", 0).line(72, 100, "1 The lamp").lines(72, 120, [SENTENCE] * 3)
    pdf.mark("Oil, and where it is bought", 1).lines(72, 190, ["1.1 Oil, and where", "it is bought"])
    pdf.lines(72, 230, ["Nobody says why", "the lamp", "is lit."]).mark("Nowhere on its page", 1).next()
    assert load("a.pdf", pdf.data()).text == (
        f"# 1 The lamp\n\n{' '.join([SENTENCE] * 3)}\n\n## 1.1 Oil, and where it is bought\n\n"
        "Nobody says why the lamp is lit.\n"
    )


def test_many_bookmarks_with_a_long_title_are_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heliograph.documents.pdf._MOST_TITLES", 20)
    pdf = PdfPages()
    for title in ("The lamp", "The wick", "The tower"):
        pdf.mark(title, 0).line(72, 100, title).lines(72, 130, [SENTENCE] * 3).next()
    text = load("a.pdf", pdf.data()).text
    assert ["# The lamp" in text, "# The wick" in text, "# The tower" in text] == [True, True, False]


def test_sign_or_bold_word_at_the_start_of_a_line_makes_no_heading() -> None:
    pdf = PdfPages().lines(72, 100, [SENTENCE] * 3)
    pdf.line(72, 136, "Cheap:", font="Helvetica-Bold").line(108, 136, "oil is bought by the bottle in the town.")
    pdf.line(72, 148, "x", 14).line(80, 148, "is the number of bottles that are bought in the town each year.")
    assert "#" not in load("a.pdf", pdf.data()).text


def test_lines_of_code_stay_lines_with_their_indentation() -> None:
    pdf = PdfPages().lines(72, 100, [SENTENCE] * 3)
    pdf.lines(90, 140, ["for file in *.gz", "do"], font="Courier").line(108, 164, "gunzip $file", font="Courier")
    pdf.line(90, 176, "done", font="Courier").lines(72, 192, [SENTENCE] * 2)
    text = load("a.pdf", pdf.data()).text
    assert "\n\n```\nfor file in *.gz\ndo\n   gunzip $file\ndone\n```\n\n" in text


def test_tiny_code_far_apart_makes_no_lines_of_millions_of_spaces() -> None:
    pdf = PdfPages().lines(72, 100, [SENTENCE] * 3)
    for number in range(4):
        pdf.line((90, 500_000)[number % 2], 200 + number, f"lamp = oil{number}", 0.5, font="Courier")
    text = load("a.pdf", pdf.data()).text
    assert "\nlamp = oil2\n " in text
    assert len(text) < 2000


def test_term_in_letters_of_code_leads_what_stands_below_it_and_a_word_goes_on_in_its_sentence() -> None:
    pdf = PdfPages().line(72, 100, "--keep", font="Courier").line(96, 112, "The oil stays in the lamp.")
    pdf.line(72, 140, "It is filled with", size=10).line(148, 140, "fill -a", font="Courier")
    pdf.line(72, 160, SENTENCE)
    text = load("a.pdf", pdf.data()).text
    assert "--keep The oil stays in the lamp." in text
    assert "It is filled with fill -a" in text
    assert "```" not in text


def test_text_that_is_typewritten_throughout_is_no_code() -> None:
    pdf = PdfPages().lines(72, 100, [SENTENCE] * 3, font="Courier")
    assert "```" not in load("a.pdf", pdf.data()).text


def test_heading_stands_on_one_line_with_its_number_before_a_long_text() -> None:
    pdf = PdfPages().line(72, 100, "1", 13).line(96, 100, "The lamp", 13).lines(72, 124, [SENTENCE] * 20)
    assert load("a.pdf", pdf.data()).text.startswith("# 1 The lamp\n\n")
