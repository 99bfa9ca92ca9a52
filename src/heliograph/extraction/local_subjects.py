"""Finds the subjects of documents, sections, paragraphs and chunks, and the text in them that is read for names.

A title or heading is a name when it is short and says what, not how. Without one, the opening sentence decides: "King
of the Sierras is a 1938 film ...". A chunk is about what its title or nearest heading names and what its paragraphs
open with. A title that is only a file name is no subject.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import PurePath

from heliograph.documents.markdown import name_title
from heliograph.ids import clean_name, entity_key
from heliograph.models import Chunk, Document
from heliograph.text.analysis import HAN, INFINITIVES, function_words, stop_words, word_list
from heliograph.text.german import NO_GERMAN_WORDS, is_known_name
from heliograph.text.name_spans import (
    CALENDAR,
    COMMON_WORDS,
    GIVEN_NAMES,
    LOCATION_WORDS,
    ORGANIZATION_WORDS,
    SHOUTED_WORDS,
    STRUCTURE_WORDS,
    TECHNOLOGY_WORDS,
    WORK_WORDS,
    is_identifier,
    type_of_name,
)
from heliograph.text.patterns import compiled
from heliograph.text.phrases import SentenceReading, find_names, read_texts
from heliograph.text.sentences import NameSpan, is_own_line, paragraph_starts
from heliograph.text.tokens import encode, is_usually_lower

_SPACE = re.compile(r"\s+")
# Markdown markup: code, which is kept as written, links, pictures and emphasis. Only pairs of marks at the edges of
# words are markup; `*args`, `2*3*4`, `snake_case` and names such as `__init__` are text.
_MARKUP = re.compile(
    r"(?<!`)(?P<ticks>`+)(?!`)(?P<code>.{1,500}?)(?<!`)(?P=ticks)(?!`)"
    r"|(?<![A-Za-z\d_)\]])!?\[(?P<link>[^\]]{0,200})\]\([^()]{0,500}\)"
    r"|(?<![A-Za-z\d_*)\]\\])(?P<stars>\*{2,3})(?![\s*])(?P<strong>.{1,500}?)(?<![\s*])(?P=stars)(?![A-Za-z\d_*(])"
    r"|(?<![A-Za-z\d_*)\]\\])\*(?![\s*])(?P<slanted>[^*]{1,500})(?<!\s)\*(?![A-Za-z\d_*(])"
    # Marks whose counterpart is in another sentence.
    r"|^\s*\*{2,3}(?=[^\sa-z*])|(?<=[^\s*])\*{2,3}$"
    r"|(?<!\w)__(?![\s_]|[a-z\d_]{1,80}__(?!\w))(?P<bold>.{1,500}?)(?<![\s_])__(?!\w)"
    r"|`"
)
# The target of a link that was cut, or whose label is nested in another.
_TARGET_LEFT = re.compile(r"\]\((?:https?:|mailto:|[/#])[^\s)]*\)?")
_PLURAL = re.compile(r"[a-z]{2,}(?:ches|shes|xes|sses|zes|ies|[^suiy]s|ys)", re.IGNORECASE)
_NO_PLURALS = frozenset({"series", "species", "news", "means", "always", "lens"})


def plain(text: str) -> str:
    """Return a text on one line, without Markdown marks and link targets; keeps code and mere look-alikes."""
    said = _without_marks(_SPACE.sub(" ", text)).strip()
    return _TARGET_LEFT.sub("]", said) if "](" in said else said


def _without_marks(text: str) -> str:
    # Most sentences have no mark, and searching for pairs of marks takes a tenth of an extraction.
    return _MARKUP.sub(_inside, text) if any(mark in text for mark in "`*[") or "__" in text else text


def _inside(match: re.Match[str]) -> str:
    if (code := match["code"]) is not None:
        # Blanks beside a tick that is part of the code.
        return code.strip(" ")
    # Marks may be nested.
    return _without_marks(
        next((match[part] for part in ("link", "strong", "slanted", "bold") if match[part] is not None), "")
    )


def singular(phrase: str) -> str:
    """Return an English phrase with its last word in the singular, judged by its ending; other words stay."""
    head, space, last = phrase.rpartition(" ")
    if not last.isascii() or not _PLURAL.fullmatch(last) or last.lower() in _NO_PLURALS:
        return phrase
    if last.lower().endswith("ies"):
        return f"{head}{space}{last[:-3]}y"
    cut = 2 if last.lower().endswith(("ches", "shes", "xes", "sses", "zes")) else 1
    return f"{head}{space}{last[:-cut]}"


# What a title or heading names: the names that a section is about.
#
# A title or heading is a name when it is short and says what, not how: "MQTT over TLS" and "Willi Schneider (skeleton
# racer)" are names; "How to install", "Overview", "notes/index.md" and "2024-05-01" are not. A heading that is no name
# gives the names inside it, if any.

_HASHES = re.compile(r"^\s*#+\s*")
_PART_NUMBER = r"(?:\d{1,3}(?:\.\d{1,3})*|[IVXLC]{1,6}|[A-Z])"
_NUMBERING = compiled(
    rf"^\s*(?:(?:chapter|part|section|appendix|kapitel|teil|abschnitt|anhang|chapitre|partie|annexe|cap[íi]tulo|secci[óo]n|parte"
    rf"|ap[ée]ndice|глава|часть)\s+{_PART_NUMBER}\s+|(?:{'|'.join(sorted(STRUCTURE_WORDS))})\s+{_PART_NUMBER}(?:\s*[:.–-](?:\s+|$)|$)"
    r"|\d{1,3}(?:\.\d{1,3})*[.)、]?\s+|\d{1,3}(?:\.\d{1,3})+:\s+|[IVX]{1,5}\.\s+"
    r"|[A-Z](?:\.\d{1,3})+\.?\s+|第\s?[一二三四五六七八九十百\d]{1,4}\s?[章节部篇回讲]\s*[:：、]?\s*|[（(]?[一二三四五六七八九十]{1,3}[)）、]\s*)",
    re.IGNORECASE,
)
# A heading with a work's title and a part number is about the text after the number, if there is any: "The Bell,
# Chapter 2: The Flood", "望江钟 第二章：大水".
_HAN_PART = r"[\s·，、：:]\s?第\s?[一二三四五六七八九十百\d]{1,4}\s?[章节部篇回讲]"
_PART = rf"[,:;–—-]\s+(?:{'|'.join(sorted(STRUCTURE_WORDS))})\s+{_PART_NUMBER}"
_PART_OF_WORK = compiled(
    rf"^\S.{{0,59}}?(?:{_PART}\s*[:.–—-]\s+|{_HAN_PART}\s*[:：、]?\s*)(?=\S)|(?:{_PART}|{_HAN_PART})\s*$", re.IGNORECASE
)
# "A. Appendix", but not "T. S. Eliot".
_APPENDIX = re.compile(r"[A-H]\. ([^\W\d_]{2,})")
_ARTICLES = word_list("articles")
# In other languages these are prepositions and the like: "Acceso a Internet".
_OWN_ARTICLES = {"en": {"a", "an"}, "it": {"i"}, "nl": {"de"}, "pt": {"a", "as", "o", "os"}}
# An article, alone or joined with a preposition, that is no pronoun before a verb ("pour la modifier").
_BEFORE_NOUN = (
    r"(?<!pour )(?<!de )(?<!à )(?<!peut )(?<!vez )"
    rf"(?:{'|'.join(sorted(_ARTICLES))}|a|an|any|each|every|this|that|de[il]|del[al]|delle|degli|dell|da[sl]?|des|dos?|du|nella?)"
)
# Words beside a finite verb: "La pantalla se bloquea".
_FINITE = {
    "es": frozenset({"cómo", "cuándo", "está", "están", "no", "por_qué", "qué", "se", "son"}),
    "fr": frozenset({"comment", "est", "ne", "pas", "pourquoi", "quand", "que", "se", "sont"}),
    "it": frozenset({"che", "come", "non", "perché", "quando", "si", "sono", "è"}),
    "pt": frozenset({"como", "está", "estão", "não", "que", "quando", "se", "são", "é"}),
}
_VERBS_TOO = frozenset({"get", "make", "use"})
_BEFORE_VERB = "to|can|could|may|might|must|should|will|would|you|not|or|and|then|please"
_GERMAN_ARTICLE = re.compile(r"^(?:Der|Die|Das) (?=[A-ZÄÖÜ])")
_BRACKETED_END = re.compile(r"\s*[(（][^()（）]{1,60}[)）]\s*$")
_FILE_NAME = re.compile(r"[\w.-]*[/\\][^ ]*|[^ ]*\.[A-Za-z]\w{0,4}")
_LONG_NUMBER = compiled(r"\d{5,}|\d{1,4}[-/.年]\d{1,2}[-/.月]\d{1,4}")
_SENTENCE_MARK = re.compile(r"[。！？?!;；|=…]| > |\.\.\.|: |：")
_CAPITAL = r"(?:[A-Z\d][^\s:]*|a|an|and|at|by|for|from|in|of|on|the|to|with)"
_OPENS_PART = re.compile(r"(?:^|[:?!–—])\s*(?:[\d.]+\s+)?$")
_TITLE_CASE = re.compile(rf"{_CAPITAL}(?: {_CAPITAL})*")
# A title with its subtitle, such as: Joust 2, Survival of the Fittest (with a colon between them).
_TITLE_WITH_SUBTITLE = re.compile(rf"[A-Z\d]\S*(?<!:)(?: {_CAPITAL}){{0,4}}: {_CAPITAL}(?: {_CAPITAL}){{1,5}}")
_HAN = re.compile(rf"[{HAN}]")
_LONGEST_HEADING = 300
# "git-push(1) Manual Page" is about git-push.
_MANUAL_PAGE = re.compile(r"(?P<name>[A-Za-z][\w.+-]*) ?\(\d[a-zA-Z]{0,2}\)(?: (?:Manual|Man) [Pp]age)?$")
# "Apache Module mod_md" and "Source code for django.urls.resolvers" are about their last word.
_ABOUT_CODE = re.compile(
    r"(?:\S+ ){0,3}(?:[Cc]lass|[Cc]ommand|[Ff]unction|[Mm]ethod|[Mm]odule|[Oo]ption|[Pp]ackage|[Cc]ode for|[Ll]ibrary) "
    r"(?P<name>[A-Za-z_][\w-]*[._][\w.-]+)(?:\(\))?$"
)
_THINGS_IN_ING = frozenset({"during", "king", "spring", "string", "thing", "wing", "ring", "building", "evening"})
_SHORTEST_VERB = 4
_MOST_TITLE_WORDS = 6
_MOST_WORDS_IN_TITLE_CASE = 10
_MOST_LETTERS = 60
_MOST_HAN = 24
_MOST_INNER_NAMES = 2
_SAYING_HOW = word_list("headings_saying_how")


def _small(text: str) -> str:
    """Return a text in lower case, with Turkish capitals mapped like the others: "İLGİLİ", "KULLANIM"."""
    return text.casefold().replace("\u0307", "").replace("ı", "i")


# Headings that many documents share.
_GENERIC = frozenset(map(_small, word_list("generic_headings")))


def subjects_of(heading: str, *, language: str = "en", below: str = "") -> tuple[tuple[str, str], ...]:
    """Return the `(name, type)`s that a title or heading names, the main one first; often one, maybe none.

    Args:
        heading: The title or heading, or a line above a paragraph.
        language: The language of the text below. In a German document a capital proves nothing.
        below: The text below, which shows whether the first word is a verb.
    """
    text = _heading_text(heading[:_LONGEST_HEADING])
    return _read_heading(text, language, _begins_with_verb(text, language, below)) if text else ()


@lru_cache(maxsize=4096)
def _heading_text(heading: str) -> str:
    """Return a heading without marks and numbering; empty if it is the first line of a table without marks."""
    if "   " in heading.strip():
        return ""
    said = _PART_OF_WORK.sub("", plain(_HASHES.sub("", heading)))
    text = clean_name(_GERMAN_ARTICLE.sub("", _NUMBERING.sub("", said))).rstrip(" .…")
    label = _APPENDIX.match(text)
    return text if label is None or label[1].lower() in GIVEN_NAMES else text[3:]


@lru_cache(maxsize=4096)
def _read_heading(text: str, language: str, begins_with_verb: bool) -> tuple[tuple[str, str], ...]:
    if page := _MANUAL_PAGE.match(text) or _ABOUT_CODE.match(text):
        text = page["name"]
    name = clean_name(_BRACKETED_END.sub("", text)) or text
    is_generic = _small(name) in _GENERIC or _GENERIC.issuperset(_small(name).split())
    if not name or is_generic or _FILE_NAME.fullmatch(name):
        return ()
    is_german = language == "de"
    # A verb, even with a capital, is not part of the names after it: "Installare Apache".
    verb = name.partition(" ")[0] if begins_with_verb else ""
    found = find_names(" " * len(verb) + name[len(verb) :], is_german=is_german)
    # A German heading with a verb, participle or adjective describes an action: "Bild mit Rahmen geöffnet".
    says_what_to_do = (
        begins_with_verb
        or _says_what_to_do(name)
        or (is_german and any(word.islower() and word not in stop_words("de") for word in _WORD.findall(name)))
    )
    if _is_name(name) and not says_what_to_do:
        kinds = {clean_name(span.text): span.type for span in found}
        has_capitals = not _HAN.search(name) and any(word[0].isupper() for word in name.split()[1:])
        by_name = type_of_name(name, "", "", language=language) if has_capitals else "concept"
        is_told = kinds.get(name, "person") != "person" or (name in kinds and _HAN.search(name))
        return ((name, kinds[name] if is_told else by_name),)
    sure = [
        span for span in found if " " in span.text or span.type != "unknown" or _proves_itself(name, span, language)
    ]
    if is_german:
        # Every noun has a capital: "Dateien und Ordner löschen".
        sure = [span for span in sure if any(is_known_name(word, NO_GERMAN_WORDS) for word in span.text.split())]
    if says_what_to_do and name.partition(" ")[0].endswith("ing"):
        # The capital does not make "Assigning Footprints" a name.
        sure = [span for span in sure if span.start]
    inner = {clean_name(span.text): span.type for span in sure if not _FILE_NAME.fullmatch(span.text)}
    return tuple((name, kind) for name, kind in inner.items() if name)[:_MOST_INNER_NAMES]


def _proves_itself(heading: str, word: NameSpan, language: str) -> bool:
    """Return whether the capital of a single word in a heading marks it as a name.

    The first word always has one, as does a common word after a colon or among other capitalised common words. In other
    languages, less is known about which words are common: in "Manuel : Gravure du rythme" any may be.
    """
    goes_on = heading[word.end : word.end + 2].strip()[:1].islower()
    if language != "en" and goes_on and _OPENS_PART.search(heading[: word.start]):
        return False
    if word.start == 0 or not is_usually_lower(word.text):
        return word.start > 0
    inside = [match for match in _WORD.finditer(heading) if not _OPENS_PART.search(heading[: match.start()])]
    others = (match.group() for match in inside if match.start() != word.start)
    is_in_title_case = any(other[0].isupper() and is_usually_lower(other) for other in others)
    return not is_in_title_case and any(match.start() == word.start for match in inside)


def _says_what_to_do(name: str) -> bool:
    """Return whether a heading describes an action: "Installing Packages", "安装软件包", "Pakete installieren"."""
    if _HAN.search(name):
        return any(phrase.is_predicate for sentence in read_texts([name])[0] for phrase in sentence.phrases)
    first, _, rest = name.partition(" ")
    last = rest.rpartition(" ")[2]
    # A German infinitive at the end; a single token is a word of English as well ("Access token").
    if last.islower() and last.endswith("en") and len(encode(f" {last}")) > 1:
        return True
    if not rest or not first.endswith("ing") or first.lower() in _THINGS_IN_ING:
        return False
    # "Assigning" is too rare to decide, but "assign" is not.
    base = first.removesuffix("ing")
    return is_usually_lower(first) or (len(base) > _SHORTEST_VERB and is_usually_lower(base))


def _begins_with_verb(heading: str, language: str, below: str) -> bool:
    """Return whether a heading begins with an instruction: "Installare Apache", "Set the clock", "Ändern der Uhr".

    Its first word stands before an article, or is formed like an infinitive and is nowhere below used as a noun or
    name. In English the text below must use it as a verb.
    """
    first, _, rest = heading.partition(" ")
    lower = first.lower()
    if not _FINITE.get(language, frozenset()).isdisjoint(heading.lower().split()):
        return True
    if not first[1:].islower() or lower in GIVEN_NAMES or lower in function_words() - _VERBS_TOO:
        return False
    second = re.split("[ '’]", rest, maxsplit=1)[0]
    # In English the title of a work may continue with an article and capitals: "Winnie the Pooh".
    is_sentence = language != "en" or any(word.islower() and word not in function_words() for word in rest.split())
    if is_sentence and (second in _ARTICLES or second in _OWN_ARTICLES.get(language, ())):
        return True
    word = re.escape(lower)
    if language == "de":
        is_verb = lower.endswith("n") and (is_usually_lower(first) or re.search(rf"(?<!\w){word}(?!\w)", below))
        return bool(rest and is_verb)
    if language == "en":
        if not rest or not re.search(rf"\b(?:{_BEFORE_VERB}) {word} |\b(?i:{word}) (?:a|an|the|your) ", below):
            return False
    elif language not in INFINITIVES or not INFINITIVES[language].fullmatch(lower):
        return False
    # A menu may be called "Editar", so a capital matters only for unknown words.
    is_known = language != "en" and is_usually_lower(first)
    as_name = "" if is_known else rf"|[\w,] {re.escape(first)}(?!\w)"
    return not re.search(rf"(?i:(?<!\w){_BEFORE_NOUN}[ '’]{word}(?!\w)){as_name}", below)


def _is_name(name: str) -> bool:
    if _LONG_NUMBER.search(name) or "@" in name or not any(letter.isalpha() for letter in name):
        return False
    if _SENTENCE_MARK.search(name) and not _TITLE_WITH_SUBTITLE.fullmatch(name):
        return False
    if _HAN.search(name):
        return 2 <= len(name) <= _MOST_HAN
    words = name.casefold().split()
    if all(word in CALENDAR or word[0].isdigit() for word in words):
        return False
    most = _MOST_WORDS_IN_TITLE_CASE if _TITLE_CASE.fullmatch(name) else _MOST_TITLE_WORDS
    return 1 < len(name) <= _MOST_LETTERS and len(words) <= most and _SAYING_HOW.isdisjoint(words)


# The subject of a passage without title or heading, from its opening: "King of the Sierras is a 1938 film ...".
#
# The name that the sentence defines is returned. In English the subject stands before "is a" and the like: a phrase in
# title case, a quoted title, or, at the start of a document, a common term ("Canon law is the body of ..."). In Chinese
# it stands before "是", a comma or a bracket, and is one name or noun, or is repeated by the next sentence.

_COPULA = re.compile(r"\s(?:is|are|was|were)\s+(?:(?:also|originally|usually|typically)\s+)?")
_DETERMINER = re.compile(r"(?:an?|the|one of|any|any of)\s", re.IGNORECASE)
_BRACKETED = re.compile(r"\s*[(（\[][^()（）\[\]]{0,300}[)）\]]")
_TITLE_WORD = re.compile(r"[\"'“‘(]?(?:[A-Z\d]|[^\W\d_a-zß-ÿ])|[^\x00-\x7f]")
_SMALL = word_list("small_words")
# A clause that opens a sentence: "After Rome fell", "If Exim is built with it".
_CLAUSE_OPENERS = word_list("prepositions") | word_list("conjunctions")
_NO_SUBJECTS = stop_words("en") | CALENDAR
_PRONOUNS = word_list("pronouns")
# "Ann, who is a singer" defines Ann.
_NO_DEFINED = _PRONOUNS - {"who", "which"}
_QUOTES = ('"', "“")
_LONGEST_REPEATED = 60
_MARKS = " \t*_\"'“”‘’`,;:"
_ALSO = re.compile(r",|;| – | — | or (?=[A-Z\"“])| also | commonly | formerly | officially | better known ")
_DEFINED_BY = re.compile(
    r"\b(?:of|by|in|on|at|for|from|to|that|which|where|who|whose|with|and|or|as|than|if|when|released|written|directed)\b"
    r"|known (?:as|by|for)\b|[.,;(]"
)
_LETTERS = re.compile(r"[^\W\d_]{3,}")
_MOST_SUBJECT_WORDS = 9
_MOST_TERM_WORDS = 3
_LONGEST = 90
_LOOK_AHEAD = 400
_HAN_OPENER = compiled(
    r"[《“\"]?([^，。；：！？\s（()）、《》“”\"]{2,20}?)[》”\"]?(?=[（(，。]|是|为|又称|位于|[。]?$)"
)
_HAN_NO_SUBJECTS = word_list("zh_no_subjects") | _GENERIC
_HAN_MEANING = compiled(r"(?:[（(][^（）()]{0,100}[）)])?是(?:一[种门类项]|指)")
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
    """The opening of a passage.

    Attributes:
        name: Its subject.
        kind: The subject's type, `unknown` if the sentence does not reveal it.
        nouns: Common nouns, in lower case, that the sentence calls it: "the film" then means it.
    """

    name: str
    kind: str = "unknown"
    nouns: frozenset[str] = frozenset()


def read_opening(text: str, sentences: list[SentenceReading], *, opens_document: bool) -> Opening | None:
    """Return the opening of a passage, or None when its first sentence defines nothing.

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
    """Return the line of its own at the start of a passage; empty if there is none."""
    if not sentences:
        return ""
    end = sentences[0].end
    line_end = text.find("\n", end, end + 3)
    return text[sentences[0].start : end] if line_end >= 0 and is_own_line(text, line_end) else ""


