from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pwdlib.hashers.argon2 import Argon2Hasher
from pwdlib.hashers.bcrypt import BcryptHasher

from .guarded import ADMIN, guarded_settings, hashed, served

BCRYPT = "$2b$04$J1Bqk1vJ3lSpyHNCIStrDuWRZ4GPCmEjPvU9mXPcjUL5fF7dW0JpG"


@pytest.fixture
async def client(tmp_path: Path) -> AsyncGenerator[httpx.AsyncClient]:
    async with served(guarded_settings(tmp_path)) as (_, made):
        yield made


async def log_in(client: httpx.AsyncClient, name: str = "hester", password: str = "lamp oil") -> httpx.Response:
    return await client.post("/login", data={"username": name, "password": password, "grant_type": "password"})


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_token_of_a_login_opens_the_service(client: httpx.AsyncClient) -> None:
    reply = await log_in(client)
    assert reply.status_code == 200
    assert reply.json()["token_type"] == "bearer"
    assert reply.json()["ai_content_notice_enabled"] is False
    found = await client.get("/auth/verify", headers=bearer(reply.json()["access_token"]))
    assert found.json()["username"] == "hester"
    assert "X-New-Token" not in found.headers


async def test_logout_ends_the_session_for_all_processes(tmp_path: Path) -> None:
    settings = guarded_settings(tmp_path)
    async with served(settings) as (_, one), served(settings) as (_, other):
        token = (await log_in(one)).json()["access_token"]
        assert (await other.get("/ready", headers=bearer(token))).status_code == 200
        assert (await one.post("/logout", headers=bearer(token))).status_code == 200
        assert (await other.get("/ready", headers=bearer(token))).status_code == 401
    async with served(settings) as (_, later):
        assert (await later.get("/ready", headers=bearer(token))).status_code == 401


async def test_key_cannot_be_given_back(client: httpx.AsyncClient) -> None:
    assert (await client.post("/logout", headers=ADMIN)).status_code == 400


async def test_removed_account_loses_access(tmp_path: Path) -> None:
    async with served(guarded_settings(tmp_path)) as (_, client):
        token = (await log_in(client)).json()["access_token"]
    others = [{"name": "tobias", "password_hash": hashed("clock")}]
    async with served(guarded_settings(tmp_path, accounts=others)) as (_, client):
        assert (await client.get("/ready", headers=bearer(token))).status_code == 401
    changed = [{"name": "hester", "password_hash": hashed("new"), "role": "write"}]
    async with served(guarded_settings(tmp_path, accounts=changed)) as (_, client):
        assert (await client.get("/ready", headers=bearer(token))).status_code == 401


async def test_failed_logins_are_limited_by_address(client: httpx.AsyncClient) -> None:
    for _ in range(5):
        assert (await log_in(client, password="wrong")).status_code == 401
    limited = await log_in(client)
    assert limited.status_code == 429
    assert 250 < int(limited.headers["Retry-After"]) <= 300
    assert (await log_in(client, name="else")).status_code == 429


async def test_name_is_locked_by_many_addresses_and_by_none_alone(tmp_path: Path) -> None:
    async with served(guarded_settings(tmp_path, login_attempts=2)) as (app, _):

        async def fails_from(address: str) -> list[int]:
            transport = httpx.ASGITransport(app, client=(address, 1))
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                return [(await log_in(client, password="wrong")).status_code for _ in range(3)]

        # All addresses of a network of IPv6 are one host's to choose, and one may come in the form of the other.
        assert await fails_from("2001:db8::1") == [401, 401, 429]
        assert await fails_from("2001:db8::2:3") == [429, 429, 429]
        assert await fails_from("::ffff:192.0.2.1") == [401, 401, 429]
        assert await fails_from("192.0.2.1") == [429, 429, 429]
        for number in range(2, 10):
            assert await fails_from(f"192.0.2.{number}") == [401, 401, 429]
        assert await fails_from("192.0.2.99") == [429, 429, 429]


async def test_limit_holds_across_processes(tmp_path: Path) -> None:
    settings = guarded_settings(tmp_path)
    async with served(settings) as (_, one), served(settings) as (_, other):
        for client in (one, other, one, other, one):
            assert (await log_in(client, password="wrong")).status_code == 401
        assert (await log_in(other)).status_code == 429


