"""Questions: `/query`, `/query/stream` and `/query/data` as LightRAG has them, and `/api/v1/retrieve`.

Without `include_progress` a stream sends nothing before the answer's first piece, so that an immediate failure of the
model is reported by the status. With it lines are sent at once, and a later failure is the last line.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from heliograph.query.payloads import reference_data
from heliograph.server.openapi import never
from heliograph.server.requests import FAILURES, Asker, CurrentAsker
from heliograph.server.responses import (
    STREAM_HEADERS,
    JsonBody,
    LineResponse,
    Write,
    failure_body,
    invalid_body,
    json_line,
)
from heliograph.wire.answers import DataResponse, QueryResponse, RetrieveResponse
from heliograph.wire.query import (
    QueryRequest,
    RetrieveRequest,
    answer_body,
    answer_details,
    answer_text,
    retrieval_body,
)

router = APIRouter(tags=["query"])

_NDJSON = "application/x-ndjson"
_STREAM_EXAMPLE = (
    '{"references": [{"reference_id": "1", "file_path": "notes.md", "count": 1}]}\n'
    '{"response": "The ESP32 "}\n'
    '{"response": "speaks MQTT [1]."}\n'
    '{"details": {"kind": "generated", "llm_generated": true}}\n'
)


@router.post("/query", summary="Answer a question", response_model=QueryResponse, responses=FAILURES)
async def query(body: QueryRequest, asker: CurrentAsker) -> Response:
    """Answer from the workspace's documents, with references; `stream` is ignored.

    If nothing is found, the answer says so and `kind` is `nothing_found`. A failed model or store never gives an answer
    but a status of 502, 503 or 504.
    """
    return JsonBody(await _whole_answer(body, asker))


@router.post(
    "/query/stream",
    summary="Answer a question piece by piece",
    response_class=Response,
    responses={
        200: {
            "description": "Lines of JSON: progress on request, references, pieces of the answer (or the whole with "
            "`llm_generated`), and details of the whole; `error` is the last line of an answer that failed on the way.",
            "content": {_NDJSON: {"schema": {"type": "string"}, "example": _STREAM_EXAMPLE}},
        },
        **FAILURES,
    },
)
async def query_stream(body: QueryRequest, asker: CurrentAsker, request: Request) -> Response:
    """Answer in newline-delimited JSON, as the chat model writes; `stream: false` gives the answer in one line."""

    def fail(error: Exception) -> bytes:
        problem = failure_body(request, error)
        told = {key: problem[key] for key in ("type", "status", "request_id")}
        return json_line({"error": problem["detail"]} | told)

    if body.stream is False:
        line = json_line(await _whole_answer(body, asker))
        return Response(line, headers=STREAM_HEADERS, media_type=_NDJSON)
    return LineResponse(partial(_stream_answer, body, asker), fail, _NDJSON)


class _DataRoute(APIRoute):
    """Reports an invalid question as LightRAG does on this route alone: 400, in the shape of a reply."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_data(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestValidationError as error:
                # Our client goes by the error's name, since `status` is LightRAG's word here.
                problem = invalid_body(request, error, "urn:heliograph:error:InvalidRequestError")
                faults = [f"{' -> '.join(map(str, item['loc']))}: {item['msg']}" for item in problem["detail"]]
                message = f"Validation error: {'; '.join(faults)}"
                found = DataResponse(status="failure", message=message, data={}, metadata={})
                return JSONResponse(problem | found.model_dump(), 400)

        return handle_data


_data_router = APIRouter(route_class=_DataRoute)
_INVALID_DATA_QUESTION: dict[int | str, dict[str, Any]] = {
    400: {
        "description": "The request cannot be served as given; a question that is not valid is told as LightRAG does.",
        "content": {
            "application/json": {
                "schema": {"$ref": "#/components/schemas/DataResponse"},
                "example": {
                    "status": "failure",
                    "message": "Validation error: body -> query: Field required",
                    "data": {},
                    "metadata": {},
                },
            },
            "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}},
        },
    }
}


@_data_router.post(
    "/query/data",
    summary="Return what is found for a question",
    response_model=DataResponse,
    responses=FAILURES | never(422) | _INVALID_DATA_QUESTION,
)
async def query_for_data(body: QueryRequest, asker: CurrentAsker) -> Response:
    """Return entities, relations, chunks and references; no chat model writes an answer."""
    param = body.to_param()
    return JsonBody(await asker.ask(lambda kb: kb.query_data(body.query, param)))


router.include_router(_data_router)


@router.post(
    "/api/v1/retrieve",
    summary="Return the context for another program to use",
    response_model=RetrieveResponse,
    responses=FAILURES,
)
async def retrieve(body: RetrieveRequest, asker: CurrentAsker) -> Response:
    """Return the typed material for an answer, with the text that a chat model would read.

    If nothing is found, status is `failure` with empty lists.
    """
    param = body.to_param()
    retrieval = await asker.ask(lambda kb: kb.retrieve(body.query, param))
    return JsonBody(retrieval_body(retrieval, include_context=body.include_context))


async def _whole_answer(body: QueryRequest, asker: Asker) -> dict[str, Any]:
    start, param = time.monotonic(), body.to_param()
    answer = await asker.ask(lambda kb: kb.query(body.query, param))
    return answer_body(answer, param, time.monotonic() - start)


async def _stream_answer(body: QueryRequest, asker: Asker, write: Write) -> None:
    start, param = time.monotonic(), body.to_param()

    def tell(stage: str) -> None:
        write(json_line({"progress": stage}))

    async with asker.stream(body.query, param, tell if body.include_progress else None) as stream:
        # As in LightRAG: a complete text says who wrote it; pieces always come from a model.
        writer = {} if stream.ready is None else {"llm_generated": stream.ready.is_generated}
        held = b""
        if param.include_references:
            held = json_line({"references": reference_data(stream.context, param.include_chunk_content)})
        if body.include_progress and held:
            write(held)
            held = b""
        async for piece in stream:
            write(held + json_line({"response": piece} | writer))
            held = b""
        if (answer := stream.answer) is not None:
            if not answer.text:
                held += json_line({"response": answer_text(answer), "llm_generated": False})
            held += json_line({"details": answer_details(answer, param)})
            if body.include_progress:
                held += json_line({"response_time": round(time.monotonic() - start, 6)})
        write(held)
