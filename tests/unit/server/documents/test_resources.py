from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from heliograph.ids import document_id
from heliograph.ingest.models import NewDocument
from heliograph.server.requests import Work
from heliograph.service.jobs.jobs import Bench, work_on
from heliograph.service.jobs.models import Job, JobKind, JobProgress, JobRequest
from heliograph.service.jobs.store import JobStore

from .conftest import TEXT, Server, names


async def test_document_comes_with_a_page_of_its_chunks(server: Server) -> None:
    text = "\n\n".join(f"## Part {number}\n\n" + f"Sentence {number} of a long text. " * 80 for number in range(6))
    id_ = await server.add(text, "long.md", title="Long")
    whole = await server.send("GET", f"/documents/{id_}")
    assert (whole["title"], whole["source"]) == ("Long", "long.md")
    assert len(whole["chunks"]) == whole["chunk_count"] > 2
    part = await server.send("GET", f"/documents/{id_}", params={"chunk_offset": 1, "chunk_limit": 1})
    assert part["chunks"] == whole["chunks"][1:2]
    stored = (await server.send("GET", f"/documents/{id_}/text"))["text"]
    assert all(stored[chunk["start"] : chunk["end"]] == chunk["text"] for chunk in whole["chunks"])
    part = await server.send("GET", f"/documents/{id_}/text", params={"offset": 3, "limit": 5})
    assert (part["text"], part["total_characters"]) == (stored[3:8], len(stored))


async def test_list_is_filtered_and_paged(server: Server) -> None:
    for number, team in enumerate(["red", "blue", "red"]):
        await server.add(f"{TEXT} {number}", f"{number}.md", metadata={"team": team})
    found = await server.send("GET", "/documents", params={"filter": json.dumps({"team": "red"}), "sort": "source"})
    assert ([item["source"] for item in found["documents"]], found["total"]) == (["0.md", "2.md"], 2)
    found = await server.send("GET", "/documents", params={"source_prefix": "1", "status": ["processed", "failed"]})
    assert [item["source"] for item in found["documents"]] == ["1.md"]
    await server.send("GET", "/documents", 400, params={"filter": "{"})
    await server.send("GET", "/documents", 422, params={"status": "odd"})


async def test_update_replaces_text_and_keeps_the_rest(server: Server) -> None:
    id_ = await server.add(metadata={"team": "red"}, title="Radio")
    told = await server.send("PUT", f"/documents/{id_}", json={"text": f"{TEXT} And WiFi."})
    assert told["status"] == "success"
    await server.settle()
    document = await server.send("GET", f"/documents/{id_}")
    assert (document["status"], document["title"]) == ("processed", "Radio")
    assert document["metadata"] == {"team": "red", "language": "en"}
    assert document["chunks"][0]["text"].endswith("And WiFi.")
    again = await server.send("PUT", f"/documents/{id_}", json={"text": f"{TEXT} And WiFi."})
    assert again["status"] == "unchanged"
    versions = (await server.send("GET", f"/documents/{id_}"))["versions"]
    assert [version["length"] for version in versions] == [len(f"{TEXT} And WiFi."), len(TEXT)]
    assert all(version["author"] and version["created_at"] for version in versions)
    told = await server.send("PUT", f"/documents/{id_}", json={"metadata": {"team": "blue"}})
    assert (told["status"], told["document"]["metadata"]) == ("unchanged", {"team": "blue", "language": "en"})
    assert told["document"]["status"] == "processed"


async def test_patch_merges_metadata_and_changes_the_title(server: Server) -> None:
    id_ = await server.add(metadata={"team": "red", "draft": True, "place": {"room": 1, "floor": 2}})
    change = {"metadata": {"draft": None, "place": {"room": 5}, "new": [1]}}
    told = await server.send("PATCH", f"/documents/{id_}", json=change)
    kept = {"team": "red", "language": "en", "place": {"room": 5, "floor": 2}}
    assert told["document"]["metadata"] == kept | {"new": [1]}
    assert (await server.send("PATCH", f"/documents/{id_}", json={"title": "Radio"}))["status"] == "success"
    await server.settle()
    assert (await server.send("GET", f"/documents/{id_}"))["title"] == "Radio"


@pytest.mark.parametrize(
    ("method", "path", "given"),
    [
        ("GET", "/documents/doc-unknown", {}),
        ("GET", "/documents/doc-unknown/text", {}),
        ("PUT", "/documents/doc-unknown", {"json": {"text": "x"}}),
        ("PATCH", "/documents/doc-unknown", {"json": {"title": "x"}}),
        ("DELETE", "/documents/doc-unknown", {}),
        ("DELETE", "/documents/delete_document", {"json": {"doc_ids": ["doc-unknown"]}}),
        ("GET", "/documents/jobs/job-unknown", {}),
        ("POST", "/documents/jobs/job-unknown/cancel", {}),
    ],
)
async def test_what_is_unknown_is_not_found(server: Server, method: str, path: str, given: dict) -> None:
    assert "unknown" in (await server.send(method, path, 404, **given))["detail"]


