"""Loads Jupyter notebooks: Markdown cells as they are, code fenced in its language, then its output.

Pictures are left out. Of a result in several forms, the textual one is taken. Version 3 of the format, which has its
cells in worksheets, is read like version 4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from heliograph.documents.base import Limits, LoadedDocument, Loader, RawDocument
from heliograph.documents.encoding import decode_text
from heliograph.documents.markdown import clean_text, fence
from heliograph.documents.text_formats import parse_json
from heliograph.documents.web_page import html_to_markdown
from heliograph.errors import IngestError

# Terminal escapes for colours and movement, and lines that a progress bar has overwritten.
_TERMINAL_CODES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_WRITTEN_OVER = re.compile(r"[^\n]*\r(?=[^\n])")
# The text form of an object with another display: `<Figure size 640x480 with 1 Axes>`.
_NAMELESS = re.compile(r"(?:<[^<>]*>)?")
# Pictures embedded in a cell.
_DATA_PICTURES = re.compile(r"!\[([^\]\n]*)\]\((?:data:|attachment:)[^)\s]*\)")


class NotebookLoader(Loader):
    """Jupyter notebooks."""

    suffixes = frozenset({".ipynb"})
    mime_types = frozenset({"application/x-ipynb+json"})
    runs_isolated = True

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:  # noqa: ARG002 (lengths are checked for all)
        notebook = parse_json(decode_text(raw.data, raw.name, raw.charset), raw)
        if notebook is None:
            return LoadedDocument(raw.name, "", "")
        cells = [*_mappings(_field(notebook, "cells"))]
        for sheet in _mappings(_field(notebook, "worksheets")):
            cells += _mappings(sheet.get("cells"))
        if not isinstance(notebook, dict) or not ({"cells", "worksheets"} & notebook.keys()):
            raise IngestError(f"{raw.name!r} is no notebook: it has no cells; name it .json to take it as data")
        metadata = _field(notebook, "metadata")
        names = (_field(metadata, "language_info", "name"), _field(metadata, "kernelspec", "language"))
        language = next((name for name in names if isinstance(name, str) and re.fullmatch(r"[\w+#-]+", name)), "python")
        title = _field(metadata, "title")
        blocks = [block for cell in cells for block in _cell(cell, language)]
        text = "\n\n".join(blocks) + "\n" if blocks else ""
        found = {"programming_language": language, "cell_count": len(cells)}
        return LoadedDocument(raw.name, title if isinstance(title, str) else "", text, found)


def _field(value: Any, *path: str) -> Any:
    """Return the value under these nested keys; None if there is none."""
    for key in path:
        value = cast("dict[str, Any]", value).get(key) if isinstance(value, dict) else None
    return value


def _mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    for item in cast("list[Any]", value) if isinstance(value, list) else ():
        if isinstance(item, dict):
            yield cast("dict[str, Any]", item)


def _text(value: Any) -> str:
    """Return a text, which notebooks may store as a list of lines."""
    lines = cast("list[Any]", value) if isinstance(value, list) else [value]
    return "".join(line for line in lines if isinstance(line, str))


def _cell(cell: Mapping[str, Any], language: str) -> Iterator[str]:
    kind = cell.get("cell_type")
    source = _text(cell.get("source", cell.get("input"))).strip("\n")
    if kind == "code":
        if source.strip():
            yield fence(source, language)
        for output in _mappings(cell.get("outputs")):
            if words := _output(output):
                yield words
    elif source.strip():
        level = cell.get("level")
        if kind == "heading" and isinstance(level, int):
            yield f"{'#' * min(max(level, 1), 6)} {source}"
        else:
            yield _DATA_PICTURES.sub(r"\1", source)


def _output(output: Mapping[str, Any]) -> str:
    """Return the output, result or error of a cell, fenced if it is plain; empty for pictures and widgets."""
    if output.get("output_type") in ("error", "pyerr"):
        return _printed(": ".join(filter(None, (_text(output.get("ename")), _text(output.get("evalue"))))))
    if output.get("output_type") == "stream":
        return _printed(_text(output.get("text")))
    # In version 3 the forms are in the output itself, under short names.
    forms = output.get("data", output)
    marked = _text(_field(forms, "text/markdown"))
    plain = _text(_field(forms, "text/plain")) or _text(_field(forms, "text"))
    page = _text(_field(forms, "text/html")) or _text(_field(forms, "html"))
    if marked.strip():
        return _DATA_PICTURES.sub(r"\1", marked).strip()
    return html_to_markdown(page) if _NAMELESS.fullmatch(plain.strip()) else _printed(plain)


def _printed(text: str) -> str:
    lines = clean_text(_WRITTEN_OVER.sub("", _TERMINAL_CODES.sub("", text).replace("\r\n", "\n")))
    return fence(lines, "text") if lines.strip() else ""
