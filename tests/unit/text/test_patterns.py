from __future__ import annotations

import re

import pytest

from heliograph.text.patterns import late_pattern


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
