"""HTML pages: the main content as Markdown, without navigation, banners, asides and forms.

What is content is decided by the page's own marks first (`main`, `article`, roles), then by the names that authors
give to the rest, then by how much of a block is links. If that leaves next to nothing, the whole body is taken.
"""

from __future__ import annotations

import codecs
import re
from typing import Any

from heliograph.documents.base import Limits, LoadedDocument, Loader, RawDocument
from heliograph.documents.encoding import decode_text
from heliograph.documents.html_markdown import to_markdown
from heliograph.documents.optional import import_package

__all__ = ["HtmlLoader", "html_to_markdown", "parse_html"]

Node = Any

_DECLARED = re.compile(
    rb"""<meta[^>]{0,200}charset\s*=\s*["']?([\w.:-]{2,40})|<\?xml[^>]{0,100}encoding=["']([\w.-]+)""", re.IGNORECASE
)
_DECLARED_WITHIN = 4_096
_NEVER_CONTENT = (
    "nav, aside, dialog, form[role=search], [role=navigation], [role=search], [role=complementary], [role=dialog], "
    "[role=alertdialog], [role=menu], [role=menubar], [role=toolbar], [role=banner], [role=contentinfo]"
)
_MAIN = ("main", "[role=main]", "article", "#content", "#main-content", "#main", ".main-content", ".markdown-body")
_NAMES = re.compile(
    r"(?:^|[-_ ])(?:nav|navbar|navigation|menu|sidebar|side-bar|sidenav|breadcrumbs?|crumbs|footer|masthead|cookies?|"
    r"consent|gdpr|banner|advert|advertisement|ads|adsbygoogle|promo|sponsor(?:ed)?|social|share|sharing|related|"
    r"recommended|newsletter|subscribe|subscription|signup|popup|modal|overlay|paginat(?:ion|or)|pager|skip|skip-link|"
    r"toolbar|searchbox|search-form|toc|table-of-contents|prev-next|comments?|respond|widget|buttons)(?:$|[-_ ])",
    re.IGNORECASE,
)
_NAMED = "div, section, ul, ol, p, header, footer, a, span, table"
# A block named like boilerplate that holds more of the page than this is no boilerplate.
_MAX_NAMED_SHARE = 0.4
_LEAST_LINKS = 3
_MAX_LINK_SHARE = 0.7
_LEAST_LEFT = 0.1
_LEAST_CHARACTERS = 200
_SPACES = re.compile(r"\s+")


class HtmlLoader(Loader):
    """Web pages."""

    suffixes = frozenset({".html", ".htm", ".xhtml", ".shtml"})
    mime_types = frozenset({"text/html", "application/xhtml+xml"})
    runs_isolated = True

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:  # noqa: ARG002 (lengths are checked for all)
        """See `Loader.load`."""
        page = parse_html(decode_text(raw.data, raw.name, raw.charset or _declared_charset(raw.data)))
        metadata = _metadata(page)
        content = _main_content(page.body) if page.body is not None else None
        text = to_markdown(content) if content is not None else ""
        return LoadedDocument(raw.name, _title(page, content), text + "\n" if text else "", metadata)


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


def _main_content(body: Node) -> Node:
    """Return the node that holds the content, with what is none removed from it."""
    whole = _length(body)
    untouched = body.clone() if hasattr(body, "clone") else None
    _remove_marked(body)
    root = _main_root(body)
    _remove_named(root)
    if root.tag not in ("main", "article"):
        _remove_link_lists(root)
    left = _length(root)
    if left < min(_LEAST_CHARACTERS, _LEAST_LEFT * whole) and untouched is not None:
        return untouched
    return root


def _remove_marked(body: Node) -> None:
    for node in body.css("script, style, noscript, template"):
        node.decompose()
    for node in body.css(_NEVER_CONTENT):
        node.decompose()
    for node in body.css("body > header, body > footer, body > div > header, body > div > footer"):
        if node.css_first("main, article, h1") is None or node.tag == "footer":
            node.decompose()


def _main_root(body: Node) -> Node:
    """Return the only main or article, or the one element that is named so, if it holds a good part of the page."""
    whole = _length(body)
    for selector in _MAIN:
        found = body.css(selector)
        if len(found) == 1 and _length(found[0]) >= _LEAST_LEFT * whole:
            return found[0]
    return body


def _remove_named(root: Node) -> None:
    whole = max(1, _length(root))
    doomed = [
        node
        for node in root.css(_NAMED)
        if node.mem_id != root.mem_id
        and _NAMES.search(f"{node.attributes.get('class') or ''} {node.attributes.get('id') or ''}")
        and _length(node) <= _MAX_NAMED_SHARE * whole
        and node.css_first("main, article, h1, pre") is None
    ]
    # From the innermost, as removing a node ends those within it.
    for node in reversed(doomed):
        node.decompose()


def _remove_link_lists(root: Node) -> None:
    for node in reversed(root.css("ul, ol, div, table")):
        if node.mem_id == root.mem_id or node.css_first("h1, h2, h3, p, pre") is not None:
            continue
        links = node.css("a")
        if len(links) >= _LEAST_LINKS and sum(map(_length, links)) > _MAX_LINK_SHARE * max(1, _length(node)):
            node.decompose()


def _length(node: Node) -> int:
    return len(_SPACES.sub("", node.text()))


def _title(page: Any, content: Node | None) -> str:
    """Return the only first heading of the content, else what the page calls itself."""
    headings = content.css("h1") if content is not None else []
    if len(headings) == 1 and (words := to_markdown(headings[0]).replace("\n", " ").strip()):
        return words.lstrip("\\").replace("`", "")
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
