"""EPUB books: chapters in the order of the spine."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from heliograph.documents.archive import Archive, local_name, open_archive, parse_xml
from heliograph.documents.base import Limits, LoadedDocument, Loader, RawDocument
from heliograph.documents.encoding import decode_text
from heliograph.documents.markdown import too_long
from heliograph.documents.web_page import html_to_markdown
from heliograph.errors import IngestError

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_CHAPTERS = frozenset({"application/xhtml+xml", "text/html", "application/x-dtbook+xml"})
_FONTS = (".ttf", ".otf", ".woff", ".woff2")


class EpubLoader(Loader):
    """Books without copy protection."""

    suffixes = frozenset({".epub"})
    mime_types = frozenset({"application/epub+zip"})
    runs_isolated = True

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:
        with open_archive(raw, limits) as archive:
            _refuse_protected(archive, raw.name)
            data = archive.read(_CONTAINER)
            roots = (
                [element for element in parse_xml(data, raw.name).iter() if local_name(element) == "rootfile"]
                if data
                else []
            )
            package_name = next((path for root in roots if (path := root.get("full-path", "")) in archive), "")
            if not package_name:
                raise IngestError(f"{raw.name!r} is no EPUB book: its package is missing; get it again")
            package = parse_xml(archive.read(package_name), raw.name)
            names = list(_spine(package, posixpath.dirname(package_name)))
            if len(names) > limits.max_pages:
                raise IngestError(
                    f"{raw.name!r} has {len(names):,} chapters, more than {limits.max_pages:,}; raise "
                    "documents.max_pages"
                )
            chapters = list(_chapters(archive, names, raw.name, limits))
        metadata = _metadata(package)
        text = "\n\n".join(chapters) + "\n" if chapters else ""
        return LoadedDocument(raw.name, metadata.pop("title", ""), text, {**metadata, "chapter_count": len(chapters)})


def _refuse_protected(archive: Archive, name: str) -> None:
    data = archive.read(_ENCRYPTION)
    references = (
        [element.get("URI", "") for element in parse_xml(data, name).iter() if local_name(element) == "CipherReference"]
        if data
        else []
    )
    # Fonts are often obfuscated, which hides no text.
    if any(not uri.lower().endswith(_FONTS) for uri in references):
        raise IngestError(f"{name!r} is copy-protected; give a copy without protection")


def _spine(package: Element, folder: str) -> Iterator[str]:
    items = {
        element.get("id", ""): element
        for element in package.iter()
        if local_name(element) == "item" and element.get("media-type") in _CHAPTERS
    }
    for reference in package.iter():
        item = items.get(reference.get("idref", "")) if local_name(reference) == "itemref" else None
        # The list of contents repeats the headings.
        if item is not None and "nav" not in item.get("properties", "").split():
            yield posixpath.normpath(posixpath.join(folder, unquote(item.get("href", ""))))


def _chapters(archive: Archive, names: list[str], name: str, limits: Limits) -> Iterator[str]:
    length = 0
    for chapter in names:
        text = html_to_markdown(decode_text(archive.read(chapter), f"{chapter} in {name}"))
        length += len(text)
        if length > limits.max_characters:
            raise too_long(name, limits.max_characters)
        if text:
            yield text


def _metadata(package: Element) -> dict[str, str]:
    wanted = {
        "title": "title",
        "creator": "author",
        "language": "language",
        "date": "created_at",
        "publisher": "publisher",
    }
    found: dict[str, list[str]] = {}
    for element in package.iter():
        key = wanted.get(local_name(element)) if element.tag.startswith("{http://purl.org/dc/") else None
        if key and element.text and element.text.strip():
            found.setdefault(key, []).append(" ".join(element.text.split()))
    return {key: ", ".join(values) if key == "author" else values[0] for key, values in found.items()}
