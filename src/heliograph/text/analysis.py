"""Turns text into full-text terms, the same way for documents and for questions.

A chunk is indexed under its document's title and its headings (`chunk_index_text`); terms come out in the order of the
text and with repeats. Letters are folded, English words stemmed, stop words dropped; scripts without spaces give pairs
of characters; identifiers give one term for the whole and one for each part.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from threading import local

from Stemmer import Stemmer

from heliograph.models import Chunk
from heliograph.text.language import HAN, detect_language, stop_words

__all__ = ["MAX_TERM_LENGTH", "chunk_index_text", "detect_language", "stop_words", "terms"]


# The text that stands for a chunk wherever it is found: by its vector, and by its terms.
#
# A chunk is indexed under its document's title and its section's headings, so that a passage that never names its
# subject is still found by it; what the passage says itself is not repeated.

_MAX_PREFIX_LENGTH = 300


def chunk_index_text(title: str, chunk: Chunk) -> str:
    """Return the text that stands for a chunk: title and headings that it does not contain, a line feed, its text."""
    path = dict.fromkeys(part for part in (title, *chunk.headings) if part and not _says(chunk.text, part))
    prefix = " > ".join(path)[:_MAX_PREFIX_LENGTH].rstrip()
    return f"{prefix}\n{chunk.text}" if prefix else chunk.text


def _says(text: str, title: str) -> bool:
    """Whether a text contains a title, not merely as a part of longer words."""
    start = text.find(title)
    while start >= 0:
        end = start + len(title)
        if not (_is_within_word(text, start) or _is_within_word(text, end)):
            return True
        start = text.find(title, start + 1)
    return False


def _is_within_word(text: str, index: int) -> bool:
    # Chinese has no spaces between words, so only letters of ASCII are taken to belong together.
    around = text[max(0, index - 1) : index + 1]
    return len(around) == 2 and index > 0 and around.isascii() and around.isalnum()


MAX_TERM_LENGTH = 64
# Longer tokens are encoded data, seldom seen twice.
_LONGEST_CACHED = 128

# Scripts without spaces between words; Hangul has spaces, but its particles make pairs the better unit.
_UNSPACED = HAN + r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u31f0-\u31ff\u1100-\u11ff\uac00-\ud7af"
_MARKS = (
    r"\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0900-\u0963\u0970-\u0dff"
)
_LETTERS = rf"[^\W{_UNSPACED}]+(?:[{_MARKS}]+[^\W{_UNSPACED}]*)*"
_JOINED = rf"{_LETTERS}(?:(?:://|[-._/@:+&'’\\]){_LETTERS})*(?:\+\+|#)?"
# A dotted number belongs to the word before it: "TLS 1.3" is found by "TLS1.3" and the other way round.
_TOKEN = re.compile(rf"([{_UNSPACED}]+)|({_JOINED}(?:(?<=[^\W\d_]) v?\d+(?:\.\d+)+(?![\w.-]))?)")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_VERSIONED = re.compile(r"([^\W\d_]*?)[-_]?v?(\d+(?:\.\d+)+)")
_INITIALS = re.compile(r"[^\W\d_](?:\.[^\W\d_])+")
_SEGMENT_ENDS = re.compile(r"://|[/@:&\\ ]+")
_PART_ENDS = re.compile(r"[^\w#+]+|_+|\+(?=\w)")
_LATIN_ACCENT = re.compile(r"(?<=[a-z])[\u0300-\u036f]+")
_ENGLISH_STOP_WORDS = stop_words("en")
# Stop words that are names when written in capitals.
_ACRONYMS = frozenset({"IT", "US", "WHO"})

_STEMMED_LETTERS = (("a", "z", "english"), ("\u0370", "\u03ff", "greek"), ("\u0400", "\u04ff", "russian"))
_of_thread = local()


def terms(text: str) -> list[str]:
    """Return the terms of a text, in order, with repeats; a text of stop words and punctuation gives none."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).replace("\u00ad", "")
    found: list[str] = []
    for run, token in _TOKEN.findall(_THOUSANDS.sub("", text) if "," in text else text):
        if run:
            found.extend(
                [] if run in stop_words("zh") else [run] if len(run) == 1 else list(map("".join, pairwise(run)))
            )
        else:
            found.extend(_token_terms(token) if len(token) <= _LONGEST_CACHED else _terms_of(token))
    return found


@lru_cache(maxsize=65_536)
def _token_terms(token: str) -> tuple[str, ...]:
    return _terms_of(token)


def _terms_of(token: str) -> tuple[str, ...]:
    """Return the terms of a word or an identifier, the whole first."""
    if token.isascii() and token.isalpha() and token not in _ACRONYMS:
        # What the steps below come to for a plain word, which most are.
        word = token.lower()
        return () if word in _ENGLISH_STOP_WORDS else (_stemmer("english")(word)[:MAX_TERM_LENGTH],)
    if " " in token:
        name, version = token.split(" ", 1)
        named = _terms_of(name)
        return _distinct(*([_fold(name) + version.lstrip("v")] if named else []), *named, *_terms_of(version))
    if token in _ACRONYMS:
        return (token.lower(),)
    folded = _fold(token).replace("’", "'")
    if folded in _ENGLISH_STOP_WORDS:
        return ()
    folded = folded.removesuffix("'s")
    if folded.isalnum():
        return _part(folded, least_length=1)
    if _INITIALS.fullmatch(folded):
        return (folded.replace(".", "")[:MAX_TERM_LENGTH],)
    if match := _VERSIONED.fullmatch(folded):
        name, version = match.groups()
        return _distinct(name + version, *_part(name), version)
    return _distinct(folded.replace("'", "").strip("_"), *_inner_terms(folded))


def _inner_terms(folded: str) -> list[str]:
    """Return the segments of a path, address or URL, and the words within them."""
    inner: list[str] = []
    for segment in _SEGMENT_ENDS.split(folded):
        parts = [part for part in _PART_ENDS.split(segment) if part]
        if len(parts) > 1:
            inner.append(segment.replace("'", ""))
        for part in parts:
            inner.extend(_part(part))
    return inner


def _part(word: str, least_length: int = 2) -> tuple[str, ...]:
    if len(word) < least_length or word in _ENGLISH_STOP_WORDS:
        return ()
    return (_stem(word)[:MAX_TERM_LENGTH],)


def _distinct(*found: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(term for term in found if 0 < len(term) <= MAX_TERM_LENGTH))


def _fold(token: str) -> str:
    folded = token.casefold()
    if folded.isascii():
        return folded
    bare = _LATIN_ACCENT.sub("", unicodedata.normalize("NFKD", folded))
    return unicodedata.normalize("NFKC", bare)


def _stem(word: str) -> str:
    if not word.isalpha():
        return word
    for first, last, language in _STEMMED_LETTERS:
        if first <= word[0] <= last:
            return _stemmer(language)(word)
    return word


def _stemmer(language: str) -> Callable[[str], str]:
    # Stemmers are not safe to share between threads, so each thread has its own.
    stemmers: dict[str, Callable[[str], str]] = _of_thread.__dict__
    if language not in stemmers:
        stemmers[language] = Stemmer(language).stemWord
    return stemmers[language]
