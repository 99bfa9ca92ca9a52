"""Chinese sentences that are mostly Latin names: "MQTT 需要 WiFi。".

Sentences in Han and Latin letters in, their Chinese words out, or nothing where the grammar is that of a language in
Latin letters and the characters only quote a name: "The Great Wall (长城) is long.". A sentence is Chinese when a
Chinese verb or particle stands outside brackets with something after it, and no lower-case function word stands
outside Latin names. Limit: "The word 需要 means trouble." has no such word, and is taken for Chinese.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from heliograph.text.chinese import TaggedWord
from heliograph.text.language import HAN, function_words
from heliograph.text.word_lists import word_list

__all__ = ["has_latin_grammar", "mixed_words"]

_HAN = re.compile(rf"[{HAN}]")
_LOWER_WORD = re.compile(r"(?<![A-Za-z\d_./-])[a-z]+(?![A-Za-z\d_/-])")
# "of" says nothing of the language in "Internet of Things".
_INSIDE_NAME = re.compile(
    rf"(?<![A-Za-z\d_-])[A-Z][A-Za-z\d_-]*(?: (?:{'|'.join(sorted(word_list('small_words')))}))+(?= [A-Z])"
)
_QUOTED = re.compile(r"[(（\[【「『《“\"][^()（）\[\]【】「」『』《》“”\"]*[)）\]】」』》”\"]")
# Verbs, prepositions, conjunctions, particles, adverbs and pronouns; names and nouns may be quoted.
_GRAMMAR = frozenset({"v", "vd", "vn", "p", "c", "u", "d", "r", "xc"})
_MARKS = re.compile(r"[\W_]*")
_NO_CONTENT = "w"


def has_latin_grammar(sentence: str) -> bool:
    """Return whether a function word of a language in Latin letters stands outside names."""
    bare = _INSIDE_NAME.sub(" ", sentence)
    return any(word in function_words() for word in _LOWER_WORD.findall(bare))


def mixed_words(sentence: str, words: Sequence[TaggedWord]) -> list[TaggedWord] | None:
    """Return the words with those in other letters marked as no content, or None if the Chinese is but quoted.

    Args:
        sentence: A sentence without Latin grammar.
        words: All its words; the model that tags them knows Chinese only.
    """
    bare = _QUOTED.sub(lambda match: " " * len(match.group()), sentence)
    said = [word for word in words if not bare[word.start : word.end].isspace()]
    has_grammar = any(
        word.tag in _GRAMMAR and _HAN.search(word.text) and not _MARKS.fullmatch(after.text)
        for word, after in pairwise(said)
    )
    if not has_grammar:
        return None
    return [word if _HAN.search(word.text) else replace(word, tag=_NO_CONTENT) for word in words]
