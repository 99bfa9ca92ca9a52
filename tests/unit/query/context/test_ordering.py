from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from heliograph.models import Chunk
from heliograph.query.context.assembly import evidence_order, needed_chunks


def _chunk(name: str, document: str, position: int = 0) -> Chunk:
    return Chunk(name, document, position, name, 1, 0, 1)


def _order(chunks: list[Chunk], paths: dict[str, tuple[str, ...]]) -> str:
    return "".join(chunks[place].id for place in evidence_order(chunks, paths))


def test_chunks_of_one_document_stand_together_in_its_order() -> None:
    chunks = [_chunk("b", "d", 4), _chunk("x", "e"), _chunk("a", "d", 1)]
    assert _order(chunks, {}) == "abx"


def test_bridge_stands_before_what_it_led_to() -> None:
    chunks = [_chunk("z", "z"), _chunk("x", "x"), _chunk("y", "y"), _chunk("a", "a")]
    assert _order(chunks, {"y": ("a",)}) == "zxay"
    assert _order(chunks, {"y": ("z",)}) == "zyxa"
    assert _order(chunks, {"y": ("z", "a")}) == "zayx"


def test_path_over_a_chunk_that_was_cut_is_passed_over() -> None:
    chunks = [_chunk("z", "z"), _chunk("y", "y")]
    assert _order(chunks, {"y": ("gone",)}) == "zy"


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=9),
    st.dictionaries(st.integers(0, 9), st.lists(st.integers(0, 9), max_size=3)),
)
def test_order_is_a_permutation(made: list[tuple[int, int]], paths: dict[int, list[int]]) -> None:
    chunks = [_chunk(str(number), str(document), position) for number, (document, position) in enumerate(made)]
    chains = {str(end): tuple(map(str, path)) for end, path in paths.items()}
    assert sorted(evidence_order(chunks, chains)) == list(range(len(chunks)))


def test_best_chain_is_needed_hop_by_hop() -> None:
    assert needed_chunks(["a", "b", "c"], {"c": ("a", "b"), "b": ("x",)}) == ("x", "b")
    assert needed_chunks(["a", "b", "c"], {"c": ("a", "b")}) == ("a", "b", "c")
    assert needed_chunks(list("abcdef"), {"f": ("a",)}) == ()
    assert needed_chunks([], {}) == ()
