from __future__ import annotations

import json
from typing import Any

import pytest

from .conftest import World

QUESTION = "Who kept the Gannet Head light?"


def test_coverage_is_shown_per_mode(story: World) -> None:
    found = story.json("inspect", "coverage", QUESTION, "--mode", "naive", "--mode", "mix")
    assert [row["mode"] for row in found["modes"]] == ["naive", "mix"]
    assert found["modes"][0]["sources"]
    text = story.run("inspect", "coverage", QUESTION, width=140).stdout
    assert all(mode in text for mode in ("local", "global", "hybrid", "mix", "naive", "fusion", "auto"))


def test_keywords_and_what_they_find_are_shown(story: World) -> None:
    found = story.json("inspect", "keywords", QUESTION)
    assert found["mode"] == "hybrid"
    assert [item["keyword"] for item in found["findings"]]
    assert found["findings"][-1]["keyword"] in story.run("inspect", "keywords", QUESTION, width=140).stdout


def test_tokens_are_shown_with_what_was_cut(story: World) -> None:
    args = ("inspect", "tokens", QUESTION, "--max-entity-tokens", "40", "--mode", "local")
    found = story.json(*args)
    assert found["sections"][0]["budget"] == 40
    assert found["sections"][0]["cut_by_budget"] > 0
    assert "raise max_entity_tokens" in story.run(*args, width=140).stdout


def test_one_mode_only_where_one_is_looked_at(story: World) -> None:
    assert story.run("inspect", "tokens", QUESTION, "-m", "mix", "-m", "naive").exit_code == 2
    assert story.run("inspect", "tokens", QUESTION, "-m", "bypass").exit_code == 2
    assert story.run("inspect", "everything", QUESTION).exit_code == 2


def test_modes_are_compared(story: World) -> None:
    found = story.json("compare", QUESTION, "-m", "naive", "-m", "mix")
    assert found["overlaps"][0] == found["overlaps"][0] | {"mode": "naive", "other": "mix"}
    assert "naive / mix" in story.run("compare", QUESTION, "-m", "naive", "-m", "mix", width=140).stdout


def test_graph_of_a_question_or_an_entity_is_written(story: World) -> None:
    assert story.json("visualize", QUESTION)["file"] == "graph.html"
    page = (story.folder / "graph.html").read_text("utf-8")
    assert page.startswith("<!doctype html>")
    again = story.run("visualize", QUESTION)
    assert (again.exit_code, "--force" in again.stderr) == (6, True)
    entity = story.json("entities")["entities"][0]["name"]
    done = story.json("visualize", "--entity", entity, "-o", "out/around.html", "--force")
    assert done["entities"] >= 1
    assert (story.folder / "out" / "around.html").exists()
    assert story.run("visualize", "--entity", "Nobody", "-o", "no.html").exit_code == 3
    assert story.run("visualize").exit_code == 2
    assert story.run("visualize", QUESTION, "--entity", entity).exit_code == 2


def test_questions_of_a_file_are_timed(story: World) -> None:
    file = story.write("questions.txt", f"{QUESTION}\n# a comment\nWho wound the clock?\n")
    found = story.json("benchmark", file, "-m", "naive", "-m", "mix", "--repeats", "2", "--concurrency", "2")
    assert (found["questions"], len(found["modes"]), len(found["rows"])) == (2, 2, 4)
    assert "p99" in story.run("benchmark", file, "-m", "naive", width=140).stdout
    assert story.run("benchmark", "none.txt").exit_code == 3


@pytest.mark.parametrize(("source", "code"), [("story.md", 0), ("other.md", 1)])
def test_assert_ends_with_what_a_build_needs(story: World, source: str, code: int) -> None:
    result = story.run("assert", QUESTION, "--source", source, "--json")
    assert result.exit_code == code
    assert json.loads(result.stdout)["passed"] is (code == 0)


def test_assert_reads_expectations_from_a_file(story: World) -> None:
    rows: list[dict[str, Any]] = [
        {"question": QUESTION, "sources": ["docs/story.md"], "min_recall": 1},
        {"question": "Who wound the clock?", "mode": "naive", "entities": ["Nobody"]},
    ]
    file = story.write("expected.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    result = story.run("assert", file, width=140)
    assert result.exit_code == 1
    assert "1 of 2 failed" in result.stdout
    assert "Nobody (no such entity)" in result.stdout
    assert story.run("assert", QUESTION).exit_code == 3
