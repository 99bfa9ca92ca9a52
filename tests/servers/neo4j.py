"""A Neo4j server for the tests: the community edition from Maven Central, run on loopback in a folder of its own.

    python -m tests.servers.neo4j     fetches what it needs, once, into a cache; `make servers` does so

Tests never fetch anything; without the files they are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.servers.process import ServerProcess, free_port

__all__ = ["Neo4jServer", "fetch", "running_neo4j"]

_VERSION = "5.26.30"
_HOW = "needs Neo4j: install Java 17 and Maven, then run `make servers`"
_START_SECONDS = 90.0
_FETCH_SECONDS = 600.0
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath"
_PACKAGES = ("org.neo4j:neo4j", "org.neo4j.app:neo4j-server")
_PROJECT = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>heliograph.tests</groupId><artifactId>neo4j</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>{}</dependencies>
</project>
"""
_OPENED = ("java.nio", "java.io", "sun.nio.ch", "java.util.concurrent")
_SETTINGS = """
server.http.enabled=false
server.https.enabled=false
server.bolt.enabled=true
server.bolt.listen_address=127.0.0.1:{port}
server.bolt.advertised_address=127.0.0.1:{port}
server.bolt.telemetry.enabled=false
server.memory.pagecache.size=32m
dbms.usage_report.enabled=false
"""


def _cache() -> Path:
    root = os.environ.get("HELIOGRAPH_TEST_CACHE") or Path.home() / ".cache" / "heliograph-test"
    return Path(root) / "neo4j" / _VERSION


def _class_path() -> str | None:
    """Return the class path if all that is on it is there."""
    listed = _cache() / "classpath.txt"
    text = listed.read_text().strip() if listed.is_file() else ""
    return text if text and all(Path(name).is_file() for name in text.split(os.pathsep)) else None


def fetch() -> str:
    """Fetch the server's files unless they are there; return what was done.

    Raises:
        OSError: There is no Maven, or no way out.
        subprocess.SubprocessError: Maven failed.
    """
    folder = _cache()
    if _class_path():
        return f"Neo4j {_VERSION} is in {folder}"
    folder.mkdir(parents=True, exist_ok=True)
    dependency = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
    wanted = "".join(dependency.format(*name.split(":"), _VERSION) for name in _PACKAGES)
    (folder / "pom.xml").write_text(_PROJECT.format(wanted))
    command = ["mvn", "-B", "-q", _PLUGIN, "-Dmdep.outputFile=classpath.txt", f"-Dmaven.repo.local={folder / 'jars'}"]
    subprocess.run(command, cwd=folder, check=True, timeout=_FETCH_SECONDS)
    return f"fetched Neo4j {_VERSION} into {folder}"


class Neo4jServer(ServerProcess):
    """A server with one user, `neo4j`."""

    password = "let-me-in"

    def __init__(self, folder: Path, class_path: str) -> None:
        port = free_port()
        (folder / "conf").mkdir()
        (folder / "conf" / "neo4j.conf").write_text(_SETTINGS.format(port=port))
        command = [
            *("java", "-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED),
            *("-cp", class_path, "org.neo4j.server.CommunityEntryPoint"),
            *(f"--home-dir={folder}", f"--config-dir={folder / 'conf'}"),
        ]
        super().__init__(command, port, folder / "output.txt", _START_SECONDS)

    @property
    def url(self) -> str:
        """The address with the user and the password."""
        return f"neo4j://neo4j:{self.password}@127.0.0.1:{self.port}"

    def set_password(self) -> None:
        """Change the password that a new server demands be changed."""
        from neo4j import GraphDatabase

        with (
            GraphDatabase.driver(f"bolt://127.0.0.1:{self.port}", auth=("neo4j", "neo4j")) as driver,
            driver.session(database="system") as session,
        ):
            session.run("ALTER CURRENT USER SET PASSWORD FROM 'neo4j' TO $password", password=self.password).consume()


@contextmanager
def running_neo4j() -> Generator[Neo4jServer]:
    """Start a server; skips where there is none, and says how to get one."""
    class_path = _class_path()
    if class_path is None or shutil.which("java") is None:
        pytest.skip(_HOW)
    with tempfile.TemporaryDirectory(prefix="heliograph-neo4j-") as folder:
        server = Neo4jServer(Path(folder), class_path)
        try:
            server.start()
            server.set_password()
            yield server
        finally:
            server.kill()


if __name__ == "__main__":
    try:
        print(fetch())
    except (OSError, subprocess.SubprocessError) as failure:
        sys.exit(f"Neo4j cannot be fetched ({failure}); its tests are skipped. {_HOW}")
