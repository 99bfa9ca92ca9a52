from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import IngestError, SettingsError
from heliograph.ingest.chunking import TokenChunker, make_chunker
from heliograph.models import Chunk
from heliograph.settings import IngestSettings
from heliograph.text.tokens import count_tokens, token_ends

TEXTS = st.text(st.sampled_from("ab \n　。，中文字😀👨‍👩‍👧é#`-=\t") | st.characters(codec="utf-8"), max_size=400)


def texts(chunks: list[Chunk]) -> list[str]:
    return [chunk.text for chunk in chunks]


@settings(deadline=None)
@given(TEXTS, st.integers(1, 40), st.integers(0, 39))
def test_chunks_are_exact_spans_that_cover_the_text(text: str, max_tokens: int, overlap: int) -> None:
    chunks = TokenChunker(max_tokens, min(overlap, max_tokens - 1)).chunk("doc-1", text)
    covered: set[int] = set()
    for position, chunk in enumerate(chunks):
        assert chunk.position == position
        assert chunk.text == text[chunk.start : chunk.end] == chunk.text.strip() != ""
        assert chunk.token_count == count_tokens(chunk.text)
        covered.update(range(chunk.start, chunk.end))
    assert all(character.isspace() for index, character in enumerate(text) if index not in covered)
    assert [chunk.start for chunk in chunks] == sorted(chunk.start for chunk in chunks)
    assert len({chunk.id for chunk in chunks}) == len(chunks)


@settings(deadline=None)
@given(TEXTS, st.integers(4, 40))
def test_chunks_have_at_most_so_many_tokens(text: str, max_tokens: int) -> None:
    # A character may take four tokens, so a smaller limit cannot always be kept.
    assert all(chunk.token_count <= max_tokens for chunk in TokenChunker(max_tokens, 3).chunk("doc-1", text))


def test_windows_have_the_size_and_stride_asked_for() -> None:
    text = " ".join(f"word{number}" for number in range(300))
    ends = token_ends(text).tolist()
    chunks = TokenChunker(100, 20).chunk("doc-1", text)
    starts = [0, *ends[:-1]]
    expected = [text[starts[first] : ends[min(first + 100, len(ends)) - 1]] for first in range(0, len(ends), 80)]
    assert texts(chunks) == [piece.strip() for piece in expected[: len(chunks)]]
    assert chunks[-1].end == len(text)


def test_tail_within_the_last_overlap_is_no_chunk() -> None:
    text = " ".join(["a"] * 100)
    assert count_tokens(text) == 100
    assert len(TokenChunker(90, 10).chunk("doc-1", text)) == 2
    assert len(TokenChunker(100, 50).chunk("doc-1", text)) == 1


@pytest.mark.parametrize("text", ["", " \n\t", "　"])
def test_blank_text_gives_no_chunk(text: str) -> None:
    assert TokenChunker(10).chunk("doc-1", text) == []


def test_ids_follow_document_and_text_not_place() -> None:
    chunker = TokenChunker(50, 0, "\n\n")
    before = chunker.chunk("doc-1", "one\n\ntwo\n\none")
    after = chunker.chunk("doc-1", "zero\n\none\n\ntwo\n\none")
    assert [chunk.id for chunk in after][1:] == [chunk.id for chunk in before]
    assert len({chunk.id for chunk in after}) == 4
    assert chunker.chunk("doc-2", "one")[0].id != before[0].id


def test_separator_parts_the_text_first_and_belongs_to_no_chunk() -> None:
    text = "short one\n===\n\n===\n" + "long " * 30 + "\n===\nlast"
    chunks = TokenChunker(20, 5, "===").chunk("doc-1", text)
    assert texts(chunks)[0] == "short one"
    assert texts(chunks)[-1] == "last"
    assert len(chunks) > 3
    assert all("=" not in chunk.text for chunk in chunks)
    assert all(text[chunk.start : chunk.end] == chunk.text for chunk in chunks)


def test_too_long_piece_is_an_error_where_only_the_separator_may_split() -> None:
    chunker = TokenChunker(5, 0, "|", split_by_only=True)
    assert texts(chunker.chunk("doc-1", "one two|three")) == ["one two", "three"]
    with pytest.raises(IngestError, match=r"'doc-1'.*30 tokens.*chunk_tokens"):
        chunker.chunk("doc-1", "one|" + "a " * 30)


def test_headings_in_force_are_kept_with_each_chunk() -> None:
    text = "intro\n\n# A\ntext\n\n## B\n```\n# code\n```\nmore\n\n# C\nend"
    chunks = TokenChunker(200, 0, "\n\n").chunk("doc-1", text)
    assert [chunk.headings for chunk in chunks] == [(), ("A",), ("A", "B"), ("C",)]


def test_one_line_of_two_megabytes_is_cut() -> None:
    chunks = TokenChunker(1200, 100).chunk("doc-1", "word " * 400_000)
    assert chunks[-1].end == 400_000 * 5 - 1
    assert all(chunk.token_count <= 1200 for chunk in chunks)


@pytest.mark.parametrize(("size", "overlap"), [(0, 0), (10, 10), (10, 20), (10, -1)])
def test_sizes_that_do_not_go_together_are_refused(size: int, overlap: int) -> None:
    with pytest.raises(SettingsError, match="overlap_tokens"):
        TokenChunker(size, overlap)


def test_splitting_only_on_nothing_is_refused() -> None:
    with pytest.raises(SettingsError, match="split_by"):
        TokenChunker(10, split_by_only=True)


@pytest.mark.parametrize(
    ("window", "by_chat", "chosen", "size", "overlap"),
    [(512, True, 0, 1200, 100), (512, False, 0, 348, 43), (8192, False, 0, 1200, 100), (512, False, 500, 500, 100)],
)
def test_size_follows_settings_extractor_and_embedding(
    window: int, by_chat: bool, chosen: int, size: int, overlap: int
) -> None:
    info = EmbeddingInfo("e", 8, window)
    chunker = make_chunker(IngestSettings(chunk_tokens=chosen), info, extracts_by_chat=by_chat)
    assert (chunker.max_tokens, chunker.overlap_tokens) == (size, overlap)
