"""Both faces of the client against a real service."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from heliograph.client import AsyncHeliographClient, ClientOptions, HeliographClient, QueryOptions
from heliograph.errors import (
    AuthenticationError,
    ConflictError,
    HeliographError,
    InvalidRequestError,
    ModelTimeout,
    NotFoundError,
    PermissionDenied,
    ServiceUnavailable,
)
from heliograph.service.access import hash_password
from heliograph.testing.fakes import FakeChatModel

from ...serving import ANSWER, EVIL, Serve

ONCE = ClientOptions(retries=0)


def test_answer_comes_typed_with_references_and_citations(serve: Serve) -> None:
    with HeliographClient(serve(FakeChatModel(ANSWER))) as client:
        answer = client.query("Who leads Bob?", "naive", QueryOptions(include_chunk_content=True))
    assert "Ann leads Bob" in str(answer)
    assert (answer.mode, answer.kind, answer.is_complete) == ("naive", "generated", True)
    assert {item.file_path for item in answer.references} == {EVIL, "two.md"}
    assert all(item.content for item in answer.references)
    assert answer.citations
    assert answer.citations[0].quote in "".join(text for item in answer.references for text in item.content or ())


def test_retrieval_comes_typed_and_honours_options(serve: Serve) -> None:
    with HeliographClient(serve()) as client:
        found = client.retrieve("Who leads Bob?", "local", QueryOptions(ll_keywords=("Bob",)), include_context=True)
        data = client.query_data("Who leads Bob?", "naive")
        nothing = client.retrieve("Who leads Bob?", "naive", QueryOptions(filter={"team": "red"}))
    assert found.status == "success"
    assert found.keywords.low_level == ("Bob",)
    assert "Bob" in {item.name for item in found.entities}
    assert found.chunks[0].content[:3] in found.context
    assert data["status"] == "success"
    assert (nothing.status, nothing.chunks) == ("failure", ())


def test_stream_gives_references_before_text_and_the_whole_after_it(serve: Serve) -> None:
    stages: list[str] = []
    with (
        HeliographClient(serve(FakeChatModel(ANSWER, piece_characters=4))) as client,
        client.stream("Who leads Bob?", "naive", progress=stages.append) as stream,
    ):
        assert {item.file_path for item in stream.references} == {EVIL, "two.md"}
        with pytest.raises(InvalidRequestError, match="not been read to its end"):
            _ = stream.answer
        pieces = list(stream)
        assert len(pieces) > 1
        assert stream.answer.text == "".join(pieces)
        assert stream.answer.kind == "generated"
        assert stream.answer.references == stream.references
    assert "generating_response" in stages


async def test_async_face_does_what_the_other_does(serve: Serve) -> None:
    address = await asyncio.to_thread(serve, FakeChatModel(ANSWER, piece_characters=4))
    async with AsyncHeliographClient(address) as client:
        answers = await asyncio.gather(*(client.query("Who leads Bob?", "naive") for _ in range(4)))
        assert {answer.text for answer in answers} == {answers[0].text}
        async with client.stream("Who leads Bob?", "naive") as stream:
            assert stream.references
            text = "".join([piece async for piece in stream])
        assert stream.answer.text == text
        async with client.stream("Who leads Bob?", "naive") as stream:
            assert stream.references  # Left before its end.
        assert (await client.retrieve("Who leads Bob?", "naive")).chunks
        taken = await client.documents.insert("Dora (person): sings.", source="three.md")
        (done,) = await client.documents.wait(taken.track_id)
        assert done.status == "processed"
        assert (await client.graph.entity("dora")).entity.name == "Dora"
        assert "default" in [item.name for item in await client.workspaces.list()]
        assert (await client.jobs.list()).total >= 1
        assert (await client.health())["status"]
        with pytest.raises(NotFoundError):
            await client.documents.get("doc-none")


def test_document_goes_through_its_life(serve: Serve, tmp_path: Path) -> None:
    file = tmp_path / "four.md"
    file.write_text("Eve (person): climbs.", "utf-8")
    with HeliographClient(serve()) as client:
        taken = client.documents.insert("Dora (person): sings.", source="a/b ü.md", metadata={"team": "red"})
        (done,) = client.documents.wait(taken.track_id)
        assert (done.status, done.source) == ("processed", "a/b ü.md")
        assert done.metadata == {"team": "red", "language": "en"}
        assert client.documents.insert("Dora (person): sings.", source="a/b ü.md").status == "duplicated"
        assert client.documents.text(done.id) == "Dora (person): sings."
        named = client.documents.entities(done.id)
        assert [(entity.name, entity.type, entity.count) for entity in named.entities] == [("Dora", "person", 1)]
        assert named.total == 1
        assert client.documents.get(done.id).chunks[0].text == "Dora (person): sings."
        assert client.documents.list(filter={"team": "red"}).total == 1
        changed = client.documents.change(done.id, metadata={"team": "blue"}).document
        assert changed.metadata == {"team": "blue", "language": "en"}
        updated = client.documents.update(done.id, text="Dora (person): dances.")
        client.documents.wait(updated.track_id)
        assert client.graph.entity("Dora").entity.descriptions == ("dances.",)
        uploaded = client.documents.upload(file)
        assert client.documents.wait(uploaded.track_id)[0].source == "four.md"
        many = client.documents.insert_many(["Flo (person): runs.", "Gus (person): swims."], sources=["5.md", "6.md"])
        assert len(client.documents.wait(many.track_id)) == 2
        listed = [item.source for item in client.documents.list(sort="source", descending=True).documents]
        assert listed == sorted(listed, reverse=True)
        assert {"5.md", "6.md", "four.md"} <= set(listed)
        removal = client.documents.delete(done.id)
        while client.jobs.get(removal.job_id).finished_at is None:
            pass
        with pytest.raises(NotFoundError):
            client.documents.get(done.id)


def test_graph_is_read(serve: Serve) -> None:
    with HeliographClient(serve()) as client:
        assert "Bob" in client.graph.search("bo")
        listed = client.graph.entities(search="bo", type="PERSON")
        assert [(item.name, item.type) for item in listed.entities] == [("Bob", "person")]
        assert listed.next_offset is None
        assert client.graph.relation("Bob", "Ann").relation.keywords == ("leads",)
        assert client.graph.relation("Bob", "Ann").sources[0].file_path == EVIL
        around = client.graph.neighbours("Ann")
        assert {item.name for item in around.entities} == {"Ann", "Bob"}
        assert len(client.graph.paths("Ann", "Bob", max_hops=1)[0].relations) == 1
        assert len(client.graph.paths("Ann", "Bob", max_length=1)[0].relations) == 1
        with pytest.raises(NotFoundError, match="Nobody"):
            client.graph.entity("Nobody")


def test_workspaces_are_kept_apart(serve: Serve) -> None:
    with HeliographClient(serve()) as client:
        client.workspaces.create("research")
        with pytest.raises(ConflictError):
            client.workspaces.create("research")
        client.workspaces.create("research", exist_ok=True)
        other = client.in_workspace("research")
        assert other.documents.list().total == 0
        other.close()
        assert client.workspaces.counts("default").documents == {"processed": 2}
        client.workspaces.delete("research")
        assert [item.name for item in client.workspaces.list()] == ["default"]
        with pytest.raises(HeliographError):
            client.in_workspace("no/such name").query("Who leads Bob?")


def test_failures_are_the_errors_that_the_service_names(serve: Serve) -> None:
    def fail(_request: object) -> str:
        raise ModelTimeout("it took too long")

    with HeliographClient(serve(FakeChatModel(fail)), options=ONCE) as client:
        with pytest.raises(ModelTimeout, match=r"took too long.*\(request "):
            client.query("Who leads Bob?", "naive")
        with pytest.raises(InvalidRequestError, match=r"mode"):
            client.query("Who leads Bob?", "wrong")  # type: ignore[arg-type]
        with pytest.raises(InvalidRequestError):
            client.retrieve("Who leads Bob?", "naive", QueryOptions(filter={"team": {"no": 1}}))


def test_key_is_sent_and_its_role_told(serve: Serve) -> None:
    keys = [{"name": "reader", "key": "reader-key-0123456789", "role": "read"}]
    address = serve(api_key="admin-key-0123456789", keys=keys)
    with HeliographClient(address) as nobody, pytest.raises(PermissionDenied, match="API Key"):
        nobody.documents.list()
    with HeliographClient(address, api_key="reader-key-0123456789") as reader:
        assert reader.documents.list().total == 2
        with pytest.raises(PermissionDenied):
            reader.documents.insert("No.", source="no.md")
    with HeliographClient(address, api_key="admin-key-0123456789") as admin:
        assert admin.workspaces.list()


def test_login_is_made_once_and_again_when_the_token_is_refused(serve: Serve) -> None:
    accounts = [{"name": "hester", "password_hash": hash_password("lamp oil"), "role": "write"}]
    address = serve(accounts=accounts)
    with HeliographClient(address, username="hester", password="lamp oil") as client:
        assert client.documents.list().total == 2
        first = client._waiting._connection.token
        assert client.documents.list().total == 2
        assert client._waiting._connection.token == first
        client._waiting._connection.token = "not.a.token"
        assert client.documents.list().total == 2
        client.log_out()
        assert client.documents.list().total == 2
    with (
        HeliographClient(address, username="hester", password="wrong") as wrong,
        pytest.raises(AuthenticationError),
    ):
        wrong.documents.list()


def test_service_that_is_not_there_is_told() -> None:
    with (
        HeliographClient("http://127.0.0.1:9", options=ONCE) as client,
        pytest.raises(ServiceUnavailable, match=r"127.0.0.1:9.*cannot be reached"),
    ):
        client.health()


def test_transport_of_the_caller_is_used() -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={"status": "healthy"})

    with HeliographClient("http://kb.test/prefix", transport=httpx.MockTransport(answer), workspace="bü") as client:
        assert client.health() == {"status": "healthy"}
    assert str(seen[0].url) == "http://kb.test/prefix/health"
    assert seen[0].headers["X-Heliograph-Workspace"] == "b%C3%BC"


def test_example_of_the_page_runs(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "client.md").read_text("utf-8")
    block = page.split("```python no-run\n")[1].split("```")[0]
    block = block.replace('"http://127.0.0.1:9621", api_key="..."', repr(serve(FakeChatModel(ANSWER))))
    exec(compile(block, "client.md", "exec"), {"__name__": "__main__"})
    assert "Ann leads Bob" in capsys.readouterr().out
