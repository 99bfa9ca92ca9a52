"""What databases say differently comes to the same."""

from __future__ import annotations

from typing import Any

import pytest

from heliograph.stores.cypher import Dialect


def row(id_: str, type_: str) -> dict[str, Any]:
    ends = {"source_id": "a", "target_id": "b"}
    return {"id": id_, "type": type_, "label": type_, **ends, "properties": {}}


def a_dialect(*, has_dynamic_names: bool) -> Dialect:
    return Dialect(degree="0", constraints=(), most_types=9, has_dynamic_names=has_dynamic_names)


@pytest.mark.parametrize("has_dynamic_names", [True, False])
def test_each_row_is_in_one_statement(has_dynamic_names: bool) -> None:
    dialect = a_dialect(has_dynamic_names=has_dynamic_names)
    rows = [row("1", "X"), row("2", "Y"), row("3", "X")]
    for statements in (dialect.relate(rows), dialect.label_entities(rows)):
        assert sorted(item["id"] for one in statements for item in one.parameters["rows"]) == ["1", "2", "3"]
        assert not any("{{" in one.text or "{verb}" in one.text for one in statements)
    assert dialect.relate([]) == dialect.label_entities([]) == []


def test_grouped_types_stand_quoted_in_the_text() -> None:
    statements = a_dialect(has_dynamic_names=False).relate([row("1", "X"), row("2", "Y"), row("3", "X")])
    assert [("`X`" in one.text, "`Y`" in one.text, len(one.parameters["rows"])) for one in statements] == [
        (True, False, 2),
        (False, True, 1),
    ]
