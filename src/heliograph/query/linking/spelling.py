"""Names in a question that are misspelt: words that stand in no document, read as a near one that does.

Only a word that no document holds is doubted, so a name that is there never gives way to another. What may be meant is
looked for in the chunks nearest to the question by vector, which a slip of the finger hardly leads astray; nothing else
is searched. Writing without letter case, such as Chinese, has no such words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rapidfuzz.distance import OSA
from rapidfuzz.process import extractOne

from heliograph.query.linking.models import Respelling, Respelt
from heliograph.query.linking.names import Named
from heliograph.stores.base import StoreView
from heliograph.stores.changeset import Collection
from heliograph.text.analysis import terms
from heliograph.text.language import HAN

# Letters of scripts that put spaces between words; Chinese, Thai, Japanese and Korean write on without.
_LETTER = rf"[^\W\d_{HAN}\u0e00-\u0eff\u1100-\u11ff\u3041-\u30ff\uac00-\ud7af]"
# Whole words of letters; what has digits or hyphens is an identifier, of which every character counts.
_WORD = re.compile(rf"(?<![\d_-])(?<!{_LETTER}){_LETTER}{{5,}}(?![\d_-])(?!{_LETTER})")
# A letter left out, put in, changed or swapped with the next; from two on it may be another name (Australia, Austria).
_MOST_SLIPS = 1
_MOST_WORDS = 8
_CHUNKS_READ = 20


async def respell(store: StoreView, question: str, named: Named, near: Sequence[str]) -> Respelt:
    """Return the question with the misspelt names that could be read.

    Args:
        store: Asked once for words, and once for chunks where one is in no document.
        question: The question.
        named: What it names; nothing of that is doubted.
        near: Ids of chunks near it by vector, nearest first.
    """
    words = _doubtful(question, named)
    phrases = [terms(word.group()) for word in words]
    if not near or not any(phrases):
        return Respelt(question)
    holders = await store.text.find_phrases(Collection.CHUNKS, phrases, 1)
    unknown = [word for word, phrase, found in zip(words, phrases, holders, strict=True) if phrase and not found]
    if not unknown:
        return Respelt(question)
    chunks = await store.records.get_chunks(near[:_CHUNKS_READ])
    return _read(question, unknown, [chunk.text for chunk in chunks])


def _doubtful(question: str, named: Named) -> list[re.Match[str]]:
    """Return the words outside of known names that may be part of one; without any capital, all may be."""
    has_capitals = any(character.isupper() for character in question[1:])
    free = (
        word
        for word in _WORD.finditer(question)
        if not any(entity.start < word.end() and word.start() < entity.end for entity in named.linked)
    )
    return [word for word in free if _is_cased(word.group(), needs_capital=has_capitals)][:_MOST_WORDS]


def _is_cased(word: str, *, needs_capital: bool) -> bool:
    return word[0].isupper() if needs_capital else word.lower() != word.upper()


def _read(question: str, words: Iterable[re.Match[str]], texts: Iterable[str]) -> Respelt:
    """Return the question with each of the words read as the nearest one of the texts, if one is near."""
    spelt: dict[str, str] = {}
    for text in texts:
        for found in _WORD.findall(text):
            spelt.setdefault(found.lower(), found)
    pieces: list[str] = []
    changes: list[Respelling] = []
    end = 0
    for word in words:
        written = word.group()
        # Hardly anybody misses the first letter, and two names that differ in it are two names.
        same_start = [key for key in spelt if key[0] == written[0].lower()]
        if near := extractOne(written.lower(), same_start, scorer=OSA.distance, score_cutoff=_MOST_SLIPS):
            pieces += question[end : word.start()], spelt[near[0]]
            changes.append(Respelling(written, spelt[near[0]]))
            end = word.end()
    return Respelt("".join((*pieces, question[end:])), tuple(changes))
