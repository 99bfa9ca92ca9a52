from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.analysis.benchmarking import (
    AskedQuestion,
    check_expectations,
    nearest_rank,
    read_questions,
    run_benchmark,
)
from heliograph.errors import InvalidRequestError, NotFoundError
from heliograph.models import Mode
from heliograph.query.models import QueryParam
from heliograph.sync import Heliograph

QUESTION = "Whom does Ann lead in the town?"


def test_questions_are_read_from_each_form(tmp_path: Path) -> None:
    lines = tmp_path / "q.txt"
    lines.write_text("\ufeff# a comment\n\nOne question?\n  Another?  \n", "utf-8")
    assert read_questions(lines) == [AskedQuestion("One question?"), AskedQuestion("Another?")]
    rows = [{"question": "One?", "mode": "local", "entities": ["Ann"], "sources": ["a.md"], "min_recall": 1, "x": 0}]
    expected = [AskedQuestion("One?", "local", ("Ann",), ("a.md",), 1.0)]
    for name, text in (
        ("q.jsonl", "\n".join(map(json.dumps, rows)) + "\n\n"),
        ("q.json", json.dumps(rows)),
        ("r.json", json.dumps({"questions": rows})),
    ):
        (tmp_path / name).write_text(text, "utf-8")
        assert read_questions(tmp_path / name) == expected


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("q.txt", "# nothing\n"),
        ("q.json", "{}"),
        ("q.json", "[1]"),
        ("q.jsonl", "{\n"),
        ("q.jsonl", '{"question": " "}'),
        ("q.jsonl", '{"question": "One?", "entities": "Ann"}'),
        ("q.jsonl", '{"question": "One?", "min_recall": 2}'),
        ("q.jsonl", '{"question": "One?", "min_recall": true}'),
    ],
)
def test_file_that_is_not_of_its_form_is_refused(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(InvalidRequestError):
        read_questions(tmp_path / name)


def test_file_that_is_not_there_or_not_text_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"none\.txt"):
        read_questions(tmp_path / "none.txt")
    (tmp_path / "q.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidRequestError, match="UTF-8"):
        read_questions(tmp_path / "q.txt")


def test_expectations_are_met_by_any_name_suffix_or_twin(kb: Heliograph) -> None:
    asked = AskedQuestion(QUESTION, entities=("robert", "Ann"), sources=("town.md", "docs/copy.md", "team.md"))
    report = check_expectations(kb, [asked], QueryParam("mix", ll_keywords=("Ann", "Bob")), min_recall=1.0)
    (checked,) = report.questions
    assert checked.found == ("robert", "Ann", "town.md", "docs/copy.md", "team.md")
    assert (report.passed, checked.recall) == (True, 1.0)


def test_expectations_that_are_missed_fail(kb: Heliograph) -> None:
    asked = AskedQuestion(QUESTION, entities=("Ann", "Zed"), sources=("own.md",))
    report = check_expectations(kb, [asked], QueryParam("naive"))
    (checked,) = report.questions
    assert (report.passed, report.failures) == (False, 1)
    assert checked.found == ()
    assert checked.missed == ("Ann", "Zed", "own.md")
    assert checked.unknown == ("Zed",)
    half = AskedQuestion(QUESTION, entities=("Ann", "Zed"), mode="local", min_recall=0.5)
    assert check_expectations(kb, [half], QueryParam(ll_keywords=("Ann",))).passed


def test_expectation_of_nothing_is_refused(kb: Heliograph) -> None:
    for asked in ([], [AskedQuestion(QUESTION)], [AskedQuestion(QUESTION, mode="bypass", entities=("Ann",))]):
        with pytest.raises(InvalidRequestError):
            check_expectations(kb, asked)
    with pytest.raises(InvalidRequestError, match="min_recall"):
        check_expectations(kb, [AskedQuestion(QUESTION, entities=("Ann",))], min_recall=1.5)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_benchmark_asks_every_question_in_every_mode(kb: Heliograph, concurrency: int) -> None:
    told: list[tuple[int, int]] = []
    questions = [QUESTION, "Where does Bob live?"]
    report = run_benchmark(
        kb, questions, ["naive", "mix"], repeats=3, concurrency=concurrency, on_done=lambda *done: told.append(done)
    )
    assert told[-1] == (12, 12)
    assert [(row.question, row.mode) for row in report.rows] == [
        (question, mode) for mode in (Mode.NAIVE, Mode.MIX) for question in questions
    ]
    for row in report.rows:
        found = kb.retrieve(row.question, QueryParam(row.mode))
        assert len(row.seconds) == 3
        assert (row.entities, row.chunks) == (len(found.context.entities), len(found.context.chunks))
    for summary in report.modes:
        own = [second for row in report.rows if row.mode is summary.mode for second in row.seconds]
        assert summary.samples == 6
        assert summary.p99_seconds == max(own)
        assert min(own) <= summary.p50_seconds <= summary.p99_seconds
        assert summary.stages["search"] > 0


def test_benchmark_has_answers_written_on_request(kb: Heliograph) -> None:
    report = run_benchmark(kb, [QUESTION], ["naive"], QueryParam(filter={"team": "none"}), answers=True)
    assert report.answers
    assert report.modes[0].failures == 1
    for bad in ({"repeats": 0}, {"concurrency": 0}):
        with pytest.raises(InvalidRequestError):
            run_benchmark(kb, [QUESTION], ["naive"], **bad)
    with pytest.raises(InvalidRequestError):
        run_benchmark(kb, [], ["naive"])


@given(st.lists(st.floats(0, 10), min_size=1), st.floats(0, 1))
def test_nearest_rank_is_the_least_value_that_enough_do_not_exceed(values: list[float], share: float) -> None:
    found = nearest_rank(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9
    assert nearest_rank([], share) == 0
