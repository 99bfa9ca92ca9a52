"""The vectors of one workspace in Qdrant, beside the store that holds the truth.

One point per chunk, entity and relation; written batch by batch, searched within the workspace's points only.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit
from uuid import UUID, uuid5

import numpy as np
from numpy.typing import NDArray
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import SchemaMismatch, SettingsError, StoreAccessDenied, StoreError, StoreUnavailable
from heliograph.models import Document
from heliograph.settings import StoreSettings
from heliograph.stores.base import Hit
from heliograph.stores.changeset import COLLECTIONS, Collection, OutboxKind
from heliograph.stores.projection import ProjectionChange, VectorProjection, is_alike, is_same_vector

# Qdrant's address: `qdrant://[:api-key@]host[:port]`, `qdrants://` by TLS, `qdrant:///folder` or `qdrant::memory:`.
#
# The last two are the client's local mode, without a server and for one process. Options after a `?`: `prefix` goes
# before the names of collections, `on_disk=true` keeps vectors on disk, `quantization=int8` searches by 8-bit vectors
# that are kept in memory.

_log = logging.getLogger(__name__)

_OPTIONS = {"prefix", "on_disk", "quantization"}


@dataclass(frozen=True, slots=True, repr=False)
class QdrantAddress:
    """Where a Qdrant is, a server or a local folder (`:memory:` for none), and its storage options.

    If quantized, 8-bit vectors are kept in memory for search.
    """

    url: str = ""
    path: str = ""
    api_key: str = ""
    prefix: str = ""
    on_disk: bool = False
    is_quantized: bool = False

    @classmethod
    def parse(cls, url: str) -> QdrantAddress:
        """Parse an address, or raise a `SettingsError`, which never repeats the key."""
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        if unknown := sorted(set(options) - _OPTIONS):
            raise SettingsError(
                f"the Qdrant address has unknown options {unknown}; known: {', '.join(sorted(_OPTIONS))}"
            )
        if options.get("quantization", "int8") != "int8":
            raise SettingsError(f"quantization is {options['quantization']!r} in the Qdrant address; int8 is known")
        found = cls(
            prefix=options.get("prefix", ""),
            on_disk=options.get("on_disk", "").lower() == "true",
            is_quantized="quantization" in options,
        )
        if parts.path == ":memory:":
            return replace(found, path=parts.path)
        if parts.hostname:
            scheme = "https" if parts.scheme == "qdrants" else "http"
            host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
            try:
                server = f"{scheme}://{host}:{parts.port or 6333}"
            except ValueError:
                raise SettingsError("the port in the Qdrant address is no number; write qdrant://host:6333") from None
            return replace(found, url=server, api_key=unquote(parts.password or ""))
        if not parts.path.strip("/"):
            raise SettingsError("the Qdrant address names neither host nor folder; write qdrant://host:6333")
        return replace(found, path=unquote(parts.path))

    def __repr__(self) -> str:
        return f"QdrantAddress({self.url or self.path})"


@contextmanager
def translate_errors(where: str, setting: str = "store.vectors_url") -> Generator[None]:
    """Translate the client's exceptions into `StoreError`s that name the place."""
    try:
        yield
    except UnexpectedResponse as error:
        message = f"Qdrant at {where!r} answered {error.status_code} {error.reason_phrase}: {error.content[:300]!r}"
        if error.status_code in (401, 403):
            raise StoreAccessDenied(f"{message}; check the API key in {setting}") from error
        if error.status_code == 404 and b"ollection" in error.content:
            # The collection was removed by others, or lost with the server's files; the follower creates it again.
            raise StoreUnavailable(f"{message}; it is made again") from error
        if error.status_code is not None and 400 <= error.status_code < 500 and error.status_code != 429:
            raise StoreError(message) from error
        raise StoreUnavailable(f"{message}; try again") from error
    except (ApiException, QdrantException, OSError, RuntimeError, TimeoutError) as error:
        # Time-outs carry no message.
        reason = getattr(error, "source", error)
        raise StoreUnavailable(f"Qdrant at {where!r} is out of reach: {reason!r}; check {setting}") from error
    except ValueError as error:
        raise StoreUnavailable(f"what answers at {where!r} is no Qdrant: {error}; check {setting}") from error


# Connecting to Qdrant and creating missing collections and indexes.

