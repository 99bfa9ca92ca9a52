from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from heliograph import AsyncHeliograph, QueryParam
from heliograph.errors import ConflictError, InvalidRequestError, NotFoundError
from heliograph.ingest.given import GivenChunk, GivenEntity, GivenRelation
from heliograph.ingest.models import Outcome
from heliograph.settings import ResolutionSettings, Settings
from heliograph.testing.fakes import FakeEmbeddingModel

from ..ingest.world import SpelledExtractor

ONE = "Ann (person): leads the team.\nBob (person): writes.\nAnn -> Bob [leads] 1.0: Ann leads Bob."
TWO = "Annie (person): paints.\nCy (place): a town.\nAnnie -> Cy [lives in] 2.0: Annie lives in Cy."


@pytest.fixture
async def kb(tmp_path: Path) -> AsyncGenerator[AsyncHeliograph]:
    async with AsyncHeliograph(
        tmp_path, embedding=FakeEmbeddingModel(16), extractor=SpelledExtractor(), settings=Settings()
    ) as kb:
        await kb.insert([ONE, TWO], sources=["one.md", "two.md"])
        yield kb


async def names(kb: AsyncHeliograph) -> set[str]:
    return {entity.name for entity in await kb.entities()}


async def test_merged_entities_are_one_and_come_apart_again(kb: AsyncHeliograph) -> None:
    merge = await kb.merge_entities("Annie", into="Ann", author="eve")
    ann = await kb.entity("annie")
    assert ann is not None
    assert (ann.name, ann.aliases, ann.degree) == ("Ann", ("Annie",), 2)
    assert set(ann.description.split("<SEP>")) == {"leads the team.", "paints."}
    assert await names(kb) == {"Ann", "Bob", "Cy"}
    relation = await kb.relation("Annie", "Cy")
    assert relation is not None
    assert {relation.source, relation.target} == {"Ann", "Cy"}
    await kb.undo(merge.id)
    assert await names(kb) == {"Ann", "Annie", "Bob", "Cy"}
    assert await kb.relation("Ann", "Cy") is None


async def test_merge_survives_update_delete_and_a_new_document(kb: AsyncHeliograph) -> None:
    await kb.merge_entities(["Ann", "Annie"], into="Anne")
    await kb.insert("Annie (person): sings.\nAnnie -> Ann [is] 1.0: the same.", sources=["two.md"])
    anne = await kb.entity("Ann")
    assert anne is not None
    assert anne.name == "Anne"
    assert "sings." in anne.description
    assert "paints." not in anne.description
    assert await kb.relation("Ann", "Annie") is None
    page = await kb.documents()
    await kb.delete([document.id for document in page.documents])
    assert await kb.entities() == []
    await kb.insert("Ann (person): is back.", sources=["three.md"])
    assert await names(kb) == {"Anne"}


async def test_renamed_entity_keeps_what_was_said_of_it(kb: AsyncHeliograph) -> None:
    await kb.edit_entity("Bob", description="a poet")
    await kb.rename_entity("Bob", "Robert")
    robert = await kb.entity("bob")
    assert robert is not None
    assert (robert.name, robert.description, robert.aliases) == ("Robert", "a poet", ("Bob",))
    relation = await kb.relation("Robert", "Ann")
    assert relation is not None
    assert {relation.source, relation.target} == {"Ann", "Robert"}
    with pytest.raises(ConflictError, match="another entity 'Cy'"):
        await kb.rename_entity("Robert", "cy")
    await kb.rename_entity("Robert", "Cy", allow_merge=True)
    assert await names(kb) == {"Ann", "Annie", "Cy"}


async def test_rename_with_an_edit_is_one_commit_and_each_part_can_be_undone(kb: AsyncHeliograph) -> None:
    before = (await kb.stats()).data_version
    edited, renamed = await kb.revise_entity("Bob", "Robert", type="poet", description="a poet", author="me")
    assert (await kb.stats()).data_version == before + 1
    assert (edited.kind.value, renamed.kind.value, renamed.author) == ("edit_entity", "rename_entity", "me")
    robert = await kb.entity("Robert")
    assert robert is not None
    assert (robert.name, robert.type, robert.description) == ("Robert", "poet", "a poet")
    await kb.undo(renamed.id)
    bob = await kb.entity("Bob")
    assert bob is not None
    assert (bob.name, bob.description, await kb.entity("Robert")) == ("Bob", "a poet", None)
    await kb.undo(edited.id)
    assert (await kb.entity("Bob")) != bob


