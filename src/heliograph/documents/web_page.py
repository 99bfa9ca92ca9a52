"""HTML pages: their content (`html_content` says what that is) as Markdown, their title and what they state."""

from __future__ import annotations

import codecs
import re
from typing import Any

from heliograph.documents.base import Limits, LoadedDocument, Loader, RawDocument
from heliograph.documents.encoding import decode_text
from heliograph.documents.html_content import remove_furniture
from heliograph.documents.html_markdown import to_markdown
from heliograph.documents.optional import import_package

__all__ = ["HtmlLoader", "html_to_markdown", "parse_html"]

_DECLARED = re.compile(
    rb"""<meta[^>]{0,200}charset\s*=\s*["']?([\w.:-]{2,40})|<\?xml[^>]{0,100}encoding=["']([\w.-]+)""", re.IGNORECASE
)
_DECLARED_WITHIN = 4_096


class HtmlLoader(Loader):
    """Web pages."""

    suffixes = frozenset({".html", ".htm", ".xhtml", ".shtml"})
    mime_types = frozenset({"text/html", "application/xhtml+xml"})
    runs_isolated = True

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:  # noqa: ARG002 (lengths are checked for all)
        """See `Loader.load`."""
        page = parse_html(decode_text(raw.data, raw.name, raw.charset or _declared_charset(raw.data)))
        metadata = _metadata(page)
        body = page.body
        if body is None:
            return LoadedDocument(raw.name, _title(page), "", metadata)
        omitted = remove_furniture(body, _stated_title(page))
        text = to_markdown(body)
        return LoadedDocument(
            raw.name, _title(page), text + "\n" if text else "", {**metadata, "omitted_characters": omitted}
        )


def parse_html(text: str) -> Any:
    """Return the tree of a page or of a part of one, as a browser would build it.

    Raises:
        MissingDependencyError: selectolax is not installed.
    """
    return import_package("selectolax.lexbor", "selectolax").LexborHTMLParser(text)


def html_to_markdown(text: str) -> str:
    """Return a part of a page that is all content, such as a mail or a chapter, as Markdown."""
    body = parse_html(text).body
    return to_markdown(body) if body is not None else ""


def _declared_charset(data: bytes) -> str:
    match = _DECLARED.search(data[:_DECLARED_WITHIN])
    name = (match[1] or match[2]).decode("ascii", "replace") if match else ""
    try:
        return codecs.lookup(name).name if name else ""
    except LookupError:
        return ""


def _title(page: Any) -> str:
    """Return the only first heading of the content, else what the page calls itself."""
    headings = page.body.css("h1") if page.body is not None else []
    if len(headings) == 1 and (words := to_markdown(headings[0]).replace("\n", " ").strip()):
        return words.lstrip("\\").replace("`", "")
    return _stated_title(page)


def _stated_title(page: Any) -> str:
    title = page.css_first("head > title")
    return _meta(page, "og:title") or (title.text().strip() if title is not None else "")


def _metadata(page: Any) -> dict[str, str]:
    root = page.root
    return {
        "language": (root.attributes.get("lang") or root.attributes.get("xml:lang") or "").strip() if root else "",
        "author": _meta(page, "author") or _meta(page, "article:author") or _meta(page, "dcterms.creator"),
        "created_at": _meta(page, "article:published_time") or _meta(page, "dcterms.created") or _meta(page, "date"),
        "modified_at": _meta(page, "article:modified_time") or _meta(page, "dcterms.modified"),
        "description": _meta(page, "description") or _meta(page, "og:description"),
    }


def _meta(page: Any, name: str) -> str:
    node = page.css_first(f'meta[name="{name}" i], meta[property="{name}" i]')
    return " ".join((node.attributes.get("content") or "").split()) if node is not None else ""
