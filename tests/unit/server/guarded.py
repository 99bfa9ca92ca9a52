"""A served workspace with keys and accounts, for the tests of access."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI
from pwdlib.hashers.argon2 import Argon2Hasher

from heliograph.engine import Given
from heliograph.server.app import create_app
from heliograph.settings import Settings
from heliograph.testing.fakes import FakeEmbeddingModel

ADMIN = {"X-API-Key": "admin-key-0123456789"}
READER = {"X-API-Key": "reader-key-0123456789"}
WRITER = {"X-API-Key": "writer-key-0123456789"}
BOUND = {"X-API-Key": "bound-key-0123456789"}


@cache
def hashed(password: str) -> str:
    """Return a hash that is compared with in no time; what real ones cost is for the tests of passwords."""
    return Argon2Hasher(time_cost=1, memory_cost=8, parallelism=1).hash(password)


def guarded_settings(folder: Path, **server: Any) -> Settings:
    """Return settings with an admin key, three keys and one account."""
    keys = [
        {"name": "reader", "key": READER["X-API-Key"], "role": "read"},
        {"name": "writer", "key": WRITER["X-API-Key"], "role": "write"},
        {"name": "bound", "key": BOUND["X-API-Key"], "role": "admin", "workspaces": ["alpha"]},
    ]
    accounts = [{"name": "hester", "password_hash": hashed("lamp oil"), "role": "write"}]
    given = {"api_key": ADMIN["X-API-Key"], "keys": keys, "accounts": accounts} | server
    return Settings.load(store={"data_dir": folder}, server=given)


@asynccontextmanager
async def served(settings: Settings) -> AsyncGenerator[tuple[FastAPI, httpx.AsyncClient]]:
    """Serve some settings, with models of fakes; yields the application and a client."""
    app = create_app(settings, Given(embedding=FakeEmbeddingModel(16)))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
    ):
        yield app, client
