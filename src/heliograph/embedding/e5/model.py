"""The offline embedding: text cut to windows of tokens, run in a few threads, vectors centred per language."""

from __future__ import annotations

import asyncio
import heapq
import os
import struct
import threading
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from itertools import count, islice, pairwise
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast
from zlib import crc32

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors  # pyright: ignore[reportAttributeAccessIssue]
from sentencepiece import SentencePieceProcessor

from heliograph.embedding.base import (
    USUAL_SCALE,
    EmbeddingInfo,
    EmbeddingKind,
    EmbeddingModel,
    Embeddings,
    waits_as,
)
from heliograph.embedding.e5.weights import CONTENT_START, REINSTALL, ArtefactCache, find_weights, verify_weights
from heliograph.errors import ModelUnavailable
from heliograph.models import Usage
from heliograph.text.tokens import plan_runs

# The packed weights of multilingual-e5-small: tensors in four bits, and the pieces of its tokenizer.

_MAGIC = b"E5S1"
_BLOCK_WEIGHTS = 32
_BLOCK = np.dtype([("scale", "<f2"), ("halves", "u1", 16)])
_PACKED, _FLOAT = 1, 0


@dataclass(frozen=True, slots=True)
class E5Shape:
    """Sizes of the model."""

    hidden: int
    layers: int
    heads: int
    inner: int
    words: int
    max_tokens: int
    epsilon: float


@dataclass(frozen=True, slots=True)
class _Tensor:
    form: int
    length: int
    offset: int
    byte_count: int


class _Cursor:
    """Reads a buffer in order, never past its end."""

    def __init__(self, data: NDArray[np.uint8]) -> None:
        self._data = data
        self._at = 0

    def take(self, byte_count: int) -> bytes:
        if not 0 <= byte_count <= len(self._data) - self._at:
            raise ValueError(f"{byte_count} bytes are announced at {self._at} of {len(self._data)}")
        self._at += byte_count
        return self._data[self._at - byte_count : self._at].tobytes()

    def unpack(self, form: str) -> tuple[Any, ...]:
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))

    def array(self, count: int, form: str) -> NDArray[Any]:
        return np.frombuffer(self.take(count * np.dtype(form).itemsize), form)


