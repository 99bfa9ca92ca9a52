"""Detects the language of a text, and turns text into full-text terms, alike for documents and for questions.

A chunk is indexed under its document's title and its headings (`chunk_index_text`); terms come in text order, with
repeats. Letters are folded, English words stemmed, stop words dropped; scripts without spaces give character bigrams;
identifiers give one term for the whole and one for each part.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from importlib.resources import files
from itertools import chain, pairwise
from threading import local

from Stemmer import Stemmer

from heliograph.models import Chunk, Entity, heading_path
from heliograph.text.asking import MOST_OPENING_WEIGHT, opening_weight
from heliograph.text.patterns import late_pattern, words_in_both_scripts

# This file imports nothing heavy, because the child process that parses documents loads it.

# The word lists of `text/words/`: one file per list, words separated by white space, "_" for a space inside a term.
#
# Lines that begin with "#" say what the list is for. Each list is read once; all words are in lower case.


@cache
def word_list(name: str) -> frozenset[str]:
    """Return the words of `text/words/<name>.txt`, with traditional forms added to Chinese words.

    Stop words get no traditional forms: more stop words would change the terms of texts already stored.
    """
    text = (files("heliograph.text") / "words" / f"{name}.txt").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    words = (word.replace("_", " ") for line in lines for word in line.split())
    return frozenset(words if name.startswith("stop_") else words_in_both_scripts(words))


HAN = r"\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HAN = late_pattern(rf"[{HAN}]")
_KANA = late_pattern(r"[\u3041-\u3096\u30a1-\u30fa\u31f0-\u31ff]")
_LATIN = late_pattern(r"[A-Za-z\u00c0-\u024f]")
_NOT_HAN = late_pattern(rf"[^\W\d_{HAN}]")
_WORD = late_pattern(r"[^\W\d_]+")
_OTHER_SCRIPTS = {
    "ko": late_pattern(r"[\u1100-\u11ff\uac00-\ud7af]"),
    "ru": late_pattern(r"[\u0400-\u04ff]"),
    "el": late_pattern(r"[\u0370-\u03ff\u1f00-\u1fff]"),
    "ar": late_pattern(r"[\u0600-\u06ff\u0750-\u077f]"),
    "he": late_pattern(r"[\u0590-\u05ff]"),
    "hi": late_pattern(r"[\u0900-\u097f]"),
    "th": late_pattern(r"[\u0e00-\u0e7f]"),
}
_TELLING_LETTERS = {
    "ru": (("uk", late_pattern(r"[іїєґІЇЄҐ]")), ("sr", late_pattern(r"[ђћџјљњЂЋЏЈЉЊ]"))),
    "ar": (("fa", late_pattern(r"[پچژگ]")),),
}

# One Han character carries about as much as three Latin letters.
_HAN_WEIGHT = 3
_SAMPLE_LENGTH = 4000
_LEAD_OVER_ENGLISH = 1.5
_LEAST_FUNCTION_WORDS = 2

LATIN_LANGUAGES = ("en", "de", "es", "fr", "it", "nl", "pt", "cs", "pl", "sv", "tr")
# In other languages, the short words of the remaining ones are names and common words.
_WIDELY_KNOWN = LATIN_LANGUAGES[:7]


@cache
def stop_words(language: str) -> frozenset[str]:
    """Return the function words of a language, in lower case; empty for a language without a list."""
    return word_list(f"stop_{language}") if language in {*LATIN_LANGUAGES, "zh"} else frozenset()


@cache
def function_words() -> frozenset[str]:
    """Return the stop words of widespread languages in Latin letters, for texts whose language is unknown."""
    return frozenset().union(*(stop_words(language) for language in _WIDELY_KNOWN))


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
    for other, telling in _TELLING_LETTERS.get(language, ()):
        if len(telling.findall(sample)) * 50 > counts[language]:
            return other
    return language


# Letters that only one of the languages has. They help because a question is too short to have many function words.
_OWN_LETTERS = {
    "es": late_pattern(r"[ñ¿¡]", re.IGNORECASE),
    "pt": late_pattern(r"[ãõ]", re.IGNORECASE),
    "fr": late_pattern(r"[œ]|\b(?:[djlmnst]|qu)['’](?=[aeéèêhiouy])", re.IGNORECASE),
    "sv": late_pattern(r"å", re.IGNORECASE),
    "pl": late_pattern(r"[ąćęłńśźż]", re.IGNORECASE),
    "cs": late_pattern(r"[ěřů]", re.IGNORECASE),
    "tr": late_pattern(r"[ğışİ]"),
}
# Words that open questions in English only, and those that also do in other languages ("Is de server bereikbaar?").
_ENGLISH_OPENING = late_pattern(
    r"\W*(?:(?:in|on|at|of|for|from|by|to|with|and|so|but)\s+)?"
    r"(?:(?P<own>who|whom|whose|what|which|when|where|why|how|does|did|could|should)"
    r"|is|are|do|can|will|was|were|has|have)\b",
    re.IGNORECASE,
)


@lru_cache(maxsize=64)
def question_language(question: str) -> str:
    """Return the language of a question as `detect_language` does; in Latin letters, question words count as well."""
    language = detect_language(question)
    if language not in LATIN_LANGUAGES:
        return language
    words = Counter(word.casefold() for word in _WORD.findall(question))
    opening = question.lstrip()
    counts = {code: sum(words[word] for word in words.keys() & stop_words(code)) for code in LATIN_LANGUAGES}
    english = _ENGLISH_OPENING.match(opening)
    counts["en"] += 2 * (english is not None)
    # Names keep their letters in every language: "Łódź population".
    common = " ".join(word for word in question.split() if not word[0].isupper())
    for code in LATIN_LANGUAGES[1:]:
        counts[code] += len(_OWN_LETTERS[code].findall(common)) if code in _OWN_LETTERS else 0
    is_asked_in_english = language == "en" and english is not None and english["own"] is not None
    if is_asked_in_english and counts["en"] >= MOST_OPENING_WEIGHT + max(counts[code] for code in LATIN_LANGUAGES[1:]):
        # No opening in another language could outweigh this, so the patterns of the others need not be compiled.
        return language
    for code in LATIN_LANGUAGES[1:]:
        counts[code] += opening_weight(opening, code)
    # On a tie, the language of the function words stays.
    best = max(LATIN_LANGUAGES, key=lambda code: (counts[code], code == language))
    if best == "en" and english and english["own"]:
        return best
    is_clear = counts[best] >= _LEAST_FUNCTION_WORDS and counts[best] > _LEAD_OVER_ENGLISH * counts["en"]
    return best if is_clear else language


def _latin_language(sample: str) -> str:
    words = Counter(word.casefold() for word in _WORD.findall(sample))
    counts = {
        language: sum(words[word] for word in words.keys() & stop_words(language)) for language in LATIN_LANGUAGES
    }
    best = max(counts, key=lambda code: counts[code])
    is_clear = counts[best] >= _LEAST_FUNCTION_WORDS and counts[best] > _LEAD_OVER_ENGLISH * counts["en"]
    return best if is_clear else "en"


# Words of scripts with capitals.
_UNCASED = HAN + r"\u0e00-\u0eff\u3041-\u30ff\uac00-\ud7af"
_CASED = rf"[^\W_{_UNCASED}]"
WORDS = late_pattern(rf"{_CASED}(?:[^\W{_UNCASED}]|['’-](?={_CASED}))*")
NOUN_AFTER_ARTICLE = late_pattern(
    r"\b(?i:an?|the|this|that|these|those|each|every|any|no|el|los?|las?|un[aeo]?|cada|est[ea]|les?|des|chaque|cette|gli|um|uma|een|het|elke?|dit)"
    r" ([^\W\d_A-Z]{3,})\b",
)
_SHORT_SAMPLE_LENGTH = 1000
_LEAST_OWN_WORDS = 5
# Endings of infinitives and, except in French, gerunds.
INFINITIVES = {
    "es": late_pattern(r"\w{2,}(?:[aeií]r(?:[lmst]e|l[ao]s?|nos)?|ndo(?:[lmst]e|l[ao]s?)?)"),
    "pt": late_pattern(r"\w{2,}(?:[aei]r(?:-\w+)?|ndo(?:-\w+)?)"),
    "it": late_pattern(r"\w{2,}(?:[aei]r(?:e|[lmstcv]i|l[aeo]|ne)|rre|ndo(?:[lmstcv]i|l[aeo])?)"),
    "fr": late_pattern(r"\w{2,}(?:er|ir|[dt]re|[aiu]ire|oir|ivre)"),
}


@cache
def grammar_words(language: str) -> frozenset[str]:
    """Return the stop words of English and of another language."""
    return stop_words("en") | stop_words(language)


def languages_of(text: str, lower: frozenset[str] | None = None, *, is_german: bool = False) -> list[str]:
    """Return the main language of a text, then the other languages in Latin letters of which it has whole sentences.

    Args:
        text: The text.
        lower: Its words in lower case, where they are known.
        is_german: Whether the text is part of a German document; German is then always included.
    """
    words = frozenset(word for word in WORDS.findall(text) if word.islower()) if lower is None else lower
    main = detect_language(text[:_SHORT_SAMPLE_LENGTH])
    others = (other for other in LATIN_LANGUAGES if other != main)
    present = (
        other
        for other in others
        if (is_german and other == "de") or len(words & _own_words(other, main)) >= _LEAST_OWN_WORDS
    )
    return [main, *present]


@cache
def _own_words(language: str, beside: str) -> frozenset[str]:
    return stop_words(language) - stop_words(beside) - stop_words("en")


# The text by which a chunk is indexed, both for its vector and for its terms.
#
# A chunk is indexed under its document's title and its section's headings, so that a passage that never names its
# subject is still found by it; a title or heading that the passage contains is not repeated. The query string of a link
# is left out ("share this", "search for this title"): scraped pages are full of them, and their words would pass for
# words of the passage.

_MAX_PREFIX_LENGTH = 300
_LINK_QUERY = late_pattern(r"(?<=\]\()([^()\s?]{0,2000})\?[^()\s]{0,4000}(?:\([^()\s]{0,200}\)[^()\s]{0,200}){0,4}")


def chunk_index_text(title: str, chunk: Chunk) -> str:
    """Return the text by which a chunk is indexed.

    The title and headings that the chunk does not contain, and the column names if it begins in the middle of a table,
    stand on a line each before its text, from which the query strings of links are removed.
    """
    text = _LINK_QUERY.sub(r"\1", chunk.text) if "](" in chunk.text else chunk.text
    path = dict.fromkeys(part for part in (title, *chunk.headings) if part and not _has_words_of(text, part))
    lines = (part[:_MAX_PREFIX_LENGTH].rstrip() for part in (heading_path(path), "; ".join(chunk.columns)))
    return "\n".join([*filter(None, lines), text])


def entity_index_terms(entity: Entity) -> list[str]:
    """Return the terms by which an entity is found: those of its name and aliases."""
    return [term for name in (entity.name, *entity.aliases) for term in terms(name)]


def _has_words_of(text: str, title: str) -> bool:
    """Return whether a text contains a title as whole words, not merely as a part of longer words."""
    start = text.find(title)
    while start >= 0:
        end = start + len(title)
        if not (_is_within_word(text, start) or _is_within_word(text, end)):
            return True
        start = text.find(title, start + 1)
    return False


def _is_within_word(text: str, index: int) -> bool:
    # Chinese has no spaces between words, so only ASCII letters are taken to continue a word.
    around = text[max(0, index - 1) : index + 1]
    return len(around) == 2 and index > 0 and around.isascii() and around.isalnum()


MAX_TERM_LENGTH = 64
# Longer tokens are encoded data, which seldom recurs.
_LONGEST_CACHED = 128
# Longer pieces between white space are such, or sentences of a language that writes without it: those have a term per
# character, and would fill the memory.
_LONGEST_PIECE = 20

# Scripts without spaces between words. Hangul has spaces, but its particles make bigrams the better unit.
_UNSPACED = HAN + r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u31f0-\u31ff\u1100-\u11ff\uac00-\ud7af"
_MARKS = (
    r"\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0900-\u0963\u0970-\u0dff"
)
_LETTERS = rf"[^\W{_UNSPACED}]+(?:[{_MARKS}]+[^\W{_UNSPACED}]*)*"
_JOINED = rf"{_LETTERS}(?:(?:://|[-._/@:+&'’\\]){_LETTERS})*(?:\+\+|#)?"
# A dotted number belongs to the word before it, so that "TLS 1.3" and "TLS1.3" find each other.
_WORD_TOKEN = late_pattern(rf"{_JOINED}(?:(?<=[^\W\d_]) v?\d+(?:\.\d+)+(?![\w.-]))?")
_TOKEN = late_pattern(rf"([{_UNSPACED}]+)|({_WORD_TOKEN.pattern})")
_VERSION_APART = late_pattern(r" v?\d[\d,]*\.\d")
_THOUSANDS = late_pattern(r"(?<=\d),(?=\d{3}(?!\d))")
_VERSIONED = late_pattern(r"([^\W\d_]*?)[-_]?v?(\d+(?:\.\d+)+)")
_INITIALS = late_pattern(r"[^\W\d_](?:\.[^\W\d_])+")
_SEGMENT_ENDS = late_pattern(r"://|[/@:&\\ ]+")
_PART_ENDS = late_pattern(r"[^\w#+]+|_+|\+(?=\w)")
_LATIN_ACCENT = late_pattern(r"(?<=[a-z])[\u0300-\u036f]+")
_ENGLISH_STOP_WORDS = stop_words("en")
# Stop words that are names when written in capitals.
_ACRONYMS = frozenset({"IT", "US", "WHO"})

_STEMMED_LETTERS = (("a", "z", "english"), ("\u0370", "\u03ff", "greek"), ("\u0400", "\u04ff", "russian"))
_of_thread = local()


def terms(text: str) -> list[str]:
    """Return the terms of a text, in order and with repeats; a text of stop words and punctuation gives none."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).replace("\u00ad", "")
    # Nothing else is read over white space.
    pieces = [text] if _VERSION_APART.search(text) else text.split()
    if max(map(len, pieces), default=0) <= _LONGEST_PIECE:
        return list(chain.from_iterable(map(_cached_piece_terms, pieces)))
    found = (_cached_piece_terms(piece) if len(piece) <= _LONGEST_PIECE else _piece_terms(piece) for piece in pieces)
    return list(chain.from_iterable(found))


