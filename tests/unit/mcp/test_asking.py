from __future__ import annotations

from pathlib import Path

from heliograph.errors import ModelUnavailable

from .world import checked, failure, offered, text_of


async def test_answer_comes_with_numbered_references_and_passages(tmp_path: Path) -> None:
    async with offered(tmp_path) as world:
        found = await checked(world.client, "knowledge.query", query="Who leads Bob?", mode="hybrid", top_k=5)
        assert (found["kind"], found["mode"]) == ("generated", "hybrid")
        assert found["answer"].startswith("Ann leads Bob [1].")
        first = found["references"][0]
        assert (first["reference_id"], first["source"]) == ("1", "one.md")
        (passage,) = [item for item in found["passages"] if item["source"] == "one.md"]
        assert passage["document_id"] in first["document_ids"]
        text = text_of(await world.client.call_tool("knowledge.query", {"query": "Who leads Bob?", "mode": "mix"}))
        assert f"[1] one.md ({passage['document_id']})" in text


async def test_passages_and_graph_are_as_many_as_asked_for(tmp_path: Path) -> None:
    async with offered(tmp_path) as world:
        none = await checked(world.client, "knowledge.query", query="Who leads Bob?", mode="mix", passages=0)
        assert none["passages"] == none["entities"] == none["relations"] == []
        graph = await checked(
            world.client, "knowledge.query", query="Who leads Bob?", mode="naive", include_graph=True, passages=1
        )
        assert len(graph["passages"]) == 1
        graph = await checked(world.client, "knowledge.query", query="Bob?", mode="local", include_graph=True)
        assert "Bob" in [entity["name"] for entity in graph["entities"]]


async def test_search_alone_asks_no_chat_model_for_an_answer(tmp_path: Path) -> None:
    async with offered(tmp_path) as world:
        found = await checked(world.client, "knowledge.query", query="Who leads?", mode="naive", answer=False)
        assert (found["answer"], found["kind"], found["is_unanswered"]) == ("", "none", False)
        assert found["passages"]
        assert not world.chat.requests


async def test_filters_leave_only_what_matches(tmp_path: Path) -> None:
    async with offered(tmp_path) as world:
        found = await checked(
            world.client, "knowledge.query", query="Who leads Bob?", mode="mix", filters={"team": "blue"}
        )
        assert {item["source"] for item in found["passages"]} == {"two.md"}
        names = await checked(world.client, "knowledge.get_entities", filters={"team": "blue"})
        assert {item["name"] for item in names["entities"]} == {"Annie", "Cy"}
        names = await checked(world.client, "knowledge.get_entities", query="Ann", filters={"team": "blue"})
        assert "Ann" not in {item["name"] for item in names["entities"]}


async def test_entity_that_a_filter_leaves_out_is_as_one_that_there_is_not(tmp_path: Path) -> None:
    async with offered(tmp_path) as world:
        told = [
            await failure(world.client, "knowledge.get_relations", entity=name, filters={"team": "blue"})
            for name in ("BOB", "Xyz")
        ]
        assert told[0].replace("BOB", "Xyz") == told[1]
        near = await failure(world.client, "knowledge.get_relations", entity="ann", filters={"team": "blue"})
        assert near.endswith("no entity 'ann' in the documents that match the filter; did you mean 'Annie'?")
        near = await failure(world.client, "knowledge.get_relations", entity="nni", filters={"team": "red"})
        assert "Annie" not in near
        found = await checked(world.client, "knowledge.get_relations", entity="annie", filters={"team": "blue"})
        assert [item["name"] for item in found["entities"]] == ["Cy"]


async def test_identifier_that_differs_in_one_digit_is_proposed(tmp_path: Path) -> None:
    async with offered(tmp_path) as world:
        async with world.workspaces.use() as engine:
            await engine.create_entity("ESP32")
        told = await failure(world.client, "knowledge.get_relations", entity="ESP33")
        assert told.endswith("there is no entity 'ESP33' in this workspace; did you mean 'ESP32'?")
        told = await failure(world.client, "knowledge.get_relations", entity="ESP33", filters={"team": "red"})
        assert "ESP32" not in told


