from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import ClientDisconnect, Request

from heliograph.ids import document_id
from heliograph.ingest.models import NewDocument
from heliograph.server.routes.document_intake import receive_upload
from heliograph.service.jobs.input_folder import InputFolder
from heliograph.settings import ServerSettings

from .conftest import TEXT, Server, names


async def test_text_is_pending_at_once_and_then_processed(server: Server) -> None:
    accepted = await server.send("POST", "/documents/text", json={"text": TEXT, "file_source": "a.md"})
    assert accepted["status"] == "success"
    assert accepted["track_id"].startswith("insert_")
    tracked = await server.send("GET", f"/documents/track_status/{accepted['track_id']}")
    assert [item["file_path"] for item in tracked["documents"]] == ["a.md"]
    await server.settle()
    tracked = await server.send("GET", f"/documents/track_status/{accepted['track_id']}")
    assert tracked["status_summary"] == {"processed": 1}
    assert tracked["documents"][0]["content_summary"] == TEXT


async def test_text_under_way_is_duplicated_or_replaced_and_both_batches_tell_what_became_of_it(server: Server) -> None:
    async def post(text: str) -> tuple[str, str]:
        told = await server.send("POST", "/documents/text", json={"text": text, "file_source": "a.md"})
        return told["status"], told["track_id"]

    async def track(track_id: str) -> list[tuple[str, str]]:
        told = await server.send("GET", f"/documents/track_status/{track_id}")
        return [(item["status"], item["track_id"]) for item in told["documents"]]

    async with server.service.workspaces.use("default") as kb:
        kb.pause()
        _, first = await post(TEXT)
        assert await post(TEXT) == ("duplicated", first)
        assert await track(first) == [("pending", first)]
        status, second = await post(f"{TEXT} It has WiFi.")
        assert (status, second != first) == ("success", True)
        assert await track(first) == await track(second) == [("pending", second)]
        kb.unpause()
        await server.settle()
    assert await track(first) == await track(second) == [("processed", second)]
    assert (await server.send("GET", f"/documents/{document_id('a.md')}/text"))["text"].endswith("It has WiFi.")


async def test_same_text_again_is_duplicated_and_another_an_update(server: Server) -> None:
    id_ = await server.add()
    again = await server.send("POST", "/documents/text", json={"text": TEXT, "file_source": "a.md"})
    assert again["status"] == "duplicated"
    assert (await server.send("GET", f"/documents/track_status/{again['track_id']}"))["total_count"] == 1
    assert await server.add(f"{TEXT} It has WiFi.") == id_
    assert (await server.send("GET", f"/documents/{id_}/text"))["text"].endswith("It has WiFi.")


async def test_text_without_source_and_with_metadata_is_taken(server: Server) -> None:
    accepted = await server.send("POST", "/documents/text", json={"text": TEXT, "metadata": {"team": "red"}})
    document = await server.send("GET", f"/documents/{accepted['document_ids'][0]}")
    assert document["metadata"] == {"team": "red", "language": "en"}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/documents/text", {}),
        ("/documents/text", {"text": " \n "}),
        ("/documents/text", {"text": 7}),
        ("/documents/text", {"text": "x", "file_source": "s" * 5000}),
        ("/documents/texts", {"texts": []}),
        ("/documents/texts", {"texts": ["a", " "]}),
        ("/documents/text", {"text": "x", "file_source": "s", "chunking": {"strategy": "unknown"}}),
    ],
)
async def test_texts_that_are_not_valid_are_refused(server: Server, path: str, body: object) -> None:
    problem = await server.send("POST", path, 422, json=body)
    assert isinstance(problem["detail"], list)
    assert await server.documents() == {}


@pytest.mark.parametrize("sources", [["one"], ["one", "one"]])
async def test_sources_that_do_not_fit_the_texts_are_refused(server: Server, sources: list[str]) -> None:
    await server.send("POST", "/documents/texts", 400, json={"texts": ["a", "b"], "file_sources": sources})
    assert await server.documents() == {}