async def test_refused_rename_with_an_edit_leaves_nothing(kb: AsyncHeliograph) -> None:
    before = (await kb.stats()).data_version
    with pytest.raises(ConflictError, match="another entity 'Cy'"):
        await kb.revise_entity("Bob", "cy", description="a poet")
    with pytest.raises(InvalidRequestError):
        await kb.revise_entity("Bob", " ", description="a poet")
    with pytest.raises(InvalidRequestError, match="type"):
        await kb.revise_entity("Bob", "Robert", type=" ")
    with pytest.raises(NotFoundError):
        await kb.revise_entity("Nobody", "Robert", description="a poet")
    assert ((await kb.stats()).data_version, (await kb.curations()).total) == (before, 0)


async def test_split_parts_what_two_documents_call_by_one_name(kb: AsyncHeliograph) -> None:
    await kb.insert("Ann (ship): sails.\nAnn -> Cy [calls at] 1.0: Ann calls at Cy.", sources=["ship.md"])
    ship = next(document for document in (await kb.documents()).documents if document.source == "ship.md")
    await kb.split_entity("Ann", "Ann (ship)", document_ids=[ship.id])
    ann, other = await kb.entity("Ann"), await kb.entity("Ann (ship)")
    assert ann is not None
    assert other is not None
    assert (ann.type, ann.description) == ("person", "leads the team.")
    assert (other.type, other.description) == ("ship", "sails.")
    assert await kb.relation("Ann (ship)", "Cy") is not None
    assert await kb.relation("Ann", "Cy") is None
    await kb.insert("Ann (ship): sails no more.", sources=["ship.md"])
    other = await kb.entity("Ann (ship)")
    assert other is not None
    assert other.description == "sails no more."
    with pytest.raises(InvalidRequestError, match="mentions 'Bob'"):
        await kb.split_entity("Bob", "Bobby", document_ids=[ship.id])


async def test_what_is_made_by_hand_stays_without_documents(kb: AsyncHeliograph) -> None:
    await kb.create_entity("Dot", type="Robot", description="made by hand")
    await kb.create_relation("Dot", "Bob", keywords=["repairs"], description="Bob repairs Dot.", weight=2.0)
    await kb.delete([document.id for document in (await kb.documents()).documents])
    assert await names(kb) == {"Bob", "Dot"}
    relation = await kb.relation("Bob", "Dot")
    assert relation is not None
    assert (relation.keywords, relation.description, relation.weight) == (("repairs",), "Bob repairs Dot.", 2.0)
    await kb.delete_relation("Bob", "Dot")
    assert await names(kb) == {"Dot"}
    with pytest.raises(ConflictError, match="already"):
        await kb.create_entity("dot")


async def test_deleted_entity_stays_away_until_undone(kb: AsyncHeliograph) -> None:
    before = await kb.relation("Ann", "Bob")
    hidden = await kb.delete_entity("Ann")
    await kb.insert("Ann (person): again.\nAnn -> Bob [pays] 1.0: pays", sources=["three.md"])
    assert await names(kb) == {"Annie", "Bob", "Cy"}
    assert await kb.relation("Ann", "Bob") is None
    assert (await kb.stats()).relations == 1
    with pytest.raises(NotFoundError, match="'Ann'"):
        await kb.edit_entity("Ann", description="x")
    await kb.undo(hidden.id)
    after = await kb.relation("Ann", "Bob")
    assert before is not None
    assert after is not None
    assert set(after.keywords) == {"leads", "pays"}
    with pytest.raises(ConflictError, match="undone before"):
        await kb.undo(hidden.id)


async def test_edited_relation_is_what_a_person_says(kb: AsyncHeliograph) -> None:
    edit = await kb.edit_relation("Bob", "Ann", keywords=["reports to"], weight=9.0)
    relation = await kb.relation("Ann", "Bob")
    assert relation is not None
    assert (relation.keywords, relation.weight, relation.description) == (("reports to",), 9.0, "Ann leads Bob.")
    await kb.undo(edit.id)
    relation = await kb.relation("Ann", "Bob")
    assert relation is not None
    assert (relation.keywords, relation.weight) == (("leads",), 1.0)


async def test_history_says_which_chunk_and_person_said_what(kb: AsyncHeliograph) -> None:
    merge = await kb.merge_entities(["Annie"], into="Ann", author="eve")
    history = await kb.history("Annie")
    assert {(item.source, item.names, item.description) for item in history.statements} == {
        ("one.md", ("Ann",), "leads the team."),
        ("two.md", ("Annie",), "paints."),
    }
    assert history.statement_count == 2
    assert [(item.id, item.author) for item in history.curations] == [(merge.id, "eve")]
    page = await kb.history("Ann", offset=1, limit=1)
    assert page.statements == history.statements[1:]
    await kb.edit_relation("Ann", "Bob", description="edited", author="mia")
    of_relation = await kb.history("Ann", "Bob")
    assert [item.keywords for item in of_relation.statements] == [("leads",)]
    assert [item.author for item in of_relation.curations] == ["mia"]


