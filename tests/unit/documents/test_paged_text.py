"""Plain text that was set in pages."""

from __future__ import annotations

from heliograph.documents.base import Limits, RawDocument
from heliograph.documents.registry import load_document
from heliograph.documents.terminal_text import join_pages

_BODY = [f"The lamp of harbour number {number} is lit at dusk by the keeper and goes out again" for number in range(44)]


def _paged(pages: int = 6, *, head: str = "Lamp Manual", foot: str = "Lamps 3.6                      {page}") -> str:
    """A text whose last line on each page goes on, in the middle of a word, on the next."""
    lines: list[str] = []
    for page in range(1, pages + 1):
        body = ["-er of the house says so.", *_BODY] if page == 1 else ["er of the house says so.", *_BODY]
        lines += [head, "", *body, "That every lamp is lit at dusk is known to all, and the keep-", "", ""]
        lines += [foot.format(page=page), "", ""]
    return "\n".join(lines)


def test_heads_and_feet_of_pages_go_and_sentences_go_on_over_them() -> None:
    text = join_pages(_paged())
    assert "Lamp Manual\n" not in text.removeprefix("Lamp Manual\n")
    assert "Lamps 3.6" not in text
    assert text.count("known to all, and the keeper of the house says so.") == 5


def test_paged_text_is_read_so_from_a_file() -> None:
    loaded = load_document(RawDocument("guide.txt", _paged().encode()), Limits())
    assert "Lamps 3.6" not in loaded.text
    assert "the keeper of the house" in loaded.text


def test_heads_of_records_and_rulers_stay() -> None:
    records = "\n".join(f"Employee {number}\n\n" + "works.\n" * 40 for number in range(9))
    assert join_pages(records) == records
    rulers = "\n".join("* * *\n\n" + "A line of verse\n" * 40 for _ in range(9))
    assert join_pages(rulers) == rulers
    irregular = "\n".join("See below\n\n" + "A line of text\n" * (20 + 13 * number) for number in range(9))
    assert join_pages(irregular) == irregular
