"""An ingest is killed at random instants; nothing acknowledged is lost, and what is left can be gone on with."""

from __future__ import annotations

import pytest
from benchmarks.kill import kill_repeatedly


@pytest.mark.slow
def test_killed_ingest_loses_nothing_and_can_be_resumed() -> None:
    tally = kill_repeatedly(5, seed=11)
    assert tally.kills == 5
    assert tally.lost == []
    assert tally.disagreements == []
    assert tally.unequal == []
