from __future__ import annotations

import datetime
import io
import zipfile

import pytest

from heliograph.documents.base import Limits
from heliograph.errors import IngestError

from .samples import docx_bytes, load, pptx_bytes, xlsx_bytes, zip_bytes


def test_docx_keeps_headings_lists_and_tables_in_order() -> None:
    document = load("manual.docx", docx_bytes())
    assert document.title == "Gateway manual"
    assert document.metadata["author"] == "Ada Noll"
    assert document.text.split("\n\n") == [
        "# Install",
        "Plug it in.",
        "- Cable\n- Antenna",
        "| Name | Value |\n| --- | --- |\n| Port | a\\|b |",
        "## After",
        "Done.\n",
    ]


def test_pptx_has_a_section_and_a_page_for_each_slide() -> None:
    document = load("talk.pptx", pptx_bytes())
    starts = document.page_starts
    assert document.metadata["page_count"] == len(starts) == 3
    assert document.text[: starts[1]] == "## Plan\n\n- One\n  - Deeper\n\nNotes: Say hello\n\n"
    assert document.text[starts[1] : starts[2]] == "## Numbers\n\n| c0 | c1 |\n| --- | --- |\n| c2 | c3 |\n"
    assert starts[2] == len(document.text)


def test_xlsx_has_a_section_with_a_table_for_each_sheet() -> None:
    data = xlsx_bytes(
        {
            "Sales": [["Item", "Count", "When"], ["Lamp", 3.0, datetime.date(2024, 1, 2)], ["Rope", 2.5, None]],
            "Empty": [],
            "Flags": [["on"], [True]],
        }
    )
    document = load("book.xlsx", data)
    assert document.text == (
        "## Sales\n\n| Item | Count | When |\n| --- | --- | --- |\n| Lamp | 3 | 2024-01-02 |\n| Rope | 2.5 |  |\n\n"
        "## Flags\n\n| on |\n| --- |\n| TRUE |\n"
    )
    assert document.title == "book"


def test_xlsx_that_is_too_long_is_refused_with_the_place_where_it_is() -> None:
    data = xlsx_bytes({"Sales": [["Item"], ["Lamp"], ["Rope"]]})
    with pytest.raises(IngestError, match=r"12 characters by row 3 of sheet 'Sales', more than 9; .*raise ingest\.max"):
        load("book.xlsx", data, Limits(max_characters=9))


@pytest.mark.parametrize("make", [docx_bytes, pptx_bytes, lambda: xlsx_bytes({"A": [[1]]})])
def test_office_file_under_a_wrong_name_is_read_by_its_content(make) -> None:
    data = make()
    assert load("x.txt", data).text == load("x.pdf", data).text != ""


@pytest.mark.parametrize("make", [docx_bytes, pptx_bytes, lambda: xlsx_bytes({"A": [[1]]})])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_truncated_office_file_is_refused_by_name(make, share: float) -> None:
    data = make()
    with pytest.raises(IngestError, match=r"'cut\.docx'.*broken"):
        load("cut.docx", data[: int(share * len(data))])


def test_too_many_slides_are_refused() -> None:
    with pytest.raises(IngestError, match=r"3 slides.*documents\.max_pages"):
        load("talk.pptx", pptx_bytes(), Limits(max_pages=2))


def test_docx_with_entities_is_refused() -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><x>&b;</x>'
    with pytest.raises(IngestError, match="entities"):
        load("bomb.docx", zip_bytes({"word/document.xml": bomb, "[Content_Types].xml": "<x/>"}))


def test_docx_that_is_none_inside_is_refused() -> None:
    with pytest.raises(IngestError, match="no Word document"):
        load("odd.docx", zip_bytes({"word/document.xml": "<x/>"}))


def test_xlsx_with_blanks_beside_its_numbers_is_read() -> None:
    with zipfile.ZipFile(io.BytesIO(xlsx_bytes({"A": [["Lamp", 41, 2.5]]}))) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    sheet = entries["xl/worksheets/sheet1.xml"]
    entries["xl/worksheets/sheet1.xml"] = sheet.replace(b"<v>41</v>", b"<v> 41</v>").replace(b"<v>2.5<", b"<v>2.5 <")
    assert load("book.xlsx", zip_bytes(entries)).text.startswith("## A\n\n| Lamp | 41 | 2.5 |")
