"""Loads XML that is a text: DocBook, Mallard, DITA, TEI, FictionBook and similar formats; other XML is code.

Exports of wikis, trackers and feeds are read by `exports`. Elements become HTML of the same meaning, by their names,
and that becomes Markdown. Entities that the file itself defines as plain words are replaced by them; nothing is
fetched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from html import escape
from html.entities import html5, name2codepoint
from xml.etree import ElementTree as ET

from heliograph.documents.base import Limits, LoadedDocument, RawDocument
from heliograph.documents.encoding import decode_text
from heliograph.documents.exports import export_markdown
from heliograph.documents.markdown import find_title
from heliograph.documents.office import local_name
from heliograph.documents.text_formats import XML_TEXTS, CodeLoader
from heliograph.documents.web_page import html_to_markdown

_PARAGRAPHS = frozenset({"para", "simpara", "p", "ab", "synopsis", "subtitle", "caption", "desc"})
_SECTIONS = re.compile(
    r"set|book|part|chapter|appendix|preface|article|sect\d|section|simplesect|refentry|refsect\d|refsection|refsynopsisdiv"
    r"|page|topic|concept|task|reference|glossary|glossdiv|bibliography|colophon|dedication|body|text|div\d?|qandaset"
)
_TITLES = frozenset({"title", "head", "refname"})
_AS_HTML = {
    **dict.fromkeys(("itemizedlist", "simplelist", "list", "ul", "steps-unordered"), "ul"),
    **dict.fromkeys(("orderedlist", "procedure", "steps", "substeps", "ol"), "ol"),
    **dict.fromkeys(("listitem", "item", "step", "substep", "member", "li"), "li"),
    **dict.fromkeys(("variablelist", "terms", "glosslist", "dl"), "dl"),
    **dict.fromkeys(("term", "glossterm", "dt", "question"), "dt"),
    **dict.fromkeys(("glossdef", "dd", "answer"), "dd"),
    **dict.fromkeys(("programlisting", "screen", "literallayout", "listing", "codeblock", "pre"), "pre"),
    **dict.fromkeys(("blockquote", "epigraph", "cite", "lq"), "blockquote"),
    **dict.fromkeys(("table", "informaltable", "simpletable"), "table"),
    **dict.fromkeys(("row", "tr", "strow"), "tr"),
    **dict.fromkeys(("entry", "td", "th", "stentry"), "td"),
    **dict.fromkeys(("emphasis", "em", "hi", "i"), "em"),
    **dict.fromkeys(("superscript", "sup"), "sup"),
    **dict.fromkeys(
        [
            "literal",
            "command",
            "filename",
            "option",
            "code",
            "constant",
            "varname",
            "envar",
            "userinput",
            "cmd",
            "input",
            "output",
            "sys",
            "computeroutput",
            "function",
            "classname",
            "parameter",
            "replaceable",
            "codeph",
            "filepath",
        ],
        "code",
    ),
}
# Metadata about the text, and placeholders for content that is elsewhere.
_DROPPED = frozenset(
    [
        "indexterm",
        "remark",
        "comment",
        "anchor",
        "media",
        "mediaobject",
        "inlinemediaobject",
        "graphic",
        "binary",
        "meta",
        "revhistory",
        "legalnotice",
        "authorgroup",
        "author",
        "copyright",
        "teiHeader",
        "prolog",
        "keywordset",
        "refmeta",
    ]
)
_HEADS = re.compile(r"(?!tex)[\w-]*info")
_KEPT_OF_HEADS = _TITLES | {"subtitle", "abstract", "desc"}
# Separators between the steps of a menu path, and between keys that are pressed together.
_BETWEEN = {
    **dict.fromkeys(("menuchoice", "guiseq", "menucascade"), " → "),
    **dict.fromkeys(("keycombo", "keyseq"), "+"),
}
_LINKS = frozenset({"ulink", "link", "xref", "a"})
_DOCTYPE = re.compile(r"<!DOCTYPE[^\[>]*(?:\[(?P<inside>.*?)\]\s*)?>", re.DOTALL)
_DEFINED = re.compile(r"""<!ENTITY\s+([\w.-]+)\s+(?:"([^"&<%]{0,200})"|'([^'&<%]{0,200})')\s*>""")
_ELSEWHERE = re.compile(r"<!ENTITY\s+([\w.-]+)\s+(?:SYSTEM|PUBLIC)\b")
_ENTITY = re.compile(r"&([A-Za-z][\w.-]*);")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_OWN = frozenset({"amp", "lt", "gt", "quot", "apos"})
_DECLARATION = re.compile(r"\s*<\?xml[^>]*\?>")
# HTML has characters for shorter names too, which documents with their own names do not mean.
_LEAST_NAME = 3
_TEXT_NAMESPACE = re.compile(r"\{http://(?:projectmallard\.org|docbook\.org|www\.tei-c\.org|www\.gribuser\.ru)/")
_LEAST_PROSE = 0.2
_LEAST_KEPT = 0.4


