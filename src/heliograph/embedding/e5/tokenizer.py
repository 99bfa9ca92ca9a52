"""Cuts text into the model's tokens, and long text into windows that fit the model.

The tokenizer is XLM-RoBERTa's: a SentencePiece unigram model over text in NFKC form. sentencepiece runs it, because
its trie takes 50 MB where other implementations take 300. It is given a model file that holds the pieces and does no
character work of its own; that is done here.

Building that trie takes half a second, most of what a process needs that asks one question. So the first short texts
are cut without it, by the same search over a hash table of the pieces that lies ready in the cache.
"""

from __future__ import annotations

import struct
import threading
import unicodedata
from collections.abc import Iterator
from functools import partial
from itertools import islice, pairwise
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from sentencepiece import SentencePieceProcessor

from heliograph.embedding.base import EmbeddingKind
from heliograph.embedding.e5.weights import ArtefactCache, E5Weights

MAX_WINDOWS = 64
"""Windows of one text; tokens beyond them (some 30,000) do not count: one vector could not hold them anyway."""

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


# So much text in all is cut without the trie: some thirty questions, or 60 ms.
_SHORT_CHARACTERS = 8_192


class E5Tokenizer:
    """Turns texts into windows of token ids. Safe to use from several threads.

    Args:
        weights: Have the pieces.
        cache: Keeps what is made of them.
    """

    def __init__(self, weights: E5Weights, cache: ArtefactCache) -> None:
        self._pieces = _PieceSearch(weights, cache.get("pieces", partial(_make_piece_table, weights)))
        self._make_model = partial(cache.get, "tokenizer", partial(_make_tokenizer_model, weights))
        self._processor: SentencePieceProcessor | None = None
        self._loading = threading.Lock()
        self._short_characters = _SHORT_CHARACTERS
        self._start, self._end = weights.start_id, weights.end_id
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
        clean = unicodedata.normalize("NFKC", text.encode("utf-8", "ignore").decode().translate(_REPLACED))
        if self._processor is None and len(clean) <= self._short_characters:
            self._short_characters -= len(clean)
            return self._pieces.ids(clean)
        with self._loading:
            if self._processor is None:
                self._processor = SentencePieceProcessor(model_proto=self._make_model())
        return self._processor.encode(clean, out_type=int)


# The mark of a space, which pieces have at their beginning only.
_SPACE = "\u2581"
_LONGEST_PIECE = 16
# Twice as many slots as pieces, and a power of two.
_SLOTS = 1 << 19
_UNKNOWN_PENALTY = np.float32(10)


class _PieceSearch:
    """Finds the pieces of short texts, with the result of sentencepiece (Kudo 2018) and without loading it.

    Scores add up in float32 and an equal one changes nothing, as there, so that the same pieces win.

    Args:
        weights: Have the pieces.
        table: What `_make_piece_table` returned.
    """

    def __init__(self, weights: E5Weights, table: bytes) -> None:
        self._table = memoryview(table).cast("i")
        self._ends = memoryview(weights.piece_ends.tobytes()).cast("I")
        self._blob = weights.piece_blob
        self._scores = weights.piece_scores
        self._unknown_id = weights.unknown_id
        self._unknown_score = self._scores[_are_text(weights)].min() - _UNKNOWN_PENALTY

    def ids(self, text: str) -> list[int]:
        """Return the token ids of a text in NFKC form."""
        marked = "".join(_SPACE + word for word in text.split(" ") if word)
        data = marked.encode()
        places = [0, *np.cumsum([len(character.encode()) for character in marked]).tolist()]
        # Per place: the best score of what ends there, where its last piece starts, and the id of that.
        best = [(np.float32(0 if not place else -np.inf), 0, 0) for place in range(len(marked) + 1)]
        for start in range(len(marked)):
            for end in range(start + 1, min(start + _LONGEST_PIECE, len(marked)) + 1):
                if end - start > 1 and marked[end - 1] == _SPACE:
                    break
                piece = self._find(data[places[start] : places[end]])
                if piece is None:
                    if end - start > 1:
                        continue
                    piece, score = self._unknown_id, self._unknown_score
                else:
                    score = self._scores[piece]
                score = score + best[start][0]
                if score > best[end][0]:
                    best[end] = score, start, piece
        found: list[int] = []
        place = len(marked)
        while place:
            _, place, piece = best[place]
            # What is unknown side by side is one token.
            if piece != self._unknown_id or found[-1:] != [piece]:
                found.append(piece)
        return found[::-1]

    def _find(self, text: bytes) -> int | None:
        slot = crc32(text) % _SLOTS
        while (piece := self._table[slot]) >= 0:
            if self._blob[self._ends[piece] : self._ends[piece + 1]] == text:
                return piece
            slot = (slot + 1) % _SLOTS
        return None


def _make_piece_table(weights: E5Weights) -> bytes:
    """Return a hash table of the pieces' ids by CRC-32 with linear probing, as int32; -1 is an empty slot."""
    table = [-1] * _SLOTS
    pieces = weights.pieces()
    for number in np.flatnonzero(_are_text(weights)).tolist():
        slot = crc32(pieces[number].text) % _SLOTS
        while table[slot] >= 0:
            slot = (slot + 1) % _SLOTS
        table[slot] = number
    return np.array(table, np.int32).tobytes()


def _are_text(weights: E5Weights) -> NDArray[np.bool_]:
    """Return, per piece, whether it stands for text."""
    are_text = np.ones(len(weights.piece_scores), np.bool_)
    are_text[[weights.unknown_id, weights.start_id, weights.end_id, weights.pad_id]] = False
    return are_text


def _make_tokenizer_model(weights: E5Weights) -> bytes:
    """Return the tokenizer as a serialized SentencePiece `ModelProto`.

    The message is written by hand (`sentencepiece_model.proto` has the field numbers): it is four kinds of fields, and
    the package's own writer would need protobuf code of one certain version.
    """
    kinds = {weights.unknown_id: 2} | dict.fromkeys((weights.start_id, weights.end_id, weights.pad_id), 3)
    float_field = _varint(2 << 3 | 5)
    pieces: list[bytes] = []
    for number, piece in enumerate(weights.pieces()):
        score, kind = float_field + struct.pack("<f", piece.score), _number(3, kinds.get(number, 1))
        pieces.append(_bytes(1, _bytes(1, piece.text) + score + kind))
    ids = (weights.unknown_id, weights.start_id, weights.end_id, weights.pad_id)
    unigram = 1
    trainer = _number(3, unigram) + b"".join(_number(field, value) for field, value in enumerate(ids, 40))
    # A space goes before the text, extra spaces go, and spaces are marked.
    normalizer = _bytes(1, b"identity") + _number(3, 1) + _number(4, 1) + _number(5, 1)
    return b"".join(pieces) + _bytes(2, trainer) + _bytes(3, normalizer)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    return bytes((value & 0x7F | 0x80,)) + _varint(value >> 7)