async def test_curations_survive_closing(tmp_path: Path) -> None:
    def opened() -> AsyncHeliograph:
        return AsyncHeliograph(tmp_path, embedding=FakeEmbeddingModel(16), extractor=SpelledExtractor())

    async with opened() as kb:
        await kb.insert([ONE, TWO], sources=["one.md", "two.md"])
        merge = await kb.merge_entities("Annie", into="Ann", author="eve")
    async with opened() as kb:
        assert (await kb.curations()).curations == (merge,)
        assert await names(kb) == {"Ann", "Bob", "Cy"}


async def test_given_graph_is_a_document_like_any_other(kb: AsyncHeliograph) -> None:
    chunks = [GivenChunk("Dot was built by Eve.", "c1"), GivenChunk("Eve lives in Cy.", "c2")]
    entities = [GivenEntity("Dot", "Robot", "built", "c1"), GivenEntity("Eve", "person", "an engineer", "c2")]
    relations = [GivenRelation("Eve", "Dot", "Eve built Dot.", "built", 3.0, "c1"), GivenRelation("Eve", "Cy", "lives")]
    result = await kb.insert_graph(chunks, entities, relations, source="graph.json")
    assert (result.outcome, result.chunk_count) == (Outcome.PROCESSED, 2)
    relation = await kb.relation("Dot", "Eve")
    assert relation is not None
    assert (relation.weight, relation.keywords) == (3.0, ("built",))
    assert [chunk.text for chunk in await kb.chunks(result.id)] == [chunk.text for chunk in chunks]
    await kb.insert_graph(chunks[:1], entities[:1], source="graph.json")
    assert await kb.entity("Eve") is None
    await kb.delete(result.id)
    assert await names(kb) == {"Ann", "Annie", "Bob", "Cy"}


@pytest.mark.parametrize("kind", [int, np.int64, np.float32, np.float16, Fraction])
async def test_weight_of_a_given_relation_is_any_number(kb: AsyncHeliograph, kind: Callable[[int], float]) -> None:
    for text in ("Eve built Dot.", "Eve built Dot again."):
        await kb.insert_graph([GivenChunk(text)], [], [GivenRelation("Eve", "Dot", weight=kind(2))])
    relation = await kb.relation("Eve", "Dot")
    assert relation is not None
    assert relation.weight == 4.0
    assert (await kb.check()).problems == ()


@pytest.mark.parametrize("name", ["id", "source"])
async def test_given_graph_is_named_as_a_document_may_be(kb: AsyncHeliograph, name: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"the {name} .* has 4,?097 characters"):
        await kb.insert_graph([GivenChunk("Dot was built by Eve.")], **{name: "x" * 4_097})


async def test_given_graph_leaves_the_text_it_had_to_the_documents_that_share_it(kb: AsyncHeliograph) -> None:
    await kb.insert(["Zed met Yan.", "Zed met Yan."], ids=["a", "b"])
    await kb.insert_graph([GivenChunk("Dot was built by Eve.")], id="a")
    assert [chunk.text for chunk in await kb.chunks("b")] == ["Zed met Yan."]
    assert [chunk.text for chunk in await kb.chunks("a")] == ["Dot was built by Eve."]


async def test_chunk_of_a_given_graph_is_about_what_it_opens_with(kb: AsyncHeliograph) -> None:
    chunks = [GivenChunk("Dot was built by Eve.", "c1"), GivenChunk("Eve lives near Dot.", "c2")]
    entities = [GivenEntity("Dot", chunk="c1"), GivenEntity("Dot", chunk="c2")]
    await kb.insert_graph(chunks, entities, source="graph.json")
    found = await kb.query_data("Who built Dot?", QueryParam(mode="fusion"))
    about = {item["content"] for item in found["data"]["chunks"] if "entity" in item["scores"]}
    assert about == {"Dot was built by Eve."}


