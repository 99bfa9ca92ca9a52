"""Fitting rows into token budgets: whole rows, the first ones, never a part of one.

Rows are joined by newlines, and a newline counts. Since every row ends in a character that the encoding never joins
with the start of the next row, the tokens of the joined text are exactly the sum over rows of what each costs with
its newline, the last one without; so entities and relations, whose costs are known, are fitted without counting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from heliograph.text.tokens import count_tokens


@dataclass(frozen=True, slots=True)
class Cost:
    """Tokens of a row: on its own, and with the newline after it."""

    alone: int
    with_newline: int


class Budget:
    """Takes rows until one does not fit.

    Attributes:
        limit: Tokens of all rows together at the most.
        spent: Tokens of the rows taken, each with its newline.
        count: Rows taken.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.spent = 0
        self.count = 0

    def take(self, cost: Cost) -> bool:
        """Take a row if it fits as the last one; return whether it did."""
        if self.spent + cost.alone > self.limit:
            return False
        self.spent += cost.with_newline
        self.count += 1
        return True

    def expected_rows(self) -> int:
        """Return about how many more rows fit, judging by those taken; at least 1."""
        mean = self.spent / self.count if self.count else 1.0
        return max(1, int((self.limit - self.spent) / max(mean, 1.0)) + 1)


async def fit_rows(rows: Sequence[str], bounds: Sequence[int], limit: int) -> int:
    """Return how many of the first rows, joined by newlines, have at most `limit` tokens.

    Args:
        rows: The rows as they will be written.
        bounds: Per row, a number of tokens that it surely does not exceed; when these fit, nothing is counted.
        limit: Tokens; 0 or less keeps nothing.
    """
    if limit <= 0:
        return 0
    if sum(bounds) + len(rows) <= limit:
        return len(rows)
    return await asyncio.to_thread(_count_fitting, rows, limit)


def _count_fitting(rows: Sequence[str], limit: int) -> int:
    budget = Budget(limit)
    for row in rows:
        with_newline = count_tokens(row + "\n")
        # A newline makes a row a token longer or shorter, so only at the edge is it counted without.
        alone = count_tokens(row) if budget.spent + with_newline + 1 > limit else with_newline
        if not budget.take(Cost(alone, with_newline)):
            break
    return budget.count
