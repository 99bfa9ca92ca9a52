from __future__ import annotations

import re

import pytest

from heliograph.text.analysis import word_list
from heliograph.text.patterns import both_scripts, late_pattern, words_in_both_scripts


def test_late_pattern_does_what_the_compiled_one_does() -> None:
    late, compiled = (make(r"(?P<name>[a-z]+)=(\d+)", re.IGNORECASE) for make in (late_pattern, re.compile))
    text = "A=1, b=22, c=x"
    for _ in range(2):
        assert late.findall(text) == compiled.findall(text)
        assert late.sub(r"\2", text) == compiled.sub(r"\2", text)
        assert [found["name"] for found in late.finditer(text)] == ["A", "b"]
        assert late.match("?") is None
    assert (late.pattern, late.groups, late.flags) == (compiled.pattern, compiled.groups, compiled.flags)


def test_late_pattern_is_compiled_when_it_is_first_used() -> None:
    broken = late_pattern("(")
    assert broken.pattern == "("
    with pytest.raises(re.error):
        broken.search("a")


def test_pattern_reads_traditional_characters_in_place_of_simplified_ones() -> None:
    pattern = both_scripts(r"(?P<who>谁)[这那](?:个|些)\[说\]{2}\d[^问]")
    assert re.fullmatch(pattern, "谁这个[说]]1a")
    assert re.fullmatch(pattern, "誰那個[說]]1a")
    assert re.fullmatch(pattern, "誰那個[說]]1問") is None
    assert both_scripts(r"plain [a-z]+\u4e00") == r"plain [a-z]+\u4e00"


def test_late_pattern_reads_both_scripts_and_text_in_neither() -> None:
    late = late_pattern(r"谁|who", re.IGNORECASE)
    assert [late.sub("?", text, count=1) for text in ("谁说", "誰說", "Who says who", "é who")] == [
        "?说",
        "?說",
        "? says who",
        "é ?",
    ]
    assert (late.groups, late.flags) == (0, re.compile("谁", re.IGNORECASE).flags)
    assert late.search("WHO")
    assert not late.fullmatch("whom")


def test_words_have_their_traditional_forms_beside_them() -> None:
    assert set(words_in_both_scripts(["port", "大学", "联发"])) == {
        "port",
        "大学",
        "大學",
        "联发",
        "联發",
        "联髮",
        "聯发",
        "聯發",
        "聯髮",
    }
    assert "張" in word_list("zh_family_names")
    # What stored texts were indexed by stays.
    assert "什麼" not in word_list("stop_zh")