async def test_id_that_no_document_can_have_is_not_found(server: Server) -> None:
    await server.send("GET", "/documents/%00", 404)
    await server.send("DELETE", "/documents/delete_document", 404, json={"doc_ids": ["doc-\0"]})
    assert (await server.send("GET", "/documents/track_status/%00%ff"))["total_count"] == 0


async def test_delete_takes_document_and_on_request_its_file(server: Server) -> None:
    await server.upload("a.md")
    await server.upload("b.md", b"Another text of the BLE radio.")
    await server.settle()
    told = await server.send("DELETE", f"/documents/{document_id('a.md')}", params={"delete_file": True})
    assert (told["status"], told["count"]) == ("deleted", 1)
    assert not (server.inputs / "a.md").exists()
    body = {"doc_ids": [document_id("b.md")], "delete_llm_cache": True}
    told = await server.send("DELETE", "/documents/delete_document", json=body)
    assert (told["status"], told["doc_id"]) == ("deletion_started", document_id("b.md"))
    await server.settle()
    assert await server.documents() == {}
    assert (server.inputs / "b.md").exists()


async def test_job_that_deletes_leaves_a_text_that_was_handed_over_after_it_was_asked_for(server: Server) -> None:
    id_ = await server.add()
    await server.upload("b.md")
    await server.settle()
    async with server.service.workspaces.use("default") as kb:
        known = {item.id: item.content_hash for item in (await kb.documents()).documents}
    request = JobRequest(JobKind.DELETE, "delete", document_ids=tuple(known), content_hashes=known, deletes_files=True)
    await server.add("Another text of the BLE radio.")
    job = await server.service.jobs.submit("default", request)
    await server.settle()
    done = await server.service.jobs.get("default", job.id)
    assert done.progress.counts == {"deleted": 1, "missing": 0, "replaced": 1, "files": 1}
    assert {item["id"] for item in (await server.documents()).values()} == {id_}


async def test_job_that_is_begun_again_leaves_what_was_handed_over_after_it_had_deleted_it(server: Server) -> None:
    id_ = await server.add()
    await server.send("DELETE", f"/documents/{id_}")
    job = (await server.service.jobs.page("default", 0, 1))[0][0]
    assert await server.add() == id_
    told: list[JobProgress] = []
    async with server.service.workspaces.use("default") as kb:
        store, folder = JobStore(server.data_dir / "default"), server.service.jobs.input_folder("default")
        done = await work_on(job, Bench(kb, folder, store, told.append))
        store.close()
    assert (done.counts, told) == ({"deleted": 0, "missing": 0, "replaced": 1}, [done])
    assert await server.documents()
    assert (await server.send("GET", f"/documents/{id_}"))["versions"]


async def test_deletion_leaves_the_file_of_an_upload_that_is_not_read_yet(server: Server) -> None:
    await server.upload("b.md")
    await server.settle()
    async with server.service.workspaces.use("default") as kb:
        (known,) = (await kb.documents()).documents
    (server.inputs / "b.md").write_text("Another text of the BLE radio.")
    store, folder = JobStore(server.data_dir / "default"), server.service.jobs.input_folder("default")
    store.add(JobRequest(JobKind.FILES, "upload", sources=("b.md",)))
    request = JobRequest(JobKind.DELETE, "delete", document_ids=(known.id,), deletes_files=True)
    async with server.service.workspaces.use("default") as kb:
        done = await work_on(store.add(request), Bench(kb, folder, store, lambda _: None))
    store.close()
    assert done.counts == {"deleted": 1, "missing": 0, "files": 0}
    assert names(server.inputs) == ["b.md"]


