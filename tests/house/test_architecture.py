"""ARCHITECTURE.md says of the files and of the two walks what the code says."""

from __future__ import annotations

from .architecture import PAGE, part, tree, walks

_WRITE = "run `python -m tests.house.architecture`, and read what it changed"


def test_tree_is_that_of_the_sources() -> None:
    assert part("tree") == tree(), _WRITE


def test_walks_are_those_that_a_document_and_a_question_take() -> None:
    assert _files(part("walks")) == _files(walks()), _WRITE


def _files(text: str) -> list[set[str]]:
    """The files of each walk; which of them is entered first may depend on threads."""
    walk_texts = text.split("A question's way out")
    return [{line.split("`")[1] for line in walk.splitlines() if line[:1].isdigit()} for walk in walk_texts]


def test_page_can_be_read_in_one_sitting() -> None:
    assert len(PAGE.read_text("utf-8").splitlines()) <= 480
