"""Long documents count as much as their best piece, and batches come together again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.errors import RateLimited
from heliograph.rerank.base import BatchingReranker, RerankHit, SplittingReranker, split_text
from heliograph.testing.fakes import FakeReranker
from heliograph.text.tokens import count_tokens

LONG = " ".join(f"filler{i}" for i in range(200))


@given(st.text(st.sampled_from("ab 好 e\u0301😀.\n"), max_size=400), st.integers(16, 60))
def test_pieces_cover_the_text_in_order(text: str, max_tokens: int) -> None:
    place = 0
    for piece in split_text(text, max_tokens):
        starts = [start for start in range(place + 1) if text.startswith(piece, start)]
        assert starts, "a piece leaves a gap"
        place = max(place, starts[-1] + len(piece))
    assert place == len(text)


def test_pieces_are_short_enough_and_overlap() -> None:
    pieces = split_text(LONG, 64)
    assert len(pieces) > 3
    assert all(count_tokens(piece) <= 65 for piece in pieces)  # cut inside a word, its ends may count anew
    assert all(pieces[i][-12:] in pieces[i + 1] for i in range(len(pieces) - 1))


def test_text_that_fits_stays_whole() -> None:
    assert split_text("short", 16) == ["short"]
    assert split_text("", 16) == [""]


async def test_best_piece_counts() -> None:
    inner = FakeReranker(lambda query, text: text.count(query) / 10)
    documents = ["gold", f"{LONG} gold gold gold", LONG, "gold gold"]
    hits = await SplittingReranker(inner, 64).rerank("gold", documents, 3)
    assert hits == [RerankHit(1, 0.3), RerankHit(3, 0.2), RerankHit(0, 0.1)]
    assert all(count_tokens(text) <= 65 for text in inner.calls[0][1])


async def test_nothing_is_split_where_all_is_short() -> None:
    inner = FakeReranker()
    model = SplittingReranker(inner, 64)
    assert [hit.index for hit in await model.rerank("fox", ["cat", "fox"], 1)] == [1]
    assert inner.calls == [("fox", ("cat", "fox"), 1)]
    assert await model.rerank("fox", [], 3) == []
    assert model.name == "fake/64"


async def test_batches_come_together_again() -> None:
    inner = FakeReranker(lambda _, text: float(text))
    hits = await BatchingReranker(inner, 3).rerank("q", [str(i % 5) for i in range(10)], 4)
    assert hits == [RerankHit(4, 4.0), RerankHit(9, 4.0), RerankHit(3, 3.0), RerankHit(8, 3.0)]
    assert sorted(len(call[1]) for call in inner.calls) == [1, 3, 3, 3]


async def test_batch_that_fails_fails_all() -> None:
    inner = FakeReranker()
    inner.fail_next(RateLimited("busy"))
    with pytest.raises(RateLimited):
        await BatchingReranker(inner, 2).rerank("q", list("abcde"), 2)
