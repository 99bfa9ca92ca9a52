from __future__ import annotations

import json

from .conftest import World


def test_merge_is_done_listed_and_undone(story: World) -> None:
    merge = story.json("merge", "nell tarrant", "--into", "Hester Tarrant", "--author", "eve")
    assert (merge["kind"], merge["names"], merge["author"]) == (
        "merge_entities",
        ["Nell Tarrant", "Hester Tarrant"],
        "eve",
    )
    assert story.json("entity", "Nell Tarrant")["name"] == "Hester Tarrant"
    assert "Nell Tarrant -> Hester Tarrant" in story.run("curations", width=200).stdout
    assert story.json("undo", merge["id"])["undone_at"]
    assert story.json("entity", "Nell Tarrant")["name"] == "Nell Tarrant"
    assert story.json("curations")["total"] == 1


def test_entity_is_created_edited_renamed_and_hidden(story: World) -> None:
    story.json("create", "Gull", "--type", "Ship", "--description", "A ferry.")
    assert story.json("entity", "gull")["type"] == "ship"
    story.json("edit", "Gull", "--description", "A tug.")
    story.json("rename", "Gull", "Herring Gull")
    entity = story.json("entity", "Gull")
    assert (entity["name"], entity["description"], entity["aliases"]) == ("Herring Gull", "A tug.", ["Gull"])
    assert story.run("create", "herring gull").exit_code == 6
    hidden = story.run("hide", "Gull").stdout
    assert "hide entity Herring Gull" in " ".join(hidden.split())
    assert "undone" not in hidden
    assert story.run("entity", "Gull").exit_code == 3


def test_relation_is_created_edited_and_hidden(story: World) -> None:
    ends = "Hester Tarrant", "--with", "Skerravane Courier"
    story.json("create", *ends, "--keyword", "reads", "--weight", "2")
    assert story.json("relation", "Hester Tarrant", "Skerravane Courier")["weight"] == 2.0
    story.json("edit", *ends, "--keyword", "subscribes to")
    assert story.json("relation", "Hester Tarrant", "Skerravane Courier")["keywords"] == ["subscribes to"]
    assert [item["kind"] for item in story.json("history", *ends)["curations"]] == ["create_relation", "edit_relation"]
    story.json("hide", *ends)
    assert story.run("relation", "Hester Tarrant", "Skerravane Courier").exit_code == 3


def test_history_says_who_said_what(story: World) -> None:
    found = story.json("history", "Nell Tarrant")
    assert found["statement_count"] == len(found["statements"]) > 0
    assert found["statements"][0]["source"].endswith("story.md")
    assert "story.md" in story.run("history", "Nell Tarrant").stdout
    assert story.run("history", "Nobody At All").exit_code == 3


def test_split_needs_a_place_that_mentions_the_entity(story: World) -> None:
    result = story.run("split", "Nell Tarrant", "Nell Tarrant (2)", "--document", "doc-none")
    assert result.exit_code == 2
    assert "'doc-none'" in result.stderr
    (document,) = {item["document_id"] for item in story.json("history", "Nell Tarrant")["statements"]}
    story.json("split", "Nell Tarrant", "Nell Tarrant (2)", "--document", document)
    assert story.json("entity", "Nell Tarrant (2)")["aliases"] == ["Nell Tarrant"]


def test_options_that_do_not_go_together_are_refused(story: World) -> None:
    assert story.run("create", "Gull", "--weight", "2").exit_code == 2
    assert story.run("edit", "Nell Tarrant", "--with", "Tobias Fenn", "--type", "x").exit_code == 2
    assert story.run("edit", "Nell Tarrant").exit_code == 2


def test_duplicates_lists_pairs_or_says_that_there_are_none(story: World) -> None:
    assert "duplicates" in story.json("duplicates")
    assert story.run("duplicates").exit_code == 0


def test_graph_file_becomes_a_document(story: World) -> None:
    graph = {
        "chunks": [{"content": "The Gull sails to Skerravane.", "source_id": "one"}],
        "entities": [{"entity_name": "Gull", "entity_type": "Ship", "description": "A ferry.", "source_id": "one"}],
        "relationships": [{"src_id": "Gull", "tgt_id": "Skerravane", "description": "sails", "keywords": "sails to"}],
    }
    name = story.write("graph.json", json.dumps(graph))
    assert story.json("insert-graph", name)["outcome"] == "processed"
    assert story.json("relation", "Gull", "Skerravane")["keywords"] == ["sails to"]
    assert story.run("insert-graph", story.write("list.json", "[]")).exit_code == 2
    for bad, said in (
        ('{"chunks": [{}]}', "chunks[0] of the graph has no 'content'"),
        ('{"entities": 3}', "'entities' of the graph is no list"),
        ('{"entities": "Gull"}', "'entities' of the graph is no list"),
        ('{"chunks": [{"content": "a"}, 3]}', "chunks[1] of the graph is no object"),
        ('{"relationships": [{"src_id": "a", "tgt_id": "b", "weight": "x"}]}', "the weight of relationships[0]"),
        (f'{{"relationships": [{{"src_id": "a", "tgt_id": "b", "weight": 1{"0" * 400}}}]}}', "the weight of"),
    ):
        result = story.run("insert-graph", story.write("bad.json", bad))
        assert (result.exit_code, said in result.stderr) == (2, True), result.stderr


def test_graph_file_that_is_not_there_is_named(world: World) -> None:
    result = world.run("insert-graph", "nowhere.json")
    assert result.exit_code == 2
    assert "'nowhere.json' cannot be read" in result.stderr