CURSORS = "heliograph_cursors"
_TIMEOUT_SECONDS = 30
_OWN_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})


def connect(address: QdrantAddress) -> AsyncQdrantClient:
    """Return a client; it calls the server only with the first request."""
    if address.path:
        return AsyncQdrantClient(path=address.path) if address.path != ":memory:" else AsyncQdrantClient(":memory:")
    if address.api_key and address.url.startswith("http:") and urlsplit(address.url).hostname not in _OWN_HOSTS:
        _log.warning("the API key of Qdrant at %s goes there unencrypted; use qdrants:// for TLS", address.url)
    with warnings.catch_warnings():
        # The client warns of every address, even this machine's, with a line of code.
        warnings.filterwarnings("ignore", "Api key is used with an insecure connection")
        return AsyncQdrantClient(
            url=address.url, api_key=address.api_key or None, timeout=_TIMEOUT_SECONDS, check_compatibility=False
        )


async def _make(client: AsyncQdrantClient, name: str, params: models.VectorParams) -> None:
    if await client.collection_exists(name):
        return
    try:
        await client.create_collection(name, vectors_config=params)
    except UnexpectedResponse:
        # Another process may have created it first.
        if not await client.collection_exists(name):
            raise


# The data in Qdrant: one point per chunk, entity and relation, with the fields that its own users search by.
#
# Workspaces share the collections; the field `workspace` is the tenant of each point, and point ids are derived from
# workspace and id together.

NAMES: Mapping[Collection, str] = {
    Collection.CHUNKS: "knowledge_chunks",
    Collection.ENTITIES: "entities",
    Collection.RELATIONS: "relations",
}
_KEYWORD, _TEXT = models.PayloadSchemaType.KEYWORD, models.PayloadSchemaType.TEXT
_INTEGER, _DATETIME = models.PayloadSchemaType.INTEGER, models.PayloadSchemaType.DATETIME
INDEXES: Mapping[Collection, Mapping[str, models.PayloadSchemaType]] = {
    Collection.CHUNKS: {
        "id": _KEYWORD,
        "doc_id": _KEYWORD,
        "content": _TEXT,
        "chunk_index": _INTEGER,
        "entities": _KEYWORD,
        "created_at": _DATETIME,
        "updated_at": _DATETIME,
    },
    Collection.ENTITIES: {
        "id": _KEYWORD,
        "name": _KEYWORD,
        "type": _KEYWORD,
        "description": _TEXT,
        "doc_ids": _KEYWORD,
    },
    Collection.RELATIONS: {"id": _KEYWORD, "source": _KEYWORD, "target": _KEYWORD, "keywords": _KEYWORD},
}
_NAMESPACE = UUID("a5b1f0f4-63f0-5a2c-9d0d-3b7a4f4a9b10")


def point_id(workspace: str, id_: str) -> str:
    """Return the id of a point in Qdrant's form."""
    return str(uuid5(_NAMESPACE, f"{workspace}/{id_}"))


def in_workspace(workspace: str, *conditions: models.FieldCondition) -> models.Filter:
    """Return a filter for points of one workspace that meet all further conditions."""
    tenant = models.FieldCondition(key="workspace", match=models.MatchValue(value=workspace))
    return models.Filter(must=[tenant, *conditions])


def make_points(workspace: str, collection: Collection, change: ProjectionChange) -> list[models.PointStruct]:
    """Return the points of one collection that a change upserts; items without a vector are left out."""
    vectors = change.vectors.get(collection, {})
    payloads: dict[str, dict[str, Any]]
    match collection:
        case Collection.CHUNKS:
            payloads = {
                item.id: {
                    "doc_id": item.document_id,
                    "content": item.text,
                    "chunk_index": item.position,
                    "entities": list(change.names.get(item.id, ())),
                    **document_payload(change.owners.get(item.document_id)),
                }
                for item in change.chunks
            }
        case Collection.ENTITIES:
            payloads = {
                item.id: {
                    "name": item.name,
                    "type": item.type,
                    "description": item.description,
                    "doc_ids": list(dict.fromkeys(filter(None, map(change.owner_ids.get, item.chunk_ids)))),
                }
                for item in change.entities
            }
        case Collection.RELATIONS:
            payloads = {
                item.id: {
                    "source": item.source,
                    "target": item.target,
                    "keywords": list(item.keywords),
                    "description": item.description,
                    "weight": item.weight,
                }
                for item in change.relations
            }
    return [
        models.PointStruct(
            id=point_id(workspace, id_),
            vector=vectors[id_].astype(float).tolist(),
            payload={"workspace": workspace, "id": id_, **payload},
        )
        for id_, payload in payloads.items()
        if id_ in vectors
    ]


