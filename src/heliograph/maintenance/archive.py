"""The lines of an archive: everything that a workspace was told, so that another one can be made from it.

JSON lines, each an object with one key that says what it holds: first `archive` with the version of the form, then per
document its `document` with its text, its `chunk`s and its `extraction`s, then `curation`s, and at the end the `reply`s
that chat models gave, which version 1 had not. What follows from these (entities, relations, vectors, full text) is not
in it, nor are answers. Fields that a reader does not know are passed over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from heliograph._version import __version__
from heliograph.errors import InvalidRequestError
from heliograph.maintenance.export.contents import Contents, WholeDocument
from heliograph.models import Chunk, Curation, Document, Extraction
from heliograph.stores.base import CachedReply

__all__ = ["ARCHIVE_VERSION", "ArchiveEntry", "export_archive", "is_archive", "read_archive"]

ARCHIVE_VERSION = 2
_READABLE = range(1, ARCHIVE_VERSION + 1)

_DOCUMENT = TypeAdapter(Document)
_CHUNK = TypeAdapter(Chunk)
_EXTRACTION = TypeAdapter(Extraction)
_CURATION = TypeAdapter(Curation)
_REPLY = TypeAdapter(CachedReply)
_HEAD_LENGTH = 200
_ESCAPED_SURROGATE = "\\ud"

ArchiveEntry = WholeDocument | Curation | CachedReply


async def export_archive(contents: Contents, path: Path) -> int:
    """Write everything that was said into a new file; return how many documents there are."""
    count = 0
    # Half a character, which UTF-8 has no place for, becomes an escape that JSON reads back.
    with path.open("x", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
        file.write(_line("archive", {"version": ARCHIVE_VERSION, "made_by": f"heliograph {__version__}"}))
        async for whole in contents.documents():
            # A twin's text is that of its original, which has it.
            text = None if whole.document.twin_of else whole.text
            file.write(_line("document", _DOCUMENT.dump_python(whole.document, mode="json") | {"text": text}))
            for chunk in whole.chunks:
                file.write(_line("chunk", _CHUNK.dump_python(chunk, mode="json")))
            for extraction in whole.extractions:
                file.write(_line("extraction", _EXTRACTION.dump_python(extraction, mode="json")))
            count += 1
        async for curation in contents.curations():
            file.write(_line("curation", _CURATION.dump_python(curation, mode="json")))
        async for reply in contents.replies():
            file.write(_line("reply", _REPLY.dump_python(reply, mode="json")))
    return count


def is_archive(path: Path) -> bool:
    """Whether a file begins as an archive does.

    Raises:
        OSError: It cannot be read.
    """
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(_HEAD_LENGTH).startswith('{"archive":')


@dataclass(slots=True)
class _Open:
    """A document whose lines are being read."""

    document: Document
    text: str | None
    chunks: list[Chunk]
    extractions: list[Extraction]

    def close(self) -> WholeDocument:
        return WholeDocument(self.document, self.text, tuple(self.chunks), tuple(self.extractions))


def read_archive(path: Path) -> Iterator[ArchiveEntry]:
    """Yield whole documents, then curations, then replies; memory holds one document.

    Raises:
        InvalidRequestError: It is no archive, of a newer form, or a line is not what it should be; says which line.
    """
    document: _Open | None = None
    number = 1
    try:
        for number, kind, fields in _lines(path):
            if kind == "chunk" and document:
                document.chunks.append(_CHUNK.validate_python(fields))
            elif kind == "extraction" and document:
                document.extractions.append(_EXTRACTION.validate_python(fields))
            elif kind in ("document", "curation", "reply"):
                if document:
                    yield document.close()
                document = _opened(fields) if kind == "document" else None
                if kind != "document":
                    yield (_CURATION if kind == "curation" else _REPLY).validate_python(fields)
            else:
                raise InvalidRequestError(f"line {number} of {str(path)!r} holds a {kind!r} where none can stand")
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(map(str, problem["loc"]))
        raise InvalidRequestError(
            f"line {number} of {str(path)!r} is damaged: {error.title} {place}: {problem['msg']}; export it anew"
        ) from None
    if document:
        yield document.close()


def _opened(fields: dict[str, Any]) -> _Open:
    text = fields.pop("text", None)
    return _Open(_DOCUMENT.validate_python(fields), text if text is None else str(text), [], [])


def _lines(path: Path) -> Iterator[tuple[int, str, dict[str, Any]]]:
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                kind, fields = _parse(path, number, line)
                if number == 1:
                    _check_head(path, kind, fields)
                else:
                    yield number, kind, fields
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"{str(path)!r} is not an archive: it is no text ({error.reason})") from error
    except OSError as error:
        raise InvalidRequestError(f"{str(path)!r} cannot be read ({error.strerror or error}); check it") from error


def _parse(path: Path, number: int, line: str) -> tuple[str, dict[str, Any]]:
    try:
        found: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidRequestError(
            f"line {number} of {str(path)!r} is not JSON ({error}); the file is damaged or cut short, export it anew"
        ) from None
    if _ESCAPED_SURROGATE in line and not _is_encodable(found):
        raise InvalidRequestError(f"line {number} of {str(path)!r} holds half a character; export it anew")
    if isinstance(found, dict) and len(cast("dict[str, object]", found)) == 1:
        ((kind, fields),) = cast("dict[str, object]", found).items()
        if isinstance(fields, dict):
            return kind, cast("dict[str, Any]", fields)
    raise InvalidRequestError(f"line {number} of {str(path)!r} is no line of an archive")


def _is_encodable(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_head(path: Path, kind: str, fields: dict[str, Any]) -> None:
    if kind != "archive":
        raise InvalidRequestError(f"{str(path)!r} is not an archive that 'heliograph export' wrote")
    if fields.get("version") not in _READABLE:
        raise InvalidRequestError(
            f"{str(path)!r} has version {fields.get('version')!r}, this Heliograph reads up to {ARCHIVE_VERSION}; "
            "upgrade it"
        )


def _line(kind: str, fields: dict[str, Any]) -> str:
    return json.dumps({kind: fields}, ensure_ascii=False) + "\n"
