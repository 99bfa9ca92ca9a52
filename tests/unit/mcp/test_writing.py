from __future__ import annotations

from pathlib import Path

import pytest

from heliograph.errors import ModelUnavailable

from .world import checked, failure, offered

DEE = "Dee (person): dances."


async def test_document_goes_in_and_is_answered_from(tmp_path: Path) -> None:
    async with offered(tmp_path) as world:
        done = await checked(
            world.client, "knowledge.insert", content=DEE, metadata={"source": "docs", "category": "art"}
        )
        assert (done["outcome"], done["source"], done["chunk_count"]) == ("processed", "docs", 1)
        again = await checked(world.client, "knowledge.insert", content=DEE, metadata={"source": "docs"})
        assert (again["outcome"], again["document_id"]) == ("unchanged", done["document_id"])
        found = await checked(world.client, "knowledge.get_relations", entity="Dee")
        assert found["entity"]["description"] == "dances."


async def test_source_in_metadata_may_be_that_of_many_documents(tmp_path: Path) -> None:
    async with offered(tmp_path) as world:
        given = [{"content": f"D{index} (person): dances.", "metadata": {"source": "docs"}} for index in range(3)]
        done = await checked(world.client, "knowledge.batch_insert", documents=given)
        assert len({item["document_id"] for item in done["documents"]}) == 3
        assert (await checked(world.client, "knowledge.stats"))["documents"] == 5


async def test_known_source_with_another_text_is_refused_and_updated(tmp_path: Path) -> None:
    async with offered(tmp_path) as world:
        told = await failure(world.client, "knowledge.insert", content=DEE, source="one.md")
        assert "update it, or give another source" in told
        id_ = told.partition("there is a document '")[2].partition("'")[0]
        done = await checked(world.client, "knowledge.update", document_id=id_, content=DEE)
        assert (done["outcome"], done["source"]) == ("processed", "one.md")
        names = await checked(world.client, "knowledge.get_entities")
        assert {item["name"] for item in names["entities"]} == {"Dee", "Annie", "Cy"}
        same = await checked(world.client, "knowledge.update", document_id=id_, metadata={"team": "green"})
        assert same["outcome"] == "unchanged"
        found = await checked(world.client, "knowledge.get_entities", filters={"team": "green"})
        assert {item["name"] for item in found["entities"]} == {"Dee"}


async def test_source_stands_for_one_document_whatever_ids_are_given(tmp_path: Path) -> None:
    async with offered(tmp_path) as world:
        await checked(world.client, "knowledge.insert", content=DEE, source="t.md", document_id="t1")
        told = await failure(world.client, "knowledge.insert", content="Eve (person): sings.", source="t.md")
        assert "there is a document 't1' from 't.md' with another text" in told
        same = await checked(world.client, "knowledge.insert", content=DEE, source="t.md")
        assert (same["outcome"], same["document_id"]) == ("unchanged", "t1")
        for content in (DEE, "Eve (person): sings."):
            told = await failure(world.client, "knowledge.insert", content=content, source="one.md", document_id="mine")
            assert "from 'one.md'; update it, or give another source" in told
        given = [{"content": f"F{index} (person): sings.", "source": "f.md"} for index in range(2)]
        given[1]["document_id"] = "f2"
        done = await checked(world.client, "knowledge.batch_insert", documents=given)
        assert [item["outcome"] for item in done["documents"]] == ["processed", "failed"]
        assert (await checked(world.client, "knowledge.stats"))["documents"] == 4


async def test_document_without_text_stops_no_other_of_a_batch(tmp_path: Path) -> None:
    async with offered(tmp_path) as world:
        given = [{"content": "", "source": "none.md"}, {"content": DEE}, {"content": " \n"}]
        done = await checked(world.client, "knowledge.batch_insert", documents=given)
        assert [item["outcome"] for item in done["documents"]] == ["failed", "processed", "failed"]
        assert done["documents"][0]["detail"]
        assert done["failed"] == 2


async def test_batch_tells_of_each_document(tmp_path: Path) -> None:
    async with offered(tmp_path) as world:
        given = [{"content": DEE}, {"content": "Eve (person): sings.", "source": "two.md"}]
        done = await checked(world.client, "knowledge.batch_insert", documents=given)
        assert [item["outcome"] for item in done["documents"]] == ["processed", "failed"]
        assert done["failed"] == 1
        told = await failure(world.client, "knowledge.batch_insert", documents=given[1:])
        assert "with another text" in told


async def test_deleted_documents_are_gone_and_unknown_ones_told(tmp_path: Path) -> None:
    async with offered(tmp_path) as world:
        id_ = (await checked(world.client, "knowledge.insert", content=DEE))["document_id"]
        done = await checked(world.client, "knowledge.delete", document_ids=[id_, "doc-nope"])
        assert (done["deleted"], done["missing"], done["removed_entities"]) == ([id_], ["doc-nope"], 1)
        assert "no document 'doc-nope'" in await failure(world.client, "knowledge.delete", document_ids="doc-nope")
        assert "no document 'x'" in await failure(world.client, "knowledge.update", document_id="x", title="y")


async def test_outage_while_reading_leaves_the_text_stored(tmp_path: Path) -> None:
    async with offered(tmp_path) as world:
        world.embedding.fail_next(*[ModelUnavailable("the embedding is out of reach", is_transient=False)] * 9)
        told = await failure(world.client, "knowledge.insert", content=DEE)
        assert told.startswith("knowledge.insert failed: the embedding is out of reach")
        assert "The text of 1 document is stored; give it again" in told
        assert (await checked(world.client, "knowledge.stats"))["documents_by_status"]["pending"] == 1


async def test_rebuild_leaves_everything_as_it_was(tmp_path: Path) -> None:
    async with offered(tmp_path) as world:
        before = await checked(world.client, "knowledge.get_entities")
        done = await checked(world.client, "knowledge.rebuild_index")
        assert (done["documents"], done["entities"], done["problems_found"]) == (2, 4, 0)
        assert await checked(world.client, "knowledge.get_entities") == before


@pytest.mark.parametrize("id_", ["a\0b", "\ufeffab", "a\x01b"])
async def test_id_that_differs_only_by_what_is_cleaned_away_is_known(tmp_path: Path, id_: str) -> None:
    async with offered(tmp_path) as world:
        await checked(world.client, "knowledge.insert", content=DEE, document_id="ab")
        told = await failure(world.client, "knowledge.insert", content="Eve (person): sings.", document_id=id_)
        assert "there is a document 'ab'" in told
        done = await checked(world.client, "knowledge.delete", document_ids=[id_])
        assert done["deleted"] == ["ab"]


async def test_text_that_is_json_stays_a_text(tmp_path: Path) -> None:
    async with offered(tmp_path) as world:
        id_ = (await checked(world.client, "knowledge.insert", content='{"a": [1]}', title="[1]"))["document_id"]
        await checked(world.client, "knowledge.update", document_id=id_, content='["b", 2]', title="{}")
        async with world.workspaces.use() as engine:
            document = await engine.document(id_)
            assert document is not None
            assert document.title == "{}"
            assert await engine.store.records.get_document_text(id_) == '["b", 2]'
