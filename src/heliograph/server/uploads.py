"""Receiving one uploaded file: from the connection straight to the disk, within a limit, under a safe name.

The form holds one part named `file` and perhaps one named `metadata`, a JSON object. Memory holds a piece at a time.
What does not come to its end, for whatever reason, leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from heliograph.errors import InvalidRequestError, RequestTooLargeError
from heliograph.ingest.intake import clean_metadata
from heliograph.server.limits import check_json
from heliograph.service.jobs.input_folder import InputFolder, checked_name
from heliograph.settings import ServerSettings

_MOST_FIELD_BYTES = 65_536
_MOST_OTHER_BYTES = 131_072
_FLUSH_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that was received whole.

    Attributes:
        name: A safe name.
        part: Where it lies until it is given its name.
        metadata: What the form said about it.
    """

    name: str
    part: Path
    metadata: Mapping[str, Any] | None


async def receive_upload(request: Request, folder: InputFolder, settings: ServerSettings) -> Upload:
    """Receive a multipart form with a file.

    Raises:
        ConflictError: Something other than a file has this name in the input folder.
        InvalidRequestError: The form is broken, or the name or metadata is not acceptable.
        RequestTooLargeError: The file is longer than `max_upload_bytes`, or its metadata too large or deep.
        RequestValidationError: There is no file in it.
        StoreUnavailable: It cannot be written.
    """
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != b"multipart/form-data" or not options.get(b"boundary"):
        raise _missing_file()
    max_bytes, length = settings.max_upload_bytes, request.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length) > max_bytes + _MOST_OTHER_BYTES:
        raise RequestTooLargeError(f"the upload has more than {max_bytes:,} bytes; raise server.max_upload_bytes")
    form = _Form(folder)
    try:
        part = await _receive(request, form, options[b"boundary"], folder, max_bytes)
        return Upload(form.name, part, _metadata(bytes(form.metadata), settings))
    except BaseException:
        if form.part is not None:
            form.part.unlink(missing_ok=True)
        raise


async def _receive(request: Request, form: _Form, boundary: bytes, folder: InputFolder, max_bytes: int) -> Path:
    try:
        parser = MultipartParser(boundary, form.callbacks())
        async for piece in request.stream():
            parser.write(piece)
            if form.part is not None and form.size >= _FLUSH_BYTES:
                await asyncio.to_thread(folder.write, form.part, form.taken(), max_bytes)
        parser.finalize()
    except FormParserError as error:
        raise InvalidRequestError(f"the form is broken: {error}") from error
    if not form.is_whole:
        raise InvalidRequestError("the form was cut off; send it again")
    if form.part is None:
        raise _missing_file()
    await asyncio.to_thread(folder.write, form.part, form.taken(), max_bytes)
    await asyncio.to_thread(folder.sync, form.part)
    return form.part


class _Form:
    """What the parser has met so far; its methods are called by the parser."""

    def __init__(self, folder: InputFolder) -> None:
        self._folder = folder
        self._headers: dict[bytes, bytes] = {}
        self._header = b""
        self._value = b""
        self._field = b""
        self._pieces: list[bytes] = []
        self.size = 0
        self.name = ""
        self.part: Path | None = None
        self.metadata = bytearray()
        self.is_whole = False

    def callbacks(self) -> Any:
        """Return what the parser calls."""
        return {
            "on_part_begin": self._begin_part,
            "on_part_data": self._take_data,
            "on_header_field": self._take_header,
            "on_header_value": self._take_value,
            "on_header_end": self._end_header,
            "on_headers_finished": self._end_headers,
            "on_end": self._end,
        }

    def taken(self) -> list[bytes]:
        """Return the pieces of the file that came since the last call."""
        pieces, self._pieces, self.size = self._pieces, [], 0
        return pieces

    def _begin_part(self) -> None:
        self._headers, self._field = {}, b""

    def _take_header(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _take_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        self._headers[self._header.lower()] = self._value
        self._header = self._value = b""

    def _end_headers(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition"))
        self._field = options.get(b"name", b"")
        if self._field != b"file":
            return
        if self.part is not None:
            raise InvalidRequestError("the form holds several files; send one a request")
        if b"filename" not in options:
            raise _missing_file()
        try:
            name = options[b"filename"].decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidRequestError("the name of the file is not in UTF-8; rename the file") from error
        self.name = checked_name(name)
        self.part = self._folder.begin(self.name)

    def _take_data(self, data: bytes, start: int, end: int) -> None:
        if self._field == b"file":
            self._pieces.append(data[start:end])
            self.size += end - start
        elif self._field == b"metadata":
            self.metadata += data[start:end]
            if len(self.metadata) > _MOST_FIELD_BYTES:
                raise RequestTooLargeError(f"metadata has more than {_MOST_FIELD_BYTES:,} bytes; give less")

    def _end(self) -> None:
        self.is_whole = True


def _metadata(data: bytes, settings: ServerSettings) -> Mapping[str, Any] | None:
    if not data:
        return None
    check_json(data, settings.max_json_depth, settings.max_json_values)
    try:
        value = json.loads(data)
    except ValueError as error:
        raise InvalidRequestError(f"metadata is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise InvalidRequestError("metadata must be a JSON object")
    return clean_metadata(value, "uploaded")


def _missing_file() -> RequestValidationError:
    return RequestValidationError(
        [{"type": "missing", "loc": ("body", "file"), "msg": "Field required", "input": None}]
    )