def _repeated(text: str, sentences: Sequence[SentenceReading]) -> str:
    """Return the first sentence if it is only a name with which the second begins: "柳江。柳江的主要支流是寨蒿河。"."""
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
    if plain[: copula.start()].rpartition(" ")[2].lower() in _NO_DEFINED:
        # "Fortunately, there is a better way."
        return None
    is_definition = _DETERMINER.match(plain, copula.end()) is not None
    nouns: list[str] = []
    if is_definition:
        # The words of "a 1938 American western film directed by", the head noun last.
        phrase = plain[copula.end() : copula.end() + 120].partition(" ")[2]
        phrase = phrase[7:] if phrase.lower().startswith("of the ") else phrase
        end = _DEFINED_BY.search(phrase)
        nouns = [word for word in _LETTERS.findall(phrase[: end.start() if end else None]) if word.islower()]
    kind = _kind(nouns)
    written = _ALSO.split(plain[: copula.start()], maxsplit=1)[0]
    is_work = is_definition and (kind == "content" or written.lstrip("*_ ")[:1] in _QUOTES)
    is_whole = len(written) == len(plain[: copula.start()])
    name = _subject(written, is_definition, is_work=is_work, is_whole=is_whole, may_be_term=opens_document)
    return Opening(name, kind, frozenset(nouns)) if name else None


