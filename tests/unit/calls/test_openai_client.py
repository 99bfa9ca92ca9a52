"""The connection takes everything from the settings, and its name in messages holds no secret."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from heliograph.calls.openai import describe_service, open_openai_client
from heliograph.errors import SettingsError

NO_KEY = SecretStr("")


async def test_client_takes_nothing_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "from-the-environment")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere.example/v1")
    async with open_openai_client("", NO_KEY, 5) as client:
        assert str(client.base_url) == "https://api.openai.com/v1/"
        assert "from-the-environment" not in repr([client.api_key, dict(client.default_headers)])


async def test_client_leaves_retries_to_us_and_needs_no_key() -> None:
    async with open_openai_client("http://127.0.0.1:1/v1", NO_KEY, 7.5) as client:
        assert client.max_retries == 0
        assert client.timeout == 7.5


async def test_client_ignores_space_around_a_key() -> None:
    async with open_openai_client("http://127.0.0.1:1/v1", SecretStr(" sk-test\n"), 5) as client:
        assert client.api_key == "sk-test"


@pytest.mark.parametrize("key", ["sk-tést", "sk-te\nst", "密钥"])
def test_client_refuses_a_key_that_is_none_without_repeating_it(key: str) -> None:
    with pytest.raises(SettingsError) as caught:
        open_openai_client("", SecretStr(key), 5)
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["localhost:8080", "ftp://host/v1", "http://", "http://host:port/v1", "http://[::1", "http://a b/v1", "/v1"]
)
def test_client_refuses_what_is_no_address(url: str) -> None:
    with pytest.raises(SettingsError, match="base_url"):
        open_openai_client(url, NO_KEY, 5)


def test_service_is_described_without_user_password_and_query() -> None:
    name = describe_service("chat model", "qwen3", "https://ada:secret@host.example:8080/v1?key=secret#secret")
    assert name == "chat model 'qwen3' at 'https://host.example:8080/v1'"


def test_service_without_address_is_openai() -> None:
    assert describe_service("chat model", "gpt", "").endswith("at 'https://api.openai.com/v1'")
