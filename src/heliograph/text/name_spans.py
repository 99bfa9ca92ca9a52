"""Finds names in scripts with capitals: English above all, and any other by the same rule.

A sentence comes in; `NameSpan`s with a type go out. Each word is judged by itself and its neighbours; a capital that
only begins a sentence counts for nothing. Words that may be names grow into longer ones across particles, initials and
numbers; titles and roles are removed. German has a rule of its own, because it capitalises every noun. The type follows
from the words in and beside the name, the surest cue first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from heliograph.text.analysis import (
    HAN,
    INFINITIVES,
    NOUN_AFTER_ARTICLE,
    WORDS,
    function_words,
    grammar_words,
    languages_of,
    stop_words,
    word_list,
)
from heliograph.text.german import (
    KNOWN_NAMES,
    NO_GERMAN_WORDS,
    NOUN_ENDINGS,
    GermanWords,
    german_words,
    is_german_noun,
    is_known_name,
)
from heliograph.text.labels import INSIDE_SENTENCE, labels_of
from heliograph.text.patterns import late_pattern
from heliograph.text.sentences import OPENERS, NameSpan, is_own_line
from heliograph.text.tokens import is_usually_lower

# Words that tell a name from a common word, and one type of name from another: a few that decide many cases.

CALENDAR = word_list("calendar")
COMMON_WORDS = word_list("common_words")
DEMONYMS = word_list("demonyms")
FILE_SUFFIXES = word_list("file_suffixes")
INNER_PARTICLES = word_list("particles")
PLACES = word_list("places")
# These abbreviations mean a part of a document in any context: "Supplemental Fig".
_CUT_STRUCTURE_WORDS = frozenset({"eq", "eqs", "fig", "figs", "sect", "sects", "suppl"})
ROMAN_NUMERALS = frozenset({"ii", "iii", "iv", "vi", "vii", "viii", "ix", "xi", "xii", "xiii", "xiv", "xv", "xvi"})
SHOUTED_WORDS = word_list("shouted_words")
STRUCTURE_WORDS = word_list("structure_words")

GIVEN_NAMES = word_list("given_names")
CHINESE_FAMILY_NAMES = word_list("chinese_family_names")
KEPT_TITLES = word_list("titles_kept")
STRIPPED_TITLES = word_list("titles_stripped")
PERSON_VERBS = word_list("person_verbs")

ORGANIZATION_WORDS = word_list("organization_words")
LOCATION_WORDS = word_list("location_words")
EVENT_WORDS = word_list("event_words")
WORK_WORDS = word_list("work_words")
TECHNOLOGY_WORDS = word_list("technology_words")

JOINED_AFTER_POSSESSIVE = word_list("joined_after_possessive") | LOCATION_WORDS
# A name of several words continues across "of" when its last word so far is one of these.
OF_WORDS = ORGANIZATION_WORDS | LOCATION_WORDS | EVENT_WORDS | WORK_WORDS | COMMON_WORDS


# The type of a name, from words in and beside it, the surest cue first. A name without any cue is `unknown`, which
# never outvotes a type.

_BY_HEAD = (
    ("event", EVENT_WORDS),
    ("organization", ORGANIZATION_WORDS),
    ("location", LOCATION_WORDS),
    ("content", WORK_WORDS),
    ("artifact", TECHNOLOGY_WORDS),
)
_BY_NOUN_BEFORE = (
    ("content", WORK_WORDS),
    ("artifact", TECHNOLOGY_WORDS),
    (
        "organization",
        frozenset({"band", "company", "firm", "club", "label", "startup", "group", "party", "university"}),
    ),
    (
        "location",
        frozenset({"city", "town", "village", "river", "country", "region", "island", "province", "district"}),
    ),
    ("person", frozenset({"wife", "husband", "brother", "sister", "son", "daughter", "father", "mother", "friend"})),
)
_PLACE_BEFORE = late_pattern(
    r"(?:born|died|lived?s?|living|located|situated|based|raised|buried|settled|resid\w+|arrived) (?:in|at|near)$"
    r"|(?:moved|travell?ed|returned|emigrated|went|flew|sent) to$|(?:city|town|village|capital|mayor|island) of$|near$"
)
_PERSONS_TOO = frozenset(
    {"cape", "castle", "cave", "fields", "hall", "hill", "hills", "house", "lake", "lane", "park", "street"}
    | {"tower", "west", "woods", "north", "south", "east", "field", "forest", "temple", "square"}
)
# "Red Channel" and "Options Flags Field" are no places.
_UNSURE_PLACES = frozenset(
    {"area", "building", "channel", "drive", "field", "fields", "pass", "path", "plain", "port", "range", "state"}
    | {"station", "summit", "zone"}
)
_OF = frozenset({"of", "for", "des", "der", "von", "vom"})
_IN_NAMES = _OF | INNER_PARTICLES | frozenset({"and", "the", "on", "in", "at", "to", "del", "und", "et", "y", "e"})
# Without "von", which joins German nouns ("Satz von Werkzeugen") more often than names.
_NAME_PARTICLES = frozenset({"van", "bin", "ibn"})
_AFTER_PERSON = late_pattern(r"\W*(?:\((?:born|b\.|\d{4}\s?[-–])|,? who\b|(?:was|is) born\b)|, (?:Jr|Sr)\b|\s*\(?@")
_NO_SURNAMES = COMMON_WORDS | function_words()
_IN_PLACE = late_pattern(r"\b(?:in|near) $")
_WITHIN_PLACE = late_pattern(r", [A-Z][a-z]")
_NEXT_WORD = late_pattern(r"\s*(\w+)")
_INITIAL = late_pattern(r"\b[A-Z]\.")
_NO_PERSON_MARKS = frozenset(":“”„«»")
_APPENDICES = frozenset("abcdefgh")
_NUMBERED = late_pattern(r"[A-Z]\.| [IVX]+$")
# "Li Hua": the given name is also a frequent piece of other words.
_LONGEST_SYLLABLE = 4


def type_of_name(name: str, before: str, after: str, *, is_titled: bool = False, language: str = "en") -> str:
    """Return the type of a name.

    Args:
        name: The name, without titles.
        before: The text up to it, at least its last 40 characters.
        after: The text from its end on, at least 40 characters.
        is_titled: Whether a person's title such as "Dr." stood before it.
        language: The language of the text.
    """
    words = [word.strip(".,") or word for word in name.lower().split()]
    if not words:
        return "unknown"
    if is_titled:
        # "Premier League", "Manager DN" and "Ms. Marsh 144" are none.
        is_code = (name.isupper() and len(name) <= 3) or (after[1:2].isdigit() and not after[1:5].isdigit())
        return "unknown" if is_code or words[-1] in ORGANIZATION_WORDS else "person"
    if words[0] in KEPT_TITLES and len(words) > 1 and not all(map(is_usually_lower, words)):
        return _by_head(words, name.split()) or "person"
    if words[-1] in _PERSONS_TOO and _by_surroundings(before, after, len(words)) == "person":
        return "person"
    # Lower-case words that do not join names mean a heading: "Laufende Dienste auf Port 443".
    is_heading = any(word.islower() and word not in _IN_NAMES for word in name.split())
    by_words = "" if is_heading else _by_head(words, name.split())
    by_words = by_words or _place_or_person(words, name)
    if by_words == "person" and _IN_PLACE.search(before[-4:]) and _WITHIN_PLACE.match(after):
        # "in Lawrence, Kansas".
        return "location"
    if by_words == "person" and words[0] not in GIVEN_NAMES and _names_no_person(words, name, before, language):
        by_words = ""
    by_words = by_words or ("" if is_heading else _by_inner_word(words))
    if by_words or name.rstrip("s").isupper():
        return by_words or "unknown"
    kind = _by_surroundings(before, after, len(words))
    # "Contributors who", "Market Socialists who", "moved to Unstable".
    is_word = any(map(is_usually_lower, {words[-1], words[-1].removesuffix("s")}))
    is_common = kind in {"person", "location"} and (is_word or words[-1][0].isdigit())
    return kind if kind and not is_common else "unknown"


def _names_no_person(words: Sequence[str], name: str, before: str, language: str) -> bool:
    """Return whether what looks like a person is something else in this context.

    "Westers: H. A. Rey" has a label, "Website van Debian" is Dutch for a possessor, and in "B. Automating" at the start
    of a line the capital counts appendices.
    """
    opens_line = not any(map(str.isalnum, before.rpartition("\n")[2]))
    is_numbered = len(words) == 2 and words[0] in _APPENDICES and opens_line
    return is_numbered or not _NO_PERSON_MARKS.isdisjoint(name) or (language == "nl" and "van" in words)


def _by_head(words: Sequence[str], written: Sequence[str]) -> str:
    """Return the type that the head word gives: the last word, or the one before "of", German "des" and the like."""
    if len(words) < 2:
        return ""
    head = next((words[i - 1] for i, word in enumerate(words) if i and word in _OF), "")
    if not head:
        kept = [word for word in words if not word[0].isdigit() and word not in ROMAN_NUMERALS]
        head = kept[-1] if len(kept) > 1 else ""
    kind = next((kind for kind, heads in _BY_HEAD if head in heads), "")
    is_two = words[0] in GIVEN_NAMES and len(words) == 2
    if kind != "location":
        return "" if is_two and kind != "organization" else kind
    if words[-1] in ORGANIZATION_WORDS:
        return "organization"
    # "Grace Hall" and "Thomas G. Lane", but not "Christina County"; "Hall of Fame", "House of Representatives".
    is_other = is_two or head != words[-1] or (len(words) == 3 and len(words[1]) == 1)
    is_unsure = head in _UNSURE_PLACES or head.removesuffix("s") in _UNSURE_PLACES
    if is_other and head in _PERSONS_TOO:
        return ""
    # "Handler's State" and "OSPF Area": nothing but common words, acronyms and possessives.
    before = written[: words.index(head)] if is_unsure else ()
    is_none = is_unsure and all(is_usually_lower(word) or word.isupper() or _ends_possessive(word) for word in before)
    return "" if is_none else kind


def _by_inner_word(words: Sequence[str]) -> str:
    """Return the type that a word inside the name gives, as in "King's College London"."""
    if is_usually_lower(words[-1]):
        # "Colossal Cave Adventure", "Wall Street Dictionary".
        return ""
    inner = frozenset(words[1:-1]) - _UNSURE_PLACES
    return next((kind for kind, heads in _BY_HEAD[1:3] if not heads.isdisjoint(inner)), "")


def _place_or_person(words: Sequence[str], name: str) -> str:
    if is_place(" ".join(name.split())):
        return "location"
    if words[0] in DEMONYMS:
        return "concept" if len(words) == 1 else ""
    if len(words) > 4 or any(character.isdigit() for character in name):
        return ""
    written = name.split()
    is_given = words[0] in GIVEN_NAMES and written[0][1:].islower()
    # "Robin Database" is a thing, and "Debian Jr." a project.
    is_given = is_given and not (len(words) > 1 and words[-1] in TECHNOLOGY_WORDS)
    if (
        not name.isupper()
        and any(word[:2].isalpha() and word[:2].isupper() and len(word) > 1 for word in written[1:])
        and not _NUMBERED.search(name)
    ):
        # "Sun RPC" and "Mention MR", but not "John Paul II".
        return ""
    if is_given or (words[-1] in {"jr", "sr"} and len(words) > 2) or not _NAME_PARTICLES.isdisjoint(words[1:-1]):
        return "person"
    # "Long Shadow" and "L. Overrides" are built like names, but of common words.
    last = words[-1].rpartition("-")[2]
    is_common = (len(last) > _LONGEST_SYLLABLE and is_usually_lower(last)) or last in _NO_SURNAMES
    if is_common or last in PLACES or last in DEMONYMS or ("." in words[0] and words[0] in PLACES):
        return ""
    given = [word.replace("-", "") for word in words[1:]]
    is_chinese = (
        words[0] in CHINESE_FAMILY_NAMES and 1 <= len(given) <= 2 and all(map(_CHINESE_GIVEN_NAME.fullmatch, given))
    )
    # Not "Igalia S.L", nor a text that continues in another script after "C.".
    has_initial = len(words) > 1 and _INITIAL.search(name) and len(last) > 1 and "." not in last and last[0] < "\u0250"
    # "Appendix F. Foo" and "R. Package Foo" number and list things.
    is_listed = any(len(word) > _LONGEST_SYLLABLE and is_usually_lower(word) for word in words[:-1])
    return "person" if is_chinese or (has_initial and not is_listed) else ""


def is_place(name: str) -> bool:
    """Return whether a name is that of a well-known place."""
    return name.lower() in PLACES and (name.isupper() or name.lower() not in _PLACES_IN_CAPITALS)


def _by_surroundings(before: str, after: str, word_count: int) -> str:
    following = _NEXT_WORD.match(after)
    is_thing = before.rstrip().lower().endswith(" the")
    told = _AFTER_PERSON.match(after)
    is_person = (told and (word_count > 1 or told[0][-1] != "@")) or (following and following[1] in PERSON_VERBS)
    if word_count <= 4 and not is_thing and is_person:
        return "person"
    before = before[-40:].rstrip(" \"'“‘*_`").lower()
    if _PLACE_BEFORE.search(before):
        return "location"
    noun = before.rpartition(" ")[2]
    return next((kind for kind, nouns in _BY_NOUN_BEFORE if noun in nouns), "")


# Which words of a sentence may be part of a name: a capital at its start counts for nothing unless the texts
# (`CaseEvidence`) capitalise the word elsewhere, or it resembles no known common word.

_UNCASED = HAN + r"\u0e00-\u0eff\u3041-\u30ff\uac00-\ud7af"
_WORD = rf"[^\W_{_UNCASED}]"
_TOKEN = late_pattern(
    rf"[A-Z]{{1,5}}[/&][A-Z]{{1,5}}(?!\w)|_{{0,2}}{_WORD}(?:[^\W{_UNCASED}]|[-'’.+@](?={_WORD}))*(?:\+\+|#(?!\w))?"
    rf"|[{_UNCASED}]+|[^\w\s]"
)
_KEYS = late_pattern(r"[^\W\d_][a-zß-öø-ÿ]{1,5}\+\w")
_MIXED = late_pattern(r"(?=[^\s]*[A-Za-z])(?=[^\s]*\d)[\w.+-]+")
_ID_PART = late_pattern(r"\w*\d:[A-Z]+:\d\w*")
_PART_NUMBER = late_pattern(r"[A-Z]{1,2}\d{1,3}[a-z]?")
# Cell addresses of spreadsheets, as in formulas and ranges.
_CELL, _RANGE = late_pattern(r"(?<![\w.-])[A-Z]{1,2}\d{1,3}(?![\w-])"), late_pattern(r"[A-Z]\d+:[A-Z]+\d|=[A-Z]+[(\d]")
_QUANTITY = late_pattern(
    r"f\d{1,2}|[\d.]+[-\w]{0,3}|\d+x\d+|\d+-\w+|[a-z]+-\d+\w{0,2}|\d+(?:st|nd|rd|th)\b.*", re.IGNORECASE
)
# "E.g.", "I.e." and the German "Z.B.": capitalised as the start of a sentence.
_SMALL_ABBREVIATION = late_pattern(r"[A-ZÀ-Þ](?:\.[a-zß-öø-ÿ])+\.?")
_UNIT = late_pattern(r"[kMGTPmµn]?(?:i?B|bit|Hz|Wh?|V|Ah?|Pa)|[kMGTmµ]?dB[mA]?")
_CAMEL = late_pattern(r"[a-z][a-z0-9]*[A-Z]\w*|[A-Z][a-z]+(?:[A-Z][a-z0-9]+)+")
_AFTER_ENTRIES = frozenset(",;])")
_CODE_LITERALS = word_list("code_literals")
_INSTRUCTIONS = word_list("instructions")
_PERSONS = GIVEN_NAMES | CHINESE_FAMILY_NAMES
# One syllable of Chinese in Latin letters.
_ONSET = "(?:[bpmfdtnlgkhjqxrzcsyw]|[zcs]h)?"
_RIME = "(?:[iu]?a(?:i|o|ng?)?|[iuü]?e(?:i|ng?|r)?|i(?:ng?|u|ong)?|o(?:u|ng)?|u[ino]?|üe?)"
_SYLLABLE = _ONSET + _RIME
_CHINESE_GIVEN_NAME = late_pattern(rf"{_SYLLABLE}(?:'?{_SYLLABLE})?")
_CHINESE_SYLLABLE = late_pattern(_SYLLABLE)
_PLACE_AND_ORGANIZATION_WORDS = LOCATION_WORDS | ORGANIZATION_WORDS
_SURNAMES_TOO = frozenset({"down", "little", "long", "may", "will"})
_NEVER_BESIDE_NAMES = CALENDAR | stop_words("en")
_LONGEST_ACRONYM = 6
_SHOUTED_AT_LEAST = 4
# The tokenizer knows words of other languages less well: there, a capital that opens a sentence proves nothing.
_WELL_KNOWN = frozenset({"en", "de", "zh", "ja"})
_PLACES_IN_CAPITALS = frozenset({"eu", "uae", "uk", "us", "usa", "ussr"})
# German capitalises the polite "you" and "your" everywhere.
_GERMAN_POLITE = late_pattern(r"Sie|Ihnen|Ihr(?:e[nmrs]?)?")


@dataclass(frozen=True, slots=True)
class CaseEvidence:
    """How the words of a text are written where nothing forces a capital.

    Attributes:
        lower: Words seen in lower case.
        nouns: Those of them seen after an article or the like, as no name in code is: "the package", "each pattern".
        capitalised: Words seen with a capital after another word.
        function_words: Stop words of English and of the text's own language.
        language: The text's main language.
        others: Other languages in Latin letters of which the text has whole sentences, as half-translated manuals do.
        german: The evidence about capitalised German words, from the text or the whole document.
        labels: Capitalised words that the document also has without a capital: names of buttons and menus.
    """

    lower: frozenset[str]
    capitalised: frozenset[str]
    function_words: frozenset[str]
    language: str = "en"
    others: tuple[str, ...] = ()
    german: GermanWords = NO_GERMAN_WORDS
    nouns: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()

    @classmethod
    def of(cls, text: str, german: GermanWords | None = None, labels: frozenset[str] | None = None) -> CaseEvidence:
        """Gather the evidence of a text.

        Args:
            text: The text.
            german: For a part of a German document, the evidence of the whole document.
            labels: For a part of a document, the labels of the whole document.
        """
        lower = frozenset(word for word in set(WORDS.findall(text)) if word.islower())
        capitalised = frozenset(word for word in set(INSIDE_SENTENCE.findall(text)) if word[0].isupper())
        nouns = frozenset(NOUN_AFTER_ARTICLE.findall(text))
        language, *others = languages_of(text, lower, is_german=german is not None)
        labels = labels_of(text, language) if labels is None else labels
        labels = labels.union(_CELL.findall(text)) if _RANGE.search(text) else labels
        if german is None:
            german = german_words(text) if "de" in (language, *others) else NO_GERMAN_WORDS
        return cls(lower, capitalised, grammar_words(language), language, tuple(others), german, nouns, labels)

    def of_sentence(self, sentence: str) -> CaseEvidence:
        """Return the evidence for one sentence of the text, which may be in another of its languages.

        A line without function words may be in any of them; if German is among them, the line is read as German, where
        a capital alone proves nothing.
        """
        if not self.others:
            return self
        words = Counter(word for word in WORDS.findall(sentence) if word.islower())
        languages = (self.language, *self.others)
        counts = {language: sum(words[word] for word in words.keys() & stop_words(language)) for language in languages}
        best = max(languages, key=lambda language: counts[language])
        best = "de" if not counts[best] and "de" in languages else best
        return self if best == self.language else replace(self, language=best, function_words=grammar_words(best))


@dataclass(slots=True)
class NameToken:
    """A word or a mark; `is_name` means that a name may begin or continue with it."""

    text: str
    start: int
    end: int
    is_name: bool = False

    @property
    def lower(self) -> str:
        """The word in lower case."""
        return self.text.lower()


def name_tokens(text: str, start: int, end: int, evidence: CaseEvidence) -> list[NameToken]:
    """Return the words and marks of `text[start:end]`, which is one sentence, in order."""
    tokens = [NameToken(match.group(), match.start(), match.end()) for match in _TOKEN.finditer(text, start, end)]
    words = [token.text for token in tokens if len(token.text) > 1 and token.text.isalpha()]
    is_shouted = len(words) >= _SHOUTED_AT_LEAST and sum(word.isupper() for word in words) * 3 > 2 * len(words)
    for index, token in enumerate(tokens):
        token.is_name = _may_be_name(tokens, index, evidence) and not (is_shouted and token.text.isupper())
    return tokens


def is_identifier(word: str) -> bool:
    """Return whether a word is built like a name in code or a product: `ESP32-S3`, `mqtt_connect`, `iPhone`, `a.py`."""
    if len(word) < 2 or (word.isalpha() and word[1:].islower()) or _QUANTITY.fullmatch(word):
        return False
    if "_" in word.strip("_") or _CAMEL.fullmatch(word) or word.endswith(("++", "#")):
        return True
    if _MIXED.fullmatch(word):
        return True
    return "." in word and word.rpartition(".")[2].lower() in FILE_SUFFIXES


def _is_initial(tokens: list[NameToken], index: int) -> bool:
    """Return whether a capital here may only mark the start of a sentence, a list item, a quotation or a cell."""
    if index == 0:
        return True
    if tokens[index - 1].text in OPENERS:
        # "GNU/Linux" continues the name.
        return tokens[index - 1].text != "/" or index < 2 or not _is_tight(tokens, index - 2)
    return index == 2 and tokens[1].text in {".", ")"} and len(tokens[0].text) <= 2


def _may_be_name(tokens: list[NameToken], index: int, evidence: CaseEvidence) -> bool:
    word = tokens[index].text
    is_plain = word.islower() and word.isascii() and word.isalpha()
    if is_plain or not (word[0].isalpha() or word[0] == "_" or word[0].isdigit()):
        return False
    if ("." in word and _SMALL_ABBREVIATION.fullmatch(word)) or ("+" in word and _KEYS.match(word)):
        return False
    if is_identifier(word):
        return not (_is_numbered_part(tokens, index) or _is_unit(tokens, index))
    if not word[0].isupper() or _is_date_part(tokens, index) or _is_unit(tokens, index) or _is_part(tokens, index):
        return False
    if len(word) == 1:
        return _is_initial_letter(tokens, index)
    if word.isupper() and len(word) <= _LONGEST_ACRONYM:
        return word.lower() not in SHOUTED_WORDS and not _is_in_id(tokens, index)
    if evidence.language == "de" and _GERMAN_POLITE.fullmatch(word):
        return False
    # "Don't", and in French "C'est".
    elided, _, rest = word.lower().replace("’", "'").partition("'")
    if elided in evidence.function_words or (len(elided) == 1 and rest in evidence.function_words):
        return index > 0 and tokens[index - 1].is_name and word.lower() in _SURNAMES_TOO
    may_open = _is_initial(tokens, index) or _opens_entry(tokens, index)
    return not may_open or _is_name_at_start(tokens, index, evidence)


def _is_part(tokens: list[NameToken], index: int) -> bool:
    """Return whether this word and the number after it name a part of a document: "Section 1.2"."""
    following = tokens[index + 1].text if index + 1 < len(tokens) else ""
    return following[:1].isdigit() and tokens[index].lower in STRUCTURE_WORDS


def _is_numbered_part(tokens: list[NameToken], index: int) -> bool:
    """Return whether this is the number of a part of a document: "Table S1", "Fig. A2"."""
    before = tokens[index - 2 if index > 1 and _is_dot(tokens, index - 1) else index - 1].lower if index else ""
    return before in STRUCTURE_WORDS and _PART_NUMBER.fullmatch(tokens[index].text) is not None


def _is_unit(tokens: list[NameToken], index: int) -> bool:
    """Return whether this is the unit of the number before it: "82 kB", "2.4 GHz"."""
    word = tokens[index].text
    is_made_so = not word.isupper() and _UNIT.fullmatch(word) is not None
    return is_made_so and index > 0 and tokens[index - 1].text[-1].isdigit()


def _is_in_id(tokens: list[NameToken], index: int) -> bool:
    """Return whether this is part of an id, as in `1:CAS:528:DC`."""
    around = tokens[index - 2 : index + 3] if index > 1 else []
    joined = "".join(token.text for token in around)
    is_tight = len(around) == 5 and around[-1].end - around[0].start == len(joined)
    return is_tight and _ID_PART.fullmatch(joined) is not None


def _opens_entry(tokens: list[NameToken], index: int) -> bool:
    """Return whether a common word opens an entry of a list, as in "Access lists [Use], String expansions [Items]"."""
    if tokens[index - 1].text not in _AFTER_ENTRIES or index + 1 >= len(tokens):
        return False
    following = tokens[index + 1].text
    is_word = following.islower() and following not in stop_words("en") and following not in INNER_PARTICLES
    return is_word and is_usually_lower(tokens[index].text)


def _is_name_at_start(tokens: list[NameToken], index: int, evidence: CaseEvidence) -> bool:
    """Return whether a capitalised word at the start of a sentence is a name; the capital alone proves nothing."""
    word, lower = tokens[index].text, tokens[index].lower
    base = word.removesuffix("'s").removesuffix("’s")
    if lower in _INSTRUCTIONS:
        return False
    if lower in STRIPPED_TITLES or lower in KEPT_TITLES or is_place(base):
        return True
    if base.lower() in GIVEN_NAMES:
        # "Mark the text" against "Mark Shurtleff", "Mark said".
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        is_followed = following is not None and (following.text[0].isupper() or following.lower in PERSON_VERBS)
        return is_followed or not (lower in evidence.lower or lower in COMMON_WORDS or is_usually_lower(base))
    if _is_chinese_name(tokens, index):
        return True
    is_label = word in evidence.labels and base not in evidence.capitalised
    if is_label or (lower.endswith("ally") and is_usually_lower(base)):
        # "Finally Click", "Naciśnij Wspomaganie": an adverb or a verb begins no name.
        return False
    if lower in COMMON_WORDS or lower in STRUCTURE_WORDS:
        following = tokens[index + 1].text if index + 1 < len(tokens) else ""
        is_known = word in evidence.capitalised or following.lower() in COMMON_WORDS
        is_known = is_known or _is_title_case(tokens, index)
        goes_on = following.lower() not in evidence.function_words and following.lower() not in STRIPPED_TITLES
        return is_known and following[:1].isupper() and goes_on
    if lower in evidence.lower or is_usually_lower(base) or lower.endswith(("ly", "ing", "ed")):
        return base in evidence.capitalised or _is_title_case(tokens, index)
    if index + 1 < len(tokens) and _is_part(tokens, index + 1):
        return base in evidence.capitalised
    if evidence.language not in _WELL_KNOWN and base[1:].islower() and base not in evidence.capitalised:
        following = tokens[index + 1].text if index + 1 < len(tokens) else ""
        return following[:1].isupper() and following.lower() not in evidence.function_words
    return True


def _is_chinese_name(tokens: list[NameToken], index: int) -> bool:
    """Return whether this is a Chinese family name before a given name: "Li Wei"; not "Song List"."""
    lower = tokens[index].lower
    if index + 1 >= len(tokens) or lower not in CHINESE_FAMILY_NAMES or lower in COMMON_WORDS:
        return False
    given, following = tokens[index + 1].text, tokens[index + 1].lower
    if not given[0].isupper() or following in COMMON_WORDS:
        return False
    is_known = is_usually_lower(given)
    return (_CHINESE_SYLLABLE if is_known else _CHINESE_GIVEN_NAME).fullmatch(following) is not None


def _is_title_case(tokens: list[NameToken], index: int) -> bool:
    """Return whether the next word makes this one part of a name: "Human Flow", "Windy Hill"; not "Singer Adele"."""
    if index + 1 >= len(tokens) or tokens[index].end == tokens[index + 1].start:
        return False
    word = tokens[index + 1].text
    if tokens[index].lower in _INSTRUCTIONS or word.lower() in _CODE_LITERALS:
        # "Choose Insert", "Returns True", "Holding Shift".
        return False
    if not word[0].isupper() or not word.isalpha() or word.isupper() or len(word) < 3 or word.lower() in _PERSONS:
        return False
    return is_usually_lower(word) or word.lower() in _PLACE_AND_ORGANIZATION_WORDS


def _is_initial_letter(tokens: list[NameToken], index: int) -> bool:
    """Return whether a single capital is an initial as in "J. Smith", or a label as in "Plan B"."""
    if tokens[index].text in {"I", "A"}:
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        goes_on = following is not None and following.text.islower() and following.lower not in stop_words("en")
        if index > 0 and tokens[index - 1].is_name and not goes_on:
            return True
        return _is_dot(tokens, index + 1) and index + 2 < len(tokens) and tokens[index + 2].text[0].isupper()
    if index > 0 and index + 1 < len(tokens) and tokens[index + 1].text.istitle():
        # "at Y Combinator", but not "B" in "plan B".
        return True
    if (
        index > 1
        and _is_dot(tokens, index - 1)
        and len(tokens[index - 2].text) == 1
        and tokens[index - 2].text.islower()
    ):
        # "z. B. Konten": an abbreviation continues.
        return False
    return _is_dot(tokens, index + 1) or (index > 0 and tokens[index - 1].is_name)


def _is_dot(tokens: list[NameToken], index: int) -> bool:
    return index < len(tokens) and tokens[index].text == "."


def _is_date_part(tokens: list[NameToken], index: int) -> bool:
    """Return whether a month, day or season is part of a date, not a person or part of a longer name."""
    if tokens[index].lower not in CALENDAR:
        return False
    near = tokens[max(0, index - 1) : index] + tokens[index + 1 : index + 2]
    if any(token.text[0].isdigit() for token in near):
        return True
    return not any(token.text[0].isupper() and token.lower not in _NEVER_BESIDE_NAMES for token in near)


_ARTICLES_AFTER_NAMES = frozenset({"das", "dem", "den", "zu"})


def _german_end(tokens: list[NameToken], first: int, last: int, evidence: CaseEvidence) -> int:
    """Return the last token of a German name that may have grown too far, or `last`.

    The name ends before a noun with its article ("Debian das Programm"), and at a genitive, whose ending is cut off:
    "Martin Kraffts Buch".
    """
    is_person = tokens[first].lower in GIVEN_NAMES
    for index in range(first, last + 1):
        token = tokens[index]
        following = tokens[index + 1].text if index < last else ""
        if following in _ARTICLES_AFTER_NAMES and token.text[0].isupper() and not is_person:
            # "Debian zu Hause", but not "Prinz zu Wied".
            noun = tokens[index + 2].text if index + 1 < last else ""
            if not noun[:1].isupper() or is_german_noun(("in", noun), 1, 1, german=evidence.german):
                return index
        base = token.text.removesuffix("s")
        may_decline = (is_person and index > first) or base.lower() in KNOWN_NAMES
        if base == token.text or not may_decline or token.lower in KNOWN_NAMES or base.endswith("s"):
            continue
        # "Hans Jonas Weber" has its own s: a sure noun must follow, or the text must have the name without it
        # elsewhere.
        is_before_noun = following[:1].isupper() and (
            following in evidence.german.nouns or following.endswith(NOUN_ENDINGS)
        )
        if is_before_noun or (index == last and base in evidence.capitalised):
            tokens[index] = replace(token, text=base, end=token.end - 1)
            return index
    return last


# Words that may be names grow into longer ones ("University of Toronto", "J. K. Rowling", "TLS 1.3"); titles are
# removed, and the rest is judged once more: "Chapter 3", "July 2012" and "Prime Minister" are no names.

# "DD.MM.YY" and the German "TT.MM.JJJJ", but not "J.D.".
DATE_PATTERN = late_pattern(r"(?=.*([DMYTJ])\1)[DMYTJ]{1,4}(?:[./-][DMYTJ]{1,4})+")
_YEAR = late_pattern(r"1\d{3}|20\d{2}")
_SMALL_NUMBER = late_pattern(r"\d{1,3}(?:\.\d+)*|\d+(?:\.\d+)+")
_DOTTED = late_pattern(r"[^\W\d_](?:\.[^\W\d_])*")
_QUOTES = frozenset('"“”')
_ABBREVIATED = word_list("abbreviations_in_names")
_SUFFIXES = frozenset({"jr", "sr", "inc", "ltd", "llc", "corp", "co", "plc", "gmbh"})
_ROLE_WORDS = STRIPPED_TITLES | {"prime", "vice", "deputy", "general", "chief", "executive", "officer", "assistant"}
_BEFORE_GIVEN_NAME = (
    _ROLE_WORDS | DEMONYMS | {"copyright", "major", "brigadier", "captain", "admiral", "marshal", "private"}
)
_PEOPLES = PLACES | DEMONYMS
_JOINED_BY_AND = frozenset(
    {"department", "ministry", "institute", "office", "bureau", "committee", "faculty", "school"}
)
_BODIES = ORGANIZATION_WORDS | LOCATION_WORDS | EVENT_WORDS | {"expedition", "church", "act"}
_AGREEMENTS = frozenset({"convention", "treaty", "agreement", "protocol", "declaration", "accord", "pact", "summit"})
_BEFORE_ARTICLES = frozenset({"of", "for", "on", "de", "von", "van"})
_INNER_ARTICLES = frozenset({"the", "la", "las", "los", "der", "den"})
_ADDED = frozenset({"supplemental", "supplementary"})
_NEVER_ALONE = STRUCTURE_WORDS | ROMAN_NUMERALS | CALENDAR | function_words() | _ADDED
_DEGREES = frozenset({"ba", "bs", "bsc", "dphil", "edd", "llb", "llm", "ma", "mba", "md", "mphil", "ms", "msc", "phd"})
_ERAS_AND_DEGREES = CALENDAR | _DEGREES
_ACRONYMS = frozenset({"US", "IT", "WHO"})
_MONARCH_NUMBERS = ROMAN_NUMERALS | {"i", "v", "x"}
_ARROWS = frozenset("→➔➝⇒►▸▶")
_LIST_MARKS = frozenset("-*•·+")
_COLUMN_GAP = "   "
_MOST_WORDS = 8
_MOST_TOKENS = 24
_LONGEST_NAME = 100
_LONGEST_GIVEN_NAME = 8


def latin_names(text: str, start: int, end: int, evidence: CaseEvidence) -> list[NameSpan]:
    """Return the names in `text[start:end]`, which is one sentence, in order and without overlap."""
    tokens = name_tokens(text, start, end, evidence)
    names: list[NameSpan] = []
    index = 0
    while index < len(tokens):
        if not tokens[index].is_name:
            index += 1
            continue
        last = index
        while last - index < _MOST_TOKENS and (following := _next_part(tokens, index, last)) > last:
            gap, line_end, _ = text[tokens[last].end : tokens[following].start].partition("\n")
            if _COLUMN_GAP in gap or "\t" in gap:
                break
            if line_end and (
                is_own_line(text, tokens[last].end + len(gap))
                or [token.text for token in tokens[following + 1 : following + 2]] == [":"]
            ):
                break
            last = following
        is_german = evidence.language == "de"
        last = _german_end(tokens, index, last, evidence) if is_german else last
        is_noun = is_german and is_german_noun(
            [token.text for token in tokens], index, last, evidence.german, evidence.lower
        )
        if not (is_noun or _is_label(tokens, index, last, evidence)) and (
            name := _named(text, tokens, index, last, evidence)
        ):
            names.append(name)
        index = last + 1
    return names


def _is_label(tokens: list[NameToken], first: int, last: int, evidence: CaseEvidence) -> bool:
    """Return whether this is a key, a menu entry, or a line's label: "Ctrl + F", "Image → Mode", "Some Note: ..."."""
    before = tokens[first - 1].text if first else ""
    after = tokens[last + 1].text if last + 1 < len(tokens) else ""
    if last == first and len(tokens[first].text) > 1:
        is_sum = (before == "+" and first > 1) or (after == "+" and last + 2 < len(tokens))
        if is_sum and tokens[first].text.isalpha():
            return True
    words = tokens[first : last + 1]
    is_in_path = before in _ARROWS or after in _ARROWS or (before == ">" and first > 1) or after == ">"
    if is_in_path and evidence.language != "en":
        # In other languages, less is known about which words are common.
        return not any(is_known_name(word.text, evidence.german) for word in words)
    is_in_path = is_in_path or _is_step(tokens, first - 1) or _is_step(tokens, last + 1)
    opens_line = (not first or before in _LIST_MARKS) and after == ":"
    return (is_in_path or opens_line) and all(
        is_usually_lower(word.text) or word.lower in COMMON_WORDS or (is_in_path and word.lower in evidence.lower)
        for word in words
    )