def _subject(written: str, is_definition: bool, *, is_work: bool, is_whole: bool, may_be_term: bool) -> str:
    """Return the subject of a sentence if it is one name or term; for a work, any words may be the name."""
    stripped = written.strip(_MARKS)
    has_article = stripped.lower().startswith(("the ", "a ", "an "))
    name = clean_name(stripped[4:] if stripped[:4].lower() == "the " else stripped)
    words = name.split()
    if not words or len(name) > _LONGEST or len(words) > _MOST_SUBJECT_WORDS or not any(map(str.isalpha, name)):
        return ""
    if all(word.lower().strip(_MARKS) in _NO_SUBJECTS for word in words):
        return name if is_work and name.lower() not in _PRONOUNS else ""
    capitals = [_TITLE_WORD.match(word) is not None for word in words]
    if all(is_capital or word.lower() in _SMALL for word, is_capital in zip(words, capitals, strict=True)):
        is_adverbial = words[0].lower() in _CLAUSE_OPENERS and not (is_definition and is_whole and len(words) > 2)
        return name if capitals[0] and capitals[-1] and not is_adverbial and (len(words) > 1 or is_definition) else ""
    most = _MOST_TERM_WORDS + sum(capitals[1:])
    if not may_be_term or not is_definition or len(words) > most or (has_article and len(words) == 1):
        return ""
    return name if all(word.lower() not in _NO_SUBJECTS for word in words) else ""


