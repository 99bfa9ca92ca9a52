from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from heliograph.text.tokens import plan_runs


@given(lengths=st.lists(st.integers(1, 512), max_size=50), most=st.integers(1, 2048))
def test_runs_hold_every_text_once_within_the_bound(lengths: list[int], most: int) -> None:
    runs = plan_runs(lengths, most)
    assert sorted(index for run in runs for index in run) == list(range(len(lengths)))
    assert all(len(run) == 1 or max(lengths[index] for index in run) * len(run) <= most for run in runs)
