"""A part of `python -m benchmarks byte_flips`: single bits of all files of a workspace, flipped one at a time."""

from __future__ import annotations

from benchmarks.byte_flips import flip_repeatedly


def test_flipped_bit_is_an_error_of_ours_or_named_by_a_check_or_harmless() -> None:
    outcomes = flip_repeatedly(10, seed=4)
    assert outcomes.tracebacks == []
    assert outcomes.unnoticed == []
    assert outcomes.unrepaired == []
    assert outcomes.counts.total() >= 10