def _kind(nouns: Sequence[str]) -> str:
    for place, noun in enumerate(reversed(nouns[-2:])):
        kind = next((kind for kind, words in _KINDS if noun in words), "")
        # A "building block" is no building.
        if kind and (kind != "location" or not place):
            return kind
        if not place and len(noun) > 3 and noun.endswith(_PERSON_ENDINGS) and noun not in _NO_PERSONS:
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


# The parts of a chunk, and the opening of each: packing puts paragraphs side by side that need not share a topic.
#
# A part is a paragraph (`heliograph.text.sentences`). It gives the names in its title line or heading, and the
# definition in its first sentence. `local_reading` decides which of them it is about.


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a chunk.

    Attributes:
        first: Index of its first sentence.
        last: One past the index of its last.
        titles: Names and types in its title line, else in its nearest heading.
        opening: What its first sentence defines, if anything.
    """

    first: int
    last: int
    titles: tuple[tuple[str, str], ...]
    opening: Opening | None


def read_parts(
    text: str,
    sentences: Sequence[SentenceReading],
    read_heading: Callable[[str], tuple[tuple[str, str], ...]],
    *,
    may_define_term: bool,
) -> list[Part]:
    """Return the parts in order; every sentence is in one.

    Args:
        text: The chunk's text.
        sentences: Its sentences.
        read_heading: Returns names and types in a heading or title line.
        may_define_term: Whether the first part may define a common term.
    """
    starts = paragraph_starts(text)
    parts: list[Part] = []
    for _, group in groupby(sentences, lambda sentence: bisect_right(starts, sentence.start)):
        inside, first = list(group), parts[-1].last if parts else 0
        headings = [text[item.start : item.end] for item in inside if text[item.start] == "#"]
        lines = (title_line(text, inside[len(headings) :]), *reversed(headings))
        titles = next((names for line in lines if (names := read_heading(line))), ())
        opening = read_opening(text, inside, opens_document=may_define_term and not parts)
        parts.append(Part(first, first + len(inside), titles, opening))
    return parts


# The subjects of a chunk, given the names that an extractor found in it.
#
# They are what the document's title or the nearest heading names, with or without the text in brackets there, and what
# its paragraphs open with.

# List marks, emphasis, quotes and numbering that may stand before a text's first word.
_LEADING_MARKS = re.compile(r"(?:[\s#>*\-_`\"'“”‘’«»「」《》(]|\d{1,3}[.)、])*")
_HEADING = re.compile(r"(?:[ \t]*(?:#{1,6}[^\n]*)?\n)+")
_OPENING_LENGTH = 400


def subject_keys(title: str, chunk: Chunk, names: Iterable[str]) -> set[str]:
    """Return the keys of a chunk's subjects.

    Args:
        title: Title of its document; may be empty.
        chunk: The chunk.
        names: Names that were found in it; one that a paragraph opens with is a subject.
    """
    given = (title, *chunk.headings[-1:])
    titles = {entity_key(text) for text in given}
    titles |= {entity_key(name) for text in given for name, _ in subjects_of(text)}
    starts: set[str] = set()
    for start in paragraph_starts(chunk.text):
        heading = _HEADING.match(chunk.text, start)
        for place in (start, heading.end()) if heading else (start,):
            marks = _LEADING_MARKS.match(chunk.text, place)
            first = marks.end() if marks else place
            starts.add(chunk.text[first : first + _OPENING_LENGTH].casefold())
    opening: set[str] = set()
    for name in names:
        folded = name.casefold()
        is_word = folded[-1:].isascii() and folded[-1:].isalnum()
        # Not if a longer word merely has the same beginning.
        behind = [text[len(folded) : len(folded) + 1] for text in starts if text.startswith(folded)]
        if not all(is_word and character.isascii() and character.isalnum() for character in behind):
            opening.add(entity_key(name))
    return (titles | opening) - {""}


# Whether a document's title is a real title or only the name of its file.
#
# A document without a heading or a stated title takes the end of its source as title. "Apollo 11.txt" is a real title
# all the same; "scan_0001.pdf", "report-final-v2.docx" and "3f2a9c8d.txt" are file names, which no question asks about.
#
# Where a title came from is unknown: one that equals the file's name counts as a file name, even if a person set it. So
# "1984" is none for "1984.txt", nor is "The Book" for "The Book.txt".

_FILE_TITLE_WORD = re.compile(rf"[{HAN}]+|[^\W\d_{HAN}]+")
# Digests, ids, and numbers that cameras and programs assign.
_HASH = re.compile(r"(?=\D*\d)[0-9A-Fa-f]{8,}(?:-[0-9A-Fa-f]{4,})*")
_MIXED = re.compile(r"(?:[A-Za-z]+\d+){3,}[A-Za-z]*|(?:\d+[A-Za-z]+){3,}\d*")
_SHORTEST_MIXED = 8
# A document named by a URL keeps its ending in the title.
_ENDING = re.compile(r"\.[a-z]\w{1,4}$")
_FILE_WORDS = word_list("file_name_words")


def spoken_title(document: Document) -> str:
    """Return the title of a document as people would say it: empty if it is only a file name."""
    title, source = document.title, document.source
    if title not in (PurePath(source).stem, source.rpartition("/")[2], name_title(source)):
        return title
    name = _ENDING.sub("", title)
    if _HASH.fullmatch(name) or (len(name) >= _SHORTEST_MIXED and _MIXED.fullmatch(name)):
        return ""
    words = _FILE_TITLE_WORD.findall(name)
    if all((len(word) == 1 and word.islower()) or word.casefold() in _FILE_WORDS for word in words):
        return ""
    # One word in lower case, with or without joints, is a typical file name, not a title; not all scripts have case.
    is_title = " " in name or name != name.lower() or any(c.isalpha() and c.lower() == c.upper() for c in name)
    return title if is_title else ""


# The parts of a chunk that are read for names, and its sentences that state something.
#
# The text is returned with blanks in place of program text, bibliographic references, lines of links and the labels of
# tables; positions stay the same. There are names in these, too, but a page's listing, bibliography and navigation say
# nothing about them that a question asks for, and such names soon become the best connected ones. Names that program
# text defines are kept.

_FENCED = re.compile(
    r"^[ \t>]{0,12}(?P<fence>```+|~~~+)[^\n]*\n(?P<inside>.*?)(?:^[ \t>]{0,12}(?P=fence)[`~]*[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_LONG_IN_HAN, _LEAST_WORDS, _LEAST_LOWER = 16, 4, 2
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
# Preformatted prose (a letter, an RFC) is no program text.
_PROSE_WORDS, _PROSE_SHARE, _PROSE_HAN_SHARE = 20, 0.25, 0.5

# Listings lose their fences where a long one is split into chunks, and plain text never had any.
_CODE_LINE = re.compile(
    r"\s*(?:(?:async def|class|const|def|fn|func|function|import|let|package|static|struct|using|var) [\w(]"
    r"|\([\w.-]+ [(\"].*|return\b|from [\w.]+ import\b"
    r"|(?:if|for|while|elif|with|except|else|try|switch)\b.*[:{]\s*$"
    r"|@\w+[\w.(]*|#include|#define|[\w.\[\]'\"*]+ ?(?:[-+*/|&]?=|:=) ?\S|.*[;{}]\s*$|[$>%] ?\w|[)}\]]+[,;]?\s*$"
    r"|[\w.]+\(.*(?:[),:\[{(]|\),)\s*$"
    r"|['\"][^'\"]*['\"]: ?\S.*,?$|(?://|--|/\*|\*/|\* ) ?\S|</?\w+[^>]*>)"
)
_BLOCK = re.compile(r"[^\n]+(?:\n[ \t]*[^\s][^\n]*)*")
_LEAST_CODE_LINES, _CODE_SHARE = 3, 0.6

_DEFINED = re.compile(
    r"^[ \t>]*(?:(?:export|public|private|protected|static|final|abstract|async|pub|default)[ \t]+){0,3}"
    r"(?:def|class|function|func|fn|struct|interface|trait|enum|module|package|namespace"
    r"|create[ \t]+(?:or[ \t]+replace[ \t]+)?(?:table|view|function|index|type))[ \t]+(?P<name>[A-Za-z_][\w.]{2,60})",
    re.MULTILINE | re.IGNORECASE,
)

_CITATION_MARK = re.compile(
    r"\b(?:doi|DOI|et al|ISSN|ISBN)\b|\bEds?\."
    r"|\[(?:Google Scholar|PubMed|Cross ?Ref|Medline|PMC[^\]]*|Web of Science)"
    r"|[(\s](?:1[5-9]|20)\d\d[a-z]?\)?[.,;:]|\((?:1[5-9]|20)\d\d[a-z]?\)"
    r"|\b\d{1,4} ?(?:\(\d[\d–/-]*\))? ?(?:[:,]|\*\*) ?(?:pp?\. ?)?[eS]?\d{1,5} ?[–-] ?\d{1,5}|\b10\.\d{4,9}/"
    # A bold volume number before pages counts as two marks.
    r"|\*\*(?=\d{1,4}\*\* ?[eS]?\d{1,5} ?[–-] ?\d)"
    r"|\bpp?\. ?\d|\b[Vv]ol\. ?\d|\b(?:Retrieved|Accessed|Archived) (?:on |from |\d)"
    r"|\bUniversity Press\b|\bJournal of\b"
    r"|[^\W\d_]{2,},? (?:[A-Z]\.? ?-?){1,3}(?=[,;&.]| and\b)|……|\[[JMDCN](?:/OL)?\]"
)
_LEAST_MARKS, _LETTERS_PER_MARK = 3, 80
_LINKS_ALONE = re.compile(r"[\s*+•|>·,;/#\d.-]*(?:!?\[[^\]\n]*\](?:\([^)\n]*\)|\[[^\]\n]*\])?[\s*+•|>·,;/-]*)+")
# "The Wayback Machine - https://..." names a link's target or its host.
_NAMED_ADDRESS = re.compile(r"(?:[^\n|]{0,60}?(?:[:：]|\s[–-])\s*)?<?https?://\S+\s*")
_LINK = re.compile(
    r"\[(?P<label>[^\[\]\n]{1,60})\]\((?P<target>[^()\s]{1,500}(?:\([^()\s]{0,200}\)[^()\s]{0,200}){0,4})\)"
)
_BEFORE_BUTTONS = frozenset(".,;:)]0123456789")
_LEAST_BUTTONS = 3
# Such links in a page saved as text: "pp. 211-221.Google Scholar", "Boston [Google Scholar]".
_BUTTON_AT_END = re.compile(
    r"(?<=[\w)\]]\.)[A-Z][a-z]+(?: [A-Z][a-z]+){1,2}[ \t]*$|\[[A-Z][\w ]{1,40}\][ \t]*$", re.MULTILINE
)
# Parts of a reference that are no text: link targets and ids.
_TARGET = re.compile(r"\]\([^)\n]*\)|https?://\S+|(?<!\S)(?=\S*\d)(?=\S*[./:%])\S{12,}")
_LINE = re.compile(r"[^\n]+")

_TABLE_RULE = re.compile(r"\s*\|?[ \t:|-]*-{3,}[ \t:|-]*")
_CELL = re.compile(r"[^|]+")


def prose_of(text: str) -> str:
    """Return a chunk's text with blanks for program text, references, links that are only buttons, and table labels."""
    blanks = list(_blank_spans(text))
    if not blanks:
        return text
    parts: list[str] = []
    place = 0
    for start, end in sorted(blanks):
        if end > place:
            parts.append(text[place : max(start, place)])
            # Line ends stay, because they separate paragraphs.
            parts.append("".join("\n" if c == "\n" else " " for c in text[max(start, place) : end]))
            place = end
    return "".join(parts) + text[place:]


