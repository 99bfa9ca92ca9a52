"""Which of the older encodings a text beyond ASCII is in, told by the letters that it gives.

Each is tried on the beginning of the text, strictly, and counts only if what comes out is mostly what its language is
written with: kana for Japanese, Hangul for Korean, the commoner half of the table for Chinese, and for Cyrillic, Greek,
Hebrew and Arabic letters of one alphabet, half of them the most frequent ones. Western text has single letters beyond
ASCII between others, so nothing here takes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = ["find_code_page"]

_SAMPLE_BYTES = 65_536
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_KANA = re.compile(r"[\u3041-\u30fe]")
_HANGUL = re.compile(r"[\uac00-\ud7a3]")
# Characters of two bytes as each table has them; of Big5 and GB 2312 the commoner characters and punctuation.
_BIG5_COMMON = re.compile(rb"[\xa1-\xc6][\x40-\x7e\xa1-\xfe]")
_CHINESE_PAIR = re.compile(rb"[\xa1-\xf7][\xa1-\xfe]")
_HIGH_RUN = re.compile(rb"[\x80-\xff]{2,}")
_HIGH = re.compile(rb"[\x80-\xff]")


def find_code_page(data: bytes) -> str | None:
    """Return Python's name of the encoding, or None where none of them fits better than a Western one."""
    sample = data[:_SAMPLE_BYTES]
    pages = (name for name, fits in _OF_TWO_BYTES if fits(sample, name))
    return _find_alphabet(sample) or next(pages, None)


def _share(pattern: re.Pattern[str], text: str) -> float:
    return len(pattern.findall(text)) / max(1, len(_BEYOND_ASCII.findall(text)))


def _decoded(sample: bytes, name: str) -> str:
    """The text, or none; a character that the end of the sample cuts off is left out."""
    for cut in range(4):
        try:
            return sample[: len(sample) - cut].decode(name)
        except UnicodeDecodeError:
            continue
    return ""


def _is_japanese(sample: bytes, name: str) -> bool:
    return _share(_KANA, _decoded(sample, name)) >= 0.2


def _is_korean(sample: bytes, name: str) -> bool:
    # Of Chinese read so about half is Hangul.
    return _share(_HANGUL, _decoded(sample, name)) >= 0.85


def _is_simplified(sample: bytes, name: str) -> bool:
    pairs = 2 * len(_CHINESE_PAIR.findall(sample))
    return pairs >= 0.8 * len(_HIGH.findall(sample)) and bool(_decoded(sample, name))


def _is_traditional(sample: bytes, name: str) -> bool:
    text = _decoded(sample, name)
    return len(_BIG5_COMMON.findall(sample)) >= 0.9 * max(1, len(_BEYOND_ASCII.findall(text))) and bool(text)


def _find_alphabet(sample: bytes) -> str | None:
    high = len(_HIGH.findall(sample))
    if sum(map(len, _HIGH_RUN.findall(sample))) < 0.8 * high or not high:
        return None
    shares = {
        name: _common_share(_decoded(sample, name), alphabet, common, high) for name, alphabet, common in _ALPHABETS
    }
    best = max(shares, key=lambda name: shares[name])
    return best if shares[best] >= 0.45 else None


def _common_share(text: str, alphabet: str, common: str, high: int) -> float:
    """The part of the letters that are among the most frequent ones; 0 if not nearly all are of the alphabet."""
    letters = re.findall(alphabet, text)
    if len(letters) < 0.85 * high:
        return 0.0
    return sum(letter in common for letter in letters) / max(1, len(letters))


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
)
