"""Loading plain text and Markdown files.

A path goes in; a `LoadedDocument` comes out: clean text, a title, and the fields of its front matter as metadata.
Everything here blocks, so callers on an event loop use a thread. A file that cannot be taken in is an `IngestError`
that names it and says what to do.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heliograph.documents.cleaning import clean_text
from heliograph.documents.encoding import decode_text
from heliograph.documents.markdown import find_title, split_front_matter
from heliograph.errors import IngestError

__all__ = ["LoadedDocument", "load_text_file"]

_MAX_CHARACTERS = 100_000_000
_MAX_BYTES_PER_CHARACTER = 4


@dataclass(frozen=True, slots=True)
class LoadedDocument:
    """One source, read.

    Attributes:
        source: The path as it was given.
        title: From the front matter, else the first heading, else the file's name without its ending.
        text: Clean text without the front matter; may be empty.
        metadata: The fields of the front matter but its title; strings and lists of strings.
    """

    source: str
    title: str
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])


def load_text_file(path: str | os.PathLike[str], max_characters: int = _MAX_CHARACTERS) -> LoadedDocument:
    """Read a file of plain text or Markdown.

    Args:
        path: The file; its ending does not matter.
        max_characters: A longer text is refused; a file that must be longer is refused unread.

    Raises:
        IngestError: The file is missing, unreadable, no regular file, too long, or not text.
    """
    name = os.fspath(path)
    text = clean_text(decode_text(_read(name, max_characters * _MAX_BYTES_PER_CHARACTER), name))
    if len(text) > max_characters:
        raise _too_long(name, max_characters)
    fields, body = split_front_matter(text)
    title = fields.pop("title", "")
    if not isinstance(title, str) or not title:
        title = find_title(body) or Path(name).stem
    return LoadedDocument(source=name, title=title, text=body, metadata=fields)


def _read(name: str, max_bytes: int) -> bytes:
    try:
        status = Path(name).stat()
        # A pipe or a device would never end.
        if not stat.S_ISREG(status.st_mode):
            raise IngestError(f"{name!r} is not a regular file; give files, or folders to find_files")
        if status.st_size > max_bytes:
            raise _too_long(name, max_bytes // _MAX_BYTES_PER_CHARACTER)
        return Path(name).read_bytes()
    except OSError as error:
        raise IngestError(f"{name!r} cannot be read ({error.strerror}); check the path and its permissions") from error
    except ValueError as error:
        raise IngestError(f"{name!r} is not a path ({error})") from error


def _too_long(name: str, max_characters: int) -> IngestError:
    return IngestError(
        f"{name!r} has more than {max_characters:,} characters; split it, or raise ingest.max_document_characters"
    )