class E5Weights:
    """The model's tensors and tokenizer pieces, from a file that must not change while this is in use.

    Raises:
        ModelUnavailable: The file cannot be read or has the wrong layout.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._data = np.asarray(np.memmap(path, np.uint8, "r"))
            self._parse()
        except (OSError, ValueError, struct.error) as error:
            raise self._damaged(str(error)) from error
        self._word_blocks = self._blocks("emb.word", self.shape.hidden)

    def _parse(self) -> None:
        cursor = _Cursor(self._data)
        if cursor.take(4) != _MAGIC:
            raise ValueError(f"it does not begin with {_MAGIC!r}")
        _version, hidden, layers, heads, inner, words, max_tokens, _types = cursor.unpack("8i")
        epsilon, block_weights = cursor.unpack("fi")
        if block_weights != _BLOCK_WEIGHTS:
            raise ValueError(f"its blocks have {block_weights} weights")
        self.shape = E5Shape(hidden, layers, heads, inner, words, max_tokens, epsilon)
        piece_count, self.start_id, self.end_id, self.pad_id, self.unknown_id, blob_bytes = cursor.unpack("5iQ")
        self.piece_ends = cursor.array(piece_count + 1, "<u4")
        self.piece_scores = cursor.array(piece_count, "<f4")
        self.piece_blob = cursor.take(blob_bytes)
        _replacements, replacement_bytes = cursor.unpack("iI")
        cursor.take(replacement_bytes)
        self._tensors: dict[str, _Tensor] = {}
        for _ in range(cursor.unpack("i")[0]):
            name = cursor.take(cursor.unpack("H")[0]).decode("ascii")
            self._tensors[name] = _Tensor(*cursor.unpack("BIQQ"))

    def pieces(self) -> list[bytes]:
        """Return the tokenizer's pieces in UTF-8; a piece's index in the list is its token id."""
        return [self.piece_blob[start:end] for start, end in pairwise(self.piece_ends.tolist())]

    def vector(self, name: str) -> NDArray[np.float32]:
        """Return a tensor stored as float32, flat."""
        data = self._bytes(name, _FLOAT)
        if len(data) % 4:
            raise self._damaged(f"tensor {name!r} of {len(data)} bytes is no list of floats")
        return data.view("<f4").astype(np.float32)

    def matrix(self, name: str, columns: int) -> NDArray[np.float32]:
        """Return a packed `(rows, columns)` matrix as float32."""
        return _unpack(self._blocks(name, columns))

    def word_vectors(self, ids: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Return the rows of the word table for token ids, `(*ids.shape, hidden)`."""
        return _unpack(self._word_blocks[ids])

    def _blocks(self, name: str, columns: int) -> NDArray[Any]:
        data = self._bytes(name, _PACKED)
        row_bytes = columns // _BLOCK_WEIGHTS * _BLOCK.itemsize
        if row_bytes <= 0 or columns % _BLOCK_WEIGHTS or len(data) % row_bytes:
            raise self._damaged(f"tensor {name!r} of {len(data)} bytes has no rows of {columns}")
        return data.view(_BLOCK).reshape(-1, columns // _BLOCK_WEIGHTS)

    def _bytes(self, name: str, form: int) -> NDArray[np.uint8]:
        tensor = self._tensors.get(name)
        if tensor is None or tensor.form != form or tensor.offset + tensor.byte_count > len(self._data):
            raise self._damaged(f"tensor {name!r} is not there")
        return self._data[tensor.offset : tensor.offset + tensor.byte_count]

    def _damaged(self, reason: str) -> ModelUnavailable:
        return ModelUnavailable(
            f"the offline embedding's weights {str(self._path)!r} cannot be used: {reason}; {REINSTALL}"
        )


def _unpack(blocks: NDArray[Any]) -> NDArray[np.float32]:
    """Return Q4_0 blocks `(..., n)` as `(..., 32 * n)` weights."""
    weights = np.empty((*blocks.shape, _BLOCK_WEIGHTS), np.float32)
    halves = blocks["halves"]
    np.bitwise_and(halves, 0x0F, out=weights[..., :16], casting="unsafe")
    np.right_shift(halves, 4, out=weights[..., 16:], casting="unsafe")
    weights -= 8
    weights *= blocks["scale"].astype(np.float32)[..., None]
    return weights.reshape(*blocks.shape[:-1], -1)


# Text cut into the model's tokens, and long text into windows that fit the model.
#
# The tokenizer is XLM-RoBERTa's: a SentencePiece unigram model over text in NFKC form. sentencepiece runs it, because
# its trie takes 50 MB where other implementations take 300. Its model file holds only the pieces, without character
# normalisation, which is done here.
#
# Building that trie takes half a second, most of the time of a process that asks one question. So the first short texts
# are tokenized without it, by the same search over a hash table of the pieces that is in the cache.

MAX_WINDOWS = 64
"""Most windows of one text; later tokens (beyond some 30,000) do not count: one vector could not hold them anyway."""

_MAX_TOKENS = 512
_PREFIXES: dict[EmbeddingKind, str] = {"query": "query:", "document": "passage:"}
_PREFIX_TOKENS = 3
MAX_TEXT_TOKENS = _MAX_TOKENS - _PREFIX_TOKENS - 2
"""How many tokens of a text fit one window, beside its prefix and the marks of start and end."""

# Text is tokenized in slices: tokenizing holds the GIL, and the end of a long text may never be needed.
_SLICE_CHARACTERS = 16_384

# What SentencePiece's rule `nmt_nfkc` does beyond NFKC: most control characters are removed (here NUL too), invisible
# ones become spaces. U+2581 is the tokenizer's own mark of a space.
_CONTROLS: dict[int, str | None] = dict.fromkeys([*range(0x20), 0x7F, 0x8F, 0x9F])
_SPACES = dict.fromkeys([*b"\t\n\f\r", 0x1680, *range(0x200B, 0x2010), 0x2028, 0x2029, 0x2581, 0xFEFF, 0xFFFD], " ")
_REPLACED = _CONTROLS | _SPACES


# How much text in total is tokenized without the trie: some thirty questions, or 60 ms.
_SHORT_CHARACTERS = 8_192


class E5Tokenizer:
    """Turns texts into windows of token ids. Thread-safe."""

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

        Lone surrogates and most control characters are left out.
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
        clean = _clean(text)
        if self._processor is None and len(clean) <= self._short_characters:
            self._short_characters -= len(clean)
            return self._pieces.ids(clean)
        with self._loading:
            if self._processor is None:
                self._processor = SentencePieceProcessor(model_proto=self._make_model())
        return self._processor.encode(clean, out_type=int)


def _clean(text: str) -> str:
    """Return a text in NFKC form, without lone surrogates and most control characters."""
    return unicodedata.normalize("NFKC", text.encode("utf-8", "ignore").decode().translate(_REPLACED))


# The mark of a space, which pieces have only at their beginning.
_SPACE = "\u2581"
_LONGEST_PIECE = 16
# Twice as many slots as pieces, and a power of two.
_SLOTS = 1 << 19
_UNKNOWN_PENALTY = np.float32(10)


class _PieceSearch:
    """Tokenizes short texts with the result of sentencepiece (Kudo 2018), without loading it.

    As there, scores add up in float32 and an equal score does not replace an earlier one, so that the same pieces win.
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
        # Per position: the best score of a segmentation ending there, the start of its last piece, and that piece's id.
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
            # Adjacent unknown pieces are one token.
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


class E5Words:
    """The input vectors of the model's tokens: words without context. Needs no inference.

    Args:
        cache_folder: Where files derived from the weights are kept; None derives them at every start.

    Raises:
        ModelUnavailable: The weights are missing or are not the right ones.
    """

    def __init__(self, cache_folder: Path | None) -> None:
        cache, path = ArtefactCache(cache_folder), find_weights()
        verify_weights(path, cache)
        self._weights = E5Weights(path)
        self._pieces = _PieceSearch(self._weights, cache.get("pieces", partial(_make_piece_table, self._weights)))

    def vectors(self, text: str) -> NDArray[np.float32]:
        """Return the vectors of a short text's tokens, `(tokens, hidden)`; at least one."""
        ids = self._pieces.ids(_clean(text)) or [self._weights.unknown_id]
        return self._weights.word_vectors(np.array(ids))

    def log_likelihood(self, word: str) -> float:
        """Return the log-likelihood of a word: the sum of the log probabilities of its pieces."""
        return float(sum(self._weights.piece_scores[number] for number in self._pieces.ids(_clean(word))))


def _make_piece_table(weights: E5Weights) -> bytes:
    """Return a hash table of the pieces' ids by CRC-32 with linear probing, as int32; -1 is an empty slot."""
    table = [-1] * _SLOTS
    pieces = weights.pieces()
    for number in np.flatnonzero(_are_text(weights)).tolist():
        slot = crc32(pieces[number]) % _SLOTS
        while table[slot] >= 0:
            slot = (slot + 1) % _SLOTS
        table[slot] = number
    return np.array(table, np.int32).tobytes()


def _are_text(weights: E5Weights) -> NDArray[np.bool_]:
    """Return, per piece, whether it represents text."""
    are_text = np.ones(len(weights.piece_scores), np.bool_)
    are_text[[weights.unknown_id, weights.start_id, weights.end_id, weights.pad_id]] = False
    return are_text


def _make_tokenizer_model(weights: E5Weights) -> bytes:
    """Return the tokenizer as a serialized SentencePiece `ModelProto`.

    The message is encoded by hand (`sentencepiece_model.proto` has the field numbers): it has four kinds of fields, and
    the package's own writer would need protobuf code of one certain version.
    """
    kinds = {weights.unknown_id: 2} | dict.fromkeys((weights.start_id, weights.end_id, weights.pad_id), 3)
    float_field = _varint(2 << 3 | 5)
    pieces: list[bytes] = []
    for number, (text, score) in enumerate(zip(weights.pieces(), weights.piece_scores.tolist(), strict=True)):
        kind = _number(3, kinds.get(number, 1))
        pieces.append(_bytes(1, _bytes(1, text) + float_field + struct.pack("<f", score) + kind))
    ids = (weights.unknown_id, weights.start_id, weights.end_id, weights.pad_id)
    unigram = 1
    trainer = _number(3, unigram) + b"".join(_number(field, value) for field, value in enumerate(ids, 40))
    # Add a space before the text, remove extra spaces, mark spaces.
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


# A few threads that run short jobs in a fair order.
#
# Queries go before documents. Among equals, batches take turns, so a short batch does not wait for a long earlier one;
# a new batch starts at the current turn and cannot overtake waiting ones. A turn of documents is as many jobs as a page
# or two have: of many such batches, the first finishes first, rather than all of them last. A job whose future is
# cancelled before its turn is skipped.

T = TypeVar("T")
_PRIORITIES: dict[EmbeddingKind, int] = {"query": 0, "document": 10}
_JOBS_IN_TURN: dict[EmbeddingKind, int] = {"query": 1, "document": 16}


@dataclass(order=True, slots=True)
class _Job:
    priority: int
    turn: int
    arrival: int
    run: Callable[[], Any] = field(compare=False)
    future: Future[Any] = field(compare=False)

    def perform(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self.run()
        except BaseException as error:  # noqa: BLE001 (not swallowed: whoever waits for the job gets it)
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class InferenceQueue:
    """Runs jobs and returns futures; use from any thread.

    Args:
        name: Name of the threads. They are started when no thread is idle, and do not keep the process alive.
        threads: Most jobs that run at once.
    """

    def __init__(self, name: str, threads: int = 1) -> None:
        self._name = name
        self._max_threads = threads
        self._changed = threading.Condition()
        self._jobs: list[_Job] = []
        self._turns = dict.fromkeys(_PRIORITIES.values(), 0)
        self._arrivals = count()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._is_closed = False

    def submit(self, runs: Sequence[Callable[[], T]], kind: EmbeddingKind) -> list[Future[T]]:
        """Queue one batch of jobs and return their futures in order; `ModelUnavailable` if the queue is closed."""
        priority = _PRIORITIES[kind]
        with self._changed:
            if self._is_closed:
                raise _closed()
            first = self._turns[priority]
            jobs = [
                _Job(priority, first + place // _JOBS_IN_TURN[kind], next(self._arrivals), run, Future())
                for place, run in enumerate(runs)
            ]
            for job in jobs:
                heapq.heappush(self._jobs, job)
            missing = min(len(self._jobs) - self._idle, self._max_threads - len(self._threads))
            for _ in range(missing):
                thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._threads.append(thread)
                thread.start()
            self._changed.notify(len(jobs))
        return [job.future for job in jobs]

    def close(self) -> None:
        """Finish running jobs, fail all others with `ModelUnavailable`, and end the threads."""
        with self._changed:
            self._is_closed = True
            jobs, self._jobs = self._jobs, []
            self._changed.notify_all()
        for job in jobs:
            if job.future.set_running_or_notify_cancel():
                job.future.set_exception(_closed())
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            job.perform()
            # Else its inputs and result would stay in memory until the next job.
            del job

    def _next(self) -> _Job | None:
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._jobs or self._is_closed)
            self._idle -= 1
            if not self._jobs:
                return None
            job = heapq.heappop(self._jobs)
            self._turns[job.priority] = job.turn
            return job


def _closed() -> ModelUnavailable:
    return ModelUnavailable("the offline embedding is closed; open the workspace again")


# Names of the graph's inputs and output, defined here so that running it does not import `onnx`.
WORDS_INPUT = "words"
PLACES_INPUT = "places"
ROWS_INPUT = "rows"
MASK_INPUT = "mask"
PADDED_INPUT = "is_padded"
SLOTS_INPUT = "slots"
OUTPUT = "vectors"
# Far below any score, so that its softmax is 0.
_OF_PADDING = np.float32(-10_000)
_ERRORS_ONLY = 3
_ONNXRUNTIME_ERRORS: tuple[type[Exception], ...] = tuple(
    getattr(ort_errors, name)
    for name in (
        "EPFail",
        "Fail",
        "InvalidArgument",
        "InvalidGraph",
        "InvalidProtobuf",
        "NotImplemented",
        "RuntimeException",
    )
)


class E5Encoder:
    """A loaded graph. Thread-safe.

    Args:
        graph: The result of `make_graph`, or of `part_matrices`.
        weights: Gives the word vectors.
        matrices: The folder with the file of the separate matrices; None if the graph holds them.

    Raises:
        ModelUnavailable: The graph cannot be loaded.
    """

    def __init__(self, graph: bytes, weights: E5Weights, matrices: Path | None = None) -> None:
        self._weights = weights
        self._session = _load(graph, matrices)

    def encode(self, windows: Sequence[NDArray[np.int32]]) -> NDArray[np.float32]:
        """Return the mean vectors of one run's windows, `(windows, hidden)`, not normalised.

        Raises:
            ModelUnavailable: The run failed, most likely for lack of memory.
        """
        lengths = np.array([len(window) for window in windows], np.int64)
        words = self._weights.word_vectors(np.concatenate(windows))
        inputs = {WORDS_INPUT: words, **_layout(lengths, self._weights.shape.heads)}
        try:
            vectors = cast("NDArray[np.float32]", self._session.run([OUTPUT], inputs)[0])
        except _ONNXRUNTIME_ERRORS as error:
            raise ModelUnavailable(f"the offline embedding failed: {error}; free some memory and try again") from error
        starts = np.cumsum(lengths) - lengths
        sums = cast("NDArray[np.float32]", np.add.reduceat(vectors, starts))
        return sums / lengths.astype(np.float32)[:, None]


def _load(graph: bytes, matrices: Path | None) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    # Runs are small and similar, so an arena would save little time for the memory that it would keep.
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.log_severity_level = _ERRORS_ONLY
    if matrices is not None:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(matrices))
    try:
        return onnxruntime.InferenceSession(graph, options, ["CPUExecutionProvider"])
    except _ONNXRUNTIME_ERRORS as error:
        raise ModelUnavailable(
            f"onnxruntime {onnxruntime.__version__} cannot load the offline embedding: {error}; "
            "run: pip install --upgrade onnxruntime"
        ) from error


def _layout(lengths: NDArray[np.int64], heads: int) -> dict[str, NDArray[Any]]:
    """Return the inputs that state the position of each token for windows of these lengths."""
    longest = lengths.max()
    is_token = np.arange(longest) < lengths[:, None]
    windows, places = np.nonzero(is_token)
    rows = np.zeros(is_token.shape, np.int64)
    rows[is_token] = np.arange(len(places))
    head = np.arange(heads)
    return {
        PLACES_INPUT: places,
        ROWS_INPUT: rows[:, None, :] * (3 * heads) + head[:, None],
        MASK_INPUT: np.where(is_token, np.float32(0), _OF_PADDING)[:, None, None, :],
        PADDED_INPUT: np.array(not is_token.all()),
        SLOTS_INPUT: (windows[:, None] * heads + head) * longest + places[:, None],
    }


# Spreads the model's vectors, and removes the language of the text from them.
#
# The raw cosines of multilingual-e5 crowd between 0.69 and 0.84, whatever the texts: all vectors share one large
# direction. Removing it makes cosines comparable with those of other models, so that one set of thresholds and weights
# serves them all, and improves ranking (Mu and Viswanath, "All-but-the-Top", 2018). The next largest shared component
# is the language: a question finds nearly every passage of its own language before the right one in another.
#
# Three details were decided by measurement, on seven retrieval sets (English and Chinese), each ranked with constants
# that were measured on the others:
#
# - Only three quarters of the mean are removed. With all of it, texts with little content (which lie close to the mean)
#   are blown up when they are normalised to length 1, and long, general passages lose: mean R@5 raw 74.7, all 75.0,
#   three quarters 75.8; the set that suffers most, of long handbook pages, 63.9, 61.0, 65.5.
# - Queries and documents have means of their own (mean R@5 with one for both: 75.2).
# - The component between English and Chinese is set to the middle. Within a language little changes (mean R@5 75.9); of
#   15 Chinese questions about one English passage each, among 1250 others, 12 now find it first instead of none.
#
# The constants belong to the model, measured once on general text by `benchmarks/embedding_mean.py`: if they came from
# the indexed texts, every new text would shift them.

CONSTANTS_PATH = Path(__file__).parent / "centring.npy"
"""Three rows of float32: the mean of queries, the mean of documents, the unit direction of language."""

_SHARE = 0.75
_MEANS: dict[EmbeddingKind, int] = {"query": 0, "document": 1}
_LANGUAGE = 2


def centre(vectors: NDArray[np.float32], kind: EmbeddingKind) -> NDArray[np.float32]:
    """Return unit vectors `(n, hidden)` without most of their shared component, normalised."""
    constants = _constants()
    mean, language = constants[_MEANS[kind]], constants[_LANGUAGE]
    return normalise(vectors - _SHARE * mean - np.outer((vectors - mean) @ language, language))


def normalise(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return each row at length 1."""
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@cache
def _constants() -> NDArray[np.float32]:
    return np.load(CONSTANTS_PATH)


# In seven retrieval sets, 1 of 3044 pairs of a question and a passage that answers it scores below this, and 8 to 30 of
# 100 random pairs.
_MIN_SCORE = 0.15
# From about 100 tokens on, a run's cost per token is constant; longer ones only delay questions and take more memory.
_MAX_RUN_TOKENS = 256
_INFO = EmbeddingInfo("multilingual-e5-small/int8/centred-1", 384, MAX_TEXT_TOKENS, _MIN_SCORE, USUAL_SCALE)
_RAW_INFO = EmbeddingInfo("multilingual-e5-small/int8", 384, MAX_TEXT_TOKENS, -1.0)
# Some 200 us of tokenizing.
_MAX_INLINE_CHARACTERS = 2000
# Each further one takes 60 to 80 MB, and the Python code around the model seldom keeps more of them busy.
_MOST_THREADS_UNASKED = 4
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class _Plan:
    """The windows of all texts (`owners` has the text of each), and which of them run together."""

    windows: list[NDArray[np.int32]]
    owners: list[int]
    runs: list[list[int]]

    @property
    def tokens(self) -> int:
        return sum(map(len, self.windows))


class E5EmbeddingModel(EmbeddingModel):
    """multilingual-e5-small (Wang et al. 2024) in eight bits on the CPU, no network.

    A text longer than the model's window is embedded in windows, and gets the mean over all their tokens; tokens beyond
    some 30,000 do not count. The same text gives the same vector in every batch, except for the last float32 digits.

    Args:
        cache_folder: Where files derived from the weights are kept; None derives them at every start.
        threads: How many runs of the model go in parallel, each on a thread; 0 means one per core, at most four.
        is_centred: Whether vectors are centred; raw ones, whose cosines crowd together, are for measuring.
    """

    def __init__(self, cache_folder: Path | None, *, threads: int = 0, is_centred: bool = True) -> None:
        self._cache = ArtefactCache(cache_folder)
        self._is_centred = is_centred
        self._loading = threading.Lock()
        self._loaded: tuple[E5Tokenizer, E5Encoder] | None = None
        self._is_closed = False
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._queue = InferenceQueue("heliograph-embedding", threads or min(cores, _MOST_THREADS_UNASKED))

    @property
    def info(self) -> EmbeddingInfo:
        return _INFO if self._is_centred else _RAW_INFO

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        if not texts:
            return Embeddings(np.zeros((0, _INFO.dimension), np.float32), Usage())
        are_short = self._loaded is not None and sum(map(len, texts)) <= _MAX_INLINE_CHARACTERS
        call = _call_here if are_short else asyncio.to_thread
        encoder, plan = await call(self._prepare, tuple(texts), kind)
        batches = [[plan.windows[index] for index in run] for run in plan.runs]
        futures = self._queue.submit([partial(encoder.encode, batch) for batch in batches], waits_as(kind))
        try:
            means = await asyncio.gather(*map(asyncio.wrap_future, futures))
        finally:
            # On a failure, or when cancelled, the remaining jobs do not run.
            for future in futures:
                future.cancel()
        vectors = await call(self._assemble, plan, means, len(texts), kind)
        return Embeddings(vectors, Usage(plan.tokens))

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _prepare(self, texts: Sequence[str], kind: EmbeddingKind) -> tuple[E5Encoder, _Plan]:
        tokenizer, encoder = self._load()
        windows: list[NDArray[np.int32]] = []
        owners: list[int] = []
        for number, text in enumerate(texts):
            cut = tokenizer.windows(text, kind)
            windows += cut
            owners += [number] * len(cut)
        return encoder, _Plan(windows, owners, plan_runs([len(window) for window in windows], _MAX_RUN_TOKENS))

    def _close(self) -> None:
        self._queue.close()
        with self._loading:
            self._is_closed = True
            self._loaded = None

    def _load(self) -> tuple[E5Tokenizer, E5Encoder]:
        with self._loading:
            if self._is_closed:
                raise ModelUnavailable("the offline embedding is closed; open the workspace again")
            if self._loaded is None:
                path = find_weights()
                verify_weights(path, self._cache)
                weights = E5Weights(path)
                tokenizer = E5Tokenizer(weights, self._cache)
                self._loaded = tokenizer, _open_encoder(weights, self._cache)
            return self._loaded

    def _assemble(
        self, plan: _Plan, means: list[NDArray[np.float32]], count: int, kind: EmbeddingKind
    ) -> NDArray[np.float32]:
        """Return one vector per text from the means of all runs' windows."""
        order = [index for run in plan.runs for index in run]
        lengths = np.array([len(plan.windows[index]) for index in order], np.float32)
        sums = np.zeros((count, _INFO.dimension), np.float32)
        np.add.at(sums, np.array(plan.owners)[order], np.concatenate(means) * lengths[:, None])
        return centre(normalise(sums), kind) if self._is_centred else normalise(sums)


def _open_encoder(weights: E5Weights, cache: ArtefactCache) -> E5Encoder:
    graph, matrices = cache.read("graph"), cache.find_folder("matrices")
    if graph is not None and matrices is not None:
        return E5Encoder(graph, weights, matrices)
    # Imported on use: only the first start on a machine needs `onnx`, and importing it takes as long as all the rest.
    making = import_module("heliograph.embedding.e5.graph")
    whole = making.make_graph(weights)
    graph, parted = making.part_matrices(whole, cache.file_name("matrices"), CONTENT_START)
    cache.write("matrices", parted)
    cache.write("graph", graph)
    return E5Encoder(whole, weights)


async def _call_here(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    return function(*args, **kwargs)
