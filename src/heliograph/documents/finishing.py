"""What every loaded document goes through: its text cleaned, its length checked, title and language completed.

Cleaning may remove characters, so pages are cleaned one by one and their starts counted anew.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import PurePath
from typing import Any
from urllib.parse import unquote, urlsplit

from heliograph.documents.base import Limits, LoadedDocument
from heliograph.documents.cleaning import clean_text
from heliograph.documents.markdown import find_title
from heliograph.errors import IngestError
from heliograph.text.language import detect_language

__all__ = ["finish", "name_title", "too_long"]

_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*")


def finish(loaded: LoadedDocument, limits: Limits) -> LoadedDocument:
    """Return a document with clean text, a title, and a language.

    Raises:
        IngestError: Its text is too long.
    """
    if len(loaded.text) > limits.max_characters:
        raise too_long(loaded.source, limits.max_characters)
    pages = [clean_text(page) for page in _pages(loaded)]
    starts: list[int] = []
    position = 0
    for page in pages:
        starts.append(position)
        position += len(page)
    text = "".join(pages)
    title = " ".join(clean_text(loaded.title).split()) or find_title(text) or name_title(loaded.source)
    metadata = _metadata(loaded.metadata, text)
    return replace(
        loaded, title=title, text=text, metadata=metadata, page_starts=tuple(starts) if loaded.page_starts else ()
    )


def name_title(source: str) -> str:
    """Return a title made of the end of a path or URL, without its ending; the source itself if that is nothing."""
    name = PurePath(source).stem
    if "://" in source:
        # What only looks like an address is a path.
        with suppress(ValueError):
            name = _end_of_address(source)
    return clean_text(name) or source


def _end_of_address(source: str) -> str:
    parts = urlsplit(source)
    path = unquote(parts.path).rstrip("/") or parts.netloc
    return " ".join((PurePath(path).name or path).split())


def too_long(name: str, max_characters: int) -> IngestError:
    """Return the error of a text that is too long."""
    return IngestError(
        f"{name!r} has more than {max_characters:,} characters; split it, or raise ingest.max_document_characters"
    )


def _pages(loaded: LoadedDocument) -> list[str]:
    bounds = [*loaded.page_starts, len(loaded.text)] if loaded.page_starts else [0, len(loaded.text)]
    return [loaded.text[start:end] for start, end in pairwise(bounds)]


def _metadata(stated: Mapping[str, Any], text: str) -> dict[str, Any]:
    metadata = {key: value for key, value in stated.items() if value not in ("", None, [], ())}
    language = metadata.get("language")
    if isinstance(language, str) and _LANGUAGE.fullmatch(language.strip()):
        return metadata
    return {**metadata, "language": detect_language(text)}
