from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

import pytest
from pydantic import SecretStr

from heliograph.cli.rendering import to_plain
from heliograph.errors import NotFoundError
from heliograph.models import Document, DocumentStatus, Usage


def test_to_plain_gives_every_field_of_a_model() -> None:
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    document = Document("doc-1", "a.md", metadata=MappingProxyType({"k": [1]}), created_at=moment, updated_at=moment)
    plain = to_plain(document)
    assert plain["status"] == "pending"
    assert plain["metadata"] == {"k": [1]}
    assert plain["usage"] == {"input_tokens": 0, "output_tokens": 0}
    assert plain["created_at"] == "2026-01-02T00:00:00+00:00"
    json.dumps(plain)


def test_to_plain_masks_secrets() -> None:
    assert "hunter2" not in to_plain(SecretStr("hunter2"))


def test_to_plain_takes_errors_paths_and_enumerations() -> None:
    plain = to_plain((NotFoundError("gone"), Path("a/b"), {DocumentStatus.FAILED: Usage(1, 2)}))
    assert plain == ["gone", "a/b", {"failed": {"input_tokens": 1, "output_tokens": 2}}]


def test_to_plain_refuses_what_it_does_not_know() -> None:
    with pytest.raises(TypeError, match="no plain form"):
        to_plain(object())