def _is_step(tokens: list[NameToken], index: int) -> bool:
    """Return whether this is a dash between two menus: "Outils - Options"."""
    if not 0 < index < len(tokens) - 1 or tokens[index].text not in {"-", "–"}:
        return False
    before, after = tokens[index - 1], tokens[index + 1]
    is_spaced = before.end < tokens[index].start and tokens[index].end < after.start
    return is_spaced and after.text[0].isupper()


def _continues(tokens: list[NameToken], index: int) -> bool:
    return index < len(tokens) and tokens[index].is_name


def _next_part(tokens: list[NameToken], first: int, last: int) -> int:
    """Return the index of the name's next word, or `last` if the name ends here."""
    token, after = tokens[last], last + 1
    if "_" in token.text:
        # The next word is a statement about the name, as in a program's listing: "a_1.deb Created".
        return last
    if _ends_possessive(token.text):
        joins = _continues(tokens, after) and tokens[after].lower in JOINED_AFTER_POSSESSIVE
        return after if joins else last
    if _continues(tokens, after):
        return after
    if after >= len(tokens):
        return last
    across = _across_mark(tokens, first, last) or _across_particle(tokens, first, last)
    return across or _with_number(tokens, last) or last


def _across_mark(tokens: list[NameToken], first: int, last: int) -> int:
    """Return the index of the word after a mark that belongs to the name, or 0."""
    mark, word = tokens[last + 1].text, tokens[last].lower
    if not _continues(tokens, last + 2):
        return 0
    if mark in _QUOTES:
        # The name continues after a quoted nickname: Wilfried "Willi" Schneider.
        is_closed = last + 3 < len(tokens) and tokens[last + 3].text in _QUOTES
        return last + 4 if is_closed and _continues(tokens, last + 4) else 0
    belongs = (
        (mark == "&" and tokens[last + 2].lower not in GIVEN_NAMES)
        or (mark == "." and (word in _ABBREVIATED or _DOTTED.fullmatch(word) is not None))
        or (mark == "," and tokens[last + 2].lower in _SUFFIXES)
        # "Debian GNU/Linux", but not "KDE/GNOME".
        or (mark == "/" and last > first and tokens[last].text.isupper() and _is_tight(tokens, last))
    )
    return last + 2 if belongs else 0


