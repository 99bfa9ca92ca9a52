"""Answers that come piece by piece: the references first, then the text, then all that is known of the whole.

A stream is newline-delimited JSON. Lines are split at line feeds only, as a text may hold other characters that some
take for line ends.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Self, cast

import heliograph.client.records as records
from heliograph.client.reading import problem_error, read_as
from heliograph.errors import HeliographError, InvalidRequestError, ServiceUnavailable

__all__ = ["AsyncAnswerStream", "StreamReader", "answer_from"]


class StreamReader:
    """Makes sense of the lines of a stream, whoever reads them.

    Attributes:
        references: Documents that the answer draws on, once they are known.
        text: The text so far.
        answer: The whole, once the stream has ended.
    """

    def __init__(self, progress: Callable[[str], None] | None = None) -> None:
        self.references: tuple[records.ClientReference, ...] = ()
        self.text = ""
        self.answer: records.ClientAnswer | None = None
        self.has_references = False
        self._shown_references: Any = ()
        self._progress = progress
        self._details: dict[str, Any] = {}
        self._rest = b""

    def feed(self, data: bytes) -> list[str]:
        """Take in bytes and return the pieces of text in them.

        Raises:
            HeliographError: The service says that it failed on the way.
            ServiceUnavailable: It is no stream of a service.
        """
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [piece for line in lines if line.strip() for piece in self._take(line)]

    def end(self) -> list[str]:
        """Take in what is left, and make the answer.

        Raises:
            ServiceUnavailable: The stream was cut off before its end.
        """
        pieces = self.feed(b"\n")
        if not self._details:
            raise ServiceUnavailable("the stream was cut off before the answer was whole; ask again")
        self.answer = answer_from(self._details | {"response": self.text, "references": self._shown_references})
        return pieces

    def _take(self, line: bytes) -> list[str]:
        told = _decoded(line)
        if "error" in told:
            raise problem_error(told)
        if "references" in told:
            self._shown_references = told["references"]
            self.references = read_as(tuple[records.ClientReference, ...], told["references"], "references")
            self.has_references = True
        if self._progress is not None and isinstance(told.get("progress"), str):
            self._progress(told["progress"])
        if isinstance(told.get("details"), dict):
            self._details |= told["details"]
        if "response_time" in told:
            self._details["response_time"] = told["response_time"]
        piece = told.get("response")
        if not isinstance(piece, str):
            return []
        self.text += piece
        return [piece]


class AsyncAnswerStream:
    """An answer piece by piece: `async for piece in stream`; `answer` is the whole afterwards."""

    def __init__(self, reader: StreamReader, chunks: AsyncIterator[bytes]) -> None:
        self._reader = reader
        self._chunks = chunks
        self._waiting: list[str] = []

    @property
    def references(self) -> tuple[records.ClientReference, ...]:
        """Documents that the answer draws on; known before its first piece."""
        return self._reader.references

    @property
    def answer(self) -> records.ClientAnswer:
        """The whole answer.

        Raises:
            InvalidRequestError: The stream has not been read to its end.
        """
        if self._reader.answer is None:
            raise InvalidRequestError("the stream has not been read to its end; loop over it first")
        return self._reader.answer

    async def begin(self) -> Self:
        """Read up to the references."""
        while not (self._reader.has_references or self._waiting):
            data = await anext(self._chunks, None)
            if data is None:
                self._waiting += self._reader.end()
                break
            self._waiting += self._reader.feed(data)
        return self

    async def __aiter__(self) -> AsyncIterator[str]:
        while self._reader.answer is None:
            for piece in self._drain():
                yield piece
            data = await anext(self._chunks, None)
            self._waiting += self._reader.end() if data is None else self._reader.feed(data)
        for piece in self._drain():
            yield piece

    def _drain(self) -> list[str]:
        pieces, self._waiting = self._waiting, []
        return pieces


def answer_from(body: Any) -> records.ClientAnswer:
    """Return an answer from the JSON of `/query`, or from the details of a stream with its text."""
    told = read_as(Mapping[str, Any], body)
    return read_as(records.ClientAnswer, {**told, "references": told.get("references") or []})


def _decoded(line: bytes) -> dict[str, Any]:
    try:
        told = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _unknown(line) from error
    if not isinstance(told, dict):
        raise _unknown(line)
    return cast("dict[str, Any]", told)


def _unknown(line: bytes) -> HeliographError:
    return ServiceUnavailable(f"the stream has a line that is no JSON object: {line[:100]!r}")
