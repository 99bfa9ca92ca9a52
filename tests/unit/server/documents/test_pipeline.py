from __future__ import annotations

import asyncio

import pytest

from heliograph.errors import ModelUnavailable, StoreUnavailable
from heliograph.server.routes import service as service_routes

from .conftest import TEXT, Server, until

FIELDS = {
    *("busy", "job_name", "job_start", "docs", "batchs", "cur_batch", "latest_message", "history_messages"),
    *("update_status", "recovery_required", "recovery_kind", "recovery_message", "scanning", "destructive_busy"),
    *("pending_enqueues", "autoscanned", "request_pending", "cancellation_requested", "scanning_exclusive"),
    *("cancellation_reason", "cancellation_detail"),
}


async def _until_busy(server: Server, name: str) -> dict:
    async with asyncio.timeout(20):
        while True:
            status = await server.send("GET", "/documents/pipeline_status")
            if status["busy"] and status["job_name"] == name:
                return status
            await asyncio.sleep(0.02)


async def _submit(server: Server, count: int) -> list[str]:
    texts = [f"{TEXT} Number {number}." for number in range(count)]
    sources = [f"{number}.md" for number in range(count)]
    body = {"texts": texts, "file_sources": sources}
    return (await server.send("POST", "/documents/texts", json=body))["document_ids"]


async def test_idle_pipeline_has_all_fields(server: Server) -> None:
    status = await server.send("GET", "/documents/pipeline_status")
    assert set(status) == FIELDS
    assert (status["busy"], status["job_start"], status["history_messages"]) == (False, None, [])


async def test_pipeline_tells_what_is_under_way_and_what_was(server: Server) -> None:
    server.embedding.delay_seconds = 60
    await _submit(server, 3)
    status = await _until_busy(server, "Processing documents")
    assert status["job_start"]

    async def counts_documents() -> bool:
        return (await server.send("GET", "/documents/pipeline_status"))["docs"] == 3

    await until(counts_documents)


async def _pipeline(server: Server) -> tuple[bool, bool]:
    health = await server.send("GET", "/health")
    return health["pipeline_busy"], health["pipeline_active"]


async def test_health_tells_whether_jobs_run_and_what_is_read_counts_as_pending(server: Server) -> None:
    assert await _pipeline(server) == (False, False)
    server.embedding.delay_seconds = 60
    await _submit(server, 2)

    async def runs() -> bool:
        return await _pipeline(server) == (True, True)

    await until(runs)
    counts = (await server.send("GET", "/documents/status_counts"))["status_counts"]
    assert (counts["pending"], counts["processing"], counts["all"]) == (2, 0, 2)
    await server.send("POST", "/documents/cancel_pipeline")
    await server.settle()
    assert await _pipeline(server) == (False, False)


async def test_health_tells_that_jobs_wait_for_a_model(server: Server) -> None:
    server.embedding.fail_next(*[ModelUnavailable("down")] * 20)
    await _submit(server, 1)

    async def waits() -> bool:
        return await _pipeline(server) == (False, True)

    await until(waits)


async def test_health_is_told_though_jobs_cannot_be_read(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object) -> None:
        raise StoreUnavailable("the disk is gone")

    monkeypatch.setattr(server.service.jobs, "state", refuse)
    health = await server.send("GET", "/health")
    assert health["status"] == "healthy"
    assert not {"pipeline_busy", "pipeline_active"} & set(health)


