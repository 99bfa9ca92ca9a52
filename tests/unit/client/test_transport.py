"""Retries, tokens and strange replies, against replies that are made up."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.client import ClientOptions, HeliographClient, QueryOptions
from heliograph.client.reading import StreamReader, problem_error, read_as, retry_after_seconds
from heliograph.client.records import JobResponse, ListResponse
from heliograph.errors import (
    AuthenticationError,
    ConflictError,
    HeliographError,
    InvalidRequestError,
    NotFoundError,
    OverloadedError,
    RateLimited,
    ServiceUnavailable,
)
from heliograph.models import Mode
from heliograph.query.models import QueryParam
from heliograph.wire.query import QueryFields, QueryRequest

JOB = {
    "id": "",
    "kind": "files",
    "state": "done",
    "is_unfinished": False,
    "track_id": "",
    "author": "",
    "sources": [],
    "done": 0,
    "total": 0,
    "counts": {},
    "problems": [],
    "error": "",
    "attempts": 0,
    "created_at": "2026-11-02T10:15:00Z",
    "started_at": None,
    "finished_at": None,
}
LATER = {"type": "urn:heliograph:error:OverloadedError", "status": 429, "detail": "too many"}


def client_of(answer: Callable[[httpx.Request], httpx.Response], **given: object) -> HeliographClient:
    return HeliographClient("http://kb.test", transport=httpx.MockTransport(answer), **given)  # type: ignore[arg-type]


def scripted(*responses: httpx.Response | Exception) -> tuple[Callable[[httpx.Request], httpx.Response], list[str]]:
    left, seen = list(responses), []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(f"{request.method} {request.url.path} {request.headers.get('authorization', '')}".strip())
        response = left.pop(0)
        if isinstance(response, Exception):
            raise response
        return response

    return answer, seen


def ok(body: object, **headers: str) -> httpx.Response:
    return httpx.Response(200, json=body, headers=headers)


def later(seconds: str = "0", status: int = 429) -> httpx.Response:
    return httpx.Response(status, json=LATER | {"status": status}, headers={"Retry-After": seconds})


def test_safe_call_is_tried_again_when_told_later() -> None:
    answer, seen = scripted(later(), later(status=503), ok({"documents": [], "total": 0}))
    with client_of(answer) as client:
        assert client.documents.list().total == 0
    assert len(seen) == 3


def test_call_that_changes_something_is_not_tried_again() -> None:
    answer, seen = scripted(later("7"))
    with client_of(answer) as client, pytest.raises(OverloadedError) as caught:
        client.documents.insert("text")
    assert caught.value.retry_after_seconds == 7
    assert len(seen) == 1


def test_tries_have_an_end_and_long_waits_are_not_waited() -> None:
    answer, seen = scripted(later(), later(), later())
    with client_of(answer, options=ClientOptions(retries=1)) as client, pytest.raises(OverloadedError):
        client.documents.list()
    assert len(seen) == 2
    answer, seen = scripted(later("3600"))
    with client_of(answer) as client, pytest.raises(OverloadedError):
        client.documents.list()
    assert len(seen) == 1


def test_lost_connection_is_tried_again_and_a_late_reply_is_not() -> None:
    answer, seen = scripted(httpx.RemoteProtocolError("gone"), ok({"documents": [], "total": 0}))
    with client_of(answer) as client:
        client.documents.list()
    assert len(seen) == 2
    answer, seen = scripted(httpx.ReadTimeout("late"))
    with client_of(answer) as client, pytest.raises(ServiceUnavailable, match="timeout_seconds"):
        client.documents.list()
    assert len(seen) == 1


def test_renewed_token_is_used_from_then_on() -> None:
    empty = {"documents": [], "total": 0}
    answer, seen = scripted(ok({"access_token": "one"}), ok(empty, **{"X-New-Token": "two"}), ok(empty))
    with client_of(answer, username="hester", password="oil") as client:
        client.documents.list()
        client.documents.list()
    assert seen == ["POST /login", "GET /documents Bearer one", "GET /documents Bearer two"]


def test_refused_token_leads_to_one_login_only() -> None:
    refused = httpx.Response(401, json={"status": 401, "detail": "expired"})
    answer, seen = scripted(refused, ok({"access_token": "two"}), httpx.Response(401, json={"detail": "no"}))
    with client_of(answer, username="a", password="b", token="one") as client, pytest.raises(AuthenticationError):
        client.documents.list()
    assert seen == ["GET /documents Bearer one", "POST /login", "GET /documents Bearer two"]


def test_secrets_are_not_shown() -> None:
    client = client_of(lambda _: ok({}), api_key="very-secret", username="a", password="hidden-word")
    with client:
        connection = client._waiting._connection
        for shown in (repr(client), repr(connection)):
            assert "very-secret" not in shown
            assert "hidden-word" not in shown


@pytest.mark.parametrize("address", ["kb.test", "ftp://kb.test", ""])
def test_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(InvalidRequestError, match="http"):
        HeliographClient(address)


def test_name_without_a_password_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="both"):
        HeliographClient("http://kb.test", username="hester")


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b"null", b'{"documents": 1, "total": 0}', b'{"documents": []}'])
def test_reply_of_something_else_is_told(body: bytes) -> None:
    with client_of(lambda _: httpx.Response(200, content=body)) as client, pytest.raises(ServiceUnavailable):
        client.documents.list()


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (404, {"type": "about:blank", "detail": "no such route"}, NotFoundError),
        (409, {"type": "urn:heliograph:error:ConflictError", "detail": "two"}, ConflictError),
        (503, {"type": "urn:heliograph:error:RateLimited", "detail": "later"}, RateLimited),
        (501, {"type": "urn:heliograph:error:MissingDependencyError", "detail": "no such package"}, HeliographError),
        (418, {"type": "urn:heliograph:error:annotations", "detail": "odd"}, HeliographError),
        (502, "<html>bad gateway", ServiceUnavailable),
        (422, {"detail": [{"loc": ["body", "top_k"], "msg": "too large"}]}, InvalidRequestError),
    ],
)
def test_problem_becomes_the_error_that_it_names(status: int, body: object, kind: type[HeliographError]) -> None:
    response = httpx.Response(status, text=body) if isinstance(body, str) else httpx.Response(status, json=body)
    with client_of(lambda _: response, options=ClientOptions(retries=0)) as client, pytest.raises(kind) as caught:
        client.documents.list()
    assert type(caught.value) is kind


def test_invalid_fields_are_named() -> None:
    error = problem_error({"status": 422, "detail": [{"loc": ["body", "top_k"], "msg": "too large"}]})
    assert str(error) == "body.top_k: too large"


def test_retry_after_is_read_as_number_or_date() -> None:
    assert retry_after_seconds({"retry-after": "5"}) == 5
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    assert 0 < (retry_after_seconds({"retry-after": soon}) or 0) <= 60
    assert retry_after_seconds({"retry-after": "Sun, 01 Jan 2023 00:00:00 GMT"}) == 0
    assert retry_after_seconds({"retry-after": "soon"}) is None
    assert retry_after_seconds({}) is None


@given(st.lists(st.integers(1, 40), max_size=12), st.text(max_size=40))
def test_stream_is_read_whatever_its_pieces_are(cuts: list[int], text: str) -> None:
    lines = httpx.Response(
        200,
        json={"response": text},
    ).content
    data = b'{"references": []}\n' + lines + b'\n{"details": {"mode": "mix", "kind": "generated"}}\n'
    reader, pieces, start = StreamReader(), [], 0
    for cut in cuts:
        pieces += reader.feed(data[start : start + cut])
        start += cut
    pieces += reader.feed(data[start:]) + reader.end()
    assert "".join(pieces) == text
    assert reader.answer
    assert reader.answer.text == text


def test_stream_that_fails_or_breaks_off_is_an_error() -> None:
    with pytest.raises(NotFoundError, match="gone"):
        StreamReader().feed(b'{"error": "gone", "type": "urn:heliograph:error:NotFoundError", "status": 404}\n')
    reader = StreamReader()
    reader.feed(b'{"response": "half"}\n')
    with pytest.raises(ServiceUnavailable, match="cut off"):
        reader.end()
    with pytest.raises(ServiceUnavailable, match="no JSON object"):
        StreamReader().feed(b"<html>\n")


def test_reading_leaves_out_what_is_new_and_names_what_is_missing() -> None:
    assert read_as(ListResponse, {"documents": [], "total": 3, "new": 1}).total == 3
    with pytest.raises(ServiceUnavailable, match=r"reply\.total"):
        read_as(ListResponse, {"documents": []})
    with pytest.raises(ServiceUnavailable, match=r"reply\.total is True"):
        read_as(ListResponse, {"documents": [], "total": True})
    with pytest.raises(ServiceUnavailable, match=r"reply\.created_at is 'yesterday'"):
        read_as(JobResponse, JOB | {"created_at": "yesterday"})
    assert read_as(JobResponse, JOB).created_at == datetime(2026, 11, 2, 10, 15, tzinfo=UTC)


def test_job_of_an_older_service_is_unfinished_by_its_state() -> None:
    older = {name: value for name, value in JOB.items() if name != "is_unfinished"}
    read = [read_as(JobResponse, older | {"state": state}) for state in ("waiting", "running", "done", "failed")]
    assert [job.is_unfinished for job in read] == [True, True, False, False]


SHAPES = "from heliograph.client.records import ClientAnswer, ListResponse, NeighbourResponse, WorkspaceList"


@pytest.mark.parametrize(("imports", "absent"), [("import heliograph.client", {"pydantic"}), (SHAPES, set())])
def test_client_imports_nothing_of_the_engine(imports: str, absent: set[str]) -> None:
    script = f"{imports}; import sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    others = ("engine", "stores", "query", "curation", "embedding", "documents", "extraction")
    assert not {
        "numpy",
        "onnxruntime",
        "apsw",
        "fastapi",
        *absent,
        *(f"heliograph.{name}" for name in others),
    } & {*loaded}


def test_options_are_those_that_the_service_and_the_engine_know() -> None:
    asked, known = set(QueryOptions.__dataclass_fields__), set(QueryRequest.model_fields)
    assert asked <= known
    assert set(QueryFields.model_fields) <= set(QueryParam.__dataclass_fields__)
    body = QueryRequest.model_validate({"query": "Who leads Bob?", "mode": "naive"})
    assert body.to_param(conversation_history=()) == QueryParam(mode=Mode.NAIVE, include_references=True)


def test_whole_numbers_of_numpy_are_sent_as_numbers() -> None:
    options = QueryOptions(top_k=np.int64(5), chunk_top_k=3, enable_rerank=True, channels=("graph",))  # pyright: ignore[reportArgumentType]
    body = options.to_json()
    assert json.loads(json.dumps(body)) == {"top_k": 5, "chunk_top_k": 3, "enable_rerank": True, "channels": ["graph"]}
