"""Random operations and kills: nothing acknowledged is lost, and the graph is that of what is left."""

from __future__ import annotations

import pytest
from benchmarks.operations import operate


@pytest.mark.slow
def test_operations_and_kills_leave_what_a_fresh_workspace_would_hold() -> None:
    tally = operate(25, seed="11")
    assert tally.kills >= 2
    assert tally.done.total() >= 25
    assert tally.lost == []
    assert tally.problems == []
    assert tally.unequal == []
