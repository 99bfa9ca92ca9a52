"""A stand-in for a Qdrant server: Qdrant's own engine (the package `qdrant-edge-py`) behind HTTP of ours.

    python qdrant_rest.py PORT FOLDER [API-KEY]

Points, payloads, filters, indexes, scores and the log that survives `kill -9` are Qdrant's. The wire is not: requests
are read, and answered, as Qdrant's REST API documents them, and only those which the projection of vectors, and the
import of what LightRAG keeps in Qdrant, send. So this shows how our side of the wire fares with delays, cut
connections, restarts and refusals; it shows nothing of Qdrant's own server, its clusters, its optimizers or its limits,
but for the one of a request's size.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import qdrant_edge as edge
import uvicorn
from starlette.applications import Starlette
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

_MAX_BYTES = 32 << 20
_DISTANCES = {"Cosine": edge.Distance.Cosine, "Dot": edge.Distance.Dot}
_SCHEMAS = {
    "keyword": edge.PayloadSchemaType.Keyword,
    "text": edge.PayloadSchemaType.Text,
    "integer": edge.PayloadSchemaType.Integer,
    "datetime": edge.PayloadSchemaType.Datetime,
}
_NAMES = {str(schema): name for name, schema in _SCHEMAS.items()}


class RefusedError(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Collections:
    """The collections in a folder, one shard each; one that was made only half is none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, edge.EdgeShard] = {}

    def names(self) -> list[str]:
        return sorted(path.stem for path in self._folder.glob("*.json"))

    def has(self, name: str) -> bool:
        return self._described(name).exists()

    def describe(self, name: str) -> dict[str, Any]:
        return json.loads(self._described(name).read_text("utf-8")) if self.has(name) else _missing(name)

    def find(self, name: str) -> edge.EdgeShard:
        if name not in self._open:
            self.describe(name)
            self._open[name] = edge.EdgeShard.load(str(self._folder / name))
        return self._open[name]

    def make(self, name: str, body: dict[str, Any]) -> None:
        if self.has(name):
            raise RefusedError(409, f"Wrong input: Collection `{name}` already exists!")
        vectors = body["vectors"]
        params = edge.EdgeVectorParams(vectors["size"], _DISTANCES[vectors["distance"]])
        # What a killed process left of it.
        for path in sorted(self._folder.glob(f"{name}/**/*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        (self._folder / name).mkdir(exist_ok=True)
        self._open[name] = edge.EdgeShard.create(str(self._folder / name), edge.EdgeConfig(vectors=params))
        written = self._described(name).with_suffix(".new")
        written.write_text(json.dumps(vectors), "utf-8")
        written.replace(self._described(name))

    def _described(self, name: str) -> Path:
        return self._folder / f"{name}.json"


def _missing(name: str) -> Any:
    raise RefusedError(404, f"Not found: Collection `{name}` doesn't exist!")


def _read_filter(data: dict[str, Any] | None) -> edge.Filter | None:
    if data is None:
        return None
    if not {key for key, value in data.items() if value} <= {"must"}:
        raise RefusedError(400, f"this stand-in knows `must` alone: {data}")
    return edge.Filter(must=[_read_condition(condition) for condition in data.get("must") or ()])


def _read_condition(data: dict[str, Any]) -> edge.FieldCondition:
    return edge.FieldCondition(key=data["key"], match=edge.MatchValue(value=data["match"]["value"]))


def _read_schema(schema: Any) -> Any:
    if isinstance(schema, str):
        return _SCHEMAS[schema]
    return edge.KeywordIndexParams(is_tenant=schema.get("is_tenant"))


def _id(id_: Any) -> Any:
    return str(id_) if isinstance(id_, UUID) else id_


def _record(point: Any) -> dict[str, Any]:
    return {"id": _id(point.id), "payload": point.payload, "vector": point.vector}


class Service:
    """Answers requests: what each returns is the `result` of the answer."""

    def __init__(self, folder: Path) -> None:
        self._collections = Collections(folder)

    def list(self, name: str, body: Any) -> Any:
        return {"collections": [{"name": name} for name in self._collections.names()]}

    def exists(self, name: str, body: Any) -> Any:
        return {"exists": self._collections.has(name)}

    def make(self, name: str, body: Any) -> Any:
        self._collections.make(name, body)
        return True

    def describe(self, name: str, body: Any) -> Any:
        vectors, info = self._collections.describe(name), self._collections.find(name).info()
        schema = {field: _described(index) for field, index in info.payload_schema.items()}
        return {
            "status": "green",
            "optimizer_status": "ok",
            "segments_count": info.segments_count,
            "points_count": info.points_count,
            "payload_schema": schema,
            "config": {
                "params": {"vectors": vectors},
                "hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10_000},
                "optimizer_config": {"default_segment_number": 0, "flush_interval_sec": 5},
            },
        }

    def index(self, name: str, body: Any) -> Any:
        schema = _read_schema(body["field_schema"])
        return self._update(name, edge.UpdateOperation.create_field_index(body["field_name"], schema))

    def upsert(self, name: str, body: Any) -> Any:
        points = [edge.Point(item["id"], item["vector"], item.get("payload")) for item in body["points"]]
        return self._update(name, edge.UpdateOperation.upsert_points(points))

    def delete(self, name: str, body: Any) -> Any:
        if "points" in body:
            return self._update(name, edge.UpdateOperation.delete_points(body["points"]))
        return self._update(name, edge.UpdateOperation.delete_points_by_filter(_read_filter(body["filter"])))

    def set_payload(self, name: str, body: Any) -> Any:
        chosen = _read_filter(body["filter"])
        return self._update(name, edge.UpdateOperation.set_payload_by_filter(chosen, body["payload"]))

    def query(self, name: str, body: Any) -> Any:
        nearest = edge.Query.Nearest(body["query"]["nearest"])
        request = edge.QueryRequest(
            limit=body["limit"],
            query=nearest,
            filter=_read_filter(body["filter"]),
            score_threshold=body.get("score_threshold"),
            with_payload=body.get("with_payload"),
        )
        points = self._collections.find(name).query(request)
        return {"points": [{**_record(point), "version": point.version, "score": point.score} for point in points]}

    def retrieve(self, name: str, body: Any) -> Any:
        shard = self._collections.find(name)
        records = shard.retrieve(body["ids"], body.get("with_payload", True), body.get("with_vector", False))
        return [_record(record) for record in records]

    def scroll(self, name: str, body: Any) -> Any:
        request = edge.ScrollRequest(
            offset=body.get("offset"),
            limit=body["limit"],
            filter=_read_filter(body.get("filter")),
            with_payload=body.get("with_payload"),
            with_vector=body.get("with_vector", False),
        )
        records, offset = self._collections.find(name).scroll(request)
        return {"points": [_record(record) for record in records], "next_page_offset": _id(offset)}

    def _update(self, name: str, operation: edge.UpdateOperation) -> Any:
        self._collections.find(name).update(operation)
        return {"operation_id": 0, "status": "completed"}


def _described(index: edge.PayloadIndexInfo) -> dict[str, Any]:
    return {"data_type": _NAMES[str(index.data_type)], "points": index.points}


def _endpoint(answer: Callable[[str, Any], Any]) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        data = await request.body()
        if len(data) > _MAX_BYTES:
            return _refuse(413, f"Payload error: JSON payload ({len(data)} bytes) is larger than {_MAX_BYTES} bytes")
        try:
            result = answer(request.path_params.get("name", ""), json.loads(data or b"null"))
        except RefusedError as refusal:
            return _refuse(refusal.status, str(refusal))
        except Exception as error:
            # What the engine says of wrong input begins so; all else is its own trouble.
            return _refuse(400 if str(error).startswith("Wrong input") else 500, str(error))
        return JSONResponse({"result": result, "status": "ok", "time": 0.0})

    return endpoint


def _refuse(status: int, message: str) -> Response:
    return JSONResponse({"status": {"error": message}, "time": 0.0}, status)


def build(folder: Path, api_key: str) -> Starlette:
    """Return the application; an empty key lets everybody in."""
    service, one = Service(folder), "/collections/{name}"
    routes = [
        Route("/collections", _endpoint(service.list), methods=["GET"]),
        Route(one, _endpoint(service.describe), methods=["GET"]),
        Route(one, _endpoint(service.make), methods=["PUT"]),
        Route(f"{one}/exists", _endpoint(service.exists), methods=["GET"]),
        Route(f"{one}/index", _endpoint(service.index), methods=["PUT"]),
        Route(f"{one}/points", _endpoint(service.upsert), methods=["PUT"]),
        Route(f"{one}/points", _endpoint(service.retrieve), methods=["POST"]),
        Route(f"{one}/points/delete", _endpoint(service.delete), methods=["POST"]),
        Route(f"{one}/points/payload", _endpoint(service.set_payload), methods=["POST"]),
        Route(f"{one}/points/query", _endpoint(service.query), methods=["POST"]),
        Route(f"{one}/points/scroll", _endpoint(service.scroll), methods=["POST"]),
    ]

    async def check_key(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        if api_key and request.headers.get("api-key") != api_key:
            return Response("Must provide an API key or an Authorization bearer token", 401)
        return await answer(request)

    app = Starlette(routes=routes)
    app.add_middleware(BaseHTTPMiddleware, dispatch=check_key)
    return app


if __name__ == "__main__":
    port, where, *key = sys.argv[1:]
    os.chdir(where)
    uvicorn.run(build(Path(where), *key or [""]), host="127.0.0.1", port=int(port), log_level="warning")