def _is_tight(tokens: list[NameToken], index: int) -> bool:
    return tokens[index].end == tokens[index + 1].start and tokens[index + 1].end == tokens[index + 2].start


def _across_particle(tokens: list[NameToken], first: int, last: int) -> int:
    """Return the index of the word after a particle that belongs to the name, or 0."""
    particle = tokens[last + 1].text
    following = last + 2
    if particle in _BEFORE_ARTICLES and following < len(tokens):
        following += tokens[following].text in _INNER_ARTICLES
    if not _continues(tokens, following):
        return 0
    if particle in INNER_PARTICLES:
        return 0 if particle == "y" and _continues(tokens, following + 1) else following
    if is_identifier(tokens[last].text):
        return 0
    if particle == "and" and last == first and _is_one_body(tokens, first, following):
        return following
    return following if _joins(particle, [token.lower for token in tokens[first : last + 1]]) else 0


def _is_one_body(tokens: list[NameToken], first: int, second: int) -> bool:
    """Return whether "and" joins two words into one name: "the Lewis and Clark Expedition"."""
    if first == 0 or tokens[first - 1].lower != "the" or tokens[first].lower in _BODIES or tokens[first].text.isupper():
        return False
    last = second
    while _continues(tokens, last + 1) and last - second < _MOST_WORDS:
        last += 1
    return last > second and tokens[last].lower in _BODIES


