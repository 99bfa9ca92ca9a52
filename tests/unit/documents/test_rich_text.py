from __future__ import annotations

import pytest

from heliograph.documents.base import Limits
from heliograph.errors import IngestError

from .samples import load

_HEAD = (
    r"{\rtf1\ansi\ansicpg1252\deff0\uc1{\fonttbl{\f0\fcharset0 Arial;}{\f1\fcharset134 SimSun;}{\f2\fcharset204 PT;}}"
    r"{\stylesheet{\s0 Normal;}{\s1\outlinelevel0 heading 1;}{\s2 Heading 2;}{\s3 Source Code;}{\s4 Title;}}"
    r"{\info{\title Gateway manual}{\author Ada Noll}{\creatim\yr2024}}{\*\generator Writer;}"
)


def read(body: str) -> str:
    return load("manual.rtf", _HEAD + body + "}").text


def blocks(body: str) -> list[str]:
    return read(body).strip().split("\n\n")


def test_headings_lists_tables_and_code_come_in_their_order() -> None:
    row = r"\trowd\cellx1\cellx2\pard\intbl {%s}\cell\pard\intbl {%s}\cell\row"
    item = r"\pard{\listtext\f1 %s\tab}\ilvl%d\ls1 %s\par"
    found = blocks(
        r"\pard\s1 Install\par\pard\s2 Cables\par\pard Plug {\b it} in.\line At once.\par"
        + item % ("1.", 0, "Open")
        + item % (r"\'b7", 1, "slowly")
        + item % ("2.", 0, "Close")
        + item % (r"\'b7", 0, "Cable")
        + row % ("Name", "Value")
        + row % ("Port", r"a\par b")
        + r"\pard\s3 a = 1\par\pard\s3   b = 2\par\pard Done."
    )
    assert found == [
        "# Install",
        "## Cables",
        "Plug it in.\nAt once.",
        "1. Open\n   - slowly\n2. Close",
        "- Cable",
        "| Name | Value |\n| --- | --- |\n| Port | a b |",
        "```\na = 1\n  b = 2\n```",
        "Done.",
    ]


def test_letters_are_read_in_the_code_page_of_their_font() -> None:
    # The second byte of a Chinese sign may be a letter of ASCII.
    assert (
        read(r"\pard\f0 H\'f6he {\f1\'cd\'fb\'bd\'ad\'96\'7c\'96|} {\f2\'c4\'e0} \f0 \'96 so").strip()
        == "Höhe 望江東東 Да – so"
    )


def test_characters_by_number_replace_what_stands_after_them() -> None:
    assert (
        read(r"\pard \u26395?\u27743\'3f\uc0\u38047\uc1 x \u-10179?\u-8704? {\uc2\u8212 --}.").strip()
        == "望江钟x 😀 —."
    )


def test_notes_stand_at_the_end() -> None:
    assert blocks(r"\pard Old{\super\chftn}{\footnote\pard\plain Since\par 1923.} and dry.\par\pard End.\par") == [
        "Old[1] and dry.",
        "End.",
        "[1] Since 1923.",
    ]


def test_what_is_no_text_is_left_out() -> None:
    text = read(
        r"{\header Page 1}{\*\unknown nothing}{\pict\pngblip 89504e47}{\pict\bin4 }}{{}\pard Seen. {\v hidden}"
        r"{\deleted gone}"
        r"{\field{\*\fldinst TOC \\o}{\fldrslt Install 1}}{\field{\*\fldinst HYPERLINK "
        r'"https://a.example"}{\fldrslt a link}}{\*\annotation why?}'
        r"{\shp{\*\shpinst{\sp{\sn name}{\sv value}}{\shptxt\pard In a box.\par}}{\shprslt}}\par"
    )
    assert " ".join(text.split()) == "Seen. a link In a box."


def test_what_it_says_of_itself_is_kept() -> None:
    document = load("notes.txt", _HEAD + r"\pard Plug it in.}")
    assert (document.title, document.text) == ("Gateway manual", "Plug it in.\n")
    assert document.metadata["author"] == "Ada Noll"
    assert document.metadata["mime_type"] == "application/rtf"


@pytest.mark.parametrize(
    "tail", ["{" * 3000, "}" * 3000, r"\bin99999999 x", r"\u99999999999 ?", r"\ansicpg99999\'e4", "\\"]
)
def test_what_is_broken_costs_only_itself(tail: str) -> None:
    assert load("a.rtf", r"{\rtf1 Plug it in.\par " + tail).text.startswith("Plug it in.")


def test_another_kind_under_its_name_and_too_long_ones_are_refused() -> None:
    with pytest.raises(IngestError, match="no Rich Text"):
        load("a.rtf", "Plug it in.")
    with pytest.raises(IngestError, match="more than 100"):
        load("a.rtf", r"{\rtf1 " + "word " * 100 + "}", Limits(max_characters=100))
    assert load("a.rtf", "").text == ""
