"""The options that say which things count: conditions as one filter, and how many may be passed over."""

from __future__ import annotations

import json
from collections.abc import Sequence

import typer

from heliograph.filters import And, Filter, Or, SourcePrefix, check_filter, parse_expression, parse_filter

__all__ = ["MAX_OFFSET", "combine_filters"]

# Larger numbers are none to a database.
MAX_OFFSET = 2**31 - 1


def combine_filters(
    expressions: Sequence[str] | None, source_prefixes: Sequence[str] | None = None, filter_json: str = ""
) -> Filter | None:
    """Return the filter that the options give together, or None if there are none.

    Args:
        expressions: Values of `--filter`; all must hold.
        source_prefixes: Values of `--source-prefix`; any may hold.
        filter_json: Value of `--filter-json`; must hold too.

    Raises:
        InvalidRequestError: One of them cannot be served.
        typer.BadParameter: `--filter-json` is not JSON.
    """
    parts = [parse_expression(text) for text in expressions or ()]
    if source_prefixes:
        parts.append(Or(tuple(map(SourcePrefix, source_prefixes))))
    if filter_json:
        parts.append(parse_filter(_decoded(filter_json)))
    return check_filter(And(tuple(parts))) if parts else None


def _decoded(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"--filter-json is not JSON ({error}): {text!r:.200}") from None
