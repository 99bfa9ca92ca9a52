"""What Office files say about themselves: title, author, dates, language, keywords (`docProps/core.xml`)."""

from __future__ import annotations

from heliograph.documents.archive import Archive
from heliograph.documents.xml_tree import local_name, parse_xml
from heliograph.errors import IngestError

__all__ = ["read_properties"]

_ENTRY = "docProps/core.xml"
_NAMES = {
    "title": "title",
    "creator": "author",
    "created": "created_at",
    "modified": "modified_at",
    "language": "language",
    "subject": "subject",
    "keywords": "keywords",
}


def read_properties(archive: Archive, name: str) -> dict[str, str]:
    """Return the properties that are stated, `title` among them; none if they are missing or broken."""
    try:
        data = archive.read(_ENTRY)
        root = parse_xml(data, name) if data else None
    except IngestError:
        # The text is worth having without them.
        return {}
    found = {_NAMES.get(local_name(child), ""): (child.text or "").strip() for child in root or ()}
    return {key: value for key, value in found.items() if key and value}
