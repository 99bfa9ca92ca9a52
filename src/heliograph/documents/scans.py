"""Reads text off pictures of pages: scanned PDF files, and pictures that are documents themselves.

RapidOCR (extra `ocr`) finds the lines and reads them, in Chinese, English and most languages in Latin letters; its
models are inside its package. Lines become the spans that a page with text has, so that columns, tables, headings and
paragraphs are told as there (`pdf`).
"""

from __future__ import annotations

import os
from cmath import phase, rect
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from statistics import median
from typing import Any, NamedTuple

from heliograph.documents.pdf_layout import Span
from heliograph.errors import import_optional

EXTRA = "ocr"
# Pixels of a page's longer side. On pages of an English manual in 10 points, 1,200 misread 3% of the words, 1,400 4%,
# 2,000 6% at twice the cost; small print wants more.
LONGER_SIDE = 1400
# The reader's own check whether a line stands on its head turns some that do not. A thread for each of many cores would
# take more memory than a process that reads documents may have.
_OPTIONS = {
    "Global.use_cls": False,
    "Global.log_level": "error",
    "EngineConfig.onnxruntime.intra_op_num_threads": min(4, os.cpu_count() or 1),
}


def can_read_pictures() -> bool:
    """Return whether the extra `ocr` is installed."""
    return find_spec("rapidocr") is not None


class ScanLeftError(Exception):
    """A document has pages to be read off pictures, and this process leaves these to another."""


# Whether it does: a long scan, which takes hours, must not keep other documents waiting.
are_left = False


def _nothing() -> None:
    pass


# Called after each page that was read off a picture, which takes seconds: a process that reads says that it is alive.
on_page: Callable[[], None] = _nothing


def read_picture(picture: Any, scale: float) -> tuple[Span, ...]:
    """Return the lines of text in a picture, the upper ones first.

    Args:
        picture: A `PIL.Image.Image` in red, green and blue.
        scale: Pixels of a point.

    Raises:
        MissingDependencyError: The extra `ocr` is not installed.
        ScanLeftError: This process reads no pictures.
    """
    if are_left:
        raise ScanLeftError
    found = _reader()(picture)
    on_page()
    lines: list[_Line] = []
    # Four corners a line, from its upper left one on, as a clock goes.
    for corners, text in zip(found.boxes, found.txts, strict=True) if found.txts else ():
        if shown := " ".join(text.split()):
            lines.append(_Line([complex(across, down) / scale for across, down in corners.tolist()], shown))
    # Lines of a page that was laid askew all fall alike: it is turned back, or they would not stand in rows.
    tilt = median(phase(line.along) for line in lines) if lines else 0.0
    back = rect(1.0, -tilt)
    spans: list[Span] = []
    for line in lines:
        middle, width, height = line.middle * back, abs(line.along), abs(line.down)
        left, top = middle.real - width / 2, middle.imag - height / 2
        spans.append(Span(left, top, left + width, top + height, line.text))
    return tuple(spans)


class _Line(NamedTuple):
    """A line of text: its corners in points, across as real and down as imaginary parts, and what it says."""

    corners: Sequence[complex]
    text: str

    @property
    def along(self) -> complex:
        return self.corners[1] - self.corners[0]

    @property
    def down(self) -> complex:
        return self.corners[3] - self.corners[0]

    @property
    def middle(self) -> complex:
        return sum(self.corners) / len(self.corners)


@cache
def _reader() -> Any:
    reader = import_optional("rapidocr", EXTRA).RapidOCR(params=_OPTIONS)
    import_optional("cv2", EXTRA).setNumThreads(1)
    return reader
