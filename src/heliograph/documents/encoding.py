"""Decodes bytes to text, also where their encoding is not declared.

In order: a byte order mark, the declared encoding, UTF-8, UTF-8 with a little damage, a legacy encoding that the
letters suggest, first for other scripts, then for Latin letters, and Latin-1 as the last resort. Bytes that are no text
at all are refused with an error that names the source.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from contextlib import suppress

from heliograph.errors import IngestError

# Detection of the legacy encoding of a text beyond ASCII, by the letters that it decodes to.
#
# Each is tried strictly on the beginning of the text, and counts only if the result is mostly in the letters of its
# language: kana for Japanese, Hangul for Korean, the commoner half of the table for Chinese, and for Cyrillic, Greek,
# Hebrew, Arabic and Thai the letters of one alphabet, half of them the most frequent ones. Western text has single
# letters beyond ASCII among others, so none of these accepts it.

_SAMPLE_BYTES = 65_536
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_KANA = re.compile(r"[\u3041-\u30fe]")
_HANGUL = re.compile(r"[\uac00-\ud7a3]")
_SYMBOL = re.compile(r"[\W_]+")
# Two-byte characters of each table; for Big5 and GB 2312 the commoner characters and punctuation.
_BIG5_COMMON = re.compile(rb"[\xa1-\xc6][\x40-\x7e\xa1-\xfe]")
_CHINESE_PAIR = re.compile(rb"[\xa1-\xf7][\xa1-\xfe]")
_HIGH_RUN = re.compile(rb"[\x80-\xff]{2,}")
_HIGH = re.compile(rb"[\x80-\xff]")


def find_code_page(data: bytes) -> str | None:
    """Return Python's name of the encoding, or None if none of them fits better than a Western one."""
    sample = data[:_SAMPLE_BYTES]
    high = len(_HIGH.findall(sample))
    if high and sum(map(len, _HIGH_RUN.findall(sample))) >= 0.8 * high:
        # The share of letters that are among the most frequent ones; 0 if not nearly all are of the alphabet.
        shares: dict[str, float] = {}
        for name, alphabet, common in _ALPHABETS:
            letters = re.findall(alphabet, _decoded(sample, name))
            is_alphabet = len(letters) >= 0.85 * high
            shares[name] = is_alphabet * sum(letter in common for letter in letters) / max(1, len(letters))
        best = max(shares, key=lambda name: shares[name])
        if shares[best] >= 0.45:
            return best
    return next((name for name, fits in _OF_TWO_BYTES if fits(sample, name)), None)


def _share(pattern: re.Pattern[str], text: str) -> float:
    return len(pattern.findall(text)) / max(1, len(_BEYOND_ASCII.findall(text)))


def _decoded(sample: bytes, name: str) -> str:
    """Return the decoded text, or an empty one; a character that the end of the sample cuts off is left out."""
    for cut in range(4):
        try:
            return sample[: len(sample) - cut].decode(name)
        except UnicodeDecodeError:
            continue
    return ""


def _is_japanese(sample: bytes, name: str) -> bool:
    return _share(_KANA, _decoded(sample, name)) >= 0.2


def _is_korean(sample: bytes, name: str) -> bool:
    # Chinese decoded as Korean gives about half Hangul; single letters among ASCII are Western.
    pairs = 2 * len(_CHINESE_PAIR.findall(sample))
    is_in_pairs = pairs >= 0.5 * len(_HIGH.findall(sample))
    return is_in_pairs and _share(_HANGUL, _SYMBOL.sub("", _decoded(sample, name))) >= 0.85


def _is_simplified(sample: bytes, name: str) -> bool:
    pairs = 2 * len(_CHINESE_PAIR.findall(sample))
    return pairs >= 0.8 * len(_HIGH.findall(sample)) and bool(_decoded(sample, name))


def _is_traditional(sample: bytes, name: str) -> bool:
    text = _decoded(sample, name)
    return len(_BIG5_COMMON.findall(sample)) >= 0.9 * max(1, len(_BEYOND_ASCII.findall(text))) and bool(text)


_OF_TWO_BYTES: tuple[tuple[str, Callable[[bytes, str], bool]], ...] = (
    ("cp932", _is_japanese),
    ("euc_jp", _is_japanese),
    ("cp949", _is_korean),
    ("gb18030", _is_simplified),
    ("big5hkscs", _is_traditional),
)
_CYRILLIC = ("[\u0400-\u045f\u0490\u0491]", "оеаинтсрів")
_ALPHABETS = (
    ("cp1251", *_CYRILLIC),
    ("koi8_r", *_CYRILLIC),
    ("cp866", *_CYRILLIC),
    ("iso8859_5", *_CYRILLIC),
    ("cp1253", "[\u0386-\u03ce]", "αοιετσνρ"),
    ("cp1255", "[\u05d0-\u05ea]", "יוהלאמרת"),
    ("cp1256", "[\u0621-\u064a]", "اليمنرتو"),
    ("iso8859_6", "[\u0621-\u064a]", "اليمنرتو"),
    ("cp874", "[\u0e01-\u0e3a\u0e40-\u0e4e]", "านรอกเงมยลว่้"),
)