async def test_texts_are_taken_in_together_and_chunking_is_not_passed_over_in_silence(server: Server) -> None:
    body = {"texts": [TEXT, f"{TEXT} Two."], "file_sources": ["a.md", "b.md"], "chunking": {"strategy": "fixed_token"}}
    accepted = await server.send("POST", "/documents/texts", json=body)
    assert "chunking" in accepted["message"]
    await server.settle()
    assert {name: item["status"] for name, item in (await server.documents()).items()} == {
        "a.md": "processed",
        "b.md": "processed",
    }


async def test_upload_is_kept_read_and_processed(server: Server) -> None:
    accepted = await server.upload("notes.md", b"# Notes\n\n" + TEXT.encode(), data={"metadata": '{"team": "red"}'})
    assert accepted["track_id"].startswith("upload_")
    assert (server.inputs / "notes.md").read_bytes().startswith(b"# Notes")
    tracked = await server.send("GET", f"/documents/track_status/{accepted['track_id']}")
    assert tracked["total_count"] == 1
    await server.settle()
    document = (await server.documents())["notes.md"]
    assert (document["status"], document["title"], document["id"]) == ("processed", "Notes", document_id("notes.md"))
    assert document["metadata"]["team"] == "red"


@pytest.mark.parametrize("server", [{"max_upload_bytes": 2_000_000, "max_body_bytes": 100_000}], indirect=True)
async def test_upload_by_the_path_of_older_lightrag_is_one(server: Server) -> None:
    form = {"files": {"file": ("old.md", b"x" * 200_000)}, "data": {"description": "by an older client"}}
    accepted = await server.send("POST", "/documents/file", **form)
    assert (accepted["status"], names(server.inputs)) == ("success", ["old.md"])
    await server.settle()
    assert (await server.documents())["old.md"]["status"] == "processed"
    await server.send("POST", "/documents/file", 413, files={"file": ("long.md", b"x" * 2_000_001)})


async def test_upload_of_a_known_name_is_an_update(server: Server) -> None:
    first = await server.upload("a.md")
    await server.settle()
    again = await server.upload("a.md")
    assert (again["status"], again["document_ids"]) == ("duplicated", first["document_ids"])
    changed = await server.upload("a.md", b"It has WiFi now.")
    assert (changed["status"], changed["document_ids"]) == ("success", first["document_ids"])
    assert (server.inputs / "a.md").read_bytes() == b"It has WiFi now."
    await server.settle()
    other = await server.add(source="b.md")
    assert (await server.upload("b.md", b"From a file."))["document_ids"] == [other]
    await server.settle()
    for id_, text in ((first["document_ids"][0], "It has WiFi now."), (other, "From a file.")):
        assert (await server.send("GET", f"/documents/{id_}/text"))["text"] == text
    assert set(await server.documents()) == {"a.md", "b.md"}
    (server.inputs / "c.md").mkdir()
    await server.upload("c.md", status=409)
    assert names(server.inputs) == ["a.md", "b.md", "c.md"]


async def test_texts_and_files_of_a_source_that_names_several_replace_none(server: Server) -> None:
    async with server.service.workspaces.use() as kb:
        await kb.insert([NewDocument(f"Text of {id_}.", "many.md", id=id_) for id_ in ("x", "y")])
    sent: list[str] = []
    for text in ("One.", "Two.", "One."):
        for source in ("many.md", "custom_kg", "unknown_source"):
            body = {"text": f"{text} {source}", "file_source": source}
            sent += (await server.send("POST", "/documents/text", json=body))["document_ids"]
            await server.settle()
    assert len(set(sent)) == 6
    (uploaded,) = (await server.upload("many.md", b"A file."))["document_ids"]
    await server.settle()
    for id_ in ("x", "y"):
        assert (await server.send("GET", f"/documents/{id_}/text"))["text"] == f"Text of {id_}."
    # The file belongs to the last document that names it.
    await server.send("DELETE", "/documents/x", params={"delete_file": True})
    await server.settle()
    assert names(server.inputs) == ["many.md"]
    assert uploaded not in {"x", "y", *sent}


