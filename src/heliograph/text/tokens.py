"""Counts and cuts text by tokens of `o200k_base`, the unit of every budget.

Tokenizer and tables come from a wheel. Only the compiled tokenizer of the package `bpe_openai` is loaded, and of its
tables only what spans need. The file also formats the rows in which a chat model sees entities and relations (their
token counts are stored), estimates from token ids whether a word is usually in lower case, and groups texts into
batches for a local model.
"""

from __future__ import annotations

import gzip
import re
from binascii import a2b_base64
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from heliograph.errors import MissingDependencyError

_PACKAGE = "bpe_openai"
_ENCODING = "o200k_base"
_SURROGATES = re.compile("[\ud800-\udfff]")


class _Tokenizer(Protocol):
    def encode(self, text: str) -> list[int]: ...
    def count(self, text: str) -> int: ...
    def decode(self, tokens: list[int]) -> str | None: ...


def encode(text: str) -> list[int]:
    """Return the token ids of a text; special-token markup in it is plain text, lone surrogates become U+FFFD."""
    try:
        return _tokenizer().encode(text)
    except UnicodeEncodeError:
        return _tokenizer().encode(_SURROGATES.sub("\ufffd", text))


def decode(tokens: list[int]) -> str:
    """Return the text of token ids; an incomplete character at either end becomes U+FFFD."""
    # A character has at most four bytes, so at most three tokens hold the rest of one.
    for first, last in ((first, last) for first in range(4) for last in range(4)):
        with suppress(ValueError):
            found = _tokenizer().decode(tokens[first : len(tokens) - last])
            return "\ufffd" * bool(first) + (found or "") + "\ufffd" * bool(last)
    return "\ufffd"


def count_tokens(text: str) -> int:
    """Return how many tokens a text has."""
    try:
        return _tokenizer().count(text)
    except UnicodeEncodeError:
        return _tokenizer().count(_SURROGATES.sub("\ufffd", text))


def cut_to_tokens(text: str, max_tokens: int) -> str:
    """Return the longest start of a text that ends on a whole character and has at most `max_tokens` tokens."""
    if len(text.encode("utf-8", "surrogatepass")) <= max_tokens:
        return text  # A token has at least one byte.
    tokens = np.array(encode(text), np.int64)
    if len(tokens) <= max_tokens:
        return text
    if max_tokens < 1:
        return ""
    begun, goes_on = _tables()
    end = int(begun[tokens[:max_tokens]].sum(dtype=np.int64))
    # Drop the last character if the first token beyond the limit continues it.
    return text[: end - int(goes_on[tokens[max_tokens]])]


def token_ends(text: str) -> NDArray[np.int64]:
    """Return, per token, the index one past its last character.

    A character whose bytes several tokens share belongs to the first of them; the others end where it ends.
    """
    tokens = np.array(encode(text), np.int64)
    return np.cumsum(_tables()[0][tokens], dtype=np.int64)


@cache
def _tokenizer() -> _Tokenizer:
    folder = _package_folder()
    for suffix in EXTENSION_SUFFIXES:
        file = folder / f"_bindings{suffix}"
        if file.exists():
            spec = spec_from_file_location(f"{_PACKAGE}._bindings", file)
            if spec is not None and spec.loader is not None:
                module: Any = module_from_spec(spec)
                spec.loader.exec_module(module)
                return module.tokenizer_for_encoding(_ENCODING)
    raise MissingDependencyError(_PACKAGE)