async def test_health_does_not_wait_for_those_who_hold_the_jobs(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(server.service.jobs, "state", never)
    monkeypatch.setattr(service_routes, "_READ_SECONDS", 0.01)
    health = await server.send("GET", "/health")
    assert (health["status"], health["condition"]) == ("healthy", "ok")
    assert not {"pipeline_busy", "pipeline_active"} & set(health)


async def test_cancel_keeps_documents_as_failed_until_they_are_reprocessed(server: Server) -> None:
    server.embedding.delay_seconds = 60
    await _submit(server, 3)
    await _until_busy(server, "Processing documents")
    told = await server.send("POST", "/documents/cancel_pipeline")
    assert told["status"] == "cancellation_requested"
    await server.settle()
    documents = (await server.documents()).values()
    assert {(item["status"], "cancelled" in item["error"]) for item in documents} == {("failed", True)}
    assert (await server.send("GET", "/documents/jobs"))["jobs"][0]["state"] == "cancelled"
    assert (await server.send("POST", "/documents/cancel_pipeline"))["status"] == "not_busy"
    server.embedding.delay_seconds = 0
    told = await server.send("POST", "/documents/reprocess_failed")
    assert (told["status"], told["track_id"]) == ("reprocessing_started", "")
    await server.settle()
    assert {item["status"] for item in (await server.documents()).values()} == {"processed"}


async def test_one_failed_document_is_tried_again_alone(server: Server) -> None:
    server.embedding.delay_seconds = 60
    _, second = await _submit(server, 2)
    await _until_busy(server, "Processing documents")
    await server.send("POST", "/documents/cancel_pipeline")
    await server.settle()
    server.embedding.delay_seconds = 0
    unknown = await server.send("POST", "/documents/reprocess_failed", json={"doc_ids": ["doc-none"]}, status=404)
    assert "doc-none" in unknown["detail"]
    await server.send("POST", "/documents/reprocess_failed", json={"doc_ids": [second]})
    await server.settle()
    documents = await server.documents()
    assert {source: item["status"] for source, item in documents.items()} == {"0.md": "failed", "1.md": "processed"}


async def test_clear_is_refused_while_busy_and_a_delete_is_not(server: Server) -> None:
    first = await server.add(source="first.md")
    server.embedding.delay_seconds = 60
    await _submit(server, 2)
    await _until_busy(server, "Processing documents")
    assert (await server.send("DELETE", "/documents"))["status"] == "busy"
    told = await server.send("DELETE", f"/documents/{first}")
    assert told["status"] == "deleted"
    assert "first.md" not in await server.documents()


async def test_model_that_is_down_parks_the_work_visibly_and_loses_nothing(server: Server) -> None:
    server.embedding.fail_next(*[ModelUnavailable("the embedding service is down", is_transient=True)] * 40)
    ids = await _submit(server, 2)

    async def tells() -> bool:
        return "is down" in (await server.send("GET", "/documents/pipeline_status"))["latest_message"]

    await until(tells)
    (job,) = (await server.send("GET", "/documents/jobs"))["jobs"]
    assert job["state"] in ("waiting", "running")
    assert {item["status"] for item in (await server.documents()).values()} == {"pending"}
    server.embedding._failures.clear()
    await server.settle()
    assert [(await server.send("GET", f"/documents/{id_}"))["status"] for id_ in ids] == ["processed"] * 2
    (job,) = (await server.send("GET", "/documents/jobs"))["jobs"]
    assert (job["state"], job["counts"]) == ("done", {"processed": 2})


async def test_one_job_is_cancelled(server: Server) -> None:
    server.embedding.delay_seconds = 60
    await _submit(server, 1)
    await _until_busy(server, "Processing documents")
    (job,) = (await server.send("GET", "/documents/jobs"))["jobs"]
    await server.send("POST", f"/documents/jobs/{job['id']}/cancel")
    await server.settle()
    told = await server.send("GET", f"/documents/jobs/{job['id']}")
    assert (told["state"], told["error"]) == ("cancelled", "cancelled by 'anyone'")


async def test_update_of_a_document_under_way_wins(server: Server) -> None:
    server.embedding.delay_seconds = 0.5
    (id_,) = await _submit(server, 1)
    await _until_busy(server, "Processing documents")
    body = {"text": "A wholly new text about the ESP8266.", "file_source": "0.md"}
    await server.send("POST", "/documents/text", json=body)
    server.embedding.delay_seconds = 0
    await server.settle()
    document = await server.send("GET", f"/documents/{id_}")
    assert (document["status"], document["chunks"][0]["text"]) == ("processed", body["text"])


async def test_cache_is_cleared(server: Server) -> None:
    told = await server.send("POST", "/documents/clear_cache", json={})
    assert told["status"] == "success"
