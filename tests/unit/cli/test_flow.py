from __future__ import annotations

import io

from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from heliograph.cli.output import FlowText, one_line, printable

SENTENCE = "- 望江钟是谁铸的，敲几声代表涨水？ESP32-S3 节点通过 MQTT 上报（每 15 分钟一次）。[1]"


def lines(text: str, width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(FlowText(text))
    return console.file.getvalue().removesuffix("\n").split("\n")  # type: ignore[attr-defined]


def test_flow_breaks_chinese_within_a_sentence() -> None:
    assert lines("- 望江钟由沈万年铸造挂在渡口", 12) == ["- 望江钟由沈", "万年铸造挂在", "渡口"]


def test_flow_starts_no_line_with_closing_punctuation() -> None:
    for width in range(8, 60):
        assert not [line for line in lines(SENTENCE, width) if line[0] in "，？）。"]


def test_flow_keeps_words_whole() -> None:
    assert lines("one two three", 9) == ["one two", "three"]


def test_flow_keeps_blank_lines() -> None:
    assert lines("one\n\ntwo", 20) == ["one", "", "two"]


@given(st.text(max_size=60), st.integers(2, 30))
def test_flow_never_exceeds_the_width_and_loses_no_word(text: str, width: int) -> None:
    shown = lines(text, width)
    assert all(cell_len(line) <= width for line in shown)
    assert "".join("".join(shown).split()) == "".join("".join(printable(text).split()))


def test_printable_shows_escapes_instead_of_obeying_them() -> None:
    assert printable("a\x1b[31mb\x07\r\nc\td\u202e") == "a\ufffd[31mb\ufffd\nc\td\ufffd"


def test_one_line_counts_cells() -> None:
    assert one_line("望江钟是谁铸的", 9) == "望江钟..."
    assert one_line("two\n words", 9) == "two words"


@given(st.text(max_size=40), st.integers(4, 30))
@example("0000000000\u1ab00", 10)
def test_one_line_fits(text: str, cells: int) -> None:
    shown = one_line(text, cells)
    assert cell_len(shown) <= cells
    assert "\n" not in shown
