"""The vectors of one workspace in Qdrant: written batch by batch, searched within the workspace's points only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

import numpy as np
from numpy.typing import NDArray
from qdrant_client import AsyncQdrantClient, models

from heliograph.embedding.base import EmbeddingInfo
from heliograph.settings import StoreSettings
from heliograph.stores.base import Hit
from heliograph.stores.changeset import Collection
from heliograph.stores.outbox import OutboxKind
from heliograph.stores.projection import ProjectionChange, VectorProjection, is_alike, is_same_vector
from heliograph.stores.qdrant.address import QdrantAddress
from heliograph.stores.qdrant.errors import translate_errors
from heliograph.stores.qdrant.points import COLLECTIONS, KINDS, document_payload, in_workspace, make_points, point_id
from heliograph.stores.qdrant.setup import CURSORS, connect, prepare

_BATCH = 200
_PAGE = 1000
# Equals at the end of the hits are ordered by id as long as there are no more than this.
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
        """Read the address, or open the folder of the local mode; a server is first called when it is prepared.

        Raises:
            SettingsError: The address is none.
            StoreUnavailable: The folder cannot be used, or another process does.
        """
        address = QdrantAddress.parse(url)
        with translate_errors(address.url or address.path):
            return cls(connect(address), address, settings.workspace, embedding)

    async def prepare(self) -> None:
        """See `Projection`; makes collections and indexes where they are missing."""
        with self._errors():
            await prepare(self._client, self._address, self._embedding)

    async def search(
        self, collection: Collection, vector: NDArray[np.float32], limit: int, min_score: float
    ) -> list[Hit]:
        """See `VectorStore`; in a large collection found by Qdrant's graph, so that single hits may be missed."""
        if limit < 1:
            return []
        # One more than wanted shows whether those at the end have equals beyond it, which are then taken in, too.
        count = limit + 1
        while True:
            with self._errors():
                response = await self._client.query_points(
                    self._collection(collection),
                    query=vector.astype(float).tolist(),
                    query_filter=in_workspace(self._workspace),
                    limit=count,
                    score_threshold=min_score if min_score > -1 else None,
                    with_payload=["id"],
                )
            points = response.points
            if len(points) < count or points[-1].score < points[limit - 1].score or count >= limit + _MOST_EQUALS:
                break
            count = limit + min(_MOST_EQUALS, _WIDENING * (count - limit) + limit)
        # Whatever another program puts into the collection without our id is no hit.
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
            for kind, collection in KINDS.items():
                name = self._collection(collection)
                if removed := [point_id(self._workspace, id_) for id_ in change.removed.get(kind, ())]:
                    await self._client.delete(name, models.PointIdsList(points=list(removed)))
                points = make_points(self._workspace, collection, change)
                for start in range(0, len(points), _BATCH):
                    await self._client.upsert(name, points[start : start + _BATCH])
            for document in change.documents:
                await self._client.set_payload(
                    self._collection(Collection.CHUNKS),
                    document_payload(document),
                    self._where("doc_id", document.id),
                )

    async def clear(self) -> None:
        await self.set_cursor(-1)
        with self._errors():
            for collection in Collection:
                await self._client.delete(self._collection(collection), in_workspace(self._workspace))

    async def compare(self, expected: ProjectionChange) -> set[str]:
        """See `Projection`; further fields of payloads are their owners' business."""
        differing: set[str] = set()
        for collection in KINDS.values():
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
        """See `Projection`; reads the ids of all points of the workspace, as Qdrant orders them its own way."""
        if kind not in KINDS:
            return []
        found: list[str] = []
        offset = None
        with self._errors():
            while True:
                points, offset = await self._client.scroll(
                    self._collection(KINDS[kind]), in_workspace(self._workspace), _PAGE, None, offset, ["id"]
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
        return self._address.prefix + COLLECTIONS[collection]

    def _where(self, field: str, value: str) -> models.Filter:
        return in_workspace(self._workspace, models.FieldCondition(key=field, match=models.MatchValue(value=value)))

    def _cursor_id(self) -> str:
        return point_id(self._workspace, "cursor")
