"""Which documents count: conditions on metadata, ids and sources, as data.

    from heliograph.filters import And, Equals, Range, parse_filter

    And((Equals("team", "red"), Range("year", gte=2020)))
    parse_filter({"team": "red", "year": {"gte": 2020}})  # the same

`heliograph.filters.conditions` says what each condition means. Here they are only checked, parsed and matched against
one document, never against a chunk: what matches is a document with all its chunks. A store finds all that match.
"""

from heliograph.filters.conditions import (
    And,
    DocumentIds,
    Equals,
    Exists,
    Filter,
    In,
    Not,
    Or,
    Range,
    Scalar,
    SourcePrefix,
    Sources,
    filter_key,
    matches,
    path_keys,
)
from heliograph.filters.parsing import check_filter, parse_expression, parse_filter

__all__ = [
    "And",
    "DocumentIds",
    "Equals",
    "Exists",
    "Filter",
    "In",
    "Not",
    "Or",
    "Range",
    "Scalar",
    "SourcePrefix",
    "Sources",
    "check_filter",
    "filter_key",
    "matches",
    "parse_expression",
    "parse_filter",
    "path_keys",
]
