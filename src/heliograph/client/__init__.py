"""A typed client of a Heliograph service, sync and async; it needs httpx and nothing of the engine.

with HeliographClient("http://127.0.0.1:9621", api_key="...") as client:
    client.documents.insert("ESP32 speaks MQTT over TLS.", source="notes.md")
    print(client.query("What does ESP32 speak?").text)
"""

from typing import TYPE_CHECKING, Any

import heliograph.client.records as records
from heliograph.client.blocking import HeliographClient, SyncAnswerStream
from heliograph.client.client import AsyncHeliographClient
from heliograph.client.reading import AsyncAnswerStream
from heliograph.client.records import QueryOptions
from heliograph.client.transport import ClientOptions

if TYPE_CHECKING:
    from heliograph.client.records import (
        ClientAnswer,
        ClientChunk,
        ClientCitation,
        ClientEntity,
        ClientReference,
        ClientRelation,
        ClientRetrieval,
    )

__all__ = [
    "AsyncAnswerStream",
    "AsyncHeliographClient",
    "ClientAnswer",
    "ClientChunk",
    "ClientCitation",
    "ClientEntity",
    "ClientOptions",
    "ClientReference",
    "ClientRelation",
    "ClientRetrieval",
    "HeliographClient",
    "QueryOptions",
    "SyncAnswerStream",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(records, name)