def says_something(sentence: str) -> bool:
    """Return whether a sentence states something, and is no heading, label, caption or cell."""
    if sentence[:1] in "#|":
        return False
    if len(_HAN.findall(sentence)) > len(sentence) // 4:
        return sentence[-1] in "。！？；：，.!?;:" or len(sentence) > _LONG_IN_HAN
    words = _WORD.findall(sentence)
    # "It speaks MQTT." is a sentence, "Common Log Format" none.
    is_closed = sentence.rstrip("\"'”’»)*_`")[-1:] in {".", "!", "?"}
    return len(words) + is_closed >= _LEAST_WORDS and sum(word.islower() for word in words) + is_closed >= _LEAST_LOWER


def _blank_spans(text: str) -> Iterator[tuple[int, int]]:
    if "```" in text or "~~~" in text:
        for block in _FENCED.finditer(text):
            if not _is_prose(block["inside"]):
                yield from _around_definitions(text, *block.span())
    for block in _BLOCK.finditer(text):
        inside = block.group().splitlines()
        if len(inside) >= _LEAST_CODE_LINES and not inside[0].lstrip().startswith(("|", "- ", "* ", "#", ">")):
            code = sum(_CODE_LINE.match(line) is not None for line in inside)
            if code >= _CODE_SHARE * len(inside):
                yield from _around_definitions(text, *block.span())
    yield from _button_labels(text)
    lines = [match.span() for match in _LINE.finditer(text)]
    for number, (start, end) in enumerate(lines):
        line = text[start:end]
        is_link = "](" in line and _LINKS_ALONE.fullmatch(line)
        if is_link or ("://" in line and _NAMED_ADDRESS.fullmatch(line)):
            yield start, end
        elif line.lstrip().startswith("|"):
            following = text[slice(*lines[number + 1])] if number + 1 < len(lines) else ""
            # Cells that only label others: those that end in a colon, and header cells.
            is_header = _TABLE_RULE.fullmatch(following) is not None
            cells = [(cell.span(), cell.group().strip()) for cell in _CELL.finditer(line)]
            has_colon = any(written.endswith((":", "：")) for _, written in cells)
            for (first, last), written in cells:
                is_label = written.endswith((":", "：")) or (written.startswith("[") and written.endswith("]"))
                if is_label or (is_header and not has_colon and not is_identifier(written.strip("`"))):
                    yield start + first, start + last
        elif any(map(str.isdigit, line)):
            marks = sum(1 for _ in _CITATION_MARK.finditer(line))
            if marks >= _LEAST_MARKS and marks * _LETTERS_PER_MARK >= len(_TARGET.sub("", line)):
                yield start, end


