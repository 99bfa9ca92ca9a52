from __future__ import annotations

import base64
import json
from pathlib import Path

import jwt
import pytest

from heliograph.errors import AuthenticationError, SettingsError, StoreUnavailable
from heliograph.service.access import Access, Credentials, TokenSigner, hash_password, signing_key
from heliograph.settings import Settings

KEY = b"k" * 32


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def test_token_is_good_until_it_expires() -> None:
    clock = Clock()
    signer = TokenSigner(KEY, 2, clock)
    token = signer.issue("hester", "hash")
    clock.now += 7199
    assert signer.read(token).name == "hester"
    clock.now += 1
    with pytest.raises(AuthenticationError, match="expired"):
        signer.read(token)


def test_tokens_differ_and_renewed_ones_share_the_session() -> None:
    signer = TokenSigner(KEY, 2)
    one, two = signer.issue("hester", "hash"), signer.issue("hester", "hash")
    assert one != two
    assert signer.read(one).session != signer.read(two).session
    session = signer.read(one).session
    assert signer.read(signer.issue("hester", "hash", session)).session == session


def test_nothing_but_our_own_signature_is_believed() -> None:
    signer = TokenSigner(KEY, 2)
    good = signer.issue("hester", "hash")
    header, body, signature = good.split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    forged = [
        f"{part({'alg': 'none', 'typ': 'JWT'})}.{body}.",
        f"{part({'alg': 'HS512', 'typ': 'JWT'})}.{body}.{signature}",
        f"{header}.{part(claims | {'sub': 'tobias'})}.{signature}",
        jwt.encode(claims, b"x" * 32, "HS256"),
        jwt.encode(claims, KEY + KEY, "HS512"),
        jwt.encode({key: value for key, value in claims.items() if key != "exp"}, KEY, "HS256"),
        jwt.encode(claims | {"exp": "soon"}, KEY, "HS256"),
        jwt.encode(claims | {"iss": "else"}, KEY, "HS256"),
        "a.b.c",
        "..",
        "é.é.é",
    ]
    for token in forged:
        with pytest.raises(AuthenticationError):
            signer.read(token)


async def test_token_past_half_its_life_is_renewed(tmp_path: Path) -> None:
    clock = Clock()
    accounts = [{"name": "hester", "password_hash": hash_password("lamp oil")}]
    settings = Settings.load(store={"data_dir": tmp_path}, server={"accounts": accounts, "token_hours": 2})
    access = await Access(settings, clock).open()
    token = await access.log_in("hester", "lamp oil", "127.0.0.1")
    clock.now += 3500
    assert access.identify(Credentials(bearer=token)).new_token is None
    clock.now += 200
    renewed = access.identify(Credentials(bearer=token)).new_token
    assert renewed is not None
    await access.log_out(renewed)
    for ended in (token, renewed):
        with pytest.raises(AuthenticationError):
            access.identify(Credentials(bearer=ended))
    await access.close()


def test_secret_is_made_once_and_kept_private(tmp_path: Path) -> None:
    assert signing_key("", tmp_path) == signing_key("", tmp_path)
    kept = tmp_path / "token_secret"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["token_secret"]
    kept.write_bytes(b"short")
    with pytest.raises(StoreUnavailable, match="damaged"):
        signing_key("", tmp_path)


def test_short_secret_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="token_secret"):
        signing_key("short", tmp_path)


@pytest.mark.parametrize(
    ("server", "words"),
    [
        ({"keys": [{"name": "a"}]}, "either key or key_sha256"),
        ({"keys": [{"name": "a", "key": "x", "key_sha256": "0" * 64}]}, "either key or key_sha256"),
        ({"keys": [{"name": "a", "key": "x"}, {"name": "a", "key": "y"}]}, "same name: 'a'"),
        ({"keys": [{"name": "a", "key": "x"}, {"name": "b", "key": "x"}]}, "same key"),
        ({"accounts": [{"name": "a", "password_hash": "secret-plain"}]}, "'a' is neither"),
    ],
)
def test_settings_that_do_not_hold_are_refused(server: dict[str, object], words: str) -> None:
    with pytest.raises(SettingsError, match=words) as caught:
        Access(Settings.load(server=server))
    assert "secret-plain" not in str(caught.value)


def test_secrets_do_not_show(tmp_path: Path) -> None:
    settings = Settings.load(server={"api_key": "very-secret", "keys": [{"name": "a", "key": "other-secret"}]})
    shown = repr(settings) + repr(Credentials("very-secret", "other-secret")) + repr(Access(settings).__dict__)
    assert "secret-plain" not in shown
    assert "very-secret" not in shown
    assert "other-secret" not in shown
