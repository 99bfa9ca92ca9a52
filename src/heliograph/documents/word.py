"""Loads Word documents, by mammoth's HTML.

Elements that mammoth does not know are rewritten as ones that it does: formulas, text in shapes, charts, diagrams, and
fields and readings (ruby) around a text. Comments and tracked deletions are left out.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterable, Iterator
from typing import Any
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element

from heliograph.documents.base import Limits, LoadedDocument, Loader, RawDocument
from heliograph.documents.html_markdown import to_markdown
from heliograph.documents.office import (
    Archive,
    chart_rows,
    diagram_lines,
    local_name,
    open_archive,
    parse_xml,
    read_properties,
    relations,
)
from heliograph.documents.web_page import parse_html
from heliograph.errors import HeliographError, IngestError, import_optional

_WORD_TYPES = "application/vnd.openxmlformats-officedocument.wordprocessingml."
_STYLES = """
p[style-name='Title'] => h1:fresh
p[style-name='Subtitle'] => p:fresh
p[style-name='Code'] => pre:separator('\n')
p[style-name='Source Code'] => pre:separator('\n')
p[style-name='HTML Preformatted'] => pre:separator('\n')
p[style-name='Preformatted Text'] => pre:separator('\n')
p[style-name='Macro Text'] => pre:separator('\n')
p[style-name='macro'] => pre:separator('\n')
p[style-name='Quote'] => blockquote > p:fresh
p[style-name='Intense Quote'] => blockquote > p:fresh
"""
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_ALTERNATE = "{http://schemas.openxmlformats.org/markup-compatibility/2006}AlternateContent"
_TEXT_PART = re.compile(r"word/(?:document\d*|footnotes|endnotes)\.xml")
# Signs that a part needs rewriting.
_UNKNOWN = re.compile(rb"<w:(?:cr|fldSimple|ruby|dir|bdo)\b|:oMath>|:txbx\b|/(?:chart|diagram)\"")
# Elements that only annotate their content.
_AROUND = frozenset({f"{_W}fldSimple", f"{_W}dir", f"{_W}bdo", f"{_W}rubyBase"})
_EXTERNAL_PART = re.compile(r"word/[^/]+\.xml|docProps/[^/]+\.xml")


class DocxLoader(Loader):
    """Word documents in the current format (.docx)."""

    suffixes = frozenset({".docx", ".docm"})
    mime_types = frozenset({_WORD_TYPES + "document", "application/vnd.ms-word.document.macroenabled.12"})
    runs_isolated = True

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:
        mammoth = import_optional("mammoth", "office")
        with open_archive(raw, limits) as archive:
            # mammoth parses with the standard library's DOM, which would expand entities.
            parts = {name: archive.read(name) for name in archive.names if _EXTERNAL_PART.fullmatch(name)}
            roots = {name: parse_xml(data, raw.name) for name, data in parts.items()}
            said = {
                name: _in_plain_words(roots[name], archive, name, raw.name)
                for name, data in parts.items()
                if _TEXT_PART.fullmatch(name) and _UNKNOWN.search(data)
            }
            properties = read_properties(archive, raw.name)
            body = parse_html(_to_html(mammoth, raw.name, _with_parts(raw.data, said))).body
        text = to_markdown(body) if body is not None else ""
        return LoadedDocument(raw.name, properties.pop("title", ""), text + "\n" if text else "", properties)


def _to_html(mammoth: Any, name: str, data: bytes) -> str:
    try:
        converted = mammoth.convert_to_html(
            io.BytesIO(data),
            style_map=_STYLES,
            include_embedded_style_map=False,
            convert_image=_describe_image,
            external_file_access=False,
        )
    except HeliographError:
        raise
    except Exception as error:  # mammoth raises whatever it trips over
        raise IngestError(
            f"{name!r} is no Word document that can be read ({type(error).__name__}: {error}); open it and save it anew"
        ) from error
    return converted.value


def _describe_image(image: Any) -> list[Any]:
    """Return a picture's description, or nothing."""
    html = import_optional("mammoth.html", "office")
    return [html.text(f" {image.alt_text} ")] if image.alt_text else []


def _with_parts(data: bytes, parts: dict[str, Element]) -> bytes:
    """Return an archive in which these parts replace those of the same name."""
    if not parts:
        return data
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(made, "w") as copy:
        for entry in archive.namelist():
            part = parts.get(entry)
            copy.writestr(entry, archive.read(entry) if part is None else ET.tostring(part))
    return made.getvalue()


