"""From bytes to text, also when nobody says how they are encoded.

In order: a byte order mark (UTF-8, UTF-16, UTF-32), the encoding that was declared, UTF-8, UTF-8 with a little damage,
an older encoding that the letters tell (`code_pages`), and Windows-1252 or Latin-1 as the last resort. Bytes that are
no text at all are refused by name.
"""

from __future__ import annotations

import codecs
import re

from heliograph.documents.code_pages import find_code_page
from heliograph.errors import IngestError

__all__ = ["decode_text"]

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    # Before UTF-16: its mark begins with that of UTF-16.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SIGNATURES = (
    (b"%PDF-", "PDF"),
    (b"PK\x03\x04", "ZIP or Office"),
    (b"\xd0\xcf\x11\xe0", "older Office"),
    (b"{\\rtf", "RTF"),
    (b"\x89PNG", "PNG"),
    (b"GIF8", "GIF"),
    (b"\xff\xd8\xff", "JPEG"),
    (b"\x1f\x8b", "gzip"),
    (b"7z\xbc\xaf", "7-Zip"),
    (b"\x7fELF", "program"),
    (b"SQLite format 3\x00", "SQLite"),
    (b"RIFF", "media"),
    (b"OggS", "media"),
)
# Encodings of names and of source code, not of documents; the first two take the square of the length to read.
_NEVER_DECLARED = frozenset({"punycode", "idna", "unicode-escape", "raw-unicode-escape"})
_SAMPLE_BYTES = 65_536
_MAX_CONTROL_SHARE = 0.1
# Whole characters beyond ASCII per damaged one from which on a text still counts as UTF-8.
_WHOLE_PER_DAMAGED = 4
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_LATIN_CONTROL = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f-\x9f]")


def decode_text(data: bytes, name: str, charset: str = "") -> str:
    """Return the text that bytes stand for; none at all is the empty text.

    Args:
        data: The whole content of a file.
        name: Named in errors.
        charset: What a server or header says; followed after a byte order mark where the bytes agree with it.

    Raises:
        IngestError: The bytes are no text.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    _refuse_binary(data, name)
    text = _decode_as(data, charset) if charset else None
    if text is None:
        text = _decode_utf8(data)
    if text is None:
        text = _decode_older(data)
    return _decode_latin(data, name) if text is None else text


def _decode_as(data: bytes, charset: str) -> str | None:
    try:
        return None if codecs.lookup(charset).name in _NEVER_DECLARED else data.decode(charset)
    except (LookupError, ValueError):
        return None


def _refuse_binary(data: bytes, name: str) -> None:
    for signature, kind in _SIGNATURES:
        if data.startswith(signature):
            raise IngestError(f"{name!r} is a {kind} file, not text; convert it to Markdown or plain text first")
    sample = data[:_SAMPLE_BYTES]
    if len(_CONTROL.findall(sample)) > _MAX_CONTROL_SHARE * len(sample):
        raise IngestError(f"{name!r} holds binary data, not text; convert it to UTF-8 text first")


def _decode_utf8(data: bytes) -> str | None:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
    damaged = text.count("\ufffd")
    whole = len(text) - len(text.encode("ascii", "ignore")) - damaged
    return text if whole >= _WHOLE_PER_DAMAGED * damaged else None


def _decode_older(data: bytes) -> str | None:
    code_page = find_code_page(data)
    return None if code_page is None else data.decode(code_page, "replace")


def _decode_latin(data: bytes, name: str) -> str:
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    sample = text[:_SAMPLE_BYTES]
    if len(_LATIN_CONTROL.findall(sample)) > _MAX_CONTROL_SHARE * len(sample):
        raise IngestError(f"{name!r} is in no encoding known here; save it as UTF-8")
    return text
