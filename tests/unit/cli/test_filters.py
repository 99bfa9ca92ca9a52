from __future__ import annotations

import json

import pytest

from .conftest import World

QUESTION = "Who wound the clock of Gannet Head?"


@pytest.fixture
def teams(world: World) -> World:
    """Two documents of two teams."""
    for team, year in (("red", "2024"), ("blue", "2020")):
        world.write(f"{team}/notes.md", f"# Notes\n\nThe {team.title()} Keeper wound the clock of Gannet Head.\n")
        indexed = world.run("index", team, "--metadata", f"team={team}", "--metadata", f"year={year}")
        assert indexed.exit_code == 0
    return world


@pytest.mark.parametrize(
    "options",
    [
        ("--filter", "team=red"),
        ("--filter", "year>2020", "--filter", "team"),
        ("--filter", "team!=blue"),
        ("--source-prefix", "red/"),
        ("--source-prefix", "red/", "--source-prefix", "green/"),
        ("--filter-json", '{"or": [{"team": ["red"]}, {"team": 7}]}'),
        ("--filter-json", '{"source": "red/notes.md"}', "--filter", "team=red"),
    ],
)
def test_query_draws_on_matching_documents_only(teams: World, options: tuple[str, ...]) -> None:
    found = teams.json("query", QUESTION, *options)
    assert "Red Keeper" in json.dumps(found)
    assert "blue" not in json.dumps(found).lower()


def test_query_under_a_filter_that_leaves_nothing_finds_nothing(teams: World) -> None:
    result = teams.run("query", QUESTION, "--filter", "team=green")
    assert result.exit_code == 0
    assert "Nothing was found" in result.stdout


def test_documents_are_listed_by_filter(teams: World) -> None:
    found = teams.json("documents", "--filter", "year<2024")
    assert [item["source"] for item in found["documents"]] == ["blue/notes.md"]
    assert teams.json("documents", "--filter-json", '{"team": {"exists": false}}')["total"] == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--filter", "=red"), "'=red'"),
        (("--filter-json", "{"), "not JSON"),
        (("--filter-json", '{"year": {"above": 1}}'), "filter.year"),
        (("--source-prefix", ""), "empty prefix"),
    ],
)
def test_filter_that_is_not_understood_is_refused(teams: World, options: tuple[str, ...], words: str) -> None:
    result = teams.run("query", QUESTION, *options, width=400)
    assert result.exit_code == 2
    assert words in result.stderr
