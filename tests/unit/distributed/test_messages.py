"""What goes between processes arrives as it was sent."""

from __future__ import annotations

import inspect
import pickle

import pytest

from heliograph import errors
from heliograph.distributed.messages import WorkerSetup
from heliograph.distributed.pool import WatchedDocument
from heliograph.errors import HeliographError, MissingDependencyError, ModelUnavailable, OverloadedError, RateLimited
from heliograph.settings import ChatSettings, DocumentSettings, EmbeddingSettings, IngestSettings

KINDS = [item for _, item in inspect.getmembers(errors, inspect.isclass) if issubclass(item, HeliographError)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_can_be_pickled(kind: type[HeliographError]) -> None:
    error = kind("the disk is full", 2.5) if kind is OverloadedError else kind("the disk is full")
    error.add_note("seen from afar")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_errors_keep_what_they_carry() -> None:
    assert pickle.loads(pickle.dumps(ModelUnavailable("it is down", is_transient=True))).is_transient
    assert pickle.loads(pickle.dumps(RateLimited("slow down", 7.5))).retry_after_seconds == 7.5
    assert "heliograph[ray]" in str(pickle.loads(pickle.dumps(MissingDependencyError("ray", "ray"))))


def test_keys_travel_and_are_not_shown() -> None:
    chat = ChatSettings.model_validate({"model": "m", "api_key": "sk-secret"})
    setup = WorkerSetup("1", DocumentSettings(), IngestSettings(), chat, EmbeddingSettings())
    again = pickle.loads(pickle.dumps(setup))
    assert again.chat.api_key.get_secret_value() == "sk-secret"
    assert "sk-secret" not in repr(again)


def test_a_document_that_is_begun_again_counts_each_chunk_once() -> None:
    told = _Told()
    watch = WatchedDocument(told)
    watch.begin(3)
    watch.read_one()
    watch.read_one()
    watch.begin(3)
    watch.read_one()
    assert (told.begun, told.read) == ([3], 2)
    watch.finish(3)
    assert (told.begun, told.read) == ([3], 3)


class _Told:
    def __init__(self) -> None:
        self.begun: list[int] = []
        self.read = 0

    def begin_chunks(self, count: int) -> None:
        self.begun.append(count)

    def finish_chunk(self) -> None:
        self.read += 1
