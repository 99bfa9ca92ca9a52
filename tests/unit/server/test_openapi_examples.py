from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from heliograph.server.app import create_app
from heliograph.server.openapi import failure_example
from heliograph.settings import Settings
from heliograph.wire.documents import WorkEvent

EXAMPLES = Path(create_app.__code__.co_filename).parent / "examples"
WITHOUT_FIELDS = {"image/png", "text/plain", "application/x-ndjson", "text/event-stream"}


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    settings = Settings.load(store={"data_dir": tmp_path_factory.mktemp("kb")})
    return create_app(settings).openapi()


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def bodies(document: dict[str, Any], least: int, most: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for name, operation in operations(document):
        for status, response in operation["responses"].items():
            if least <= int(status) <= most:
                assert response.get("content"), f"{name} {status} documents no body"
                for kind, media in response["content"].items():
                    yield f"{name} {status} {kind}", kind, media


def check(document: dict[str, Any], where: str, media: dict[str, Any]) -> None:
    assert "example" in media, f"{where} has no example; replies stand in the files of {EXAMPLES.name}/"
    schema = {**media.get("schema", {}), "components": document["components"]}
    problems = [
        f"{item.json_path}: {item.message}" for item in Draft202012Validator(schema).iter_errors(media["example"])
    ]
    assert problems == [], where


def test_every_request_body_has_a_valid_example(document: dict[str, Any]) -> None:
    count = 0
    for name, operation in operations(document):
        for media in operation.get("requestBody", {}).get("content", {}).values():
            check(document, name, media)
            count += 1
    assert count > 25


def test_every_good_reply_has_a_valid_example(document: dict[str, Any]) -> None:
    seen = list(bodies(document, 200, 299))
    assert len(seen) > 65
    for where, kind, media in seen:
        check(document, where, media)
        assert isinstance(media["example"], str) == (kind in WITHOUT_FIELDS), where


def test_examples_of_streams_are_what_their_clients_read(document: dict[str, Any]) -> None:
    for where, kind, media in bodies(document, 200, 200):
        lines = media["example"].splitlines() if kind in WITHOUT_FIELDS else []
        if kind == "application/x-ndjson":
            assert all(isinstance(json.loads(line), dict) for line in lines), where
        elif kind == "text/event-stream":
            events = [line.removeprefix("data: ") for line in lines if line]
            if events[0] == "event: work":
                WorkEvent.model_validate_json(events[1])
                continue
            assert events[-1] == "[DONE]", where
            assert all(json.loads(event)["object"] == "chat.completion.chunk" for event in events[:-1]), where


def test_every_failure_has_a_body_with_a_valid_example(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        assert {status for status in operation["responses"] if int(status) >= 400}, name
    for where, kind, media in bodies(document, 400, 599):
        check(document, where, media)
        if kind == "application/problem+json":
            assert str(media["example"]["status"]) in where
            assert media["example"]["title"]
        else:
            # Ollama, OpenAI and, for an invalid question, LightRAG have bodies of their own.
            assert where.split(" ")[1].startswith(("/api/", "/v1/", "/query/data")), where


def test_kept_replies_are_of_operations_that_there_are(document: dict[str, Any]) -> None:
    known = dict(operations(document))
    for path in EXAMPLES.glob("*.json"):
        for name, replies in json.loads(path.read_text("utf-8")).items():
            assert name in known, f"{path.name} tells of {name!r}"
            assert known[name]["tags"] == [path.stem], name
            assert set(replies) - {"request"} <= set(known[name]["responses"]), name


def test_failures_that_nobody_documents_have_no_example() -> None:
    with pytest.raises(KeyError):
        failure_example(418)


def test_invalid_fields_are_documented_where_they_are_told_so(document: dict[str, Any]) -> None:
    told = {name for name, operation in operations(document) if "422" in operation["responses"]}
    named = {name for name, _ in operations(document)}
    assert {"POST /query", "POST /v1/chat/completions", "POST /documents/upload", "GET /graph/entity"} <= told
    # Ollama's clients are told by 400; others have no field that could be invalid.
    assert not any(name.partition(" ")[2].startswith("/api/") and " /api/v1/" not in name for name in told)
    assert told.isdisjoint({"GET /health", "GET /v1/models/{name}", "POST /documents/scan"} & named)
    assert not any("x-never" in response for _, item in operations(document) for response in item["responses"].values())