class XmlLoader(CodeLoader):
    """XML with paragraphs, or an export, as Markdown; any other XML as fenced code."""

    suffixes = XML_TEXTS
    mime_types = frozenset({"application/xml", "text/xml", "application/docbook+xml", "application/tei+xml"})
    runs_isolated = True

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:
        root = _parse(decode_text(raw.data, raw.name, raw.charset))
        with suppress(RecursionError):
            exported = None if root is None else export_markdown(root)
            if exported is not None:
                return LoadedDocument(raw.name, find_title(exported), exported, {"mime_type": "application/xml"})
        if root is None or not _is_text(root):
            return super().load(raw, limits)
        try:
            html, omitted = "".join(_html(_with_links(root), 0)), _left_out(root)
        except RecursionError:
            return super().load(raw, limits)
        text = html_to_markdown(html)
        if not text or len("".join(text.split())) < _LEAST_KEPT * (
            len("".join("".join(root.itertext()).split())) - omitted
        ):
            # The structure is unlike that of the known kinds.
            return super().load(raw, limits)
        language = next((value for key, value in root.attrib.items() if key.rpartition("}")[2] == "lang"), "")
        title = next((element for element in root.iter() if local_name(element) in _TITLES), None)
        words = "" if title is None else " ".join("".join(title.itertext()).split())
        metadata = {"language": language, "omitted_characters": omitted}
        return LoadedDocument(raw.name, words, f"{text}\n" if text else "", metadata)


def _parse(text: str) -> ET.Element | None:
    """Return the root of an XML text, without its document type; None if it is broken."""
    declared = _DOCTYPE.search(text[:100_000])
    words = dict[str, str]()
    if declared:
        inside = declared["inside"] or ""
        words = {name: first or second for name, first, second in _DEFINED.findall(inside)}
        # Another file, which is a document of its own.
        words |= dict.fromkeys(_ELSEWHERE.findall(inside), "")
        text = text[: declared.start()] + text[declared.end() :]

    def expanded(match: re.Match[str]) -> str:
        name = match[1]
        if name in _OWN:
            return match[0]
        letter = html5.get(f"{name};") if len(name) >= _LEAST_NAME or name in name2codepoint else None
        # A name with a dot stands for a block of text, which is not available here.
        return escape(words.get(name, letter or ("" if "." in name else name)))

    if "<!ENTITY" in text:
        text = _COMMENT.sub("", text)
    if "<!ENTITY" in text:
        # A remaining entity may expand without end.
        return None
    try:
        return ET.fromstring(_ENTITY.sub(expanded, _DECLARATION.sub("", text, count=1)))  # noqa: S314
    except (ET.ParseError, ValueError, RecursionError):
        return None


def _is_text(root: ET.Element) -> bool:
    """Return whether XML says that it is text, or has many of its words in paragraphs, unlike data."""
    if _TEXT_NAMESPACE.match(root.tag):
        return True
    paragraphs = (element for element in root.iter() if local_name(element) in _PARAGRAPHS - {"desc"})
    inside = sum(len("".join(element.itertext()).split()) for element in paragraphs)
    return inside > 0 and inside >= _LEAST_PROSE * len("".join(root.itertext()).split())


