"""Translates the words of a question, within and between languages, with a glossary of common words.

The offline embedding relates languages by meaning, but full text compares words as written. The glossary
`words/glossary.txt` holds the words that questions to handbooks and encyclopedias use most: a meaning per line, with
its words in each of `GLOSSARY_LANGUAGES`. It translates words, not sentences: an ambiguous word gets all its
translations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files

from heliograph.text.analysis import terms, terms_in
from heliograph.text.chinese import tag_words
from heliograph.text.patterns import late_pattern, words_in_both_scripts

GLOSSARY_LANGUAGES = ("en", "zh", "de")
# The longest word of the glossary: in characters for Chinese, in terms for other languages.
_LONGEST_HAN, _LONGEST_TERMS = 6, 3
_LEAST_OF_COMPOUND = 4
# How many characters of a question are cut into words; a longer one is a pasted text.
_LONGEST_CUT = 2_000
# A Chinese number and the character that it counts are cut off as one word.
_COUNTED = late_pattern(r"[第每几幾两兩一二三四五六七八九十百\d]+.")


class Renderings:
    """The translations of the words of one question; false where the glossary knows none of them.

    Args:
        question: The question.
        language: Its language; outside `GLOSSARY_LANGUAGES` no word is known.
        into: Languages to translate into; its own stands for synonyms.
        terms_of: The language by whose rules words become terms, as in `terms_in`; empty for those of full text.
    """

    def __init__(self, question: str, language: str, into: Iterable[str], terms_of: str = "") -> None:
        wanted = [other for other in GLOSSARY_LANGUAGES if other in set(into)]
        # The question's terms by their translation: a single term, or several that occur together.
        self._by_term: dict[str, frozenset[str]] = {}
        self._by_terms: dict[frozenset[str], frozenset[str]] = {}
        for said, places in _known(question, language) if wanted and language in GLOSSARY_LANGUAGES else ():
            for form in (form for place in places for other in wanted for form in _forms(place, other, terms_of)):
                if len(form) == 1 and form.isdisjoint(said):
                    [term] = form
                    self._by_term[term] = self._by_term.get(term, frozenset()) | said
                elif form.isdisjoint(said):
                    self._by_terms[form] = self._by_terms.get(form, frozenset()) | said

        # The question's terms that have a translation.
        self.said = frozenset[str]().union(*self._by_term.values(), *self._by_terms.values())

    def __bool__(self) -> bool:
        return bool(self.said)

    def completed(self, held: frozenset[str]) -> frozenset[str]:
        """Return the terms of a text, and those terms of the question that the text has in translation."""
        said = [self._by_term[term] for term in held & self._by_term.keys()]
        return held.union(*said, *(terms for form, terms in self._by_terms.items() if form <= held))

    def search_terms(self, words: Iterable[str]) -> list[str]:
        """Return the terms to search for: the translations, and those of `words` that have none."""
        kept = (word for word in words if word not in self.said)
        return list(dict.fromkeys([*kept, *self._by_term, *(term for form in self._by_terms for term in sorted(form))]))


@cache
def _meanings() -> Sequence[Mapping[str, Sequence[str]]]:
    """Return, per meaning, its words by language."""
    text = (files("heliograph.text") / "words" / "glossary.txt").read_text(encoding="utf-8")
    lines = [line.split("|") for line in text.splitlines() if line and not line.startswith("#")]
    return [
        {
            language: [word.replace("_", " ") for word in words_in_both_scripts(part.split())]
            for language, part in zip(GLOSSARY_LANGUAGES, parts, strict=True)
        }
        for parts in lines
    ]


@cache
def _places(language: str) -> Mapping[Sequence[str], Sequence[int]]:
    """Return the meanings of each word of a language; Chinese words are keyed as written, others by their terms."""
    found: dict[Sequence[str], list[int]] = {}
    for place, meaning in enumerate(_meanings()):
        for word in meaning[language]:
            if key := word if language == "zh" else tuple(terms_in(word, language)):
                found.setdefault(key, []).append(place)
    return found


@cache
def _forms(place: int, language: str, terms_of: str) -> tuple[frozenset[str], ...]:
    # A single Chinese character is part of many words.
    words = (word for word in _meanings()[place][language] if language != "zh" or len(word) > 1)
    return tuple(filter(None, (frozenset(terms_in(word, terms_of)) for word in words)))


def _known(question: str, language: str) -> list[tuple[frozenset[str], Sequence[int]]]:
    """Return the terms and meanings of the question's known words; of overlapping words, the longest."""
    known, is_chinese = _places(language), language == "zh"
    parts: Sequence[str] = question if is_chinese else tuple(terms_in(question, language))
    longest = _LONGEST_HAN if is_chinese else _LONGEST_TERMS
    found: list[tuple[frozenset[str], Sequence[int]]] = []
    start = 0
    while start < len(parts):
        runs = (parts[start:end] for end in range(min(len(parts), start + longest), start, -1))
        run = next((run for run in runs if run in known), parts[start : start + 1])
        said = frozenset(terms(run) if isinstance(run, str) else run)
        if run in known and (not is_chinese or len(run) > 1 or start in _alone(question)):
            found.append((said, known[run]))
        elif language == "de":
            found += [(said, places) for places in _parts_of_compound(parts[start], known)]
        start += len(run)
    return found


# Search and answer call this for the same question. Most Chinese questions need no call, as the word model is slow.
@lru_cache(maxsize=16)
def _alone(question: str) -> frozenset[int]:
    """Return positions of Chinese characters that are words of their own ("行" of "第三行", not of "进行")."""
    [words] = tag_words([question[:_LONGEST_CUT]])
    whole = (word for word in words if len(word.text) == 1 or _COUNTED.fullmatch(word.text))
    return frozenset(word.start + len(word.text) - 1 for word in whole)


def _parts_of_compound(word: str, known: Mapping[Sequence[str], Sequence[int]]) -> list[Sequence[int]]:
    """Return the meanings of two known words that form a German compound ("Fortschrittsanzeige"); else nothing."""
    for at in range(_LEAST_OF_COMPOUND, len(word) - _LEAST_OF_COMPOUND + 1):
        first = known.get((word[:at],)) or known.get((word[:at].removesuffix("s"),))
        if first and (second := known.get((word[at:],))):
            return [first, second]
    return []
