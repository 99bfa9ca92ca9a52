from __future__ import annotations

import pytest

from .conftest import World


def test_entities_lists_the_best_connected_first(story: World) -> None:
    found = story.json("entities", "--limit", "3")["entities"]
    assert len(found) == 3
    assert [item["degree"] for item in found] == sorted((item["degree"] for item in found), reverse=True)
    assert "Tobias Fenn" in story.run("entities").stdout


def test_entities_are_searched_by_parts_of_their_names(story: World) -> None:
    found = [item["name"] for item in story.json("entities", "--search", "FENN")["entities"]]
    assert found[0] == "Tobias Fenn"
    assert all("fenn" in name.casefold() for name in found)
    assert story.json("entities", "--search", "fenn", "--offset", str(len(found)))["entities"] == []
    assert "no entity has 'zzz'" in story.run("entities", "--search", "zzz").stdout
    assert story.json("entities", "--search", " ")["entities"] == story.json("entities")["entities"]
    every = story.json("entities", "--limit", "1000")["entities"]
    kind = every[-1]["type"]
    of_kind = [item["name"] for item in every if item["type"] == kind]
    shown = story.json("entities", "--type", kind.upper(), "--limit", "1000")["entities"]
    assert [item["name"] for item in shown] == of_kind
    assert len(of_kind) < len(every)
    assert "no entity of the type 'starship'" in story.run("entities", "--type", "starship").stdout


def test_entity_is_found_in_any_case_and_shown_whole(story: World) -> None:
    entity = story.json("entity", "tobias FENN")
    assert entity["name"] == "Tobias Fenn"
    assert entity["chunk_ids"]
    assert "Tobias Fenn" in story.run("entity", "Tobias Fenn").stdout


def test_entity_that_is_not_there_is_named(story: World) -> None:
    for command in (["entity", "Nobody"], ["neighbours", "Nobody"], ["relation", "Nobody", "Tobias Fenn"]):
        result = story.run(*command)
        assert result.exit_code == 3
        assert "'Nobody'" in result.stderr


def test_relation_is_the_same_in_both_orders(story: World) -> None:
    one = story.json("relation", "Beatrice Sorley", "Nell Tarrant")
    assert one == story.json("relation", "Nell Tarrant", "Beatrice Sorley")
    assert "green book" in story.run("relation", "Beatrice Sorley", "Nell Tarrant").stdout


def test_relation_between_strangers_points_to_paths(story: World) -> None:
    result = story.run("relation", "Hester Tarrant", "Skerravane Courier")
    assert result.exit_code == 3
    assert "heliograph paths" in result.stderr


@pytest.mark.parametrize("width", [80, 200])
def test_neighbours_shows_entities_and_relations(story: World, width: int) -> None:
    result = story.run("neighbours", "Nell Tarrant", width=width)
    assert result.exit_code == 0
    assert "Beatrice Sorley" in result.stdout
    assert max(len(line) for line in result.stdout.splitlines()) <= width


def test_neighbours_reaches_as_deep_as_told(story: World) -> None:
    near = story.json("neighbours", "Nell Tarrant")
    far = story.json("neighbours", "Nell Tarrant", "--depth", "3")
    assert near["entities"][0]["name"] == "Nell Tarrant"
    assert len(far["entities"]) >= len(near["entities"])
    cut = story.json("neighbours", "Nell Tarrant", "--max-entities", "1")
    assert cut["is_truncated"]
    assert "--max-entities" in story.run("neighbours", "Nell Tarrant", "--max-entities", "1").stdout


def test_paths_go_from_one_end_to_the_other(story: World) -> None:
    paths = story.json("paths", "Beatrice Sorley", "Nell Tarrant")["paths"]
    assert [item["name"] for item in paths[0]["entities"]] == ["Beatrice Sorley", "Nell Tarrant"]
    assert len(paths[0]["relations"]) == 1
    for option in ("--max-hops", "--max-length"):
        assert "path 1 of" in story.run("paths", "Beatrice Sorley", "Nell Tarrant", option, "1").stdout


def test_paths_between_what_is_not_connected_is_no_error(story: World) -> None:
    result = story.run("paths", "Beatrice Sorley", "云渡镇")
    assert result.exit_code == 0
    assert result.stdout == "no path of at most 6 relations\n"
    assert story.json("paths", "Beatrice Sorley", "云渡镇") == {"paths": []}


def test_paths_need_two_known_ends(story: World) -> None:
    assert story.run("paths", "Nobody", "Nell Tarrant").exit_code == 3