def document_payload(document: Document | None) -> dict[str, Any]:
    """Return the fields that the points of a document's chunks repeat from it."""
    if document is None:
        return {}
    return {
        "metadata": {**document.metadata, "source": document.source, **document.details},
        "created_at": document.created_at.isoformat(),
        "updated_at": document.updated_at.isoformat(),
    }


# The vectors of one workspace in Qdrant: written batch by batch, searched within the workspace's points only.

_BATCH = 200
_PAGE = 1000
# Equal scores at the end of the hits are ordered by id up to this many.
_MOST_EQUALS = 4_000
_WIDENING = 4


class QdrantVectorProjection(VectorProjection):
    """One workspace's points in three collections that workspaces share."""

    needs_origins = True

    def __init__(
        self, client: AsyncQdrantClient, address: QdrantAddress, workspace: str, embedding: EmbeddingInfo
    ) -> None:
        self.name = f"vectors:qdrant:{address.url or address.path}:{address.prefix}"
        self._client = client
        self._address = address
        self._workspace = workspace
        self._embedding = embedding
        self._is_closed = False

    @classmethod
    async def open(cls, settings: StoreSettings, url: str, embedding: EmbeddingInfo) -> QdrantVectorProjection:
        """Read the address, or open the folder of the local mode; `prepare` is the first to call a server.

        Raises:
            SettingsError: The address is invalid.
            StoreUnavailable: The folder cannot be used, or another process uses it.
        """
        address = QdrantAddress.parse(url)
        with translate_errors(address.url or address.path):
            return cls(connect(address), address, settings.workspace, embedding)

    async def prepare(self) -> None:
        """Creates missing collections and indexes; any number of processes may do so at once.

        Raises:
            SchemaMismatch: A collection exists with vectors of another length.
        """
        address = self._address
        with self._errors():
            params = models.VectorParams(
                size=self._embedding.dimension,
                distance=models.Distance.COSINE,
                on_disk=address.on_disk or None,
                quantization_config=models.ScalarQuantization(
                    scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
                )
                if address.is_quantized
                else None,
            )
            tenant = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
            cursor = models.VectorParams(size=1, distance=models.Distance.DOT)
            await _make(self._client, address.prefix + CURSORS, cursor)
            for collection, name in NAMES.items():
                place = address.prefix + name
                if not await self._client.collection_exists(place):
                    # Cursors of every workspace describe data that is lost; delete them first, so that a crash leaves
                    # none.
                    await self._client.delete(address.prefix + CURSORS, models.Filter())
                    await _make(self._client, place, params)
                found = await self._client.get_collection(place)
                vectors = found.config.params.vectors
                stored = vectors.size if isinstance(vectors, models.VectorParams) else None
                if stored != self._embedding.dimension:
                    raise SchemaMismatch(
                        f"the collection {place!r} of Qdrant holds vectors of length {stored}, the embedding makes "
                        f"{self._embedding.dimension}; choose another prefix in store.vectors_url, or remove the "
                        "collection"
                    )
                # Local mode searches without indexes, and warns of every request to create one.
                if address.url:
                    for field, schema in {"workspace": tenant, **INDEXES[collection]}.items():
                        if field not in found.payload_schema:
                            await self._client.create_payload_index(place, field, schema)

    async def search(
        self, collection: Collection, vector: NDArray[np.float32], limit: int, min_cosine: float
    ) -> list[Hit]:
        """A large collection is searched by Qdrant's graph, so that single hits may be missed."""
        if limit < 1:
            return []
        # One more than the limit shows whether the last hits have equals beyond it, which are then fetched, too.
        count = limit + 1
        while True:
            with self._errors():
                response = await self._client.query_points(
                    self._collection(collection),
                    query=vector.astype(float).tolist(),
                    query_filter=in_workspace(self._workspace),
                    limit=count,
                    score_threshold=min_cosine if min_cosine > -1 else None,
                    with_payload=["id"],
                )
            points = response.points
            if len(points) < count or points[-1].score < points[limit - 1].score or count >= limit + _MOST_EQUALS:
                break
            count = limit + min(_MOST_EQUALS, _WIDENING * (count - limit) + limit)
        # Points that another program put into the collection without our id are no hits.
        hits = [Hit(str(point.payload["id"]), point.score) for point in points if point.payload]
        return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:limit]

    async def get_vectors(self, collection: Collection, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        if not ids:
            return {}
        with self._errors():
            points = await self._client.retrieve(
                self._collection(collection),
                [point_id(self._workspace, id_) for id_ in ids],
                with_payload=["id"],
                with_vectors=True,
            )
        return {str((point.payload or {})["id"]): np.asarray(point.vector, np.float32) for point in points}

    async def get_cursor(self) -> int:
        with self._errors():
            points = await self._client.retrieve(self._address.prefix + CURSORS, [self._cursor_id()])
        return int((points[0].payload or {}).get("version", -1)) if points else -1

    async def set_cursor(self, version: int) -> None:
        payload = {"workspace": self._workspace, "version": version}
        point = models.PointStruct(id=self._cursor_id(), vector=[1.0], payload=payload)
        with self._errors():
            await self._client.upsert(self._address.prefix + CURSORS, [point])

    async def apply(self, change: ProjectionChange) -> None:
        with self._errors():
            for kind, collection in COLLECTIONS.items():
                name = self._collection(collection)
                if removed := [point_id(self._workspace, id_) for id_ in change.removed.get(kind, ())]:
                    await self._client.delete(name, models.PointIdsList(points=list(removed)))
                points = make_points(self._workspace, collection, change)
                for start in range(0, len(points), _BATCH):
                    await self._client.upsert(name, points[start : start + _BATCH])
            for document in change.documents:
                owned = models.FieldCondition(key="doc_id", match=models.MatchValue(value=document.id))
                of_document = in_workspace(self._workspace, owned)
                await self._client.set_payload(
                    self._collection(Collection.CHUNKS), document_payload(document), of_document
                )

    async def clear(self) -> None:
        await self.set_cursor(-1)
        with self._errors():
            for collection in Collection:
                await self._client.delete(self._collection(collection), in_workspace(self._workspace))

    async def compare(self, expected: ProjectionChange) -> set[str]:
        """Ignores payload fields that other programs added."""
        differing: set[str] = set()
        for collection in COLLECTIONS.values():
            wanted = make_points(self._workspace, collection, expected)
            with self._errors():
                points = await self._client.retrieve(
                    self._collection(collection), [point.id for point in wanted], with_payload=True, with_vectors=True
                )
            kept = {str(point.id): point for point in points}
            for point in wanted:
                held, payload = kept.get(str(point.id)), point.payload or {}
                vector = None if held is None else np.asarray(held.vector, np.float32)
                said = (held.payload if held else None) or {}
                is_payload_alike = is_alike(payload, {name: said.get(name) for name in payload})
                if not (is_payload_alike and is_same_vector(np.asarray(point.vector, np.float32), vector)):
                    differing.add(str(payload["id"]))
        return differing

    async def scan(self, kind: OutboxKind, after: str, limit: int) -> list[str]:
        """Reads the ids of all points of the workspace, as Qdrant has an order of its own."""
        if kind not in COLLECTIONS:
            return []
        found: list[str] = []
        offset = None
        with self._errors():
            while True:
                points, offset = await self._client.scroll(
                    self._collection(COLLECTIONS[kind]), in_workspace(self._workspace), _PAGE, None, offset, ["id"]
                )
                found += [str((point.payload or {}).get("id") or f"point {point.id}") for point in points]
                if offset is None:
                    return sorted(id_ for id_ in found if id_ > after)[:limit]

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            with self._errors():
                await self._client.close()

    def describe(self) -> Mapping[str, str]:
        return {"back end": "qdrant", "address": self._address.url or self._address.path}

    def _errors(self) -> AbstractContextManager[None]:
        return translate_errors(self._address.url or self._address.path)

    def _collection(self, collection: Collection) -> str:
        return self._address.prefix + NAMES[collection]

    def _cursor_id(self) -> str:
        return point_id(self._workspace, "cursor")