@pytest.mark.parametrize(
    "name",
    [
        "../evil.md",
        "..\\evil.md",
        "/etc/evil.md",
        "C:evil.md",
        "a/b.md",
        "a\0.md",
        "a\nb.md",
        "evil\u202edm.md",
        "zero\u200bwidth.md",
        "\uff0e\uff0e\uff0fevil.md",
        ".hidden.md",
        "..",
        "...md.",
        "CON.md",
        "lpt1.txt",
        "no_ending",
        "program.exe",
        "n" * 300 + ".md",
        "\U0001f600" * 70 + ".md",
        " ",
    ],
)
async def test_upload_of_a_hostile_name_is_refused_and_leaves_nothing(server: Server, name: str) -> None:
    body = (
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="'
        + name.encode()
        + b'"\r\n\r\ncontent\r\n--x--\r\n'
    )
    response = await server.http.post(
        "/documents/upload", content=body, headers={"Content-Type": "multipart/form-data; boundary=x"}
    )
    assert response.status_code in (400, 422), response.text
    files = [path for path in server.data_dir.rglob("*") if "evil" in path.name or path.suffix == ".md"]
    assert files == []
    assert names(server.inputs) == []


@pytest.mark.parametrize("name", ["Größe und Maß.md", "文档 一.md", "a.b.c.txt", "नमस्ते\u200dक.md"])
async def test_upload_of_an_unusual_but_harmless_name_is_taken(server: Server, name: str) -> None:
    await server.upload(name)
    assert names(server.inputs) == [name]


@pytest.mark.parametrize("server", [{"max_upload_bytes": 2_000_000}], indirect=True)
async def test_upload_that_is_too_long_is_cut_off_and_leaves_nothing(server: Server) -> None:
    await server.upload("long.txt", b"x" * 2_000_001, status=413)

    async def pieces():
        yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="long.txt"\r\n\r\n'
        for _ in range(40):
            yield b"y" * 100_000
        yield b"\r\n--x--\r\n"

    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    response = await server.http.post("/documents/upload", content=pieces(), headers=headers)
    assert response.status_code == 413
    assert names(server.inputs) == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"--x--\r\n",
        b"nonsense",
        b'--x\r\nContent-Disposition: form-data; name="other"\r\n\r\na\r\n--x--\r\n',
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\ncut off',
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\na\r\n--x\r\n'
        b'Content-Disposition: form-data; name="file"; filename="b.md"\r\n\r\nb\r\n--x--\r\n',
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\na\r\n--x\r\n'
        b'Content-Disposition: form-data; name="metadata"\r\n\r\n[1]\r\n--x--\r\n',
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\na\r\n--x\r\n'
        b'Content-Disposition: form-data; name="metadata"\r\n\r\n{"a": NaN}\r\n--x--\r\n',
    ],
)
async def test_form_that_is_broken_is_refused_and_leaves_nothing(server: Server, body: bytes) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    response = await server.http.post("/documents/upload", content=body, headers=headers)
    assert response.status_code in (400, 422), response.text
    assert names(server.inputs) == []


async def test_upload_whose_client_hangs_up_leaves_nothing(tmp_path: Path) -> None:
    head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\n'
    messages = [{"type": "http.request", "body": head + b"a" * 100_000, "more_body": True}, {"type": "http.disconnect"}]
    begun: list[int] = []

    async def receive() -> dict[str, Any]:
        begun.append(len(names(tmp_path)))
        return messages.pop(0)

    scope = {"type": "http", "headers": [(b"content-type", b"multipart/form-data; boundary=x")]}
    with pytest.raises(ClientDisconnect):
        await receive_upload(Request(scope, receive), InputFolder(tmp_path), ServerSettings())
    assert begun == [0, 1]
    assert names(tmp_path) == []


async def test_upload_without_a_form_is_not_valid(server: Server) -> None:
    await server.send("POST", "/documents/upload", 422, json={"file": "x"})


async def test_unreadable_upload_fails_and_is_read_again_on_reprocessing(server: Server) -> None:
    await server.upload("broken.md", b"PK\x03\x04 an archive that is cut off")
    await server.settle()
    assert (await server.documents())["broken.md"]["status"] == "failed"
    (server.inputs / "broken.md").write_text(TEXT)
    await server.send("POST", "/documents/reprocess_failed")
    await server.settle()
    assert (await server.documents())["broken.md"]["status"] == "processed"


