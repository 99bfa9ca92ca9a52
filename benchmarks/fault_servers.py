"""Servers to be hurt: each started for one run, behind a proxy, and what can be done to it.

A folder may be on a small file system in memory, which is then filled to the last byte: that takes the right to mount.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.servers.falkordb import FalkorServer, running_falkordb
from tests.servers.neo4j import running_neo4j
from tests.servers.postgres import PostgresServer, running_postgres
from tests.servers.proxy import FaultyProxy, faulty_proxy
from tests.servers.qdrant import running_qdrant
from tests.servers.redis import running_redis

__all__ = ["SUBJECTS", "Subject", "running_subject", "small_disk"]

_SECONDS = 2.0
_DELAY_SECONDS = 0.15
_DISK_MIB = 3000


class _Killable(Protocol):
    def kill(self) -> None: ...
    def start(self) -> None: ...


@dataclass(frozen=True)
class Subject:
    """What is hurt, and how a workspace is put on it.

    Attributes:
        settings: Of `store`, but for where the embedded store is.
        server: Killed and started.
        proxy: Stands before the server.
        disk: Folder on a small file system, with the server's or the embedded store's files; None without the right.
        remarks: What else had to be done to it.
    """

    settings: Mapping[str, Any]
    server: _Killable | None
    proxy: FaultyProxy | None
    disk: Path | None
    remarks: list[str] = field(default_factory=list[str])

    def faults(self) -> list[str]:
        """Return what can be done to it, in the order of a run."""
        there = ["kill", "cut", "slow", "stall", "kill", "refuse", "cut", "kill"] if self.server else []
        return [*there, *(["full"] * (1 if there else 3) if self.disk else []), "nothing"]

    async def hurt(self, fault: str) -> None:
        """Do something to it for two seconds or so, then undo it."""
        await getattr(self, f"_{fault}")()

    async def _nothing(self) -> None:
        await asyncio.sleep(0)

    async def _kill(self) -> None:
        assert self.server is not None
        await asyncio.to_thread(self.server.kill)
        await asyncio.sleep(_SECONDS)
        await asyncio.to_thread(self.server.start)

    async def _cut(self) -> None:
        assert self.proxy is not None
        for _ in range(8):
            self.proxy.cut()
            await asyncio.sleep(_SECONDS / 8)

    async def _slow(self) -> None:
        assert self.proxy is not None
        self.proxy.delay_seconds = _DELAY_SECONDS
        await asyncio.sleep(2 * _SECONDS)
        self.proxy.heal()

    async def _stall(self) -> None:
        assert self.proxy is not None
        self.proxy.is_stalled = True
        await asyncio.sleep(6 * _SECONDS)
        self.proxy.heal()

    async def _refuse(self) -> None:
        assert self.proxy is not None
        await self.proxy.refuse()
        await asyncio.sleep(_SECONDS)
        await self.proxy.accept()

    async def _full(self) -> None:
        assert self.disk is not None
        filler = self.disk / "filler"
        free = shutil.disk_usage(self.disk).free
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, free)
        await asyncio.sleep(_SECONDS)
        filler.unlink()
        if self.server is not None:
            # Some end when they cannot write.
            await asyncio.to_thread(self.server.kill)
            await asyncio.to_thread(self.server.start)
            await self._forget_unreadable()

    async def _forget_unreadable(self) -> None:
        """Do what an operator does with a FalkorDB that ends while it reads what it had written to a full disk."""
        if isinstance(self.server, FalkorServer) and not await asyncio.to_thread(self.server.wait_until_read):
            self.remarks.append("ended while it read what it had written to a full disk, and was emptied")
            self.server.forget()
            await asyncio.to_thread(self.server.start)


@contextmanager
def small_disk(folder: Path) -> Generator[Path | None]:
    """Mount a small file system in memory on a folder; None where that is not allowed."""
    size = ["-o", f"size={_DISK_MIB}m"]
    done = subprocess.run(["mount", "-t", "tmpfs", *size, "tmpfs", str(folder)], check=False, capture_output=True)
    if done.returncode:
        yield None
        return
    # The servers' folders are temporary ones.
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        yield folder
    finally:
        tempfile.tempdir = before
        subprocess.run(["umount", "-l", str(folder)], check=True)


def _at_port(port: int) -> Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]:
    return lambda: asyncio.open_connection("127.0.0.1", port)


def _behind(url: str, proxy: FaultyProxy) -> str:
    parts = urlsplit(url)
    who = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
    return parts._replace(netloc=f"{who}127.0.0.1:{proxy.port}").geturl()


@asynccontextmanager
async def _beside(
    running: Callable[[], AbstractContextManager[Any]], roles: tuple[str, ...], disk: Path | None
) -> AsyncGenerator[Subject]:
    with running() as server:
        async with faulty_proxy(_at_port(server.port)) as proxy:
            # `neo4j:` would learn where the server itself is.
            url = _behind(server.url, proxy).replace("neo4j:", "bolt:", 1)
            yield Subject({f"{role}_url": url for role in roles}, server, proxy, disk)


@asynccontextmanager
async def _postgres(disk: Path | None) -> AsyncGenerator[Subject]:
    with running_postgres() as server:
        url = server.make_database()
        parts = urlsplit(url)
        socket = _socket_in(parse_qs(parts.query)["host"][0])
        async with faulty_proxy(lambda: asyncio.open_unix_connection(socket)) as proxy:
            user = parts.username or "postgres"
            address = f"postgresql://{user}@127.0.0.1:{proxy.port}{parts.path}"
            yield Subject({"url": address}, _Postgres(server), proxy, disk)


def _socket_in(folder: str) -> Path:
    return next(Path(folder).glob(".s.PGSQL.*[0-9]"))


@dataclass(frozen=True)
class _Postgres:
    server: PostgresServer

    def kill(self) -> None:
        self.server.kill()

    def start(self) -> None:
        self.server.start()


@asynccontextmanager
async def _sqlite(disk: Path | None) -> AsyncGenerator[Subject]:
    if disk is None:
        pytest.skip("filling the disk of the embedded store takes the right to mount a file system")
    yield Subject({}, None, None, disk)


SUBJECTS = ("sqlite", "postgres", "redis", "falkordb", "neo4j", "qdrant")


@asynccontextmanager
async def running_subject(name: str, folder: Path) -> AsyncGenerator[Subject]:
    """Start what a run hurts.

    Args:
        name: One of `SUBJECTS`.
        folder: Empty; the small disk is mounted there.
    """
    with small_disk(folder) as disk:
        made = {
            "sqlite": lambda: _sqlite(disk),
            "postgres": lambda: _postgres(disk),
            "redis": lambda: _beside(lambda: running_redis(disk), ("graph", "cache"), disk),
            "falkordb": lambda: _beside(running_falkordb, ("graph",), disk),
            "neo4j": lambda: _beside(running_neo4j, ("graph",), disk),
            "qdrant": lambda: _beside(lambda: running_qdrant(disk), ("vectors",), disk),
        }[name]
        async with made() as subject:
            yield subject
