"""A typed client of a Heliograph service, sync and async; it needs httpx and nothing of the engine.

with HeliographClient("http://127.0.0.1:9621", api_key="...") as client:
    client.documents.insert("ESP32 speaks MQTT over TLS.", source="notes.md")
    print(client.query("What does ESP32 speak?").text)
"""

from heliograph.client.blocking import HeliographClient, SyncAnswerStream
from heliograph.client.client import AsyncHeliographClient
from heliograph.client.records import (
    ClientAnswer,
    ClientChunk,
    ClientCitation,
    ClientEntity,
    ClientReference,
    ClientRelation,
    ClientRetrieval,
    QueryOptions,
)
from heliograph.client.streams import AsyncAnswerStream
from heliograph.client.transport import ClientOptions

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
