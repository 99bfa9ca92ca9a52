"""Tells nouns from names in German, which gives both a capital.

A single word is taken for a name when it is known for one, when it is made like an acronym or identifier, after "Herr"
and the like, or after a preposition without an article ("in Mölln", "von Zorblatt") unless it ends as nouns do or the
text uses it as nouns are used. Several capitals in a row are a name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from heliograph.text.analysis import word_list
from heliograph.text.sentences import OPENERS
from heliograph.text.tokens import encode

_PREPOSITIONS = word_list("de_prepositions")
NOUN_ENDINGS = tuple(sorted(word_list("de_noun_endings")))
_GIVEN_NAMES = word_list("given_names")
KNOWN_NAMES = word_list("places") | _GIVEN_NAMES | word_list("demonyms")
_TITLES = word_list("titles_stripped")
_KEPT_TITLES = word_list("titles_kept")
# Longer words are put together from others, as only nouns are.
_LONGEST_SIMPLE_WORD = 12
_ADJECTIVE_ENDINGS = ("e", "en", "er", "es", "em")
# So many letters have acronyms; more in capitals are a heading.
_LONGEST_ACRONYM = 6
_PAIR = re.compile(r"(?<![^\W\d_])([^\W\d_]+) ([A-ZÄÖÜ][^\W\d_]+)(?![\w-])")
_DETERMINER = re.compile(
    r"d(?:er|ie|as|en|em|es)|k?ein(?:e[nmrs]?)?|(?:dies|jed|jen|welch|manch|solch)e[nmrs]?|alle[nmrs]?|viele[rn]?|mehrere[rn]?"
    r"|(?:ihr|sein|mein|unser)(?:e[nmrs]?)?|zu[mr]|ans|ins|[ai]m|beim|vom|fürs"
)
_CAPITAL = re.compile(r"(?<![\w-])[A-ZÄÖÜ][a-zäöüß]+(?![\w-])")
_CASES = ("e", "en", "n")
_SHORTEST_NOUN = 5
# Longer words are not looked into, of which all ends would be kept.
_LONGEST_COMPOUND = 60


def german_words(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the words of a German text that stand as names do ("in Debian"), and those that are nouns there."""
    evidence = _evidence(text)
    bare = frozenset(word for word, count in evidence.after_prepositions.items() if count > 1) - evidence.determined
    return bare, german_nouns(evidence.after_prepositions, text)


def german_nouns(words: Iterable[str], text: str) -> frozenset[str]:
    """Return those of some words with a capital that a German text uses as nouns.

    A noun has articles ("den Paketen"), cases and numbers ("Paket", "Pakete"; the genitive in -s proves nothing, as
    names have it, too), and ends other nouns ("Metapakete").
    """
    evidence = _evidence(text)
    return frozenset(word for word in words if word in evidence.determined or _is_declined(word, evidence))


class _Evidence(NamedTuple):
    """What a German text says of its words with a capital.

    Attributes:
        after_prepositions: How often each follows a preposition.
        determined: Those with an article.
        written: All of them.
        ends: What is left of each, in lower case, without its first letter or more; no shorter than a stem of a noun.
    """

    after_prepositions: Mapping[str, int]
    determined: frozenset[str]
    written: frozenset[str]
    ends: frozenset[str]


@lru_cache(maxsize=8)
def _evidence(text: str) -> _Evidence:
    """Return what a text says, a chunk of a document or a question; remembered, since it is asked word by word."""
    pairs = _PAIR.findall(text)
    written = frozenset(_CAPITAL.findall(text))
    ends = (
        word[start:].lower()
        for word in written
        if len(word) <= _LONGEST_COMPOUND
        for start in range(1, len(word) - _SHORTEST_NOUN + 2)
    )
    return _Evidence(
        Counter(word for before, word in pairs if before.lower() in _PREPOSITIONS),
        frozenset(word for before, word in pairs if _DETERMINER.fullmatch(before.lower())),
        written,
        frozenset(ends),
    )


def _is_declined(word: str, evidence: _Evidence) -> bool:
    """Return whether another word with a capital is a form of this noun or ends in it."""
    if len(word) < _SHORTEST_NOUN:
        return False
    stems = {stem for ending in ("", *_CASES) if len(stem := word.removesuffix(ending)) >= _SHORTEST_NOUN - 1}
    forms = {f"{stem}{ending}" for stem in stems for ending in ("", *_CASES)}
    return any((form != word and form in evidence.written) or form.lower() in evidence.ends for form in forms)


def is_german_noun(
    words: Sequence[str],
    first: int,
    last: int,
    bare: frozenset[str] = frozenset(),
    lower_words: frozenset[str] = frozenset(),
    nouns: frozenset[str] = frozenset(),
) -> bool:
    """Return whether the word or words from `first` to `last` are common nouns.

    Args:
        words: Words and marks of a German sentence.
        first: Index of the first word with a capital.
        last: Index of the last one.
        bare: Words that the text uses without an article; see `CaseEvidence`.
        lower_words: Words that the text has in lower case: "klicken" makes "durch Klicken" none.
        nouns: Words that the text uses as nouns; see `CaseEvidence`.
    """
    word = words[first]
    lower = word.lower().removesuffix("s") if word.lower() not in KNOWN_NAMES else word.lower()
    if lower in KNOWN_NAMES or not word[1:].islower():
        # "SICHERHEIT" is a heading in capitals.
        return word.isupper() and word.isalpha() and len(word) > _LONGEST_ACRONYM
    if last > first:
        # "Liste von Optionen" against "Otto von Bismarck"; "Verarbeitung der Daten" against "Deutsche Bahn".
        inner = {inner.lower() for inner in words[first:last]}
        if "von" in inner:
            return _GIVEN_NAMES.isdisjoint(inner) and _TITLES.isdisjoint(inner) and _KEPT_TITLES.isdisjoint(inner)
        if any(inner.islower() for inner in words[first:last]):
            # The genitive of a noun: "Aufruf des Befehls".
            return word.endswith(NOUN_ENDINGS) or ("des" in inner and words[last].endswith("s"))
        # "Verwandte Themen": an adjective has its capital from the start of the sentence, and the noun as nouns do.
        opens = first == 0 or words[first - 1] in OPENERS
        if word.endswith(_ADJECTIVE_ENDINGS):
            return opens and last == first + 1 and is_german_noun(("in", words[last]), 1, 1, bare, lower_words, nouns)
        # "zum Beispiel Papier" against "Herr Zorblatt".
        return all(is_german_noun(("in", one), 1, 1, bare, lower_words, nouns) for one in words[first : last + 1])
    before = words[first - 1].lower() if first else ""
    if before in _TITLES or (before == "." and first > 1 and words[first - 2].lower() in _TITLES):
        return False
    if before not in _PREPOSITIONS:
        return True
    if word.endswith(NOUN_ENDINGS) or len(word) > _LONGEST_SIMPLE_WORD or word.lower() in lower_words or word in nouns:
        return True
    # "durch Klicken": a verb in the place of a noun.
    return (before == "durch" and word.endswith("en")) or (_is_frequent(word) and word not in bare)


def _is_frequent(word: str) -> bool:
    """Return whether a word is frequent enough to be one token; names that frequent are among the known ones."""
    return len(encode(" " + word)) == 1
