from __future__ import annotations

import numpy as np
from benchmarks.corpus import ENTITIES, RELATIONS, HashEmbedding, corpus_document, corpus_mentions, document_entities
from benchmarks.measure import growth_exponent
from benchmarks.retrieval import recall
from hypothesis import given
from hypothesis import strategies as st


@given(st.integers(0, 100_000), st.integers(0, 3))
def test_document_mentions_what_it_should(number: int, version: int) -> None:
    entities, relations = corpus_mentions(number, version)
    names = {name for name, _, _ in entities}
    assert len(names) == ENTITIES == len(document_entities(number, version))
    assert len({frozenset(relation[:2]) for relation in relations}) == RELATIONS
    assert all(source in names and target in names for source, target, *_ in relations)


def test_versions_share_a_source_and_differ_in_text() -> None:
    first, second = corpus_document(3), corpus_document(3, 1)
    assert first.source == second.source
    assert first.text != second.text
    assert corpus_document(3) == first


def test_embedding_gives_unit_vectors_that_depend_on_the_text_alone() -> None:
    one, other = HashEmbedding(16), HashEmbedding(16)
    vectors = one.vectors(["a", "b", "a"])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(vectors, other.vectors(["a", "b", "a"]))
    assert (vectors[0] == vectors[2]).all()
    assert one.vectors([]).shape == (0, 16)


def test_recall_counts_repeats_once() -> None:
    gold = frozenset({"a", "b"})
    assert recall(["a", "a", "c", "b"], gold, 2) == 0.5
    assert recall(["a", "a", "c", "b"], gold, 3) == 1.0


def test_growth_exponent_of_a_square_is_two() -> None:
    assert round(growth_exponent([1, 2, 4, 8], [3, 12, 48, 192]), 6) == 2