def _joins(particle: str, words: list[str]) -> bool:
    """Return whether a name of these words continues across "of", "for", "on" or "and"."""
    if particle == "of":
        is_plain_word = len(words) == 1 and words[0] not in _PEOPLES and words[0] not in GIVEN_NAMES
        return is_plain_word or words[-1] in OF_WORDS or words[-1] in _MONARCH_NUMBERS
    if particle in {"for", "on"}:
        return words[-1] in ORGANIZATION_WORDS or words[-1] in _AGREEMENTS
    return particle == "and" and not _JOINED_BY_AND.isdisjoint(words) and ("of" in words or "for" in words)


def _with_number(tokens: list[NameToken], last: int) -> int:
    """Extend a name by a number, as in "TLS 1.3" or "Apollo 11", but not by a year or a count ("Paris 300 people")."""
    number = tokens[last + 1].text
    if not _SMALL_NUMBER.fullmatch(number) or tokens[last].lower in STRUCTURE_WORDS:
        return 0
    following = tokens[last + 2] if last + 2 < len(tokens) else None
    is_version = "." in number or tokens[last].text.isupper() or is_identifier(tokens[last].text)
    is_count = following is not None and (following.text in {"%", "-", "–", "/"} or following.text[0].isdigit())
    is_counted = following is not None and following.lower not in stop_words("en") and following.text[0].islower()
    return last + 1 if not is_count and (is_version or not is_counted) else 0


