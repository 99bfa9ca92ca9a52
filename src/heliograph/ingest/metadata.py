"""Metadata of documents as it is stored: JSON, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from heliograph.documents.cleaning import replace_surrogates
from heliograph.errors import InvalidRequestError

__all__ = ["clean_metadata"]

_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


def clean_metadata(metadata: Mapping[str, Any], label: str) -> dict[str, Any]:
    """Return metadata as JSON reads it back, without NUL, so that it compares equal with what is stored.

    Args:
        metadata: As given.
        label: What the document is called in an error.

    Raises:
        InvalidRequestError: It is not JSON.
    """
    try:
        text = json.dumps(dict(metadata), allow_nan=False, ensure_ascii=False)
        return json.loads(_NUL.sub(r"\1", replace_surrogates(text)))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequestError(
            f"the metadata of the document {label!r} is not JSON ({error}); use strings, numbers, lists and objects"
        ) from error