@pytest.mark.parametrize(
    ("chunks", "entities", "relations", "message"),
    [
        ([], [], [], "at least one chunk"),
        ([GivenChunk("x", "a"), GivenChunk("y", "a")], [], [], "'a'"),
        ([GivenChunk("x")], [GivenEntity("A", chunk="nowhere")], [], "'nowhere'"),
        ([GivenChunk("x")], [GivenEntity(" ")], [], "empty"),
        ([GivenChunk("x")], [], [GivenRelation("A", "a")], "itself"),
        ([GivenChunk("x")], [], [GivenRelation("A", "B", weight=-1.0)], "-1.0"),
        ([GivenChunk("x")], [], [GivenRelation("A", "B", weight=10**400)], "a positive number"),
    ],
)
async def test_given_graph_is_checked_before_it_is_written(
    kb: AsyncHeliograph,
    chunks: list[GivenChunk],
    entities: list[GivenEntity],
    relations: list[GivenRelation],
    message: str,
) -> None:
    before = await kb.stats()
    with pytest.raises(InvalidRequestError, match=message):
        await kb.insert_graph(chunks, entities, relations)
    assert (await kb.stats()).data_version == before.data_version


async def test_alias_that_a_document_introduces_holds_everywhere(kb: AsyncHeliograph) -> None:
    await kb.insert("Robert = Bob\nRobert (person): a poet.", sources=["alias.md"])
    robert = await kb.entity("Bob")
    assert robert is not None
    assert (robert.name, robert.aliases) == ("Robert", ("Bob",))
    await kb.insert("Cy = Bob", sources=["other.md"])
    bob = await kb.entity("Bob")
    assert bob is not None
    assert (bob.name, bob.description) == ("Bob", "writes.")


async def test_duplicates_are_proposed_and_merged_by_setting(tmp_path: Path) -> None:
    text = "Tobias Fenn (person): x.\nFenn Tobias (person): x.\nModel 2 (thing): x.\nModel 3 (thing): x."
    resolution = ResolutionSettings(min_duplicate_cosine=-1.0)
    parts = {"embedding": FakeEmbeddingModel(16), "extractor": SpelledExtractor()}
    async with AsyncHeliograph(tmp_path / "a", settings=Settings(resolution=resolution), **parts) as kb:
        await kb.insert(text)
        (pair,) = await kb.find_duplicates()
        assert {pair.name, pair.other} == {"Tobias Fenn", "Fenn Tobias"}
        assert "spelled alike" in pair.reason
        assert await kb.find_duplicates(names=["Model 2"]) == []
    resolution = ResolutionSettings(merge_duplicates=True, min_duplicate_cosine=-1.0)
    async with AsyncHeliograph(tmp_path / "b", settings=Settings(resolution=resolution), **parts) as kb:
        await kb.insert(text)
        assert len(await names(kb)) == 3
        (merge,) = (await kb.curations()).curations
        assert merge.author == "auto"
        await kb.undo(merge.id)
        assert len(await names(kb)) == 4


async def test_duplicates_of_what_waited_are_merged_by_setting_too(tmp_path: Path) -> None:
    resolution = ResolutionSettings(merge_duplicates=True, min_duplicate_cosine=-1.0)
    parts = {"embedding": FakeEmbeddingModel(16), "extractor": SpelledExtractor()}
    async with AsyncHeliograph(tmp_path, settings=Settings(resolution=resolution), **parts) as kb:
        await kb.enqueue("Tobias Fenn (person): x.\nFenn Tobias (person): x.")
        await kb.resume()
        (merge,) = (await kb.curations()).curations
        assert merge.author == "auto"


async def test_merge_and_split_of_nothing_say_what_is_missing(kb: AsyncHeliograph) -> None:
    with pytest.raises(InvalidRequestError, match="no entities are named"):
        await kb.merge_entities([], into="Ann")
    with pytest.raises(InvalidRequestError, match="give ids of documents or chunks"):
        await kb.split_entity("Ann", "Ann (other)")


@pytest.mark.parametrize("id_", ["\0", "\ud800"])
async def test_id_that_no_store_could_hold_is_not_found(kb: AsyncHeliograph, id_: str) -> None:
    with pytest.raises(NotFoundError, match="no curation"):
        await kb.undo(id_)