def _ends_possessive(word: str) -> bool:
    return word.endswith(("'s", "’s"))


def _named(text: str, tokens: list[NameToken], first: int, last: int, evidence: CaseEvidence) -> NameSpan | None:
    """Return the name made of tokens `first` to `last`, or None if it turns out to be none."""
    after_title = _after_titles(tokens, first, last)
    if after_title > last:
        return None
    is_titled = after_title > first
    first, word = after_title, tokens[last].text
    # The year before an event is part of its name: "2002 Winter Olympics".
    if first > 0 and word.lower() in EVENT_WORDS and _YEAR.fullmatch(tokens[first - 1].text):
        first -= 1
    start, end = tokens[first].start, tokens[last].end
    if _ends_possessive(word):
        end -= 2
    elif text[end : end + 1] == "." and (("." in word and _DOTTED.fullmatch(word)) or word.lower() in _SUFFIXES):
        # The dot is part of "U.S." and "Acme Inc.".
        end += 1
    name = text[start:end]
    if not _is_acceptable(name, evidence):
        return None
    before, after = text[max(0, start - 40) : start], text[end : end + 40]
    is_product = not is_titled and is_identifier(name.split()[0])
    kind = "artifact"
    if not is_product:
        kind = type_of_name(name, before, after, is_titled=is_titled, language=evidence.language)
    return NameSpan(name, start, end, kind)