def _button_labels(text: str) -> Iterator[tuple[int, int]]:
    """Yield the labels of links that only say where they lead, as "Google Scholar" does after every reference.

    Such links touch one another or the mark before, or recur with different targets.
    """
    links = list(_LINK.finditer(text)) if "](" in text else []
    targets: dict[str, set[str]] = {}
    for link in links:
        targets.setdefault(link["label"], set()).add(link["target"])
    for link in links:
        before, behind = text[link.start() - 1 : link.start()], text[link.end() : link.end() + 1]
        touches = before in _BEFORE_BUTTONS or behind == "["
        if touches or len(targets[link["label"]]) >= _LEAST_BUTTONS:
            yield link.span("label")
    at_end = list(_BUTTON_AT_END.finditer(text))
    written = Counter(button.group().strip() for button in at_end)
    yield from (button.span() for button in at_end if written[button.group().strip()] > 1)


def _around_definitions(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for match in _DEFINED.finditer(text, start, end):
        if is_identifier(match["name"]):
            yield start, match.start("name")
            start = match.end("name")
    yield start, end


def _is_prose(inside: str) -> bool:
    words = _WORD.findall(inside)
    han = len(_HAN.findall(inside))
    if han * 2 > len(words) and han >= _PROSE_WORDS:
        return han >= _PROSE_HAN_SHARE * len("".join(inside.split()))
    said = sum(word.lower() in function_words() for word in words)
    return len(words) >= _PROSE_WORDS and said >= _PROSE_SHARE * len(words)


# The speakers in a chat log or interview: lines such as "AdamSmith: Hi!" whose label recurs.
#
# The result is spans of the speakers' names. A label written as one word stands for the name in it ("AdamSmith" is Adam
# Smith), because questions ask about persons, not accounts.

_LABEL = re.compile(
    r"^[ \t>*_-]{0,8}([^\W\d_][\w'’.-]{1,30}(?: [^\W\d_][\w'’.-]{0,20}){0,2})\**(?::\**[ \t]+|：)(?P<said>[^\n]*)",
    re.MULTILINE,
)
_CAMEL = re.compile(r"(?<=[a-zß-öø-ÿ])(?=[A-Z])")
_TWO_NAMES = re.compile(r"[^\W\d_a-z][a-zß-öø-ÿ]+-?[^\W\d_a-z][a-zß-öø-ÿ-]+")
# Speech ends like a sentence, or with a picture or smiley; the value of a field does not.
_IS_SAID = re.compile(r"[.!?…。！？~\"”’]\s*$|[:;][ -]?[()D]\s*$|[^\w\s\x00-\u2fff\u3001-\uffef]\s*$")
_LEAST_TURNS = 2
_NO_SPEAKERS = COMMON_WORDS | STRUCTURE_WORDS | SHOUTED_WORDS
_LEAST_LINES, _TALK_SHARE = 4, 0.75


def speakers(text: str, *, is_english: bool = True) -> dict[str, str]:
    """Return the labels of the speakers in a text, with their names; none if the text is no conversation.

    A label is a speaker's if it recurs or is made of two names ("AdamSmith").

    Args:
        text: The text.
        is_english: Whether the text is English; in other languages it is unknown which words are names.
    """
    if ":" not in text and "：" not in text:
        return {}
    found = list(_LABEL.finditer(text))
    turns = Counter(match[1] for match in found)
    lines = sum(1 for line in text.splitlines() if line.strip())
    is_all_talk = len(found) >= _LEAST_LINES and len(found) >= _TALK_SHARE * lines
    said = sum(_IS_SAID.search(match["said"]) is not None for match in found)
    if not found or said * 2 < len(found):
        return {}
    words = [word for label in turns for word in _CAMEL.sub(" ", label).split() if not _HAN.search(word)]
    has_name = not GIVEN_NAMES.isdisjoint(word.lower() for word in words)
    if words and not has_name and (not is_english or all(map(is_usually_lower, words))):
        # Fields of a listing, such as "Saved" and "See also"; at least one speaker would have a given name.
        return {}
    is_talk = len(turns) >= _LEAST_TURNS and max(turns.values()) >= _LEAST_TURNS
    if not is_talk:
        # Terms of a glossary are list items, are sorted, or are repeated at once.
        labels = [match[1].casefold() for match in found]
        is_listed = 2 * sum(match[0].lstrip()[0] in "-*" for match in found) >= len(found)
        is_sorted = len(labels) >= _LEAST_LINES and labels == sorted(labels)
        if is_listed or is_sorted or any(match["said"].casefold().startswith(match[1].casefold()) for match in found):
            return {}
    return {
        label: _CAMEL.sub(" ", label)
        for label, count in turns.items()
        if (label[0].isupper() or not label[0].isascii())
        and not _NO_SPEAKERS.issuperset(label.lower().split())
        and not any(word.islower() for word in label.split()[1:])
        and not label[-1].isdigit()
        and (has_name or not all(map(is_usually_lower, label.split())))
        and (
            # Chinese names have no capitals, and settings are explained in lines of this form, too.
            (is_all_talk and not _HAN.search(label))
            or (is_talk and count >= _LEAST_TURNS)
            or (has_name and _TWO_NAMES.fullmatch(label))
        )
    }


def speaker_spans(text: str, *, is_english: bool) -> Iterator[NameSpan]:
    """Yield every place where a label names a speaker, before a speech and within it."""
    labels = speakers(text, is_english=is_english)
    if labels:
        wanted = "|".join(re.escape(label) for label in sorted(labels, key=len, reverse=True))
        for match in re.finditer(rf"(?<!\w)(?:{wanted})(?!\w)", text):
            if "A" <= text[match.start()] <= "Z" or text[match.end() : match.end() + 1] in {":", "：", "*"}:
                yield NameSpan(labels[match.group()], match.start(), match.end(), "person")
