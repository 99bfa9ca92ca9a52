"""Reads text from pictures of pages: scanned PDF files, and pictures that are documents themselves.

RapidOCR (extra `ocr`) finds and reads the lines, in Chinese, English and most languages in Latin letters; its models
are in its package. Lines become the spans that a page with text has, so that `pdf` finds columns, tables, headings and
paragraphs in the same way.
"""

from __future__ import annotations

import logging
import math
import os
from cmath import phase, rect
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from statistics import median
from typing import Any, NamedTuple

from heliograph.documents.pdf_layout import Span
from heliograph.errors import import_optional

EXTRA = "ocr"
# Pixels of a page's shorter side, which gives an A4 page 1,400 along the longer one. On pages of an English manual in
# 10 points, 1,200 misread 3% of the words, 1,400 4%, 2,000 6% at twice the cost; small print needs more.
SHORTER_SIDE = 1000
_MOST_PIXELS = 40_000_000
# A longer picture is read in parts of at least this length; the OCR engine shrinks anything longer.
_PART = 1400
# Boxes of lines in one font differ in height by up to this share.
_SAME_SIZE = 0.15
_LEAST_SIDE = 32
_WIDEST = 15
_LOG = logging.getLogger(__name__)
# The engine's own check for upside-down lines turns some that are not. A thread per core on a machine with many cores
# would take more memory than a reading process may have.
_OPTIONS = {
    "Global.use_cls": False,
    "Global.log_level": "critical",
    # A side is never enlarged: for a narrow strip that would take unbounded memory.
    "Det.limit_type": "max",
    "Det.limit_side_len": _PART,
    "EngineConfig.onnxruntime.intra_op_num_threads": min(4, os.cpu_count() or 1),
}


def can_read_pictures() -> bool:
    """Return whether the extra `ocr` is installed."""
    try:
        return find_spec("rapidocr") is not None
    except ImportError:
        return False


class ScanLeftError(Exception):
    """A document has pages that need OCR, which this process leaves to another."""


# Whether this process leaves them: a long scan, which takes hours, must not keep other documents waiting.
are_left = False


def _nothing() -> None:
    pass


# Called after each page that OCR has read, which takes seconds, so that the process can report that it is alive.
on_page: Callable[[], None] = _nothing


def picture_scale(across: float, down: float) -> float:
    """Return how many pixels per point a page's picture should have, so that OCR reads it well."""
    return min(SHORTER_SIDE / max(min(across, down), 1.0), math.sqrt(_MOST_PIXELS / max(across * down, 1.0)))


def read_picture(picture: Any, scale: float) -> tuple[Span, ...]:
    """Return the lines of text in an RGB picture, from top to bottom; none if it cannot be read.

    `scale` is the pixels per point.

    Raises:
        MissingDependencyError: The extra `ocr` is not installed.
        ScanLeftError: This process runs no OCR.
    """
    if are_left:
        raise ScanLeftError
    reader = _reader()
    lines: list[_Line] = []
    for top, part in _parts(picture):
        try:
            found = reader(part)
        except Exception as error:  # noqa: BLE001 (whatever its engine raises: one page does not stop a document)
            _LOG.warning("a page could not be read: %s", type(error).__name__)
            return ()
        on_page()
        # Four corners per line, clockwise from the upper left one.
        for corners, text in zip(found.boxes, found.txts, strict=True) if found.txts else ():
            if shown := " ".join(text.split()):
                places = [complex(across, top + down) / scale for across, down in corners.tolist()]
                lines.append(_Line(places, shown))
    if not lines:
        return ()
    # The lines of a page scanned askew all slope alike: the page is rotated back, or they would not form rows.
    back = rect(1.0, -median(phase(line.along) for line in lines))
    # Boxes are drawn around the ink: lines about as high as most of the text are text, not headings.
    body = sorted(line.size for line in lines for _ in line.text)[sum(len(line.text) for line in lines) // 2]
    spans: list[Span] = []
    for line in lines:
        middle, width = line.middle * back, abs(line.along)
        height = body if abs(line.size - body) < _SAME_SIZE * body else line.size
        left, top = middle.real - width / 2, middle.imag - height / 2
        spans.append(Span(left, top, left + width, top + height, line.text))
    return tuple(spans)


def _parts(picture: Any) -> Iterator[tuple[int, Any]]:
    """Yield a picture, or parts of one that is much longer than wide, with the row at which each begins.

    It is split at the brightest of several rows, where a line is unlikely.
    """
    width, height = picture.size
    if min(width, height) < _LEAST_SIDE or width > _WIDEST * height:
        return
    if height <= 2 * max(width, _PART):
        yield 0, picture
        return
    rows = picture.convert("L").resize((1, height)).tobytes()
    top, length = 0, max(width, _PART)
    while height - top > 2 * length:
        within = rows[top + length : top + length + length // 4]
        end = top + length + max(range(len(within)), key=within.__getitem__)
        yield top, picture.crop((0, top, width, end))
        top = end
    yield top, picture.crop((0, top, width, height))


class _Line(NamedTuple):
    """A line of text: its corners in points, as complex numbers (x real, y imaginary), and its words."""

    corners: Sequence[complex]
    text: str

    @property
    def along(self) -> complex:
        return self.corners[1] - self.corners[0]

    @property
    def size(self) -> float:
        return abs(self.corners[3] - self.corners[0])

    @property
    def middle(self) -> complex:
        return sum(self.corners) / len(self.corners)


@cache
def _reader() -> Any:
    return import_optional("rapidocr", EXTRA).RapidOCR(params=_OPTIONS)
