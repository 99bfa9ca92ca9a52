"""The connection to an OpenAI-compatible service, and its name in messages; shared by chat and embedding.

The SDK would read keys, addresses and headers from the environment; here it gets everything from the settings. Its
own retries are off: `calls.retry` does that for every provider alike.
"""

from __future__ import annotations

import openai
from pydantic import SecretStr

from heliograph.calls.address import checked_address, checked_key, shown_address

_OPENAI_URL = "https://api.openai.com/v1"
# Many local services ask for no key, but the SDK does.
_NO_KEY = "none"


def open_openai_client(base_url: str, api_key: SecretStr, timeout_seconds: float) -> openai.AsyncOpenAI:
    """Return a client; nothing is sent yet.

    Args:
        base_url: Address of the service; empty means OpenAI's own.
        api_key: May be empty.
        timeout_seconds: Longest wait to connect, and between two pieces of a response.

    Raises:
        SettingsError: The address or the key cannot be used; the message does not repeat the key.
    """
    key = checked_key(api_key)
    client = openai.AsyncOpenAI(
        base_url=_checked(base_url), api_key=key or _NO_KEY, timeout=timeout_seconds, max_retries=0
    )
    # Taken from the environment by the SDK; they would go to whatever service is set here.
    client.organization = client.project = None
    return client


def describe_service(role: str, model: str, base_url: str) -> str:
    """Return how messages name a service, for example `chat model 'qwen3' at 'http://localhost:8080/v1'`.

    Args:
        role: What it is, for example `chat model`.
        model: Name of the model.
        base_url: As in the settings; a user name, password or query in it is left out.
    """
    return f"{role} {model!r} at {shown_address(_checked(base_url))!r}"


def _checked(base_url: str) -> str:
    return checked_address(base_url.strip() or _OPENAI_URL)