@cache
def _tables() -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Return, per token id, how many characters begin in its bytes, and whether it continues an earlier one."""
    joined, starts, ranks = bytearray(), list[int](), list[int]()
    with gzip.open(_package_folder() / "data" / f"{_ENCODING}.tiktoken.gz", "rb") as lines:
        for line in lines:
            token, rank = line.split(b" ")
            starts.append(len(joined))
            ranks.append(int(rank))
            joined += a2b_base64(token)
    # A byte that does not begin a character continues one.
    is_within = (np.frombuffer(joined, np.uint8) & 0xC0) == 0x80
    size = max(ranks) + 1
    begun, goes_on = np.zeros(size, np.uint8), np.zeros(size, np.bool_)
    begun[ranks] = np.add.reduceat(~is_within, starts, dtype=np.int64)
    goes_on[ranks] = is_within[starts]
    return begun, goes_on


def _package_folder() -> Path:
    package = find_spec(_PACKAGE)
    if package is None or package.origin is None:
        raise MissingDependencyError(_PACKAGE)
    return Path(package.origin).parent


# Whether a word is usually in lower case, from the frequencies behind the tokenizer.
#
# The tokens of `o200k_base` are numbered in the order in which byte pairs were merged, so of two spellings that are one
# token each the more frequent has the smaller id, and a spelling that is one token is more frequent than one that is
# not. So "During" is usually "during" and "london" usually "London", in every language of the tokenizer's training
# text. Rare words are not decided. This needs no word list, and no text except the word.


@lru_cache(maxsize=65_536)
def is_usually_lower(word: str) -> bool:
    """Return whether a word is more frequent in lower case than with a capital; False if unknown."""
    lower = encode(" " + word.lower())
    capitalised = encode(" " + word.capitalize())
    return len(lower) == 1 and (len(capitalised) > 1 or lower[0] < capitalised[0])


@lru_cache(maxsize=65_536)
def is_usually_capitalised(word: str) -> bool:
    """Return whether a word is more frequent with a capital than without; False if unknown."""
    return len(encode(" " + word.capitalize())) == 1 and not is_usually_lower(word)


@lru_cache(maxsize=65_536)
def is_acronym(word: str) -> bool:
    """Return whether a word is about as frequent in capitals as in lower case, or more so, as JSON and TLS are."""
    lower, capitals = encode(" " + word.lower()), encode(" " + word.upper())
    # Token ids follow frequency.
    return len(capitals) == 1 and (len(lower) > 1 or capitals[0] < 4 * lower[0])


@lru_cache(maxsize=65_536)
def is_hardly_capitalised(word: str) -> bool:
    """Return whether a word is one token in lower case and none with a capital: "configuración", not "python"."""
    return len(encode(" " + word.lower())) == 1 < len(encode(" " + word.capitalize()))


# Token ids follow frequency; English words below this id occur in every text, whatever its subject.
_EVERYDAY_TOKENS = 32_768


def is_everyday(word: str, *, is_english: bool = True) -> bool:
    """Return whether a word in lower case is among the commonest of its language: "file", "war", not "mitochondria".

    Other languages have fewer tokens, so there every word that is one token counts.
    """
    tokens = encode(" " + word)
    return len(tokens) == 1 and (not is_english or tokens[0] < _EVERYDAY_TOKENS)


# The lines in which a chat model sees entities and relations.
#
# Their token counts are computed once, when an entity is merged, so that a query can fill its budget without counting.

# A query writes hundreds of rows; calling the encoder of `json.dumps` directly takes a tenth of the time.
_encode = encode_basestring


def entity_row(name: str, entity_type: str, description: str) -> str:
    """Return an entity's line in a JSON-lines context."""
    return f'{{"entity": {_encode(name)}, "type": {_encode(entity_type)}, "description": {_encode(description)}}}'


def relation_row(source: str, target: str, description: str) -> str:
    """Return a relation's line in a JSON-lines context."""
    return f'{{"entity1": {_encode(source)}, "entity2": {_encode(target)}, "description": {_encode(description)}}}'


# Batches of texts for a local model, which pads the texts of a batch to the longest.


def plan_runs(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Group texts of similar length into batches.

    Args:
        lengths: Tokens of each text.
        max_tokens: Tokens of a batch with padding; a longer text is a batch of its own.

    Returns:
        The texts' indices, batch by batch, each once.
    """
    runs: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        # Texts come in order of length, so the newest sets the padded length of its batch.
        if runs and (len(runs[-1]) + 1) * lengths[index] <= max_tokens:
            runs[-1].append(index)
        else:
            runs.append([index])
    return runs