async def test_reply_says_what_was_not_deleted(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    id_ = await server.add()
    submit = Work.submit

    async def submit_late(work: Work, kind: JobKind, **details: Any) -> Any:
        await work.kb.enqueue([NewDocument("Another text of the BLE radio.", "a.md")])
        return await submit(work, kind, **details)

    monkeypatch.setattr(Work, "submit", submit_late)
    told = await server.send("DELETE", f"/documents/{id_}")
    assert told["message"] == "0 deleted. 1 handed over anew meanwhile, so not deleted."


async def test_deletion_is_asked_for_with_the_texts_of_that_moment(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [await server.add(source=f"{name}.md") for name in "abc"]
    asked: dict[str, str] = {}
    add = JobStore.add

    def noted(store: JobStore, request: JobRequest, max_waiting: int | None = None) -> Job:
        asked.update(request.content_hashes)
        return add(store, request, max_waiting)

    monkeypatch.setattr(JobStore, "add", noted)
    await server.send("DELETE", f"/documents/{ids[0]}")
    await server.send("DELETE", "/documents/delete_document", json={"doc_ids": [ids[1]]})
    await server.send("POST", "/documents/delete_matching", json={"source_prefix": "c"})
    await server.settle()
    assert set(asked) == set(ids)
    assert all(asked.values())
    assert not any(job.request.content_hashes for job in (await server.service.jobs.page("default", 0, 100))[0])


async def test_one_unknown_id_keeps_all(server: Server) -> None:
    id_ = await server.add()
    await server.send("DELETE", "/documents/delete_document", 404, json={"doc_ids": [id_, "doc-unknown"]})
    await server.settle()
    assert list(await server.documents()) == ["a.md"]


@pytest.mark.parametrize("body", [{}, {"doc_ids": []}, {"doc_ids": [""]}, {"doc_ids": ["a", "a"]}, {"doc_ids": "a"}])
async def test_deletion_that_is_not_valid_is_refused(server: Server, body: dict) -> None:
    await server.send("DELETE", "/documents/delete_document", 422, json=body)


async def test_delete_file_never_leaves_the_input_folder(server: Server) -> None:
    outside = server.data_dir / "outside.md"
    outside.write_text(TEXT)
    for source in ("../../outside.md", str(outside), "..\\outside.md"):
        id_ = await server.add(f"{TEXT} {source}", source)
        await server.send("DELETE", f"/documents/{id_}", params={"delete_file": True})
    assert outside.exists()


async def test_delete_matching_takes_what_matches_and_asks_for_a_condition(server: Server) -> None:
    for number, team in enumerate(["red", "blue", "red"]):
        await server.add(f"{TEXT} {number}", f"{number}.md", metadata={"team": team})
    await server.send("POST", "/documents/delete_matching", 400, json={})
    await server.send("POST", "/documents/delete_matching", 400, json={"filter": {"team": {"odd": 1}}})
    told = await server.send("POST", "/documents/delete_matching", json={"filter": {"team": "red"}})
    assert (told["status"], told["count"]) == ("deleted", 2)
    assert list(await server.documents()) == ["1.md"]
    assert (await server.send("POST", "/documents/delete_matching", json={"source_prefix": "9"}))["count"] == 0


async def test_clear_takes_everything(server: Server) -> None:
    await server.upload("a.md")
    await server.add(source="b.md")
    told = await server.send("DELETE", "/documents")
    assert told["status"] == "success"
    assert "1 files" in told["message"]
    assert await server.documents() == {}
    assert not (server.inputs / "a.md").exists()
    await server.upload("a.md")
    await server.settle()
    assert list(await server.documents()) == ["a.md"]


@pytest.mark.parametrize("ending", ["", "/", "/text/"])
async def test_id_of_any_text_can_be_named(server: Server, ending: str) -> None:
    kb_id = f"folder/with spaces & more{ending}"
    async with server.service.workspaces.use() as kb:
        await kb.insert([TEXT], ids=[kb_id], sources=["x.md"])
    path = f"/documents/folder%2Fwith%20spaces%20%26%20more{ending}"
    assert (await server.send("GET", path))["id"] == kb_id
    assert (await server.send("GET", f"{path}/text"))["text"] == TEXT


async def test_entities_of_a_document_are_listed_as_they_are_written(server: Server) -> None:
    id_ = await server.add("Ann Miller leads the team. Bob Stone writes the manual for Ann Miller.")
    found = await server.send("GET", f"/documents/{id_}/entities")
    assert {item["name"] for item in found["entities"]} >= {"Ann Miller", "Bob Stone"}
    assert all(item["count"] >= 1 and item["written"] for item in found["entities"])
    one = await server.send("GET", f"/documents/{id_}/entities", params={"limit": 1})
    assert (len(one["entities"]), one["total"]) == (1, found["total"])
    await server.send("GET", "/documents/doc-none/entities", 404)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/documents"),
        ("POST", "/documents/text"),
        ("GET", "/documents/pipeline_status"),
        ("GET", "/documents/track_status/insert_1"),
        ("GET", "/documents/track_status/a%3Fb%23c%2541"),
        ("GET", "/documents/jobs/%5C%5Cevil.example"),
        ("POST", "/query"),
    ],
)
async def test_slash_too_many_leads_to_the_route_as_in_lightrag(server: Server, method: str, path: str) -> None:
    led = await server.http.request(method, f"{path}/", params={"limit": 1})
    assert (led.status_code, led.headers["Location"]) == (307, f"{path}?limit=1")


async def test_what_deletes_is_not_led_from_one_document_to_another_or_to_all(server: Server) -> None:
    id_ = await server.add("The ESP32 speaks MQTT.")
    for path in ("/documents/", "/documents//", "/documents/jobs/"):
        assert "no document" in str(await server.send("DELETE", path, 404))
    assert (await server.send("GET", f"/documents/{id_}"))["id"] == id_


async def test_a_slash_too_many_leads_below_the_prefix_of_a_proxy(server: Server) -> None:
    transport = httpx.ASGITransport(app=server.app, root_path="/kb")
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as proxied:
        # Some proxies leave the prefix in the path, others take it away.
        for path in ("/kb/documents/", "/documents/"):
            led = await proxied.get(path)
            assert (led.status_code, led.headers["Location"]) == (307, "/kb/documents"), path


async def test_a_slash_too_many_leads_to_no_other_host(server: Server) -> None:
    for path in ("//evil.example/documents/", "/%2Fevil.example/documents/", "/%5Cevil.example/", "//evil.example/"):
        led = await server.http.get(f"http://127.0.0.1{path}")
        assert "evil.example" not in led.headers.get("Location", "").removeprefix("http://127.0.0.1"), path
