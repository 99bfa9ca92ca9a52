"""CSV and TSV: one Markdown table, whose header is the first row."""

from __future__ import annotations

import csv
import io
from pathlib import PurePath

from heliograph.documents.base import Limits, LoadedDocument, Loader, RawDocument
from heliograph.documents.cleaning import clean_text
from heliograph.documents.encoding import decode_text
from heliograph.documents.finishing import name_title
from heliograph.documents.tables import markdown_table
from heliograph.errors import IngestError

__all__ = ["DelimitedLoader"]

_SAMPLE_CHARACTERS = 20_000
_DELIMITERS = ",;\t|"


class DelimitedLoader(Loader):
    """Rows of delimited values; comma, semicolon, tab or bar, whichever gives the steadiest rows."""

    suffixes = frozenset({".csv", ".tsv", ".tab"})
    mime_types = frozenset({"text/csv", "text/tab-separated-values"})
    runs_isolated = True

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:
        """See `Loader.load`."""
        text = clean_text(decode_text(raw.data, raw.name, raw.charset))
        is_tabbed = PurePath(raw.name).suffix.lower() in {".tsv", ".tab"} or raw.mime_type.endswith(
            "tab-separated-values"
        )
        delimiter = "\t" if is_tabbed else _delimiter(text[:_SAMPLE_CHARACTERS])
        csv.field_size_limit(limits.max_characters)
        try:
            rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if any(row)]
        except csv.Error as error:
            raise IngestError(f"{raw.name!r} is not delimited text ({error}); save it as CSV in UTF-8") from error
        title = name_title(raw.name)
        body = f"# {title}\n\n{markdown_table(rows)}\n" if rows else ""
        return LoadedDocument(raw.name, title, body, {"row_count": max(0, len(rows) - 1)})


def _delimiter(sample: str) -> str:
    """Return the delimiter that cuts the most rows into equally many cells, at least two."""

    def steadiness(delimiter: str) -> tuple[int, int]:
        rows = list(csv.reader(io.StringIO(sample), delimiter=delimiter))[:50]
        widths = [len(row) for row in rows if len(row) > 1]
        most = max(set(widths), key=widths.count, default=0)
        return widths.count(most), most

    try:
        return max(_DELIMITERS, key=steadiness)
    except csv.Error:
        return ","