def _after_titles(tokens: list[NameToken], first: int, last: int) -> int:
    """Return where the name begins after titles such as "Vice President"; past `last` when it is only a role."""
    named = tokens[first + (tokens[first].lower in _PEOPLES) : last + 1]
    if named and all(token.lower in _ROLE_WORDS or token.text == "." for token in named):
        return last + 1
    start, are_roles = first, True
    for index in range(first, last):
        word, following = tokens[index].lower, tokens[index + 1]
        are_roles = are_roles and (
            word in _BEFORE_GIVEN_NAME or (index in {0, first} and _is_profession(word, opens=not index))
        )
        if are_roles and following.lower in GIVEN_NAMES:
            return index + 1
        rest = tokens[index + 1 : last + 1]
        # "Window Manager XFCE" is no person.
        is_thing = (len(rest) > 1 or tokens[index].text.isupper() or index > first) and all(
            token.text.isupper() or is_usually_lower(token.text.partition("'")[0]) for token in rest
        )
        # "MX Linux" and "MS Access" are no "Mx" and "Ms".
        is_thing = is_thing or (tokens[index].text.isupper() and word in {"ms", "mx"})
        # "Author Abstract Year Fulltext" are names of fields; not "Dr. Li Wei", though both words may be common ones.
        common = sum(is_usually_lower(token.text) for token in rest)
        is_thing = is_thing or (following.text != "." and 2 * common > max(len(rest), 2))
        if word in STRIPPED_TITLES and not is_thing and (following.is_name or following.text == "."):
            start = min(index + (1 if following.is_name else 2), last)
    return start


