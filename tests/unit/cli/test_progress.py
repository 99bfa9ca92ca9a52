from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from heliograph.cli.output import Output
from heliograph.cli.rendering import ProgressView, progress_line, seconds
from heliograph.ingest.models import Progress
from heliograph.models import Usage

HALF = Progress(
    track_id="t",
    documents_done=3,
    documents_total=6,
    chunks_done=40,
    chunks_total=1200,
    entities=1204,
    relations=-3,
    failures=1,
    usage=Usage(),
    elapsed_seconds=6.0,
    eta_seconds=75.2,
    is_finished=False,
)


def test_progress_line_says_all_of_it() -> None:
    line = "3/6 documents, 40/1,200 chunks, +1,204 entities, -3 relations, 1 failed, 1:15 min left"
    assert progress_line(HALF) == line


def test_progress_line_promises_nothing_at_the_end() -> None:
    assert "left" not in progress_line(replace(HALF, is_finished=True))


def test_progress_line_promises_no_time_for_what_is_only_to_be_stored() -> None:
    read = replace(HALF, chunks_done=1200, eta_seconds=0.0)
    assert progress_line(read).endswith(", 1 failed, storing")
    assert progress_line(replace(read, chunks_done=1199)).endswith(", 1 s left")
    assert progress_line(replace(read, eta_seconds=75.2)).endswith(", 1:15 min left")


@pytest.mark.parametrize(
    ("value", "shown"), [(0.214, "0.21 s"), (12.4, "12 s"), (59.6, "1:00 min"), (185, "3:05 min"), (7380, "2:03 h")]
)
def test_seconds_reads_well(value: float, shown: str) -> None:
    assert seconds(value) == shown


def test_view_prints_a_line_now_and_then_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressView(Output()) as view:
        for elapsed in (1.0, 6.0, 7.0, 12.0):
            view(replace(HALF, elapsed_seconds=elapsed))
    assert len(capsys.readouterr().err.splitlines()) == 2
    assert view.last is not None
    assert view.last.elapsed_seconds == 12.0


def test_view_is_silent_when_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressView(Output(is_quiet=True)) as view:
        view(HALF)
    assert capsys.readouterr().err == ""


def test_view_draws_bars_of_at_most_80_cells_on_a_terminal() -> None:
    output = Output()
    output.notes = Console(file=io.StringIO(), force_terminal=True, width=80, height=20, color_system=None)
    with ProgressView(output) as view:
        view(HALF)
        view._bars.refresh()
    drawn = output.notes.file.getvalue()  # type: ignore[attr-defined]
    assert "3/6" in drawn
    assert "1 failed" in drawn
    assert "+1,204 entities, -3 relations" in drawn
