"""BM25 (Robertson and Zaragoza 2009) with the numbers that all back ends rank full text by: those of SQLite's FTS5."""

from __future__ import annotations

import math

K1, B = 1.2, 0.75


def inverse_frequency(rows: float, total: float) -> float:
    """Return the idf of a term in `rows` of `total` rows: `ln((N - n + 0.5) / (n + 0.5))`, at least a millionth."""
    value = math.log(max(1e-9, total - rows + 0.5) / (rows + 0.5))
    return value if value > 0 else 1e-6
