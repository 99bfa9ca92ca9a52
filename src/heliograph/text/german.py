"""Tells nouns from names in German, which capitalises both.

A single word is taken for a name when it is a known name, when it is built like an acronym or identifier, after "Herr"
and the like, or after a preposition without an article ("in Mölln", "von Zorblatt") unless it has a noun's ending or
the text uses it as a noun. Several capitalised words in a row are a name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import NamedTuple

from heliograph.text.analysis import word_list
from heliograph.text.patterns import late_pattern
from heliograph.text.sentences import OPENERS
from heliograph.text.tokens import encode, is_usually_lower

_PREPOSITIONS = word_list("de_prepositions")
NOUN_ENDINGS = tuple(sorted(word_list("de_noun_endings")))
_GIVEN_NAMES = word_list("given_names")
KNOWN_NAMES = word_list("places") | _GIVEN_NAMES | word_list("demonyms")
_TITLES = word_list("titles_stripped")
_KEPT_TITLES = word_list("titles_kept")
# Longer words are compounds, so they are nouns.
_LONGEST_SIMPLE_WORD = 12
_ADJECTIVE_ENDINGS = ("e", "en", "er", "es", "em")
# The longest acronym, in letters; longer words in capitals are headings.
_LONGEST_ACRONYM = 6
_PAIR = late_pattern(r"(?<![^\W\d_])([^\W\d_]+|,) ([A-ZÄÖÜ][^\W\d_]+)(?![\w-])")
_DETERMINER = late_pattern(
    r"d(?:er|ie|as|en|em|es)|k?ein(?:e[nmrs]?)?|(?:dies|jed|jen|welch|manch|solch)e[nmrs]?|alle[nmrs]?|viele[rn]?|mehrere[rn]?"
    r"|(?:ihr|sein|mein|unser)(?:e[nmrs]?)?|zu[mr]|ans|ins|[ai]m|beim|vom|fürs"
)
_CAPITAL = late_pattern(r"(?<![\w-])[A-ZÄÖÜ][a-zäöüß]+(?![\w-])")
# "Debian-Paket", "Linux-basiert".
_JOINED = late_pattern(r"(?<![\w-])([A-ZÄÖÜ][a-zäöüß]+)-(?=[^\W\d_])")
_CASES = ("e", "en", "n")
_SHORTEST_NOUN = 5
# The shortest second part of a compound that counts: "Dateisystem", but not "Perlen".
_SHORTEST_PART = 4
# Longer words are not searched for compounds, because all their endings would be stored.
_LONGEST_COMPOUND = 60


class GermanWords(NamedTuple):
    """Which capitalised words of a German text are names, and which are nouns.

    Attributes:
        names: Words that are names in any position: those in `bare` as a rule, and the first part of hyphenated words,
            which is how German joins a name to a noun ("Debian-Paket", but "Dateisystem").
        bare: Words that follow a preposition directly ("in Debian") at least twice, and an article never.
        nouns: Words with articles ("den Paketen"), with case or number endings ("Paket", "Pakete"; not the genitive -s,
            which names have as well), or that begin or end compounds ("Metapakete").
    """

    names: frozenset[str] = frozenset()
    bare: frozenset[str] = frozenset()
    nouns: frozenset[str] = frozenset()

    def among(self, words: Collection[str]) -> GermanWords:
        """Return the evidence for some words only, without what the form of a word alone shows."""
        doubtful = frozenset(word for word in self.nouns.intersection(words) if not _is_made_as_noun(word))
        return GermanWords(self.names.intersection(words), self.bare.intersection(words), doubtful)


NO_GERMAN_WORDS = GermanWords()
_BEHIND_CODE = frozenset("`)]")


@lru_cache(maxsize=8)
def german_words(text: str) -> GermanWords:
    """Return the evidence about the words of a German document or question; cached, because callers repeat it."""
    determined, after_prepositions, bare = Counter[str](), Counter[str](), Counter[str]()
    for before, word in _PAIR.findall(text):
        lower = before.lower()
        if _DETERMINER.fullmatch(lower):
            determined[word] += 1
        else:
            after_prepositions[word] += lower in _PREPOSITIONS
            bare[word] += before.islower() or before == ","
    written = frozenset(_CAPITAL.findall(text))
    short = [word.lower() for word in written if len(word) <= _LONGEST_COMPOUND]
    ends = {word[start:] for word in short for start in range(1, len(word) - _SHORTEST_NOUN + 2)}
    begins = {word[:end] for word in short for end in range(3, len(word) - _SHORTEST_PART + 1)}
    nouns = {
        word for word in written if word.lower() in begins or determined[word] or _is_declined(word, written, ends)
    }
    joined = set(_JOINED.findall(text))
    names = {
        word
        for word in joined
        if bare[word] >= max(2, 3 * determined[word])
        and not (word.lower() in begins or _is_declined(word, written, ends))
        and not (_is_made_as_noun(word) or is_usually_lower(word))
    }
    twice = {word for word, count in after_prepositions.items() if count > 1 and not determined[word]}
    return GermanWords(frozenset(names), frozenset(twice), frozenset(nouns - names))


def _is_declined(word: str, written: Collection[str], ends: Collection[str]) -> bool:
    """Return whether another capitalised word is a form of this noun or ends in it."""
    if len(word) < _SHORTEST_NOUN:
        return False
    stems = {stem for ending in ("", *_CASES) if len(stem := word.removesuffix(ending)) >= _SHORTEST_NOUN - 1}
    forms = {f"{stem}{ending}" for stem in stems for ending in ("", *_CASES)}
    return any((form != word and form in written) or form.lower() in ends for form in forms)


def _is_made_as_noun(word: str) -> bool:
    return word.endswith(NOUN_ENDINGS) or len(word) > _LONGEST_SIMPLE_WORD


def is_known_name(word: str, german: GermanWords) -> bool:
    """Return whether a word of a German text is a name in any position, or is built as no noun is."""
    return word in german.names or word.lower() in KNOWN_NAMES or not word[1:].islower()


def is_german_noun(
    words: Sequence[str],
    first: int,
    last: int,
    german: GermanWords = NO_GERMAN_WORDS,
    lower_words: frozenset[str] = frozenset(),
) -> bool:
    """Return whether the word or words from `first` to `last` are common nouns.

    Args:
        words: Words and marks of a German sentence.
        first: Index of the first capitalised word.
        last: Index of the last one.
        german: The evidence of the text.
        lower_words: Words that the text has in lower case: with "klicken", "durch Klicken" has no name.
    """
    word = words[first]
    lower = word.lower().removesuffix("s") if word.lower() not in KNOWN_NAMES else word.lower()
    if lower in KNOWN_NAMES or not word[1:].islower():
        # "SICHERHEIT" is a heading in capitals.
        return word.isupper() and word.isalpha() and len(word) > _LONGEST_ACRONYM
    if first > 1 and words[first - 1] == "-" and words[first - 2] in _BEHIND_CODE:
        # The end of a compound noun: "`QUOTA`-Variablen der Datei".
        return True
    if last > first:
        # "Liste von Optionen" against "Otto von Bismarck"; "Verarbeitung der Daten" against "Deutsche Bahn".
        inner = {inner.lower() for inner in words[first:last]}
        if "von" in inner:
            return _GIVEN_NAMES.isdisjoint(inner) and _TITLES.isdisjoint(inner) and _KEPT_TITLES.isdisjoint(inner)
        if any(inner.islower() for inner in words[first:last]):
            # The genitive of a noun: "Aufruf des Befehls".
            nouns = (one for one in words[first : last + 1] if not one.islower())
            are_nouns = all(is_german_noun(("in", one), 1, 1, german, lower_words) for one in nouns)
            return are_nouns or word.endswith(NOUN_ENDINGS) or ("des" in inner and words[last].endswith("s"))
        # "Verwandte Themen": the adjective is capitalised because it opens the sentence, and the second word is a noun.
        opens = first == 0 or words[first - 1] in OPENERS
        if word.endswith(_ADJECTIVE_ENDINGS):
            return opens and last == first + 1 and is_german_noun(("in", words[last]), 1, 1, german, lower_words)
        # "zum Beispiel Papier" against "Herr Zorblatt".
        return all(is_german_noun(("in", one), 1, 1, german, lower_words) for one in words[first : last + 1])
    before = words[first - 1].lower() if first else ""
    if before in _TITLES or (before == "." and first > 1 and words[first - 2].lower() in _TITLES):
        return False
    if before not in _PREPOSITIONS or word in german.names:
        return word not in german.names
    if _is_made_as_noun(word) or word.lower() in lower_words or word in german.nouns:
        return True
    # "durch Klicken": a verb used as a noun.
    if before == "durch" and word.endswith("en"):
        return True
    # A word frequent enough to be one token; names that frequent are among the known ones.
    return len(encode(" " + word)) == 1 and word not in german.bare
