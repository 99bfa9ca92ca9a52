"""Words that tell a name from a common word, and one type of name from another, all in lower case.

The lists are short on purpose: they hold the words that decide often. Whatever is not listed is judged by its capitals
and its place (`heliograph.text.english_names`), and has the type `unknown`. Each list says in its file what it holds.
"""

from __future__ import annotations

from heliograph.text.word_lists import word_list

__all__ = [
    "CALENDAR",
    "CHINESE_FAMILY_NAMES",
    "COMMON_WORDS",
    "DEMONYMS",
    "EVENT_WORDS",
    "FILE_SUFFIXES",
    "GIVEN_NAMES",
    "INNER_PARTICLES",
    "JOINED_AFTER_POSSESSIVE",
    "KEPT_TITLES",
    "LOCATION_WORDS",
    "OF_WORDS",
    "ORGANIZATION_WORDS",
    "PERSON_VERBS",
    "PLACES",
    "ROMAN_NUMERALS",
    "SHOUTED_WORDS",
    "STRIPPED_TITLES",
    "STRUCTURE_WORDS",
    "TECHNOLOGY_WORDS",
    "WORK_WORDS",
]

CALENDAR = word_list("calendar")
COMMON_WORDS = word_list("common_words")
DEMONYMS = word_list("demonyms")
FILE_SUFFIXES = word_list("file_suffixes")
INNER_PARTICLES = word_list("particles")
PLACES = word_list("places")
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
# A name of several words goes on across "of" when one of these is its last word so far.
OF_WORDS = ORGANIZATION_WORDS | LOCATION_WORDS | EVENT_WORDS | WORK_WORDS | COMMON_WORDS | word_list("of_words")
