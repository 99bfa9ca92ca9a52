"""Tells a person or a place by the name alone, where no text says what it is.

A linear classifier over the word table of the offline embedding: "Max Tegmark" lies where given names lie, "Olsztyn"
where places do, in any language. `benchmarks/name_types.py` fits it to the types that texts themselves tell.
"""

from __future__ import annotations

import math
import re
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from heliograph.embedding.e5.model import E5Words
from heliograph.errors import ModelUnavailable
from heliograph.settings import user_cache_dir
from heliograph.text.analysis import is_chinese
from heliograph.text.name_spans import LOCATION_WORDS
from heliograph.text.tokens import encode, is_hardly_capitalised, is_usually_lower

CLASSES = ("person", "location", "organization", "other")
"""What names are told apart as, in the order of the weights' columns."""
WEIGHTS_PATH = Path(__file__).parent / "name_types.npy"

# So far the best class must lie above the next one: 98 of 100 persons and 96 of 100 places are right then. At 0.25 some
# 85 and 75 of 100 of those that come to it are. Organizations are not told well enough at any.
_MARGINS = {"person": 0.4, "location": 0.4}
# The word table's values are about an eighth of the other features.
_SCALE = 8.0
_LONGEST = 80
_SMALL_BEHIND_HYPHEN = re.compile(r"-[a-z]")


@lru_cache(maxsize=65_536)
def type_by_name(name: str) -> str:
    """Return `person` or `location` where a name leaves no doubt, else `unknown`.

    Chinese names are left to the tagger, which reads them in their sentence; a word for a kind of place ("Valley"), and
    one that is mostly written small or in part ("U-boats"), is no name of one.
    """
    words = _words() if _may_be_name(name) else None
    if words is None:
        return "unknown"
    kind = decide(name, features(words, name).astype(np.float64) @ _weights())
    return kind if kind != "location" or _is_place_written(name) else "unknown"


def decide(name: str, scores: NDArray[np.float64]) -> str:
    """Return what a name is by the scores of its classes, `(4,)`; see `type_by_name`."""
    first, second = np.argsort(scores)[:-3:-1]
    kind = CLASSES[first]
    is_clear = _may_be_name(name) and scores[first] - scores[second] >= _MARGINS.get(kind, np.inf)
    return kind if is_clear else "unknown"


def _may_be_name(name: str) -> bool:
    if " " not in name and (
        is_usually_lower(name) or name.lower() in LOCATION_WORDS or _SMALL_BEHIND_HYPHEN.search(name)
    ):
        return False
    return len(name) <= _LONGEST and not is_chinese(name)


# By so much of it a word is a place's name for sure no more; and capitals stand for emphasis or for any such thing
# ("ZAKOŃCZENIA") and are no acronym.
_UNSURE, _SHOUTED = 2.0, 10.0


@lru_cache(maxsize=65_536)
def smallness(word: str) -> float:
    """Return how much more the texts of the world write a word small than with its capital, as the log of the ratio.

    Told by the pieces of the offline embedding, of which any language has more than `text.tokens` knows of it: much for
    "помощник", less than nothing for "Olsztyn". Nothing for what those tokens know with its capital ("Git"), and for
    what stands in capitals as an acronym does.
    """
    if is_hardly_capitalised(word):
        return math.inf
    words = _words() if word.isalpha() else None
    if words is None:
        return 0.0
    small, capitalised, written = (words.log_likelihood(form) for form in (word.lower(), word.capitalize(), word))
    if word.isupper():
        return small - written if small - written >= _SHOUTED and capitalised - small < _UNSURE else 0.0
    return small - capitalised if len(encode(f" {word}")) > 1 else 0.0


def _is_place_written(name: str) -> bool:
    """Return whether a name may be a place's, and is not a word that is written small."""
    return " " in name or smallness(name) < _UNSURE


def features(words: E5Words, name: str) -> NDArray[np.float32]:
    """Return what is weighed of a name, `(n,)`: the mean, first and last of its tokens, how it is written, and 1."""
    vectors = words.vectors(name) * np.float32(_SCALE)
    parts = name.split()
    written = (
        *(len(parts) == count for count in (1, 2, 3)),
        all(part[:1].isupper() for part in parts),
        name.isupper(),
        name.isascii(),
        any(character.isdigit() for character in name),
        "." in name,
        "'" in name,
        True,
    )
    return np.concatenate([vectors.mean(axis=0), vectors[0], vectors[-1], np.array(written, np.float32)])


@cache
def _words() -> E5Words | None:
    try:
        return E5Words(user_cache_dir())
    except ModelUnavailable:
        # Another embedding serves the workspace, and the offline one is not installed: types stay open.
        return None


@cache
def _weights() -> NDArray[np.float64]:
    return np.load(WEIGHTS_PATH).astype(np.float64)
