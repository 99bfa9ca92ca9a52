"""Connecting to Qdrant and making the collections and their indexes, where they are not there yet."""

from __future__ import annotations

from collections.abc import Mapping

from qdrant_client import AsyncQdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import SchemaMismatch
from heliograph.stores.qdrant.address import QdrantAddress
from heliograph.stores.qdrant.points import COLLECTIONS, INDEXES

CURSORS = "heliograph_cursors"
_TIMEOUT_SECONDS = 30


def connect(address: QdrantAddress) -> AsyncQdrantClient:
    """Return a client; a server is first called when something is asked of it."""
    if address.path:
        return AsyncQdrantClient(path=address.path) if address.path != ":memory:" else AsyncQdrantClient(":memory:")
    return AsyncQdrantClient(
        url=address.url, api_key=address.api_key or None, timeout=_TIMEOUT_SECONDS, check_compatibility=False
    )


async def prepare(client: AsyncQdrantClient, address: QdrantAddress, embedding: EmbeddingInfo) -> None:
    """Make what is missing of the collections and indexes; any number of processes may do so at once.

    Raises:
        SchemaMismatch: A collection is there with vectors of another length.
    """
    params = models.VectorParams(
        size=embedding.dimension,
        distance=models.Distance.COSINE,
        on_disk=address.on_disk or None,
        quantization_config=_quantization(address),
    )
    cursor = models.VectorParams(size=1, distance=models.Distance.DOT)
    await _make(client, address.prefix + CURSORS, cursor)
    for collection, name in COLLECTIONS.items():
        place = address.prefix + name
        if not await client.collection_exists(place):
            # Cursors speak of what is gone, of every workspace; dropped first, so that a crash leaves none behind.
            await client.delete(address.prefix + CURSORS, models.Filter())
            await _make(client, place, params)
        await _check(client, place, embedding.dimension)
        # Local mode searches without indexes, and warns of every one that is asked for.
        if address.url:
            await _index(client, place, {"workspace": _tenant(), **INDEXES[collection]})


async def _make(client: AsyncQdrantClient, name: str, params: models.VectorParams) -> None:
    if await client.collection_exists(name):
        return
    try:
        await client.create_collection(name, vectors_config=params)
    except UnexpectedResponse:
        # Another process may have been faster.
        if not await client.collection_exists(name):
            raise


async def _index(
    client: AsyncQdrantClient, name: str, indexes: Mapping[str, models.PayloadSchemaType | models.KeywordIndexParams]
) -> None:
    known = (await client.get_collection(name)).payload_schema
    for field, schema in indexes.items():
        if field not in known:
            await client.create_payload_index(name, field, schema)


async def _check(client: AsyncQdrantClient, name: str, dimension: int) -> None:
    vectors = (await client.get_collection(name)).config.params.vectors
    stored = vectors.size if isinstance(vectors, models.VectorParams) else None
    if stored != dimension:
        raise SchemaMismatch(
            f"the collection {name!r} of Qdrant holds vectors of length {stored}, the embedding makes {dimension}; "
            "choose another prefix in store.vectors_url, or remove the collection"
        )


def _tenant() -> models.KeywordIndexParams:
    return models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)


def _quantization(address: QdrantAddress) -> models.ScalarQuantization | None:
    if not address.is_quantized:
        return None
    return models.ScalarQuantization(
        scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
    )