async def test_success_forgets_failures(client: httpx.AsyncClient) -> None:
    for _ in range(3):
        for _ in range(4):
            await log_in(client, password="wrong")
        assert (await log_in(client)).status_code == 200


async def test_failure_says_the_same_for_known_and_unknown_names(client: httpx.AsyncClient) -> None:
    known, unknown = await log_in(client, password="wrong"), await log_in(client, name="nobody", password="wrong")
    assert known.status_code == unknown.status_code == 401
    assert known.json()["detail"] == unknown.json()["detail"]


@pytest.mark.parametrize("password", ["wrong", "oil 0", "x" * 100])
async def test_every_name_costs_the_same_comparisons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    hashers = [Argon2Hasher(time_cost=t, memory_cost=8, parallelism=1) for t in (1, 2)]
    hashers += [BcryptHasher(rounds) for rounds in (4, 5)]
    hashes = [hasher.hash(f"oil {number}") for number, hasher in enumerate([*hashers, hashers[0]])]
    accounts = [{"name": f"person{number}", "password_hash": made} for number, made in enumerate(hashes)]
    compared: list[str] = []

    def watch(hasher: type[Argon2Hasher] | type[BcryptHasher]) -> None:
        verify: Any = hasher.verify

        def watched(self: Any, given: Any, password_hash: Any) -> bool:
            compared.append(str(password_hash)[: 7 if hasher is BcryptHasher else 27])
            return bool(verify(self, given, password_hash))

        monkeypatch.setattr(hasher, "verify", watched)

    watch(Argon2Hasher)
    watch(BcryptHasher)
    costs: dict[str, list[str]] = {}
    async with served(guarded_settings(tmp_path, accounts=accounts, login_attempts=100)) as (_, client):
        for name in [*(account["name"] for account in accounts), "nobody", "Person0"]:
            compared.clear()
            found = await log_in(client, name, password)
            assert found.status_code == (200 if (name, password) == ("person0", "oil 0") else 401)
            costs[name] = list(compared)
    assert len(costs["nobody"]) == 4
    assert all(cost == costs["nobody"] for cost in costs.values()), costs


@pytest.mark.parametrize("password", ["", "x" * 1025, "x" * 100, "\x00", "密码"])
async def test_odd_passwords_are_refused(client: httpx.AsyncClient, password: str) -> None:
    assert (await log_in(client, password=password)).status_code in (401, 422)


@pytest.mark.parametrize(
    "body", [b"", b"username=%FF%FE&password=%FF", b"\xff\xfe", b"username=a", b'{"username": "hester"}']
)
async def test_odd_forms_are_no_defect(client: httpx.AsyncClient, body: bytes) -> None:
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    assert (await client.post("/login", content=body, headers=kind)).status_code in (400, 401, 422)


async def test_hash_of_lightrag_is_read(tmp_path: Path) -> None:
    import bcrypt

    made = bcrypt.hashpw(b"old", bcrypt.gensalt(4)).decode()
    accounts = [{"name": "old", "password_hash": "{bcrypt}" + made}]
    async with served(guarded_settings(tmp_path, accounts=accounts)) as (_, client):
        assert (await log_in(client, "old", "old")).status_code == 200
        assert (await log_in(client, "old", "x" * 80)).status_code == 401


async def test_guest_token_does_not_open_a_guarded_service(tmp_path: Path) -> None:
    async with served(guarded_settings(tmp_path, accounts=[])) as (_, client):
        guest = (await log_in(client)).json()
        assert guest["auth_mode"] == "disabled"
        assert (await client.get("/ready", headers=bearer(guest["access_token"]))).status_code == 403
    async with served(guarded_settings(tmp_path)) as (_, client):
        assert (await client.get("/ready", headers=bearer(guest["access_token"]))).status_code == 401


async def test_questions_are_limited_by_principal(tmp_path: Path) -> None:
    async with served(guarded_settings(tmp_path, queries_per_minute=2)) as (_, client):
        replies = [await client.post("/query/data", json={"query": "What?"}, headers=ADMIN) for _ in range(3)]
        assert [reply.status_code for reply in replies] == [200, 200, 429]
        assert "Retry-After" in replies[2].headers