def _piece_terms(piece: str) -> tuple[str, ...]:
    if "," in piece:
        piece = _THOUSANDS.sub("", piece)
    if piece.isascii():
        # Every token is a word.
        tokens = _WORD_TOKEN.findall(piece)
        if max(map(len, tokens), default=0) <= _LONGEST_CACHED:
            return tuple(chain.from_iterable(map(_token_terms, tokens)))
    found: list[str] = []
    for run, token in _TOKEN.findall(piece):
        if run:
            found.extend(
                [] if run in stop_words("zh") else [run] if len(run) == 1 else list(map("".join, pairwise(run)))
            )
        else:
            found.extend(_token_terms(token) if len(token) <= _LONGEST_CACHED else _terms_of(token))
    return tuple(found)


_cached_piece_terms = lru_cache(maxsize=32_768)(_piece_terms)


# Languages with rich inflection or with compound nouns, in letters that Western European languages lack. The prefixes
# of their words are terms as well, because a question seldom has a word in the inflected form that the passage has. For
# questions made of headings, this finds the right section in 3 to 5 more cases of 100 in Polish, Turkish and Czech.
# Prefixes in place of the words would find a few more, but nothing for a question whose letters do not reveal its
# language.
_BEGINNING = 5
_MUCH_INFLECTED = late_pattern(r"[Åå\u0100-\u0151\u0154-\u024f]")
# A passage is of such a language if it has at least one such letter in this many characters; foreign names give fewer.
_CHARACTERS_PER_LETTER = 125
_BEGINNINGS_ASKED = frozenset({"cs", "pl", "sv", "tr"})


