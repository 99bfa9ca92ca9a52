from __future__ import annotations

import json
import os
import threading
from collections.abc import Generator
from io import FileIO

import pytest

from heliograph.mcp.stdio import LineReader, LineWriter

Pipe = tuple[FileIO, FileIO]


@pytest.fixture
def pipe() -> Generator[Pipe]:
    """Give the two ends of a pipe: where to read and where to write; a test may close them."""
    reading, writing = os.pipe()
    with FileIO(reading, "rb") as source, FileIO(writing, "wb") as sink:
        yield source, sink


async def read_all(pipe: Pipe, data: bytes, most_bytes: int = 1_000_000) -> list[str]:
    def write() -> None:
        view = memoryview(data)
        while view:
            view = view[pipe[1].write(view) :]
        pipe[1].close()

    writer = threading.Thread(target=write)
    writer.start()
    found = [line async for line in LineReader(pipe[0].fileno(), most_bytes)]
    writer.join()
    return found


async def test_lines_come_whole_and_in_order(pipe: Pipe) -> None:
    lines = ["one", "", "zwei ä", "三" * 100_000, *map(str, range(1_000)), "no end mark"]
    assert await read_all(pipe, "\n".join(lines).encode()) == lines


async def test_line_that_is_too_long_is_dropped_and_the_next_is_read(pipe: Pipe) -> None:
    found = await read_all(pipe, b"a" * 300_000 + b"\nnext\n" + b"b" * 99 + b"\n", most_bytes=100)
    assert found == ["(a line that is too long)", "next", "b" * 99]


async def test_bytes_that_are_no_text_are_replaced(pipe: Pipe) -> None:
    assert await read_all(pipe, b"\xff\xfe\n") == ["\ufffd\ufffd"]


async def test_halves_of_surrogate_pairs_are_replaced_and_whole_pairs_kept(pipe: Pipe) -> None:
    (found,) = await read_all(pipe, b'{"a": "half \\ud800, whole \\ud83d\\ude00"}')
    assert json.loads(found) == {"a": "half \ufffd, whole \U0001f600"}
    assert found.encode()


async def test_lines_that_are_no_json_are_left_as_they_are(pipe: Pipe) -> None:
    lines = ["\\ud800 no json", "[" * 100_000 + "\\ud800"]
    other = "\n".join(lines)
    assert await read_all(pipe, other.encode()) == lines


async def test_texts_are_written_whole_though_the_reader_is_slow(pipe: Pipe) -> None:
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.extend(iter(lambda: pipe[0].read(4_096), b"")))
    reader.start()
    writer = LineWriter(pipe[1].fileno())
    for number in range(5):
        await writer.write(f"{number}" * 100_000 + "\n")
        await writer.flush()
    pipe[1].close()
    reader.join()
    assert b"".join(found).decode() == "".join(f"{number}" * 100_000 + "\n" for number in range(5))


async def test_writing_to_nobody_is_an_error(pipe: Pipe) -> None:
    pipe[0].close()
    with pytest.raises(BrokenPipeError):
        await LineWriter(pipe[1].fileno()).write("text")
