from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.documents.markdown import Heading, find_headings, find_title, nest_headings, split_front_matter

from .samples import load


def titles(text: str) -> list[tuple[int, str]]:
    return [(heading.level, heading.title) for heading in find_headings(text)]


def test_headings_are_found_with_level_and_place() -> None:
    text = "intro\n# One\ntext\n   ### Three ###\n"
    assert find_headings(text) == [Heading(6, 1, "One"), Heading(17, 3, "Three")]


def test_underlined_headings_are_found_after_a_blank_line_only() -> None:
    assert titles("Title\n=====\n\nSub\n---\n\na paragraph\nof two lines\n---\n") == [(1, "Title"), (2, "Sub")]


def test_code_fences_hold_no_headings() -> None:
    text = "# a\n```sh\n# comment\n```\n# b\n~~~\n# no\n```\n# no\n~~~\n# c\n````\n```\n# no\n````\n# d"
    assert [title for _, title in titles(text)] == ["a", "b", "c", "d"]


def test_open_fence_reaches_to_the_end() -> None:
    assert titles("# a\n```\n# b\n# c") == [(1, "a")]


def test_inline_code_of_three_backticks_opens_no_fence() -> None:
    assert titles("```inline``` code\n# a") == [(1, "a")]


def test_what_only_looks_like_a_heading_is_none() -> None:
    assert titles("#hashtag\n    # indented code\n####### seven\n#\n#!shebang\n| a |\n|---|") == []


def test_markup_is_taken_out_of_titles() -> None:
    assert titles("## The **bold** [link](https://x.y) `code` {#anchor}") == [(2, "The bold link code")]
    assert titles("# snake_case *and* C#") == [(1, "snake_case *and* C#")]


@pytest.mark.parametrize("filler", ["[", "![", "[](", " ", "{#", " {#", " #", "a"])
@pytest.mark.parametrize("line", ["# a{}x\n", "a{}x\n===\n"])
def test_line_without_end_is_read_in_one_go(filler: str, line: str) -> None:
    # Were its cost the square of its length, this would take hours.
    (heading,) = find_headings(line.format(filler * 1_000_000))
    assert 0 < len(heading.title) <= 200


@pytest.mark.parametrize(
    ("markup", "title"),
    [
        ("Words ##", "Words"),
        ("Words#", "Words#"),
        ("Words {#a}", "Words"),
        ("Words {#a {#b}", "Words"),
        ("Words } {#a}", "Words }"),
        ("Words {#a} more", "Words {#a} more"),
        ("[A](b_(c)) and ![d](e)", "A and d"),
    ],
)
def test_marks_at_the_end_and_links_are_no_part_of_a_title(markup: str, title: str) -> None:
    assert find_headings(f"# {markup}")[0].title == title


def test_title_is_the_first_heading_near_the_start() -> None:
    assert find_title("## Second level\n# First level") == "Second level"
    assert find_title("x" * 20_000 + "\n# Late") == ""
    assert find_title("") == ""


def test_front_matter_gives_fields_and_the_rest() -> None:
    text = "---\ntitle: 'A guide'\ntags: [a, \"b c\"]\nauthors:\n  - Ann\n  - Bo\nempty:\n---\n\n# Heading\n"
    fields, body = split_front_matter(text)
    assert fields == {"title": "A guide", "tags": ["a", "b c"], "authors": ["Ann", "Bo"]}
    assert body == "# Heading\n"


def test_rules_at_the_start_are_no_front_matter() -> None:
    for text in ("---\n\nprose\n\n---\nmore", "---\nkey: value", "----\na: b\n----\n", "text\n---\na: b\n---\n"):
        assert split_front_matter(text) == ({}, text)


@settings(deadline=None)
@given(st.text("#`~=- \nab", max_size=60))
def test_headings_stand_where_they_say(text: str) -> None:
    found = find_headings(text)
    assert all(heading.start == 0 or text[heading.start - 1] == "\n" for heading in found)
    assert [heading.start for heading in found] == sorted({heading.start for heading in found})
    assert all(heading.title and 1 <= heading.level <= 6 for heading in found)


def test_heading_below_the_first_words_of_a_note_is_not_its_title() -> None:
    assert load("Pump 3.md", "It stands in hall two.\n\n## Care\n\nOil it.").title == "Pump 3"
    assert find_title("It stands.\n\n## Care\n\n# Pump") == "Pump"
    assert find_title('<p align="center">\n[![ok](a.svg)](b)\n</p>\n\n## Pump') == "Pump"


def test_headings_of_a_part_are_moved_below_the_whole() -> None:
    text = "# One\n\nx\n\nTwo\n---\n\n```\n# no\n```\n### Three ##"
    assert nest_headings(text, 2) == "### One\n\nx\n\n#### Two\n\n```\n# no\n```\n##### Three ##"
    assert nest_headings("### Deep", 1) == "### Deep"
    assert nest_headings("words", 2) == "words"


def test_brackets_after_a_name_are_no_link_between_notes() -> None:
    assert load("a.md", "Use oil[[thin]] of [[Pump]].\n").text == "Use oil[[thin]] of Pump.\n"