async def test_outage_of_a_model_is_an_error_and_no_answer(tmp_path: Path) -> None:
    async with offered(tmp_path) as world:
        world.chat.fail_next(ModelUnavailable("the chat model 'm' is out of reach; start it", is_transient=False))
        told = await failure(world.client, "knowledge.query", query="Who leads Bob?", mode="naive")
        assert told == "knowledge.query failed: the chat model 'm' is out of reach; start it"
        world.embedding.fail_next(ModelUnavailable("the embedding model is out of reach", is_transient=False))
        told = await failure(world.client, "knowledge.query", query="Who leads Cy?", mode="naive")
        assert "the embedding model is out of reach" in told


async def test_the_chat_model_s_window_cuts_no_entities_off(tmp_path: Path) -> None:
    async with offered(tmp_path, window=600) as world:
        found = await checked(world.client, "knowledge.get_entities", query="a town")
        assert "Cy" in [item["name"] for item in found["entities"]]


async def test_entities_are_found_by_name_by_topic_and_by_page(tmp_path: Path) -> None:
    async with offered(tmp_path) as world:
        found = await checked(world.client, "knowledge.get_entities", query="Ann")
        assert [item["name"] for item in found["entities"]][:2] == ["Ann", "Annie"]
        found = await checked(world.client, "knowledge.get_entities", query="a town")
        assert "Cy" in [item["name"] for item in found["entities"]]
        names: list[str] = []
        offset: int | None = 0
        while offset is not None:
            page = await checked(world.client, "knowledge.get_entities", limit=3, offset=offset)
            names += [item["name"] for item in page["entities"]]
            offset = page["next_offset"]
        assert sorted(names) == ["Ann", "Annie", "Bob", "Cy"]
        for arguments in ({}, {"query": "a town"}, {"query": "Cy"}, {"filters": {"team": "blue"}}):
            found = await checked(world.client, "knowledge.get_entities", type="Place", **arguments)
            assert [item["name"] for item in found["entities"]] == ["Cy"]


async def test_relations_reach_as_far_as_asked(tmp_path: Path) -> None:
    async with offered(tmp_path) as world:
        await checked(world.client, "knowledge.insert", content="Bob -> Cy [visits] 1.0: Bob visits Cy.")
        near = await checked(world.client, "knowledge.get_relations", entity="ann")
        assert near["entity"]["name"] == "Ann"
        assert {item["name"] for item in near["entities"]} == {"Bob"}
        far = await checked(world.client, "knowledge.get_relations", entity="Ann", depth=3)
        assert {item["name"] for item in far["entities"]} == {"Bob", "Cy", "Annie"}
        assert {(item["source"], item["target"]) for item in far["relations"]} >= {("Ann", "Bob"), ("Annie", "Cy")}
        cut = await checked(world.client, "knowledge.get_relations", entity="Ann", depth=3, limit=1)
        assert cut["is_truncated"]
        assert len(cut["entities"]) == 1


async def test_paths_lead_from_one_entity_to_another(tmp_path: Path) -> None:
    async with offered(tmp_path) as world:
        async with world.workspaces.use() as engine:
            await engine.create_relation("Bob", "Annie", description="Bob met Annie.")
        (path,) = (await checked(world.client, "knowledge.find_path", entity="ann", other="Cy"))["paths"]
        assert [item["name"] for item in path["entities"]] == ["Ann", "Bob", "Annie", "Cy"]
        told = text_of(await world.client.call_tool("knowledge.find_path", {"entity": "Ann", "other": "Annie"}))
        assert "Ann -- Bob -- Annie\n" in told
        assert "- Annie -- Bob []: Bob met Annie." in told
        short = {"entity": "Ann", "other": "Cy", "max_hops": 2}
        assert "raise max_hops" in text_of(await world.client.call_tool("knowledge.find_path", short))
        assert "did you mean 'Annie'" in await failure(world.client, "knowledge.find_path", entity="Ann", other="nni")


async def test_unknown_entity_is_an_error_that_names_those_like_it(tmp_path: Path) -> None:
    async with offered(tmp_path) as world:
        told = await failure(world.client, "knowledge.get_relations", entity="nni")
        assert told == (
            "knowledge.get_relations failed: there is no entity 'nni' in this workspace; did you mean 'Annie'?"
        )


async def test_stats_count_documents_and_graph(tmp_path: Path) -> None:
    async with offered(tmp_path) as world:
        found = await checked(world.client, "knowledge.stats")
        assert (found["workspace"], found["documents"], found["entities"], found["relations"]) == ("default", 2, 4, 2)
        assert found["documents_by_status"]["processed"] == 2
