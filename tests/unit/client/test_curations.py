"""Corrections by both faces of the client against a real service."""

from __future__ import annotations

import inspect

import httpx
import pytest

from heliograph.client import AsyncHeliographClient, HeliographClient
from heliograph.errors import ConflictError, InvalidRequestError, NotFoundError, PermissionDenied, ServiceUnavailable

from ...serving import Serve


def test_entity_goes_through_its_life(serve: Serve) -> None:
    with HeliographClient(serve()) as client:
        made = client.curations.create_entity("Dee", type="person", description="dances.")
        assert (made.names, len(made.curation_ids), made.is_merged) == (("Dee",), 1, False)
        client.curations.edit_entity("dee", description="sings.")
        renamed = client.curations.rename_entity("Dee", "Deidre", type="singer", description="a singer.")
        assert (renamed.names, len(renamed.curation_ids)) == (("Deidre",), 2)
        detail = client.graph.entity("Dee").entity
        assert (detail.name, detail.type, detail.aliases) == ("Deidre", "singer", ("Dee",))
        merged = client.curations.rename_entity("Deidre", "Annie", allow_merge=True)
        assert (merged.names, merged.is_merged) == (("Annie",), True)
        assert client.curations.merge_entities(["Annie"], "Ann").names == ("Ann",)
        assert client.curations.delete_entity("Ann").names == ("Ann",)
        with pytest.raises(NotFoundError):
            client.graph.entity("Ann")
        page = client.curations.list(limit=2)
        assert [item.kind for item in page.curations] == ["delete_entity", "merge_entities"]
        assert page.total == 7
        undone = client.curations.undo(page.curations[0].id)
        assert undone.undone_at is not None
        assert undone.undone_at >= undone.created_at
        assert client.curations.list(includes_undone=False).total == 6
        assert {item.kind for item in client.curations.list(name="Bob").curations} == set()


def test_relation_goes_through_its_life(serve: Serve) -> None:
    with HeliographClient(serve()) as client:
        made = client.curations.create_relation("Bob", "Cy", keywords=["born in", "home"], description="Bob is of Cy.")
        assert set(made.names) == {"Bob", "Cy"}
        client.curations.edit_relation("Cy", "Bob", weight=2.5)
        found = client.graph.relation("Bob", "Cy").relation
        assert (found.keywords, found.weight) == (("born in", "home"), 2.5)
        client.curations.delete_relation("Bob", "Cy")
        with pytest.raises(NotFoundError):
            client.graph.relation("Bob", "Cy")
        kinds = [item.kind for item in client.curations.history("Bob", "Cy").curations]
        assert kinds == ["create_relation", "edit_relation", "delete_relation"]


def test_split_and_history_are_typed(serve: Serve) -> None:
    with HeliographClient(serve()) as client:
        taken = client.documents.insert("Ann (ship): sails.", source="ship.md")
        client.documents.wait(taken.track_id)
        done = client.curations.split_entity("Ann", "Ann (ship)", document_ids=taken.document_ids)
        assert (done.kind, done.names, done.scope) == ("split_entity", ("Ann", "Ann (ship)"), taken.document_ids)
        history = client.curations.history("Ann (ship)")
        assert (history.statement_count, history.statements[0].file_path) == (1, "ship.md")
        assert history.statements[0].description == "sails."
        assert isinstance(client.curations.find_duplicates(), tuple)


def test_refusals_are_errors_and_change_nothing(serve: Serve) -> None:
    keys = [{"name": "reader", "key": "reader-key-0123456789", "role": "read"}]
    address = serve(api_key="admin-key-0123456789", keys=keys)
    with HeliographClient(address, api_key="admin-key-0123456789") as client:
        curations = client.curations
        with pytest.raises(InvalidRequestError, match="another entity"):
            curations.rename_entity("Ann", "Bob", description="new")
        with pytest.raises(InvalidRequestError, match="Nobody"):
            curations.edit_entity("Nobody", description="x")
        with pytest.raises(InvalidRequestError, match="list"):
            curations.merge_entities("Ann", "Bob")
        with pytest.raises(ConflictError):
            curations.split_entity("Ann", "Bob", chunk_ids=["chunk-1"])
        with pytest.raises(NotFoundError):
            curations.delete_relation("Ann", "Cy")
        with pytest.raises(NotFoundError):
            curations.undo("a/../b")
        with pytest.raises(NotFoundError):
            curations.history("Nobody")
        assert curations.list().total == 0
    with HeliographClient(address, api_key="reader-key-0123456789") as reader:
        assert reader.curations.list().total == 0
        with pytest.raises(PermissionDenied):
            reader.curations.delete_entity("Ann")


async def test_async_face_does_what_the_other_does(serve: Serve) -> None:
    async with AsyncHeliographClient(serve(), workspace="default") as client:
        done = await client.curations.rename_entity("Ann", "Anna", description="leads all.")
        assert (await client.graph.entity("Ann")).entity.descriptions == ("leads all.",)
        for id_ in reversed(done.curation_ids):
            await client.curations.undo(id_)
        assert (await client.graph.entity("Ann")).entity.name == "Ann"
        await client.curations.delete_relation("Ann", "Bob")
        assert (await client.curations.list()).curations[0].kind == "delete_relation"
        assert (await client.curations.find_duplicates(limit=5)) is not None


@pytest.mark.parametrize("part", [None, "documents", "jobs", "workspaces", "graph", "curations"])
def test_both_faces_have_the_same_methods(part: str | None) -> None:
    def signatures(client: object) -> dict[str, str]:
        face = client if part is None else getattr(client, part)
        methods = {name: getattr(face, name) for name in dir(type(face)) if not name.startswith("_")}
        apart = {"send", "stream", "in_workspace", "method"}
        return {name: str(inspect.signature(one)) for name, one in methods.items() if name not in apart}

    waiting, blocking = AsyncHeliographClient("http://kb.test"), HeliographClient("http://kb.test")
    assert signatures(waiting) == signatures(blocking)
    assert all(inspect.getdoc(getattr(type(blocking), name)) for name in (signatures(blocking) if part is None else ()))


def test_reply_of_another_shape_is_no_such_service() -> None:
    odd = httpx.MockTransport(lambda _: httpx.Response(200, json={"message": "ok", "data": 3}))
    with HeliographClient("http://kb.test", transport=odd) as client, pytest.raises(ServiceUnavailable, match="data"):
        client.curations.delete_entity("x")


async def test_blocking_client_works_within_a_running_loop() -> None:
    told = httpx.MockTransport(lambda _: httpx.Response(200, json={"documents": [], "total": 0}))
    with HeliographClient("http://kb.test", transport=told) as client:
        assert client.documents.list().total == 0