def passage_terms(text: str) -> list[str]:
    """Return the terms by which a passage is indexed: `terms`, then prefixes of words where the language needs them."""
    found = terms(text)
    if text.isascii() or len(_MUCH_INFLECTED.findall(text)) * _CHARACTERS_PER_LETTER < len(text):
        return found
    return found + _beginnings(found)


def question_terms(question: str) -> list[str]:
    """Return the terms with which a question searches passages, made as `passage_terms` makes them."""
    found = passage_terms(question)
    has_beginnings = bool(found) and found[-1].endswith("*")
    asks_for_them = not has_beginnings and question_language(question) in _BEGINNINGS_ASKED
    return found + _beginnings(found) if asks_for_them else found


def _beginnings(found: Iterable[str]) -> list[str]:
    # No other term ends with a star. Prefixes come after all words, so that the words keep their neighbours.
    return [f"{term[:_BEGINNING]}*" for term in found if len(term) > _BEGINNING and term.isalpha()]


# The languages in Latin letters with a stemmer of their own; the index stems all of them as English.
_STEMMERS = {
    "de": "german",
    "es": "spanish",
    "fr": "french",
    "it": "italian",
    "nl": "dutch",
    "pt": "portuguese",
    "sv": "swedish",
}
# Languages for which no stemmer helps: their words are compared by prefix.
_CUT = frozenset({"cs", "pl", "tr"})


