"""Reads what wikis, issue trackers, blogs and feeds export as XML: a section for each page, issue, post or entry.

RSS (also of Jira, and WordPress's own), Atom, MediaWiki's dumps, and the `entities.xml` of Confluence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from html import escape
from xml.etree.ElementTree import Element, tostring

from heliograph.documents.markdown import nest_headings
from heliograph.documents.office import local_name
from heliograph.documents.web_page import html_to_markdown
from heliograph.documents.wiki_text import wiki_markdown

_ENTRIES = frozenset({"item", "entry"})
# Elements whose text is HTML.
_TEXTS = frozenset({"description", "encoded", "content", "summary", "environment"})
# WordPress keeps records of its own beside the posts.
_RECORDS = "{http://wordpress.org/export/"
_MARKUP = re.compile(r"<[A-Za-z/!]|&(?:#\d+|[A-Za-z]+);")
# MediaWiki's namespaces of interface messages, templates and modules, and of their talk pages.
_NOT_READ = frozenset({"8", "9", "10", "11", "828", "829"})


def export_markdown(root: Element) -> str | None:
    """Return an export as Markdown, under its name; None if it is of an unknown kind."""
    read = _READERS.get(local_name(root))
    sections = list(read(root)) if read else []
    named = (element for element in root.iter() if local_name(element) in ("title", "sitename"))
    title = _words(next(named, Element("none"))) if local_name(root) in _NAMED else ""
    return "\n\n".join((*([f"# {title}"] if title else []), *sections)) + "\n" if sections else None


def _feed(root: Element) -> Iterator[str]:
    channel = next((child for child in root if local_name(child) == "channel"), root)
    about = next((child for child in channel if local_name(child) in ("description", "subtitle")), None)
    if about is not None and any(local_name(element) in _ENTRIES for element in root.iter()):
        yield _text(about)
    for entry in root.iter():
        if local_name(entry) not in _ENTRIES:
            continue
        title = next((_words(child) for child in entry if local_name(child) == "title"), "")
        fields: list[str] = []
        texts: list[str] = []
        for child in entry:
            name, words = local_name(child), _words(child)
            if name == "comments" and len(child):
                texts += map(_comment, child)
            elif name == "comment":
                texts.append(_comment(child))
            elif name == "customfields":
                fields += _custom_fields(child)
            elif not child.tag.startswith(_RECORDS) and name in _TEXTS and words not in title:
                texts.append(_text(child))
            elif name == "link" and child.get("href") and not words:
                fields.append(f"- link: {child.get('href')}")
            elif not child.tag.startswith(_RECORDS) and words and name not in ("title", "guid") and words not in title:
                fields.append(f"- {name}: {words}")
        head = f"## {title or 'Untitled'}"
        yield "\n\n".join(filter(None, (head, "\n".join(fields), *(nest_headings(text, 2) for text in texts))))


def _comment(comment: Element) -> str:
    """Return a comment after its author and date, which are its attributes or child elements."""
    inside = {local_name(child): _words(child) for child in comment}
    author = comment.get("author") or inside.get("comment_author") or ""
    date = comment.get("created") or inside.get("comment_date") or ""
    body = next((child for child in comment if local_name(child) == "comment_content"), comment)
    said = _text(body)
    head = ", ".join(filter(None, (f"Comment by {author}" if author else "Comment", date)))
    return f"{head}: {said}" if said else ""


def _custom_fields(fields: Element) -> Iterator[str]:
    for field in fields:
        name = next((_words(child) for child in field if local_name(child) == "customfieldname"), "")
        values = [_words(value) for value in field.iter() if local_name(value) == "customfieldvalue"]
        if said := ", ".join(filter(None, values)):
            yield f"- {name}: {said}"


def _words(element: Element) -> str:
    return " ".join(" ".join(element.itertext()).split())


def _text(element: Element) -> str:
    """Return a text that may hold HTML, escaped or not."""
    if len(element):
        for inside in element.iter():
            inside.tag = local_name(inside)
        return html_to_markdown(tostring(element, encoding="unicode", method="html")).strip()
    text = element.text or ""
    return (html_to_markdown(text) if _MARKUP.search(text) else text).strip()


def _wiki(root: Element) -> Iterator[str]:
    for page in root.iter():
        if local_name(page) != "page":
            continue
        parts = {local_name(child): child for child in page}
        title, space = (_words(parts.get(name, Element("none"))) for name in ("title", "ns"))
        if "redirect" in parts or space in _NOT_READ:
            continue
        # The last revision is the current text of the page.
        texts = [element for element in page.iter() if local_name(element) == "text"]
        said = wiki_markdown(texts[-1].text or "") if texts else ""
        if said:
            yield f"## {title}\n\n{nest_headings(said, 2)}"


_CDATA = re.compile(r"<!\[CDATA\[((?:(?!<!\[CDATA\[).)*?)\]\]>", re.DOTALL)
_PARAMETER = re.compile(
    r"<ac:(parameter|task-id|task-uuid|task-status)\b[^<>]*?(?:/>|>(?:(?!<ac:\1).)*?</ac:\1>)", re.DOTALL
)
_LINK = re.compile(r"<ac:link(?:\s[^<>]*)?>(?:(?!<ac:link[\s>]).)*?</ac:link>", re.DOTALL)
_TARGET = re.compile(r'\bri:(?:content-title|filename)="([^"]*)"')
_BODY = re.compile(r"<ac:(?:plain-text-)?link-body>(.*?)</ac:", re.DOTALL)
_AS_HTML = (
    (re.compile(r"<(/?)ac:plain-text-body[^<>]*>"), r"<\1pre>"),
    (re.compile(r"<(/?)ac:task-list[^<>]*>"), r"<\1ul>"),
    (re.compile(r"<(/?)ac:task-body[^<>]*>"), r"<\1li>"),
    (re.compile(r"</?(?:ac|ri|at):[^<>]*>"), " "),
)


def _confluence(root: Element) -> Iterator[str]:
    objects = [element for element in root if local_name(element) == "object"]
    bodies: dict[str, str] = {}
    for element in objects:
        if element.get("class") == "BodyContent":
            content = next((child for child in element if child.get("name") == "content"), Element("none"))
            bodies[_words(content)] = _property(element, "body")
    for element in objects:
        # Older versions refer to the original page.
        is_page = element.get("class") in ("Page", "BlogPost") and not _property(element, "originalVersion")
        key = next((_words(child) for child in element if child.tag == "id"), "")
        body = bodies.get(key, "")
        if is_page and body and _property(element, "contentStatus") in ("", "current"):
            said = nest_headings(html_to_markdown(_storage_html(body)).strip(), 2)
            yield f"## {_property(element, 'title')}\n\n{said}"


def _property(element: Element, name: str) -> str:
    return next(("".join(child.itertext()).strip() for child in element if child.get("name") == name), "")


def _storage_html(body: str) -> str:
    """Convert a Confluence page's storage format, XHTML with extra elements, to plain HTML."""

    def link(match: re.Match[str]) -> str:
        words, target = _BODY.search(match[0]), _TARGET.search(match[0])
        return words[1] if words else target[1] if target else ""

    html = _LINK.sub(link, _PARAMETER.sub("", _CDATA.sub(lambda match: escape(match[1]), body)))
    for pattern, replacement in _AS_HTML:
        html = pattern.sub(replacement, html)
    return html


_READERS: Mapping[str, Callable[[Element], Iterator[str]]] = {
    "rss": _feed,
    "feed": _feed,
    "RDF": _feed,
    "mediawiki": _wiki,
    "hibernate-generic": _confluence,
}
# Exports that begin with their own name.
_NAMED = frozenset({"rss", "feed", "RDF", "mediawiki"})
