"""What a passage without title or heading is about, by how it opens: "King of the Sierras is a 1938 film ...".

A sentence in, the name that it defines out. In English the subject stands before "is a" and the like: a phrase in
title case, a quoted title, or, where it opens a document, a common term ("Canon law is the body of ..."). In Chinese
it stands before "是", a comma or a bracket, and is one name or noun, or is repeated by the next sentence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from heliograph.text.language import HAN, stop_words
from heliograph.text.lines import is_own_line
from heliograph.text.name_cues import CALENDAR, LOCATION_WORDS, ORGANIZATION_WORDS, TECHNOLOGY_WORDS, WORK_WORDS
from heliograph.text.names import clean_name
from heliograph.text.phrases import SentenceReading
from heliograph.text.word_lists import word_list

__all__ = ["Opening", "read_opening", "title_line"]

_COPULA = re.compile(r"\s(?:is|are|was|were)\s+(?:(?:also|originally|usually|typically)\s+)?")
_DETERMINER = re.compile(r"(?:an?|the|one of|any|any of)\s", re.IGNORECASE)
_BRACKETED = re.compile(r"\s*[(（\[][^()（）\[\]]{0,300}[)）\]]")
_TITLE_WORD = re.compile(r"[\"'“‘(]?(?:[A-Z\d]|[^\W\d_a-zß-ÿ])|[^\x00-\x7f]")
_SMALL = word_list("small_words")
_PREPOSITIONS = word_list("prepositions")
_NO_SUBJECTS = stop_words("en") | CALENDAR
_PRONOUNS = word_list("pronouns")
_QUOTES = ('"', "“")
_LONGEST_REPEATED = 60
_MARKS = " \t*_\"'“”‘’`,;:"
_ALSO = re.compile(r",|;| – | — | or (?=[A-Z\"“])| also | commonly | formerly | officially | better known ")
_DEFINED_BY = re.compile(
    r"\b(?:of|by|in|on|at|for|from|to|that|which|who|whose|with|and|released|written|directed)\b|[.,;(]"
)
_WORD = re.compile(r"[^\W\d_]{3,}")
_MOST_WORDS = 9
_MOST_TERM_WORDS = 3
_LONGEST = 90
_LOOK_AHEAD = 400
_HAN_OPENER = re.compile(
    r"[《“\"]?([^，。；：！？\s（()）、《》“”\"]{2,20}?)[》”\"]?(?=[（(，。]|是|为|又称|位于|[。]?$)"
)
_HAN = re.compile(rf"[{HAN}]")
_HAN_NO_SUBJECTS = word_list("zh_no_subjects")
_HAN_MEANING = re.compile(r"(?:[（(][^（）()]{0,100}[）)])?是(?:一[种门类项]|指)")
_KINDS = (
    ("content", WORK_WORDS | {"western", "sitcom", "drama", "comedy"}),
    (
        "location",
        LOCATION_WORDS - {"house", "square"}
        | {"town", "village", "country", "capital", "commune", "suburb", "community", "river", "lake"},
    ),
    ("organization", ORGANIZATION_WORDS | {"band", "startup", "chain", "manufacturer", "charity"}),
    ("artifact", TECHNOLOGY_WORDS),
)
_PERSON_ENDINGS = ("ist", "ian", "er", "or", "ress", "man", "woman")
_NO_PERSONS = word_list("things_ending_as_persons")


@dataclass(frozen=True, slots=True)
class Opening:
    """How a passage opens.

    Attributes:
        name: What it is about.
        kind: The type of that, `unknown` if the sentence does not tell.
        nouns: Common nouns, in lower case, that the sentence says it is: "the film" then means it.
    """

    name: str
    kind: str = "unknown"
    nouns: frozenset[str] = frozenset()


def read_opening(text: str, sentences: list[SentenceReading], *, opens_document: bool) -> Opening | None:
    """Return what a passage opens with, or None when its first sentence defines nothing.

    Args:
        text: The passage.
        sentences: Its sentences.
        opens_document: Whether it is the first of its document, where a common term may be defined.
    """
    index = next((index for index, sentence in enumerate(sentences) if text[sentence.start] not in "#|-`"), -1)
    if index < 0:
        return None
    first = sentences[index]
    if repeated := _repeated(text, sentences[index : index + 2]):
        return Opening(repeated)
    sentence = text[first.start : min(first.end, first.start + _LOOK_AHEAD)]
    if _HAN.match(sentence.lstrip('《“"')):
        return _chinese_opening(text, sentence, first)
    return _english_opening(sentence, opens_document=opens_document)


def title_line(text: str, sentences: Sequence[SentenceReading]) -> str:
    """Return the line of its own with which a passage begins; empty if it begins otherwise."""
    if not sentences:
        return ""
    end = sentences[0].end
    line_end = text.find("\n", end, end + 3)
    return text[sentences[0].start : end] if line_end >= 0 and is_own_line(text, line_end) else ""


def _repeated(text: str, sentences: Sequence[SentenceReading]) -> str:
    """Return the first sentence if it is but a name with which the second begins: "柳江。柳江的主要支流是寨蒿河。"."""
    if len(sentences) < 2:
        return ""
    name = text[sentences[0].start : sentences[0].end].strip(_MARKS + "。.")
    is_repeated = 2 <= len(name) <= _LONGEST_REPEATED and text.startswith(name, sentences[1].start)
    return clean_name(name) if is_repeated and name not in _HAN_NO_SUBJECTS and any(map(str.isalpha, name)) else ""


def _english_opening(sentence: str, *, opens_document: bool) -> Opening | None:
    plain = _BRACKETED.sub("", _BRACKETED.sub("", sentence))
    copula = _COPULA.search(plain)
    if not copula:
        return None
    is_definition = _DETERMINER.match(plain, copula.end()) is not None
    nouns = _predicate_nouns(plain[copula.end() : copula.end() + 120]) if is_definition else []
    kind = _kind(nouns)
    written = _ALSO.split(plain[: copula.start()], maxsplit=1)[0]
    is_work = is_definition and (kind == "content" or written.lstrip("*_ ")[:1] in _QUOTES)
    is_whole = len(written) == len(plain[: copula.start()])
    name = _subject(written, is_definition, is_work=is_work, is_whole=is_whole, may_be_term=opens_document)
    return Opening(name, kind, frozenset(nouns)) if name else None


def _subject(written: str, is_definition: bool, *, is_work: bool, is_whole: bool, may_be_term: bool) -> str:
    """Return the subject of a sentence if it is one name or term; a work may be named by any words."""
    stripped = written.strip(_MARKS)
    has_article = stripped.lower().startswith(("the ", "a ", "an "))
    name = clean_name(stripped[4:] if stripped[:4].lower() == "the " else stripped)
    words = name.split()
    if not words or len(name) > _LONGEST or len(words) > _MOST_WORDS or not any(map(str.isalpha, name)):
        return ""
    if all(word.lower().strip(_MARKS) in _NO_SUBJECTS for word in words):
        return name if is_work and name.lower() not in _PRONOUNS else ""
    capitals = [_TITLE_WORD.match(word) is not None for word in words]
    if all(is_capital or word.lower() in _SMALL for word, is_capital in zip(words, capitals, strict=True)):
        is_adverbial = words[0].lower() in _PREPOSITIONS and not (is_definition and is_whole and len(words) > 2)
        return name if capitals[0] and capitals[-1] and not is_adverbial and (len(words) > 1 or is_definition) else ""
    most = _MOST_TERM_WORDS + sum(capitals[1:])
    if not may_be_term or not is_definition or len(words) > most or (has_article and len(words) == 1):
        return ""
    return name if all(word.lower() not in _NO_SUBJECTS for word in words) else ""


def _predicate_nouns(predicate: str) -> list[str]:
    """Return the words of "a 1938 American western film directed by", the head noun last."""
    phrase = predicate.split(" ", 1)[1] if " " in predicate else ""
    if phrase.lower().startswith("of the "):
        phrase = phrase[7:]
    end = _DEFINED_BY.search(phrase)
    return [word for word in _WORD.findall(phrase[: end.start() if end else None]) if word.islower()]


def _kind(nouns: list[str] | tuple[()]) -> str:
    for noun in reversed(nouns[-2:]):
        if kind := next((kind for kind, words in _KINDS if noun in words), ""):
            return kind
        if noun.endswith(_PERSON_ENDINGS) and noun not in _NO_PERSONS:
            return "person"
    return "unknown"


def _chinese_opening(text: str, sentence: str, first: SentenceReading) -> Opening | None:
    match = _HAN_OPENER.match(sentence)
    if not match:
        return None
    name, start = match.group(1), first.start + match.start(1)
    end = start + len(name)
    parts = [*first.names, *first.phrases]
    is_noun = any(
        part.start == start and part.end == end and not getattr(part, "is_predicate", False) for part in parts
    )
    is_repeated = text[end : end + len(name) + 4].lstrip('。 \n》”"').startswith(name)
    is_marked = sentence[0] in '《“"' and match.start(1) == 1
    if name in _HAN_NO_SUBJECTS and not is_marked and not _HAN_MEANING.match(text, end):
        return None
    return Opening(name) if is_noun or is_repeated or is_marked else None
