"""Tells which language a text is in, and reads the word lists of `text/words/`.

Text comes in; a language code, or the words that carry grammar rather than content, go out. No model is used: scripts
are counted, and languages in Latin letters are told apart by their commonest words. The file imports nothing heavy, as
the child process that parses documents loads it.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from importlib.resources import files

# The word lists of `text/words/`: one file each, words between white space, "_" for a space inside a term.
#
# A line that begins with "#" says what the list is for. Lists are read once; all words are in lower case.


@cache
def word_list(name: str) -> frozenset[str]:
    """Return the words of `text/words/<name>.txt`."""
    text = (files("heliograph.text") / "words" / f"{name}.txt").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return frozenset(word.replace("_", " ") for line in lines for word in line.split())


HAN = r"\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HAN = re.compile(rf"[{HAN}]")
_KANA = re.compile(r"[\u3041-\u3096\u30a1-\u30fa\u31f0-\u31ff]")
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]")
_NOT_HAN = re.compile(rf"[^\W\d_{HAN}]")
_WORD = re.compile(r"[^\W\d_]+")
_OTHER_SCRIPTS = {
    "ko": re.compile(r"[\u1100-\u11ff\uac00-\ud7af]"),
    "ru": re.compile(r"[\u0400-\u04ff]"),
    "el": re.compile(r"[\u0370-\u03ff\u1f00-\u1fff]"),
    "ar": re.compile(r"[\u0600-\u06ff\u0750-\u077f]"),
    "he": re.compile(r"[\u0590-\u05ff]"),
    "hi": re.compile(r"[\u0900-\u097f]"),
    "th": re.compile(r"[\u0e00-\u0e7f]"),
}
_TELLING_LETTERS = {
    "ru": (("uk", re.compile(r"[іїєґІЇЄҐ]")), ("sr", re.compile(r"[ђћџјљњЂЋЏЈЉЊ]"))),
    "ar": (("fa", re.compile(r"[پچژگ]")),),
}

# One Han character says about as much as three Latin letters.
_HAN_WEIGHT = 3
_SAMPLE_LENGTH = 4000
_LEAD_OVER_ENGLISH = 1.5
_LEAST_FUNCTION_WORDS = 2

LATIN_LANGUAGES = ("en", "de", "es", "fr", "it", "nl", "pt")


@cache
def stop_words(language: str) -> frozenset[str]:
    """Return words, in lower case, that say nothing by themselves; empty for a language without a list."""
    return word_list(f"stop_{language}") if language in {*LATIN_LANGUAGES, "zh"} else frozenset()


@cache
def function_words() -> frozenset[str]:
    """Return the stop words of all languages in Latin letters, for texts whose language is not known."""
    return frozenset().union(*(stop_words(language) for language in LATIN_LANGUAGES))


def is_chinese(text: str) -> bool:
    """Return whether Chinese characters carry most of a text that is not Japanese."""
    if text.isascii() or not (han := len(_HAN.findall(text))):
        return False
    kana = len(_KANA.findall(text))
    return kana * 10 <= han and _HAN_WEIGHT * han >= len(_NOT_HAN.findall(text)) - kana


def detect_language(text: str) -> str:
    """Return the ISO 639-1 code of a text's main language, by script and then by function words.

    Reads at most 8,000 characters, from the start and the middle. Text without letters is "en".
    """
    sample, middle = text, len(text) // 2
    if len(text) > 2 * _SAMPLE_LENGTH:
        sample = text[:_SAMPLE_LENGTH] + " " + text[middle : middle + _SAMPLE_LENGTH]
    if sample.isascii():
        return _latin_language(sample)
    latin = len(_LATIN.findall(sample))
    han, kana = len(_HAN.findall(sample)), len(_KANA.findall(sample))
    counts = {language: len(letters.findall(sample)) for language, letters in _OTHER_SCRIPTS.items()}
    counts["ja" if kana * 10 > han else "zh"] = _HAN_WEIGHT * (han + kana)
    language = max(counts, key=lambda code: counts[code])
    if counts[language] <= latin:
        return _latin_language(sample)
    return _by_telling_letters(language, sample, counts[language])


def _by_telling_letters(language: str, sample: str, letters: int) -> str:
    for other, telling in _TELLING_LETTERS.get(language, ()):
        if len(telling.findall(sample)) * 50 > letters:
            return other
    return language


def _latin_language(sample: str) -> str:
    words = Counter(word.casefold() for word in _WORD.findall(sample))
    counts = {
        language: sum(words[word] for word in words.keys() & stop_words(language)) for language in LATIN_LANGUAGES
    }
    best = max(counts, key=lambda code: counts[code])
    is_clear = counts[best] >= _LEAST_FUNCTION_WORDS and counts[best] > _LEAD_OVER_ENGLISH * counts["en"]
    return best if is_clear else "en"
