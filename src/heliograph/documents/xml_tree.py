"""XML from untrusted documents: no entities of its own, nothing fetched."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from heliograph.errors import IngestError

__all__ = ["local_name", "parse_xml"]

# UTF-16 keeps ASCII letters apart by a zero byte, on either side.
_ENTITY = re.compile(rb"<\0?!\0?E\0?N\0?T\0?I\0?T\0?Y")


def parse_xml(data: bytes, name: str) -> ET.Element:
    """Return the root of an XML document.

    Args:
        data: The document; in the encoding that it declares.
        name: Named in errors.

    Raises:
        IngestError: It defines entities, which documents have no need of and bombs are made of, or is broken.
    """
    if _ENTITY.search(data):
        raise IngestError(f"{name!r} defines XML entities, which are not expanded; save it anew without them")
    try:
        return ET.fromstring(data)  # noqa: S314
    except (ET.ParseError, ValueError, LookupError, RecursionError) as error:
        raise IngestError(f"{name!r} holds broken XML ({error}); get it again, or open and save it anew") from error


def local_name(element: ET.Element) -> str:
    """Return an element's name without its namespace."""
    return element.tag.rpartition("}")[2]
