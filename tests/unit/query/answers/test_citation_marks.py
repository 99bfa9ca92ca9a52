from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.query.answers.citations import CitationFilter, cited_numbers

KNOWN = ("1", "2", "3")


def _filtered(text: str, size: int = 1) -> tuple[str, int, bool]:
    marks = CitationFilter(KNOWN)
    pieces = [marks.feed(text[start : start + size]) for start in range(0, len(text), size)]
    return "".join([*pieces, marks.finish()]), marks.dropped, marks.says_no_answer


def test_a_long_reply_that_comes_whole_is_filtered_like_one_in_pieces() -> None:
    sentence = "The committee met in Vienna [1, 2] and again in Graz [9]; `row[7]` stays.\n"
    shown = "The committee met in Vienna [1][2] and again in Graz; `row[7]` stays.\n"
    text = sentence * 40 + "\n## References\n\n" + "- [1] a.md\n" * 60
    assert _filtered(text, len(text)) == _filtered(text, 1) == (shown * 40 + "\n", 40, False)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    ("written", "shown", "dropped"),
    [
        ("So it is [1]. And so [99].", "So it is [1]. And so.", 1),
        ("a [1, 2] b [1][3] c [^1] d", "a [1][2] b [1][3] c [1] d", 0),
        ("灯塔【1】。海【2†source】很宽。", "灯塔[1]。海[2]很宽。", 0),
        ("a [1-3]. b [2–9].", "a [1][2][3]. b [2][3].", 6),
        ("a [1，99、2].", "a [1][2].", 1),
        ("no citations at all", "no citations at all", 0),
        ("in [2024] it began [1]", "in [2024] it began [1]", 0),
        ("`row[7]` and row [7]", "`row[7]` and row", 1),
        ("```\nrow[7] [1, 2]\n```\nso [1, 2]", "```\nrow[7] [1, 2]\n```\nso [1][2]", 0),
        ("see [1](https://example.org) [1]", "see [1](https://example.org) [1]", 0),
        ("- [ ] open\n- [x] done [2]", "- [ ] open\n- [x] done [2]", 0),
        ('{"ids": [1, 99]}', '{"ids": [1, 99]}', 0),
        ("So [1].\n\n### References\n\n- [1] a.md\n- [9] b.md\n", "So [1].\n\n", 0),
        ("So [1].\n\n**References:**\n1. a.md", "So [1].\n\n", 0),
        ("它[1]。\n\n### 参考文献\n\n- [1] a.md", "它[1]。\n\n", 0),
        (
            "Its parts:\n\n## References\n\nThe paper cites much [2].",
            "Its parts:\n\n## References\n\nThe paper cites much [2].",
            0,
        ),
        ("So [1].\n\n### Refer to it\n\nmore [2]", "So [1].\n\n### Refer to it\n\nmore [2]", 0),
        ("So [1].\n\n### References" + "\n \n" * 90 + "- [1] " + "a" * 600 + "\n" * 90, "So [1].\n\n", 0),
        ("So [1].\n\n### References\n \n\n", "So [1].\n\n### References\n \n\n", 0),
        ("So [1].\n\n### References\n```\nrow[9]\n```", "So [1].\n\n### References\n```\nrow[9]\n```", 0),
        ('[\n  {"claim": "x", "sources": [1, 9]}\n]', '[\n  {"claim": "x", "sources": [1, 9]}\n]', 0),
        ("a\n````\ncode\n````\nSee [9].", "a\n````\ncode\n````\nSee.", 1),
        (" " * 40 + "{}", " " * 40 + "{}", 0),
        ("half [", "half [", 0),
        ("half [1", "half [1", 0),
        ("", "", 0),
    ],
)
def test_marks_are_settled_however_the_text_is_cut(written: str, shown: str, dropped: int, size: int) -> None:
    assert _filtered(written, size) == (shown, dropped, False)


@pytest.mark.parametrize("size", [1, 4, 100])
def test_mark_of_no_answer_is_taken_out_and_told(size: int) -> None:
    assert _filtered("The documents hold no answer. [no-answer]", size) == ("The documents hold no answer.", 0, True)


def test_little_is_held_back() -> None:
    marks = CitationFilter(KNOWN)
    text = "The lens [1] was new. [2, 3] It shone far [x] and wide (see [12]).\n\nOnward it went."
    shown = ""
    for count, character in enumerate(text, start=1):
        shown += marks.feed(character)
        assert count - len(shown) <= 16


@pytest.mark.parametrize(
    ("start", "endless"),
    [
        ("", " "),
        ("So.\n### References", " "),
        ("So.\n### References\n", "\n"),
        ("So.\n### References\n- [1] a\n", "\n"),
        ("So.\n### References\n- [1] a", "x"),
        ("So.\n", "`"),
    ],
)
def test_what_goes_on_without_end_is_not_read_again_for_each_piece(start: str, endless: str) -> None:
    marks = CitationFilter(KNOWN)
    marks.feed(start)
    for _ in range(200):
        marks.feed(endless * 4)
        assert len(marks._pending) <= 100  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("text", ["a [9[no-answer]]", "a [9[99]] b", "a [[99]9] b", "a [9 [99]] b", "[[no-answer]9]"])
@pytest.mark.parametrize("size", [1, 3, 100])
def test_what_is_dropped_leaves_no_mark_of_what_stood_around_it(text: str, size: int) -> None:
    assert not cited_numbers(_filtered(text, size)[0])


@given(
    st.lists(
        st.sampled_from(
            [
                *"[]【】,-^ 19a.\n`#*中。",
                "[1]",
                "[99]",
                "```\n",
                "### References",
                "### References\n",
                "- [1] x\n",
                "[no-answer]",
                "````",
                "[\n ",
                '{"',
                "###      References",
                "-      [1]",
                "- [2] " + "y" * 300,
                " " * 70,
                "\n" * 70,
                "\t",
            ]
        ),
        max_size=25,
    ),
    st.integers(1, 5),
)
def test_pieces_do_not_matter_and_no_unknown_number_is_left(parts: list[str], size: int) -> None:
    text = "".join(parts)
    whole = _filtered(text, max(1, len(text)))
    assert _filtered(text, size) == whole
    if "`" not in text and not whole[0].lstrip().startswith(("[", "{")):
        assert set(cited_numbers(whole[0].replace("](", "").replace("]:", ""))) <= set(KNOWN)
