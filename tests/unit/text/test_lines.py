"""Line ends that mean something."""

from __future__ import annotations

import pytest

from heliograph.text.sentences import is_own_line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Demon Dice\nDemon Dice is a collectible dice game.", True),
        ("A line that is as full as it can be here\nWrapped words follow.", False),
        ("It ends.\nDemon Dice is a collectible dice game.", False),
        ("Demon Dice\nis a collectible dice game for all of us.", False),
        ("寨蒿河\n寨蒿河发源于贵州省黎平县高洋乡。", True),
        ("寨蒿河发源于贵州省黎平县高洋\n乡，流入柳江，是其主要支流。", False),
        ("Demon Dice\n\n", False),
        ("\nDemon Dice is a game", False),
    ],
)
def test_line_that_ends_early_is_of_its_own(text: str, expected: bool) -> None:
    assert is_own_line(text, text.index("\n")) is expected