async def test_what_was_deleted_stays_deleted_when_its_name_is_given_again(kb: AsyncHeliograph) -> None:
    await kb.edit_entity("Ann", type="boss", description="An old word.")
    gone = await kb.delete_entity("Ann")
    made = await kb.create_entity("ann", type="robot", description="A new one.")
    ann = await kb.entity("Ann")
    assert ann is not None
    assert (ann.name, ann.type, ann.description, ann.chunk_ids, ann.degree) == ("ann", "robot", "A new one.", (), 0)
    assert await kb.relation("Ann", "Bob") is None
    await kb.insert(ONE, sources=["again.md"])
    await kb.create_relation("Ann", "Bob", description="Ann made Bob.")
    renamed = await kb.rename_entity("Ann", "Dot")
    again = await kb.create_entity("Ann", description="A third.")
    dot, third, relation = await kb.entity("Dot"), await kb.entity("Ann"), await kb.relation("Dot", "Bob")
    assert dot is not None
    assert third is not None
    assert relation is not None
    assert (dot.description, third.description, relation.description) == ("A new one.", "A third.", "Ann made Bob.")
    assert (await kb.check()).is_clean
    for item in (gone, renamed):
        with pytest.raises(ConflictError, match="given to another entity"):
            await kb.undo(item.id)
    found = [item.id for item in (await kb.history("Ann")).curations]
    assert {gone.id, made.id, renamed.id, again.id} <= {*found}
    for item in (again, renamed, made, gone):
        await kb.undo(item.id)
    ann = await kb.entity("Ann")
    assert ann is not None
    assert (ann.type, ann.description, ann.degree) == ("boss", "An old word.", 1)
    assert (await kb.check()).is_clean


@pytest.mark.parametrize("how", ["merge", "rename"])
async def test_name_that_was_merged_or_renamed_away_is_free(kb: AsyncHeliograph, how: str) -> None:
    if how == "merge":
        moved = await kb.merge_entities("Annie", into="Ann")
    else:
        moved = await kb.rename_entity("Annie", "Anna")
    left = await kb.entity("Annie")
    assert left is not None
    made = await kb.create_entity("Annie", description="Another one.")
    with pytest.raises(ConflictError):
        await kb.create_entity("annie", description="Another one.")
    annie, other = await kb.entity("Annie"), await kb.entity(left.name)
    assert annie is not None
    assert other is not None
    assert (annie.name, annie.description, annie.degree) == ("Annie", "Another one.", 0)
    assert "paints." in other.description
    assert {made.id, moved.id} <= {item.id for item in (await kb.history("Annie")).curations}
    with pytest.raises(ConflictError, match="'Annie' was given to another entity"):
        await kb.undo(moved.id)
    await kb.undo(made.id)
    assert await kb.entity("Annie") == await kb.entity(left.name)
    await kb.undo(moved.id)
    annie = await kb.entity("Annie")
    assert annie is not None
    assert (annie.description, annie.degree) == ("paints.", 1)
    assert (await kb.check()).is_clean


async def test_relation_made_after_it_was_deleted_says_what_people_say(kb: AsyncHeliograph) -> None:
    await kb.edit_relation("Ann", "Bob", description="An old word.", keywords=["old"], weight=9.0)
    gone = await kb.delete_relation("Ann", "Bob")
    await kb.create_relation("Bob", "Ann", description="Bob knows Ann.", keywords=["knows"], weight=2.0)
    await kb.insert(ONE, sources=["again.md"])
    found = await kb.relation("Ann", "Bob")
    assert found is not None
    assert (found.description, found.keywords, found.weight, found.chunk_ids) == ("Bob knows Ann.", ("knows",), 2.0, ())
    assert (await kb.check()).is_clean
    await kb.undo(gone.id)
    found = await kb.relation("Ann", "Bob")
    assert found is not None
    assert (found.description, found.weight, len(found.chunk_ids)) == ("An old word.", 9.0, 1)
    assert (await kb.check()).is_clean


async def test_name_that_was_merged_away_does_not_delete_what_it_became(kb: AsyncHeliograph) -> None:
    await kb.rename_entity("Annie", "Anna")
    await kb.merge_entities("Anna", into="Ann")
    before = await names(kb)
    for gone in ("Annie", "anna"):
        with pytest.raises(NotFoundError, match=gone):
            await kb.delete_entity(gone)
        with pytest.raises(NotFoundError, match=gone):
            await kb.delete_relation("Cy", gone)
    assert await names(kb) == before
    await kb.delete_relation("Cy", "ANN")
    await kb.delete_entity("Ann")
    assert await kb.entity("Annie") is None


async def test_old_name_of_what_was_renamed_deletes_it(kb: AsyncHeliograph) -> None:
    await kb.rename_entity("Annie", "Anna")
    await kb.rename_entity("Anna", "Hannah")
    assert (await kb.delete_entity("Annie")).names == ("Hannah",)


async def test_alias_that_documents_give_deletes_what_it_stands_for(kb: AsyncHeliograph) -> None:
    await kb.insert("Robert = Bob\nRobert (person): a poet.", sources=["alias.md"])
    assert (await kb.delete_entity("Bob")).names == ("Robert",)
    assert "Robert" not in await names(kb)
