"""Cuts text into the model's tokens, and long text into windows that fit the model.

The tokenizer is XLM-RoBERTa's: a SentencePiece unigram model over text in NFKC form. sentencepiece runs it, because its
trie takes 50 MB where other implementations take 300. It is given a model file that holds the pieces and does no
character work of its own; that is done here.
"""

from __future__ import annotations

import struct
import unicodedata
from collections.abc import Iterator
from itertools import islice, pairwise

import numpy as np
from numpy.typing import NDArray
from sentencepiece import SentencePieceProcessor

from heliograph.embedding.base import EmbeddingKind
from heliograph.embedding.e5.weights import E5Weights

MAX_WINDOWS = 64
"""Windows of one text; what is beyond (some 30,000 tokens) does not count: one vector cannot tell it anyway."""

_MAX_TOKENS = 512
_PREFIXES: dict[EmbeddingKind, str] = {"query": "query:", "document": "passage:"}
_PREFIX_TOKENS = 3
MAX_TEXT_TOKENS = _MAX_TOKENS - _PREFIX_TOKENS - 2
"""Tokens of a text that fit one window beside its prefix and the marks of start and end."""

# Text is tokenized in slices: it takes the interpreter's lock, and a text's end may never be looked at.
_SLICE_CHARACTERS = 16_384

# What SentencePiece's rule `nmt_nfkc` does beyond NFKC: most control characters go (NUL is added to them), invisible
# ones become spaces. U+2581 is the tokenizer's own mark of a space.
_CONTROLS: dict[int, str | None] = dict.fromkeys([*range(0x20), 0x7F, 0x8F, 0x9F])
_SPACES = dict.fromkeys([*b"\t\n\f\r", 0x1680, *range(0x200B, 0x2010), 0x2028, 0x2029, 0x2581, 0xFEFF, 0xFFFD], " ")
_REPLACED = _CONTROLS | _SPACES


class E5Tokenizer:
    """Turns texts into windows of token ids. Safe to use from several threads.

    Args:
        model: What `make_tokenizer_model` returned.
    """

    def __init__(self, model: bytes) -> None:
        self._processor = SentencePieceProcessor(model_proto=model)
        self._start = self._processor.bos_id()
        self._end = self._processor.eos_id()
        self._prefixes = {kind: self._ids(prefix) for kind, prefix in _PREFIXES.items()}

    def windows(self, text: str, kind: EmbeddingKind) -> list[NDArray[np.int32]]:
        """Return a text's token ids in windows of nearly equal length, with prefix and marks; at least one window.

        Args:
            text: Any text; lone surrogates and most control characters are left out.
            kind: Which prefix.
        """
        ids = list(islice(self._stream(text), MAX_WINDOWS * MAX_TEXT_TOKENS))
        count = max(1, -(-len(ids) // MAX_TEXT_TOKENS))
        bounds = [len(ids) * number // count for number in range(count + 1)]
        head = [self._start, *self._prefixes[kind]]
        return [np.array([*head, *ids[start:end], self._end], np.int32) for start, end in pairwise(bounds)]

    def _stream(self, text: str) -> Iterator[int]:
        start = 0
        while start < len(text):
            end = min(start + _SLICE_CHARACTERS, len(text))
            # After a space if there is one, so that no word is cut.
            if end < len(text) and (space := text.rfind(" ", start, end)) > start:
                end = space + 1
            yield from self._ids(text[start:end])
            start = end

    def _ids(self, text: str) -> list[int]:
        clean = text.encode("utf-8", "ignore").decode().translate(_REPLACED)
        return self._processor.encode(unicodedata.normalize("NFKC", clean), out_type=int)


def make_tokenizer_model(weights: E5Weights) -> bytes:
    """Return the tokenizer as a serialized SentencePiece `ModelProto`.

    The message is written by hand (`sentencepiece_model.proto` has the field numbers): it is four kinds of fields, and
    the package's own writer would need protobuf code of one certain version.
    """
    kinds = {weights.unknown_id: 2} | dict.fromkeys((weights.start_id, weights.end_id, weights.pad_id), 3)
    pieces = (_piece(piece.text, piece.score, kinds.get(number, 1)) for number, piece in enumerate(weights.pieces()))
    ids = (weights.unknown_id, weights.start_id, weights.end_id, weights.pad_id)
    unigram = 1
    trainer = _number(3, unigram) + b"".join(_number(field, value) for field, value in enumerate(ids, 40))
    # A space goes before the text, extra spaces go, and spaces are marked.
    normalizer = _bytes(1, b"identity") + _number(3, 1) + _number(4, 1) + _number(5, 1)
    return b"".join(pieces) + _bytes(2, trainer) + _bytes(3, normalizer)


def _piece(text: bytes, score: float, kind: int) -> bytes:
    float_field = _varint(2 << 3 | 5)
    return _bytes(1, _bytes(1, text) + float_field + struct.pack("<f", score) + _number(3, kind))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    return bytes((value & 0x7F | 0x80,)) + _varint(value >> 7)
