from __future__ import annotations

import pytest
from pydantic import SecretStr

from heliograph.calls.service_errors import checked_address, checked_key, shown_address
from heliograph.errors import SettingsError


@pytest.mark.parametrize(
    "url", ["", "localhost:8080", "ftp://host/", "http://", "http://h:0/v1", "http://h/a b", "//h"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="base_url"):
        checked_address(url)


def test_address_is_shown_without_secrets() -> None:
    assert shown_address("https://me:secret@h:8080/v1?key=secret#x") == "https://h:8080/v1"


def test_key_is_stripped_and_never_repeated() -> None:
    assert checked_key(SecretStr(" abc\n")) == "abc"
    with pytest.raises(SettingsError) as caught:
        checked_key(SecretStr("sécret"))
    assert "sécret" not in str(caught.value)