async def test_scan_reads_new_and_changed_files_only(server: Server) -> None:
    server.inputs.mkdir(parents=True)
    (server.inputs / "sub").mkdir()
    (server.inputs / "a.md").write_text(TEXT)
    (server.inputs / "sub" / "b.md").write_text(f"{TEXT} Two.")
    (server.inputs / "ignored.bin").write_bytes(b"\0")
    first = await _scan(server)
    assert first["counts"] == {"pending": 2, "files": 2, "unread": 0}
    assert sorted(await server.documents()) == ["a.md", "sub/b.md"]
    assert (await _scan(server))["counts"] == {"files": 2, "unread": 2}
    (server.inputs / "a.md").write_text(f"{TEXT} Changed.")
    assert (await _scan(server))["counts"] == {"pending": 1, "files": 2, "unread": 1}
    text = await server.send("GET", f"/documents/{document_id('a.md')}/text")
    assert text["text"].endswith("Changed.")
    await server.send("GET", "/documents/scan/status/scan_unknown", 404)


async def _scan(server: Server) -> dict:
    started = await server.send("POST", "/documents/scan")
    assert started["status"] == "scanning_started"
    await server.settle()
    told = await server.send("GET", f"/documents/scan/status/{started['track_id']}")
    assert told["status"] == "completed"
    return told


async def test_scan_does_not_read_an_upload_again(server: Server) -> None:
    await server.upload("a.md")
    await server.settle()
    assert (await _scan(server))["counts"] == {"files": 1, "unread": 1}


async def test_url_is_fetched_in_the_background(server: Server) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n" + TEXT.encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as web:
        url = f"http://127.0.0.1:{web.sockets[0].getsockname()[1]}/page"
        accepted = await server.send("POST", "/documents/url", json={"url": url, "metadata": {"kind": "page"}})
        await server.settle()
    document = await server.send("GET", f"/documents/{accepted['document_ids'][0]}")
    assert (document["status"], document["metadata"]["kind"]) == ("processed", "page")


@pytest.mark.parametrize(
    "url",
    [
        *("file:///etc/passwd", "/etc/passwd", "ftp://example.org/a", "javascript:1", ""),
        *("http://", "https:///page", "http://me:secret@example.org/", "http://[::1"),
    ],
)
async def test_what_is_no_web_address_is_refused(server: Server, url: str) -> None:
    response = await server.http.post("/documents/url", json={"url": url})
    assert response.status_code in (400, 422)


@pytest.mark.parametrize("server", [{"max_waiting_jobs": 3}], indirect=True)
async def test_too_much_that_waits_is_refused_with_a_time(server: Server) -> None:
    server.embedding.delay_seconds = 60.0
    statuses = []
    for number in range(6):
        body = {"text": f"{TEXT} {number}", "file_source": f"{number}.md"}
        statuses.append(await server.http.post("/documents/text", json=body))
    assert [response.status_code for response in statuses[:3]] == [200, 200, 200]
    assert statuses[-1].status_code == 429
    assert int(statuses[-1].headers["Retry-After"]) >= 1
    assert (await server.http.post("/documents/upload", files={"file": ("a.md", b"x")})).status_code == 429


async def test_supported_types_are_told(server: Server) -> None:
    told = await server.send("GET", "/documents/supported_file_types")
    assert {".md", ".pdf", ".docx"} <= set(told["supported_extensions"])
    assert told["engines"] == {"heliograph": told["supported_extensions"]}


async def test_workspaces_do_not_see_one_another(server: Server) -> None:
    await server.upload("a.md")
    headers = {"LIGHTRAG-WORKSPACE": "other"}
    await server.send("POST", "/documents/text", json={"text": "Other text."}, headers=headers)
    await server.settle()
    await server.settle("other")
    other = await server.send("GET", "/documents", headers=headers)
    assert other["total"] == 1
    assert "a.md" not in str(other)
    assert "a.md" not in str(await server.send("GET", "/documents/pipeline_status", headers=headers))
    jobs = await server.send("GET", "/documents/jobs")
    for job in jobs["jobs"]:
        response: httpx.Response = await server.http.get(f"/documents/jobs/{job['id']}", headers=headers)
        assert response.status_code == 404
    for path in ("/documents/pipeline_status", "/documents/jobs"):
        response = await server.http.get(path, headers={"LIGHTRAG-WORKSPACE": "../../etc"})
        assert response.status_code in (400, 404)