def _in_plain_words(root: Element, archive: Archive, part: str, name: str) -> Element:
    """Return a part of a document with elements unknown to mammoth rewritten."""
    parts = relations(archive, part, name)
    # Inner elements come first.
    for parent in reversed(list(root.iter())):
        children = [plain for child in parent for plain in _plain(child, archive, parts, name)]
        if children != list(parent):
            parent[:] = children
    return root


def _plain(element: Element, archive: Archive, parts: dict[str, tuple[str, str]], name: str) -> Iterator[Element]:
    tag = element.tag
    if tag == f"{_W}cr":
        yield Element(f"{_W}br")
    elif tag in _AROUND or local_name(element) == "oMathPara":
        yield from element
    elif tag == f"{_W}ruby":
        # The reading stands beside its text.
        yield from (part for run in element if run.tag != f"{_W}rt" for part in (run if run.tag in _AROUND else [run]))
    elif local_name(element) == "oMath":
        yield _run(_formula(element))
    elif tag == _ALTERNATE:
        fallback = next((child for child in element if local_name(child) == "Fallback"), None)
        has_words = fallback is not None and any(text.text for text in fallback.iter(f"{_W}t"))
        shown = () if has_words else (block for box in element.iter(f"{_W}txbxContent") for block in box)
        yield from _with_blocks(element, shown)
    elif tag == f"{_W}drawing":
        yield from _with_blocks(element, _graphics(element, archive, parts, name))
    else:
        yield element


def _with_blocks(element: Element, blocks: Iterable[Element]) -> Iterator[Element]:
    """Yield an element, and blocks to place after its paragraph, as mammoth places drawings."""
    yield element
    drawn = Element(f"{_W}pict")
    drawn.extend(blocks)
    if len(drawn):
        yield drawn


def _graphics(drawing: Element, archive: Archive, parts: dict[str, tuple[str, str]], name: str) -> Iterator[Element]:
    for title, rows in chart_rows(drawing, archive, parts, name):
        yield from (_paragraph(title),) if title else ()
        table = Element(f"{_W}tbl")
        for row in rows:
            line = ET.SubElement(table, f"{_W}tr")
            for cell in row:
                ET.SubElement(line, f"{_W}tc").append(_paragraph(cell))
        yield table
    for _, line in diagram_lines(drawing, archive, parts, name):
        yield _paragraph(line)


def _paragraph(text: str) -> Element:
    paragraph = Element(f"{_W}p")
    paragraph.append(_run(text))
    return paragraph


def _run(text: str) -> Element:
    run = Element(f"{_W}r")
    ET.SubElement(run, f"{_W}t").text = text
    return run


def _formula(element: Element) -> str:
    """Return a formula on one line: `x^2`, `(a + b)/2`, `√(x)`."""
    kind = local_name(element)
    if kind == "t":
        return element.text or ""
    said = {local_name(child): _formula(child) for child in element}
    base, above, below = said.get("e", ""), said.get("sup", ""), said.get("sub", "")
    raised = (f"_{_grouped(below)}" if below else "") + (f"^{_grouped(above)}" if above else "")
    if kind == "f":
        return f"{_grouped(said.get('num', ''))}/{_grouped(said.get('den', ''))}"
    if kind in ("sSup", "sSub", "sSubSup"):
        return base + raised
    if kind == "rad":
        return f"{_grouped(said['deg']) if said.get('deg') else ''}√{_grouped(base)}"
    if kind == "nary":
        return f"{_sign(element, 'chr', '∫')}{raised} {base}"
    if kind == "d":
        inside = ", ".join(_formula(child) for child in element if local_name(child) == "e")
        return f"{_sign(element, 'begChr', '(')}{inside}{_sign(element, 'endChr', ')')}"
    if kind == "func":
        return f"{said.get('fName', '')} {base}"
    if kind in ("m", "eqArr"):
        return "; ".join(_formula(child) for child in element if local_name(child) in ("mr", "e"))
    if kind == "mr":
        return ", ".join(_formula(child) for child in element)
    return "".join(_formula(child) for child in element)


def _sign(element: Element, name: str, usual: str) -> str:
    """Return the character that a formula's properties state under this name."""
    stated = next((child for child in element.iter() if local_name(child) == name), None)
    return usual if stated is None else next(iter(stated.attrib.values()), "")


def _grouped(said: str) -> str:
    return said if len(said) <= 1 or said.isdigit() or said[:1] + said[-1:] == "()" else f"({said})"
