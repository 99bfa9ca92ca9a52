from __future__ import annotations

from heliograph.models import sources_of
from heliograph.query.context.format import first_reference, number_sources
from heliograph.query.models import Reference


def test_sources_are_numbered_by_count_then_first_appearance() -> None:
    references = number_sources(["b", "a", "c", "a", "", "c"])
    assert references == (Reference("1", "a", 2), Reference("2", "c", 2), Reference("3", "b", 1))


def test_no_source_gives_no_reference() -> None:
    assert number_sources(["", ""]) == ()


def test_sources_of_an_entity_come_once_and_in_order() -> None:
    sources = {"1": "b", "2": "a", "3": "b"}
    assert sources_of(("1", "2", "3", "gone"), sources) == ("b", "a")
    assert sources_of(("gone",), sources) == ()
    many = {str(number): str(number) for number in range(100)}
    assert len(sources_of(tuple(many), many)) == 75


def test_first_reference_is_the_lowest_number() -> None:
    numbers = {"a": 12, "b": 9}
    assert first_reference(("a", "b", "c"), numbers) == "9"
    assert first_reference(("a",), numbers) == "12"
    assert (
        first_reference(("c",), numbers) == first_reference((), numbers) == first_reference(("c", "d"), numbers) == ""
    )
