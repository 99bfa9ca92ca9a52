"""The file of a full-text index: a header that says what follows, then the arrays, mapped into memory when read.

It is written beside its place and then put there, so a reader, of whatever process, always has a whole one, and goes on
with the one it has when there is another. The header and all arrays but the postings, which are most of the file, are
checked by their sums when it is read. Postings have a sum per block, which is compared when one of the block is used
first, so that opening a file stays cheap; those that are damaged are an `IndexError`.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heliograph.stores.posting_segments import Segment

_MAGIC = b"heliopst"
_FORMAT = 2
# Magic, format, bytes of the header, its CRC-32.
_PREFIX = struct.Struct("<8sIII")
_ALIGNMENT = 64
_TYPES = ("<i8", "<f4", "<u8", "<i8", "<u4", "<u2", "<u4")
_POSTINGS = (4, 5)
_BLOCK = 1 << 14


def write_segments(path: Path, segments: Sequence[Segment], mark: str) -> None:
    """Make segments the contents of a file; it is on disk when this returns.

    Raises:
        OSError: It cannot be written; what was there before is left.
        IndexError: Postings that were read from a file are damaged.
    """
    part = path.with_name(f".{path.name}.part")
    sizes = [[len(array) for array in _arrays(segment)] for segment in segments]
    sums = [_checksum(_arrays(segment)) for segment in segments]
    blocks = [_block_sums(segment) for segment in segments]
    header = json.dumps({"mark": mark, "segments": sizes, "sums": sums, "blocks": blocks}).encode()
    try:
        with part.open("wb") as file:
            file.write(_PREFIX.pack(_MAGIC, _FORMAT, len(header), zlib.crc32(header)) + header)
            for segment in segments:
                for array, kind in zip(_arrays(segment), _TYPES, strict=True):
                    file.write(bytes(-file.tell() % _ALIGNMENT))
                    file.write(np.ascontiguousarray(array, kind).data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def read_segments(path: Path) -> tuple[list[Segment], str]:
    """Return what a file holds, and its mark.

    Raises:
        OSError: It cannot be read.
        ValueError: It is damaged, or of another format.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        header, begin = _read_header(file.read(_PREFIX.size), file)
        sizes: list[list[int]] = header["segments"]
        places, end = _places(sizes, begin)
        if end != size:
            raise ValueError(f"it has {size} bytes and not {end}")
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    segments: list[Segment] = []
    for counts, check, blocks in zip(sizes, header["sums"], header["blocks"], strict=True):
        arrays: list[NDArray[Any]] = [
            np.frombuffer(mapped, kind, count, next(places)) for kind, count in zip(_TYPES, counts, strict=True)
        ]
        if _checksum(arrays) != check:
            raise ValueError("its contents are damaged")
        segment = Segment(*arrays)
        segment.check = _BlockCheck(segment.slots, segment.counts, blocks)
        segments.append(segment)
    return segments, str(header["mark"])


def _read_header(prefix: bytes, file: Any) -> tuple[dict[str, Any], int]:
    if len(prefix) < _PREFIX.size or not prefix.startswith(_MAGIC):
        raise ValueError("it is no full-text index")
    _, number, length, check = _PREFIX.unpack(prefix)
    if number != _FORMAT:
        raise ValueError(f"its format is {number} and not {_FORMAT}")
    header = file.read(length)
    if zlib.crc32(header) != check:
        raise ValueError("its header is damaged")
    return json.loads(header), _PREFIX.size + length


def _places(sizes: Sequence[Sequence[int]], begin: int) -> tuple[Iterator[int], int]:
    """Return where each array begins, and where the last one ends."""
    places: list[int] = []
    for counts in sizes:
        for kind, count in zip(_TYPES, counts, strict=True):
            places.append(begin + -begin % _ALIGNMENT)
            begin = places[-1] + np.dtype(kind).itemsize * count
    return iter(places), begin


def _checksum(arrays: Sequence[NDArray[Any]]) -> int:
    """Return the CRC-32 of all but the postings."""
    check = 0
    for place, (array, kind) in enumerate(zip(arrays, _TYPES, strict=True)):
        if place not in _POSTINGS:
            check = zlib.crc32(np.ascontiguousarray(array, kind).data, check)
    return check


class _BlockCheck:
    """Compares blocks of postings with their sums, each once; for any number of threads."""

    def __init__(self, slots: NDArray[np.uint32], counts: NDArray[np.uint16], sums: Sequence[int]) -> None:
        self._slots = slots
        self._counts = counts
        self._sums = sums
        self._is_right = bytearray(len(sums))

    def __call__(self, begin: int, end: int) -> None:
        for place in range(begin // _BLOCK, -(-end // _BLOCK)):
            if not self._is_right[place]:
                if _block_sum(self._slots, self._counts, place) != self._sums[place]:
                    raise IndexError(f"the postings of block {place} are damaged")
                self._is_right[place] = 1


def _block_sums(segment: Segment) -> list[int]:
    """Return the CRC-32 of each block of postings, after comparing them with what they were read from."""
    slots, counts = segment.postings(0, len(segment.slots))
    return [_block_sum(slots, counts, place) for place in range(-(-len(slots) // _BLOCK))]


def _block_sum(slots: NDArray[np.uint32], counts: NDArray[np.uint16], place: int) -> int:
    block = slice(place * _BLOCK, (place + 1) * _BLOCK)
    check = zlib.crc32(np.ascontiguousarray(slots[block], "<u4").data)
    return zlib.crc32(np.ascontiguousarray(counts[block], "<u2").data, check)


def _arrays(segment: Segment) -> tuple[NDArray[Any], ...]:
    return (
        *(segment.keys, segment.lengths, segment.hashes, segment.starts),
        *(segment.slots, segment.counts, segment.dead),
    )
