from __future__ import annotations

import json
from dataclasses import replace

import pytest

from heliograph.cli import demo
from heliograph.cli.demo import QUESTIONS
from heliograph.ingest.files import find_samples

from .conftest import World


@pytest.fixture
def small(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world in which the demo indexes only the start of a few samples."""
    samples = [replace(item, text=item.text[:600]) for item in find_samples()[::6]]
    monkeypatch.setattr(demo, "find_samples", lambda: samples)
    return world


def test_samples_are_english_and_chinese_markdown() -> None:
    samples = find_samples()
    assert len(samples) >= 30
    assert len({item.source for item in samples}) == len(samples)
    folders = [item.source.partition("/")[0] for item in samples]
    # Whoever asks early finds something of each.
    assert folders[:4] == ["harbour-story", "harbour-story-zh", "iot-handbook", "iot-handbook-zh"]
    assert set(folders[4:]) == set(folders[:4])


def test_questions_are_in_two_languages_and_several_modes() -> None:
    assert len({mode for _, mode, _ in QUESTIONS}) == 4
    assert sum(question.isascii() for question, *_ in QUESTIONS) == 2


def test_demo_indexes_and_answers_in_a_workspace_of_its_own(small: World) -> None:
    result = small.run("demo")
    assert result.exit_code == 0
    for question, *_ in QUESTIONS:
        assert question in result.stdout
    assert (small.folder / "heliograph_data" / "demo" / "heliograph.db").exists()
    assert not (small.folder / "heliograph_data" / "default").exists()


def test_demo_in_a_pipe_draws_no_endless_rules(small: World) -> None:
    lines = small.run("demo", env={"COLUMNS": None}).stdout.splitlines()
    assert "question 1 of 4: mode naive, one fact, by passages" in lines
    assert max(map(len, lines)) < 10_000


def test_demo_uses_the_local_embedding_whatever_is_configured(small: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELIOGRAPH_EMBEDDING__PROVIDER", "openai")
    monkeypatch.setenv("HELIOGRAPH_STORE__WORKSPACE", "mine")
    assert small.run("demo").exit_code == 0
    assert small.settings[-1].embedding.provider == "e5"
    assert small.settings[-1].store.workspace == "demo"


def test_demo_again_finds_nothing_changed(small: World) -> None:
    small.run("demo")
    assert "unchanged" in small.run("demo").stderr


def test_demo_json_holds_the_answers(small: World) -> None:
    result = small.run("demo", "--json")
    answers = json.loads(result.stdout)["questions"]
    assert [item["question"] for item in answers] == [question for question, *_ in QUESTIONS]
