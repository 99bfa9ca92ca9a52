"""ARCHITECTURE.md says of the files and of the walks what the code says."""

from __future__ import annotations

import subprocess
import sys

from .architecture import PAGE, UNTOLD, part, tree
from .sources import ROOT

_WRITE = "run `python -m tests.house.architecture`, and read what it changed"


def test_tree_is_that_of_the_sources() -> None:
    assert part("tree") == tree(), _WRITE


def test_walks_are_those_that_documents_questions_and_requests_take() -> None:
    # In a process of its own: what other tests have loaded and left running changes which files are entered.
    code = "from tests.house.architecture import walks; print(walks())"
    walked = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert part("walks") == walked.strip(), _WRITE
    assert UNTOLD not in walked, "name these files in the steps of tests/house/architecture.py"


def test_page_can_be_read_in_one_sitting() -> None:
    assert len(PAGE.read_text("utf-8").splitlines()) <= 400
