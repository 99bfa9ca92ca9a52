from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.models import Entity
from heliograph.query.context.format import Budget, Cost, context_format, fit_rows
from heliograph.text.tokens import count_tokens, entity_row

ROWS = st.lists(st.text(max_size=40).map(lambda text: entity_row("name", "thing", text)), max_size=8)


def test_budget_counts_the_newline_between_rows_but_not_after_the_last() -> None:
    budget = Budget(10)
    assert budget.take(Cost(4, 5))
    assert budget.take(Cost(5, 6))
    assert (budget.spent, budget.count) == (11, 2)
    exact = Budget(9)
    assert exact.take(Cost(4, 5))
    assert not exact.take(Cost(5, 6))


def test_budget_foresees_about_how_many_rows_fit() -> None:
    budget = Budget(100)
    assert budget.expected_rows() == 101
    budget.take(Cost(9, 10))
    assert budget.expected_rows() == 10
    budget.take(Cost(90, 90))
    assert budget.expected_rows() == 1


async def test_rows_are_kept_whole_from_the_first() -> None:
    rows = ["one two three", "four", "five six seven eight nine ten", "x"]
    costs = [count_tokens(row + "\n") for row in rows]
    assert await fit_rows(rows, [99] * 4, sum(costs[:2])) == 2
    assert await fit_rows(rows, [99] * 4, 10_000) == 4
    assert await fit_rows(rows, costs, 0) == 0
    assert await fit_rows(rows, costs, -50) == 0
    assert await fit_rows([], [], 5) == 0


@given(ROWS, st.integers(0, 200))
@settings(max_examples=100)
async def test_kept_rows_fit_and_one_more_would_not(rows: list[str], limit: int) -> None:
    count = await fit_rows(rows, [10**6] * len(rows), limit)
    assert count_tokens("\n".join(rows[:count])) <= limit
    assert count == len(rows) or count_tokens("\n".join(rows[: count + 1])) > limit


@given(st.lists(st.text(max_size=30), max_size=8), st.integers(0, 150))
@settings(max_examples=100)
def test_precomputed_costs_add_up_to_the_joined_text(descriptions: list[str], limit: int) -> None:
    form, budget = context_format("json"), Budget(limit)
    rows = [entity_row("name", "thing", text) for text in descriptions]
    kept = 0
    for row, text in zip(rows, descriptions, strict=True):
        if not budget.take(form.entity_cost(1, Entity("", "name", "thing", text, token_count=count_tokens(row)))):
            break
        kept += 1
    assert count_tokens("\n".join(rows[:kept])) <= limit
    assert kept == len(rows) or count_tokens("\n".join(rows[: kept + 1])) > limit
