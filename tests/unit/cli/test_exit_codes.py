from __future__ import annotations

import inspect

import pytest

from heliograph import errors
from heliograph.cli.session import EXIT_CODES, exit_code
from heliograph.errors import HeliographError

KINDS = [item for _, item in inspect.getmembers(errors, inspect.isclass) if issubclass(item, HeliographError)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_has_an_exit_code(kind: type[HeliographError]) -> None:
    error = kind.__new__(kind)
    assert 1 <= exit_code(error) <= 130


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.SettingsError, 2),
        (errors.InvalidRequestError, 2),
        (errors.NotFoundError, 3),
        (errors.SchemaMismatch, 4),
        (errors.StaleChangesetError, 4),
        (errors.ConflictError, 6),
        (errors.ModelTimeout, 5),
        (errors.IngestError, 1),
        (errors.CancelledIngestError, 130),
    ],
)
def test_exit_code_is_that_of_the_nearest_class(kind: type[HeliographError], code: int) -> None:
    assert exit_code(kind("x")) == code


def test_exit_codes_never_claim_success() -> None:
    assert 0 not in EXIT_CODES.values()
