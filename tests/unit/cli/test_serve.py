from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from heliograph.server import run
from heliograph.server.run import check_exposure, is_loopback
from heliograph.service.access import PasswordChecker
from heliograph.settings import ServerSettings, Settings

from .conftest import World

SERVE = (sys.executable, "-m", "heliograph", "serve", "--port", "0")


@pytest.fixture(autouse=True)
def _log_of_the_tests_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a service that is started in this process from taking its log over for good."""
    monkeypatch.setattr(run, "configure_logging", lambda _: None)


def test_service_for_others_needs_credentials(world: World) -> None:
    found = world.run("serve", "--host", "0.0.0.0", "--port", "0")
    assert found.exit_code == 2
    assert "--insecure" in found.stderr
    assert "server.api_key" in found.stderr


@pytest.mark.parametrize("server", [{"insecure": True}, {"api_key": "k" * 20}, {"host": "127.0.0.1"}, {"host": "::1"}])
def test_credentials_or_loopback_or_insecure_is_enough(server: dict[str, object]) -> None:
    check_exposure(Settings.load(server={"host": "0.0.0.0"} | server))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.1", "example.org", "", "127.0.0.1.example.org"])
def test_other_addresses_are_not_loopback(host: str) -> None:
    assert not is_loopback(host)


def test_port_in_use_is_named(world: World) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = world.run("serve", "--port", str(port))
    assert found.exit_code == 4
    assert str(port) in found.stderr


def test_start_that_fails_never_says_that_it_listens(world: World) -> None:
    Path(world.folder, "blocked").write_text("")
    found = world.run("--data-dir", str(world.folder / "blocked" / "kb"), "serve", "--port", "0")
    assert found.exit_code == 4
    assert "listening" not in found.stderr
    assert "Traceback" not in found.stderr
    assert "error: " in found.stderr


def test_port_that_another_begins_to_listen_on_meanwhile_is_named(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = socket.socket()
    bind = run._bind

    def race(settings: ServerSettings) -> socket.socket:
        made = bind(settings)
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(made.getsockname())
        other.listen()
        return made

    monkeypatch.setattr(run, "_bind", race)
    with other:
        found = world.run("serve", "--port", "0")
    assert found.exit_code == 4
    assert "cannot listen on '127.0.0.1'" in found.stderr
    assert "listening on" not in found.stderr


def test_port_that_another_listens_on_is_named_before_workers_start(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "Workers", lambda *_: pytest.fail("workers were started"))
    with socket.socket() as taken:
        # As long as neither listens, both may have the address.
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setattr(run, "_bind", listen_after(run._bind, taken))
        found = world.run("serve", "--port", str(taken.getsockname()[1]), "--workers", "2")
    assert found.exit_code == 4
    assert "cannot listen on '127.0.0.1'" in found.stderr


def listen_after(bind: Callable[[ServerSettings], socket.socket], other: socket.socket) -> Callable[..., socket.socket]:
    def race(settings: ServerSettings) -> socket.socket:
        made = bind(settings)
        other.listen()
        return made

    return race


@pytest.mark.slow
def test_workers_that_cannot_start_say_why_once(tmp_path: Path) -> None:
    (tmp_path / "blocked").write_text("")
    arguments = ("--workers", "2", "--data-dir", "blocked/kb")
    found = subprocess.run((*SERVE, *arguments), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 4, found.stderr
    assert found.stderr.count("error: ") == 1
    assert "listening" not in found.stderr
    assert "Traceback" not in found.stderr


async def test_hash_is_one_of_the_password(world: World) -> None:
    made = world.json("hash-password", input="lamp oil\n")["password_hash"]
    assert made.startswith("$argon2id$")
    assert await PasswordChecker([made]).matches("lamp oil", made)
    assert not await PasswordChecker([made]).matches("lamp oil\n", made)


def test_empty_password_is_refused(world: World) -> None:
    assert world.run("hash-password", input="\n").exit_code == 2


def test_key_comes_with_its_digest(world: World) -> None:
    one, two = world.json("make-key"), world.json("make-key")
    assert one["key"] != two["key"]
    assert len(one["key"]) >= 43
    assert one["key_sha256"] == hashlib.sha256(one["key"].encode()).hexdigest()


def test_settings_show_no_secret(world: World) -> None:
    keys = '[{"name": "a", "key": "very-secret"}]'
    accounts = '[{"name": "b", "password_hash": "hash-secret"}]'
    given = {"HELIOGRAPH_SERVER__KEYS": keys, "HELIOGRAPH_SERVER__ACCOUNTS": accounts}
    environment = {**os.environ, **given, "HELIOGRAPH_SERVER__API_KEY": "admin-secret"}
    for arguments in ([], ["--json"]):
        found = subprocess.run(
            [sys.executable, "-m", "heliograph", "settings", *arguments],
            cwd=world.folder,
            env=environment,
            capture_output=True,
            check=True,
        )
        assert b"-secret" not in found.stdout + found.stderr
        assert b"api_key" in found.stdout


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_service_starts_and_ends_when_told(tmp_path: Path, workers: str) -> None:
    process = subprocess.Popen(
        (*SERVE, "--workers", workers, "--log-format", "json"), cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        assert line.startswith("listening on http://127.0.0.1:")
        address = line.split()[2]
        assert wait_for(f"{address}/ready").status_code == 200
    finally:
        process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=60)[1]
    assert process.returncode == 0, rest
    assert '"route": "/ready"' in rest


def wait_for(url: str) -> httpx.Response:
    for _ in range(600):
        try:
            return httpx.get(url, timeout=30)
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError(f"{url} is not there")
