"""Word documents: headings, lists, tables, notes and text in their order, through mammoth's HTML."""

from __future__ import annotations

import io
import re
from typing import Any

from heliograph.documents.archive import open_archive
from heliograph.documents.base import Limits, LoadedDocument, Loader, RawDocument
from heliograph.documents.html_markdown import to_markdown
from heliograph.documents.office_properties import read_properties
from heliograph.documents.optional import import_package
from heliograph.documents.web_page import parse_html
from heliograph.documents.xml_tree import parse_xml
from heliograph.errors import HeliographError, IngestError

__all__ = ["DocxLoader"]

_OFFICE = "application/vnd.openxmlformats-officedocument.wordprocessingml."
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
_EXTERNAL_PART = re.compile(r"word/[^/]+\.xml|docProps/[^/]+\.xml")


class DocxLoader(Loader):
    """Word documents of today's kind."""

    suffixes = frozenset({".docx", ".docm"})
    mime_types = frozenset({_OFFICE + "document", "application/vnd.ms-word.document.macroenabled.12"})
    runs_isolated = True

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:
        """See `Loader.load`."""
        mammoth = import_package("mammoth", "mammoth")
        with open_archive(raw, limits) as archive:
            # mammoth parses with the standard library's DOM, which would expand entities.
            for name in archive.names:
                if _EXTERNAL_PART.fullmatch(name):
                    parse_xml(archive.read(name), raw.name)
            properties = read_properties(archive, raw.name)
            body = parse_html(_to_html(mammoth, raw)).body
        text = to_markdown(body) if body is not None else ""
        return LoadedDocument(raw.name, properties.pop("title", ""), text + "\n" if text else "", properties)


def _to_html(mammoth: Any, raw: RawDocument) -> str:
    try:
        converted = mammoth.convert_to_html(
            io.BytesIO(raw.data),
            style_map=_STYLES,
            include_embedded_style_map=False,
            convert_image=_describe_image,
            external_file_access=False,
        )
    except HeliographError:
        raise
    except Exception as error:  # mammoth raises whatever it trips over
        raise IngestError(
            f"{raw.name!r} is no Word document that can be read ({type(error).__name__}: {error}); open it and save "
            "it anew"
        ) from error
    return converted.value


def _describe_image(image: Any) -> list[Any]:
    """Return nothing in place of a picture but its description, if it has one."""
    html = import_package("mammoth.html", "mammoth")
    return [html.text(f" {image.alt_text} ")] if image.alt_text else []
