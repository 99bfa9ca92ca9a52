"""Spreadsheets (Excel and OpenDocument) through calamine: a section per sheet, holding its table."""

from __future__ import annotations

import datetime
import io
import re
from collections.abc import Iterator
from typing import Any

from heliograph.documents.archive import open_archive
from heliograph.documents.base import Limits, LoadedDocument, Loader, RawDocument
from heliograph.documents.finishing import name_title, too_long
from heliograph.documents.office_properties import read_properties
from heliograph.documents.optional import import_package
from heliograph.documents.tables import markdown_table
from heliograph.documents.xml_tree import parse_xml
from heliograph.errors import IngestError

__all__ = ["SpreadsheetLoader"]

_OFFICE = "application/vnd.openxmlformats-officedocument.spreadsheetml."
_SHEET = re.compile(r"xl/worksheets/[^/]+\.xml")
_ENTITIES_WITHIN = 4_096


class SpreadsheetLoader(Loader):
    """Sheets with values as they were last computed; hidden sheets and charts are left out."""

    suffixes = frozenset({".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"})
    mime_types = frozenset(
        {
            _OFFICE + "sheet",
            "application/vnd.ms-excel",
            "application/vnd.ms-excel.sheet.macroenabled.12",
            "application/vnd.ms-excel.sheet.binary.macroenabled.12",
            "application/vnd.oasis.opendocument.spreadsheet",
        }
    )
    runs_isolated = True

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:
        """See `Loader.load`."""
        calamine = import_package("python_calamine", "python-calamine")
        properties = _properties(raw, limits) if raw.data.startswith(b"PK") else {}
        try:
            blocks, count = _sections(calamine, raw, limits)
        except calamine.PasswordError as error:
            raise IngestError(f"{raw.name!r} is encrypted; remove its password and try again") from error
        except (calamine.CalamineError, calamine.ZipError, calamine.XmlError, OSError, ValueError) as error:
            raise IngestError(f"{raw.name!r} is no spreadsheet that can be read ({error}); save it anew") from error
        title = properties.pop("title", "") or name_title(raw.name)
        text = "\n\n".join(blocks) + "\n" if blocks else ""
        return LoadedDocument(raw.name, title, text, {**properties, "sheet_count": count})


def _properties(raw: RawDocument, limits: Limits) -> dict[str, str]:
    """Return what the file says about itself, having made sure that it is no bomb."""
    with open_archive(raw, limits) as archive:
        archive.verify()
        for name in archive.names:
            # Of sheets, which may be long, only the head may define entities.
            if (
                name.endswith(".xml")
                and not _SHEET.fullmatch(name)
                and b"<!ENTITY" in archive.read(name)[:_ENTITIES_WITHIN]
            ):
                parse_xml(archive.read(name), raw.name)
        return read_properties(archive, raw.name)


def _sections(calamine: Any, raw: RawDocument, limits: Limits) -> tuple[list[str], int]:
    blocks: list[str] = []
    left = limits.max_characters
    with calamine.load_workbook(io.BytesIO(raw.data)) as book:
        shown = [
            sheet.name
            for sheet in book.sheets_metadata
            if sheet.typ == calamine.SheetTypeEnum.WorkSheet and sheet.visible == calamine.SheetVisibleEnum.Visible
        ]
        if len(shown) > limits.max_pages:
            raise IngestError(
                f"{raw.name!r} has {len(shown):,} sheets, more than {limits.max_pages:,}; raise documents.max_pages"
            )
        for name in shown:
            table = markdown_table(_rows(book.get_sheet_by_name(name), left, raw.name, limits))
            left -= len(table)
            if table:
                blocks += [f"## {name}", table]
    return blocks, len(shown)


def _rows(sheet: Any, most_characters: int, name: str, limits: Limits) -> Iterator[list[str]]:
    length = 0
    for row in sheet.iter_rows():
        cells = [_cell(value) for value in row]
        length += sum(map(len, cells))
        if length > most_characters:
            raise too_long(name, limits.max_characters)
        yield cells


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, datetime.datetime):
        midnight = value.time() == datetime.time()
        return value.date().isoformat() if midnight else value.isoformat(" ", "seconds")
    return "" if value is None else str(value)
