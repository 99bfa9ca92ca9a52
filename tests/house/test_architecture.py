"""ARCHITECTURE.md says of the files and of the two walks what the code says."""

from __future__ import annotations

import re
import subprocess
import sys

from .architecture import PAGE, part, tree
from .sources import ROOT

_WRITE = "run `python -m tests.house.architecture`, and read what it changed"


def test_tree_is_that_of_the_sources() -> None:
    assert part("tree") == tree(), _WRITE


def test_walks_are_those_that_a_document_and_a_question_take() -> None:
    # In a process of its own: what other tests have loaded and left running changes which files are entered.
    code = "from tests.house.architecture import walks; print(walks())"
    walked = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    written, taken = _files(part("walks")), _files(walked)
    differing = [sorted(before ^ after) for before, after in zip(written, taken, strict=True)]
    assert differing == [[], []], _WRITE


def _files(text: str) -> list[set[str]]:
    """The files of each walk; which of them is entered first may depend on threads."""
    return [set(re.findall(r"`([a-z0-9_/]+)`\s+\(", walk)) for walk in text.split("A question's way out")]


def test_page_can_be_read_in_one_sitting() -> None:
    assert len(PAGE.read_text("utf-8").splitlines()) <= 480