# The letters beyond ASCII that a language in Latin letters uses, with an encoding. The entry that covers most of a
# text's letters wins, the first of equal ones; Western ones come first, as most texts use them.
_LATIN_LETTERS = (
    ("cp1252", "àâæçéèêëîïôœùûüÿ"),
    ("cp1252", "áàãâäçéêëèíïóõôöúüñý"),
    ("cp1252", "àéèìíîóòúù"),
    ("cp1252", "áåäàæéèöøóüß"),
    ("cp1252", "áðéíóúýþæö"),
    *(
        (name, letters)
        for letters in ("óąćęłńśźż", "áčďéěíňóřšťúůýžäľĺŕô", "áéíóöőúüű", "ăâîşţ", "čćđšž")
        for name in ("iso8859_2", "cp1250")
    ),
    ("cp1254", "çğıöşüâîûi̇"),
    ("cp1257", "ąčęėįšųūžāēģīķļņõäöü"),
)
_IN_WORDS = re.compile(r"(?<=[^\W\d_])[^\x00-\x7f]|[^\x00-\x7f](?=[^\W\d_])")
_MARKS_IN_WORDS = frozenset("’‘“”«»„–—…·°\xa0\xad¿¡‹›‚®™©§")


def _latin_code_page(data: bytes) -> str:
    """Return the encoding of a text in Latin letters that is not UTF-8, by the language that has its letters."""
    sample = data[:_SAMPLE_BYTES]
    shares: dict[tuple[str, str], float] = {}
    for name, letters in _LATIN_LETTERS:
        # A character inside or beside a word, marks aside, must be a letter of the language, or the encoding is wrong.
        found = [sign for sign in _IN_WORDS.findall(sample.decode(name, "replace")) if sign not in _MARKS_IN_WORDS]
        shares[name, letters] = sum(sign.lower() in letters for sign in found) / max(1, len(found))
    best = max(shares, key=lambda key: shares[key])
    return best[0] if shares[best] >= _LEAST_OF_LETTERS else "cp1252"


# A lower share means a Western text with symbols or foreign words in it.
_LEAST_OF_LETTERS = 0.9


_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    # Before UTF-16, whose byte order mark is a prefix of that of UTF-32.
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
    (b"GIF8", "GIF"),
    (b"\x1f\x8b", "gzip"),
    (b"7z\xbc\xaf", "7-Zip"),
    (b"\x7fELF", "program"),
    (b"SQLite format 3\x00", "SQLite"),
    (b"RIFF", "media"),
    (b"OggS", "media"),
)
# Encodings of names and source code, not of documents; the first two decode in quadratic time.
_NEVER_DECLARED = frozenset({"punycode", "idna", "unicode-escape", "raw-unicode-escape"})
_MAX_CONTROL_SHARE = 0.1
# ISO-2022-JP, as in Japanese mail: escapes to the Japanese tables and back.
_SHIFTS = re.compile(rb"\x1b\$[@B][!-~]{2,2000}\x1b\([BJ]")
# Least ratio of intact to damaged characters beyond ASCII for a text to count as UTF-8.
_WHOLE_PER_DAMAGED = 4
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_LATIN_CONTROL = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f-\x9f]")


def decode_text(data: bytes, name: str, charset: str = "") -> str:
    """Return the decoded text of a whole file; no bytes give the empty text.

    The `charset` of a server or header is used after a byte order mark, if the bytes agree with it.

    Raises:
        IngestError: The bytes are no text.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    for signature, kind in _SIGNATURES:
        if data.startswith(signature):
            raise IngestError(f"{name!r} is a {kind} file, not text; convert it to Markdown or plain text first")
    sample = data[:_SAMPLE_BYTES]
    if _SHIFTS.search(sample):
        with suppress(UnicodeDecodeError):
            return data.decode("iso2022_jp_2")
    if len(_CONTROL.findall(sample)) > _MAX_CONTROL_SHARE * len(sample):
        raise IngestError(f"{name!r} holds binary data, not text; convert it to UTF-8 text first")
    text = None
    # A wrong declaration is ignored.
    with suppress(LookupError, ValueError):
        if charset and codecs.lookup(charset).name not in _NEVER_DECLARED:
            text = data.decode(charset)
    if text is None:
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            mended = data.decode("utf-8", "replace")
            damaged = mended.count("\ufffd")
            whole = len(mended) - len(mended.encode("ascii", "ignore")) - damaged
            text = mended if whole >= _WHOLE_PER_DAMAGED * damaged else None
    if text is None and (code_page := find_code_page(data)) is not None:
        text = data.decode(code_page, "replace")
    if text is not None:
        return text
    try:
        text = data.decode(_latin_code_page(data))
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    beginning = text[:_SAMPLE_BYTES]
    if len(_LATIN_CONTROL.findall(beginning)) > _MAX_CONTROL_SHARE * len(beginning):
        raise IngestError(f"{name!r} is in no encoding known here; save it as UTF-8")
    return text