def terms_in(text: str, language: str) -> list[str]:
    """Return the terms of a text in one language: stemmed by its rules, without its stop words.

    For comparing texts with each other only; the full-text index holds the terms of `terms`. For English, and for
    languages in other letters, both give the same.
    """
    if language in _CUT:
        return [
            term[:_BEGINNING] if term.isalpha() else term for term in terms(text) if term not in _stop_terms(language)
        ]
    if language not in _STEMMERS:
        return terms(text)
    stem, dropped = _stemmer(_STEMMERS[language]), _stop_terms(language)
    return [stem(term) if term.isalpha() else term for term in terms(text) if term not in dropped]


@cache
def _stop_terms(language: str) -> frozenset[str]:
    return frozenset(term for word in stop_words(language) for term in terms(word))


def _terms_of(token: str) -> tuple[str, ...]:
    """Return the terms of a word or an identifier, that of the whole first."""
    if token.isascii() and token.isalpha() and token not in _ACRONYMS:
        # A shortcut with the same result as the steps below, for plain words, which most are.
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
    # The segments of a path, address or URL, and the words within them.
    inner: list[str] = []
    for segment in _SEGMENT_ENDS.split(folded):
        parts = [part for part in _PART_ENDS.split(segment) if part]
        if len(parts) > 1:
            inner.append(segment.replace("'", ""))
        for part in parts:
            inner.extend(_part(part))
    return _distinct(folded.replace("'", "").strip("_"), *inner)


_token_terms = lru_cache(maxsize=65_536)(_terms_of)


def _part(word: str, least_length: int = 2) -> tuple[str, ...]:
    if len(word) < least_length or word in _ENGLISH_STOP_WORDS:
        return ()
    if word.isalpha():
        for first, last, language in _STEMMED_LETTERS:
            if first <= word[0] <= last:
                # The stemmer reduces some Greek words, such as "ίδια", to nothing.
                return ((_stemmer(language)(word) or word)[:MAX_TERM_LENGTH],)
    return (word[:MAX_TERM_LENGTH],)


def _distinct(*found: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(term for term in found if 0 < len(term) <= MAX_TERM_LENGTH))


def _fold(token: str) -> str:
    folded = token.casefold()
    if folded.isascii():
        return folded
    bare = _LATIN_ACCENT.sub("", unicodedata.normalize("NFKD", folded))
    return unicodedata.normalize("NFKC", bare)


def _stemmer(language: str) -> Callable[[str], str]:
    # Stemmers are not thread-safe, so each thread has its own.
    stemmers: dict[str, Callable[[str], str]] = _of_thread.__dict__
    if language not in stemmers:
        stemmers[language] = Stemmer(language).stemWord
    return stemmers[language]