def _is_profession(word: str, *, opens: bool) -> bool:
    """Return whether a word is formed like a profession ("Keyboardist", "Drummers"); "Theodor" in a sentence is not."""
    is_made_so = word.removesuffix("s").endswith(("ist", "ician", "er", "or"))
    return is_made_so and (opens or len(word) > _LONGEST_GIVEN_NAME) and word not in GIVEN_NAMES


def is_era_or_degree(word: str) -> bool:
    """Return whether a word with full stops is part of a date or follows a person's name: "B.C.", "p.m.", "Ph.D."."""
    return "." in word and word.replace(".", "").lower() in _ERAS_AND_DEGREES


def _is_acceptable(name: str, evidence: CaseEvidence) -> bool:
    words = name.lower().split()
    if len(words) > _MOST_WORDS or not 2 <= len(name) <= _LONGEST_NAME:
        return False
    if (words[0] in STRUCTURE_WORDS and words[-1][0].isdigit()) or DATE_PATTERN.fullmatch(name):
        return False
    if words[-1] in _CUT_STRUCTURE_WORDS or (words[0] in _ADDED and words[-1] in STRUCTURE_WORDS):
        return False
    # "BACK TO BASICS" and "KOD ZAKOŃCZENIA" are lines in capitals.
    shouted = {*words, *name.split()} if len(words) > 1 and name.isupper() else set[str]()
    if shouted & (evidence.function_words | evidence.labels):
        return False
    if len(words) > 1 and all(len(word.strip(".")) == 1 for word in words):
        return False  # Initials of a name that the text has elsewhere: "K. M".
    if all(word in CALENDAR or word[0].isdigit() for word in words):
        return False
    if len(words) > 1:
        return True
    if is_era_or_degree(name) or name in evidence.labels:
        return False
    if words[0] in _NEVER_ALONE or words[0] in evidence.function_words:
        return name in _ACRONYMS
    if name.isupper() or is_identifier(name):
        return True
    if words[0] in COMMON_WORDS:
        return False
    # "Haga clic en Guardar": a button.
    verb = INFINITIVES.get(evidence.language)
    is_known = words[0] in evidence.lower or (is_usually_lower(name) and not name.endswith("er"))
    return not (verb and is_known and verb.fullmatch(words[0]))