def _html(element: ET.Element, depth: int, parent: str = "") -> Iterator[str]:
    """Yield an element as HTML; `depth` counts the sections around it. Raises `RecursionError` if it is too deep."""
    tag = local_name(element)
    if tag in _DROPPED:
        return
    if _HEADS.fullmatch(tag):
        for child in element:
            if local_name(child) in _KEPT_OF_HEADS and "type" not in child.attrib:
                yield from _html(child, depth, parent)
        return
    if tag in _BETWEEN:
        yield escape(_joined(element))
        return
    is_section = _SECTIONS.fullmatch(tag) is not None
    html = _AS_HTML.get(tag, "")
    if tag in _TITLES:
        is_heading = _SECTIONS.fullmatch(parent) is not None
        html = "dt" if parent == "item" else f"h{max(1, min(6, depth))}" if is_heading else "strong"
    elif tag in _PARAGRAPHS:
        html = "p"
    elif tag in {"listitem", "item"} and parent in {"varlistentry", "terms"}:
        html = "dd"
    elif html == "code" and parent and parent not in _PARAGRAPHS and _AS_HTML.get(parent, "li") not in {"code", "em"}:
        html = "pre" if "\n" in "".join(element.itertext()).strip() else "code"
    address = next((v for k, v in element.attrib.items() if k.rpartition("}")[2] in {"url", "href"}), "")
    if tag in _LINKS and address.startswith(("http:", "https:")):
        yield f'<a href="{escape(address)}">{escape("".join(element.itertext()) or address)}</a>'
        return
    # A list's title precedes it, a term its explanation, a title the page's description.
    is_named = is_section or html in {"ul", "ol", "dl"} or (tag == "item" and html == "dd")
    titles = dict.fromkeys(child for child in element if is_named and local_name(child) in _TITLES)
    for child in titles:
        name = "".join(_html(child, depth + is_section, tag))
        yield f"<p>{name}</p>" if html in {"ul", "ol", "dl"} else name
    yield f"<{html}>" if html else ""
    yield escape(element.text or "")
    # Elements that only group others count as their own parent, for the elements within.
    around = parent if _HEADS.fullmatch(tag) or tag in {"refnamediv", "titleInfo"} else tag
    for child in element:
        if child not in titles:
            yield from _html(child, depth + is_section, around)
        yield escape(child.tail or "")
    yield f"</{html}>" if html else ""
    yield "<p>" if html == "strong" else ""


def _with_links(root: ET.Element) -> ET.Element:
    """Return a text in which a link without words gets the title, or else the id, of its target."""
    by_id = {
        value: item for item in root.iter() for key, value in item.attrib.items() if key.rpartition("}")[2] == "id"
    }
    heads = [item for item in root.iter() if _HEADS.fullmatch(local_name(item))]
    aside = {id(link) for head in heads for link in head}
    for link in root.iter():
        is_empty = not len(link) and not (link.text or "").strip()
        if is_empty and local_name(link) in _LINKS and id(link) not in aside:
            target = link.get("linkend") or link.get("xref") or ""
            title = next((item for item in by_id.get(target.lstrip("#"), ()) if local_name(item) in _TITLES), None)
            words = target if title is None else " ".join("".join(title.itertext()).split())
            link.text = words.strip("#/")
    return root


def _joined(element: ET.Element) -> str:
    """Return all words of an element, with separators between the steps of a menu path, and between keys."""
    tag = local_name(element)
    if tag not in _BETWEEN:
        parts = (element.text or "", *(_joined(child) + (child.tail or "") for child in element))
        return " ".join("".join(parts).split())
    keys = [_joined(child) for child in element if local_name(child) == "shortcut"]
    said = _BETWEEN[tag].join(filter(None, (_joined(child) for child in element if local_name(child) != "shortcut")))
    return " ".join((said, *(f"({key})" for key in keys)))


def _left_out(element: ET.Element) -> int:
    """Return how many characters, spaces not counted, `_html` leaves out of an element.

    Raises:
        RecursionError: It nests too deeply.
    """
    tag = local_name(element)
    if tag in _DROPPED:
        return len("".join("".join(element.itertext()).split()))
    is_head = _HEADS.fullmatch(tag) is not None
    return sum(
        len("".join("".join(child.itertext()).split()))
        if is_head and local_name(child) not in _KEPT_OF_HEADS
        else _left_out(child)
        for child in element
    )
