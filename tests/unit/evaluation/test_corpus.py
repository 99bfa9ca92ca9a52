from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.evaluation.sets import ChunkSpan, EvaluationSet, Passage, Question, map_corpus, read_set


def corpus_of(*texts: str) -> EvaluationSet:
    passages = tuple(Passage(f"p{number}", "", text) for number, text in enumerate(texts, 1))
    return EvaluationSet("example", passages, (Question("q", "why?", {}),))


def test_a_passage_is_a_document_with_its_title_first(harbour: Path) -> None:
    corpus = map_corpus(read_set(harbour))
    first = corpus.documents[0]
    assert (first.source, first.title) == ("p1", "Gannet Head")
    assert first.text == "Gannet Head\nAda Pell keeps the lamp at Gannet Head."
    assert corpus.places([ChunkSpan("p2", 0, 5), ChunkSpan("p1", 0, 9)]) == [("p2",), ("p1",)]


def test_places_count_each_passage_once_and_unknown_sources_as_empty() -> None:
    corpus = map_corpus(corpus_of("one", "two"))
    chunks = [ChunkSpan("p1", 0, 2), ChunkSpan("p1", 1, 3), ChunkSpan("other", 0, 3), ChunkSpan("p2", 0, 3)]
    assert corpus.places(chunks) == [("p1",), (), ("p2",)]


def test_joined_passages_are_found_by_their_characters() -> None:
    corpus = map_corpus(corpus_of("a" * 10, "b" * 10, "c" * 10), join=2)
    assert [document.text for document in corpus.documents] == [f"{'a' * 10}\n\n{'b' * 10}", "c" * 10]
    first, second = (document.source for document in corpus.documents)
    assert corpus.places([ChunkSpan(first, 0, 22)]) == [("p1", "p2")]
    assert corpus.places([ChunkSpan(first, 12, 22), ChunkSpan(second, 0, 10)]) == [("p2",), ("p3",)]
    # Half of a passage is enough, less is not; a chunk within a passage stands for it.
    assert corpus.places([ChunkSpan(first, 0, 17)]) == [("p1", "p2")]
    assert corpus.places([ChunkSpan(first, 0, 16)]) == [("p1",)]
    assert corpus.places([ChunkSpan(first, 13, 15)]) == [("p2",)]


def test_characters_are_counted_in_the_text_as_it_is_stored() -> None:
    corpus = map_corpus(corpus_of("a\r\nb\x00c", "second"), join=2)
    (document,) = corpus.documents
    assert document.text == "a\nbc\n\nsecond"
    start = document.text.index("second")
    assert corpus.places([ChunkSpan(document.source, start, start + 6)]) == [("p2",)]


@given(st.lists(st.text("ab\n", min_size=1, max_size=12), min_size=1, max_size=9), st.integers(1, 4))
def test_every_passage_is_found_at_its_own_place(texts: list[str], join: int) -> None:
    corpus = map_corpus(corpus_of(*texts), join)
    for source, spans in corpus.spans.items():
        text = next(document.text for document in corpus.documents if document.source == source)
        for id_, start, end in zip(spans.ids, spans.starts, spans.ends, strict=True):
            assert text[start:end] == texts[int(id_[1:]) - 1]
            assert id_ in corpus.places([ChunkSpan(source, start, end)])[0]


@pytest.mark.parametrize("join", [1, 3])
def test_no_chunks_give_no_places(join: int) -> None:
    assert map_corpus(corpus_of("one"), join).places([]) == []
