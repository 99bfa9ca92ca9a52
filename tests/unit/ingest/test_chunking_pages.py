"""Pages from what a caller hands over to stored chunks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.documents.markdown import clean_text
from heliograph.errors import InvalidRequestError
from heliograph.ids import document_id
from heliograph.ingest.chunking import MarkdownChunker, page_at
from heliograph.ingest.intake import clean_pages, new_documents
from heliograph.ingest.models import NewDocument, Outcome
from heliograph.stores.base import Store

from .world import make_pipeline


@settings(deadline=None)
@given(st.lists(st.text(st.sampled_from("ab\r\n\x00\f\ud83d\ude00\ufeff 中"), max_size=8), max_size=8))
def test_cleaning_keeps_pages_where_they_are(pages: list[str]) -> None:
    text, starts, offset = "".join(pages), [], 0
    for page in pages:
        starts.append(offset)
        offset += len(page)
    cleaned, found = clean_pages(text, starts, "a.pdf")
    assert cleaned == clean_text(text)
    assert len(found) == len(pages)
    assert list(found) == sorted(found)
    for start, place in zip(starts, found, strict=True):
        # A line end or character that stands across two pages belongs to the first.
        assert place in (len(clean_text(text[:start])), len(clean_text(text[: start + 1])))


def test_page_is_that_of_a_character() -> None:
    starts = (2, 5, 5, 9)
    assert [page_at(starts, index) for index in (0, 2, 4, 5, 8, 9, 100)] == [None, 1, 1, 3, 3, 4, 4]
    assert page_at((), 3) is None


@pytest.mark.parametrize("starts", [(3, 1), (-1,), (0, 99), ("0",), (None,)])
def test_offsets_that_cannot_be_are_refused(starts: tuple[int, ...]) -> None:
    with pytest.raises(InvalidRequestError, match=r"page_starts.*'a\.pdf'"):
        clean_pages("some text", starts, "a.pdf")


async def test_chunks_carry_the_page_of_their_first_character(store: Store) -> None:
    pages = ["Ann (person): Page\r\none.\f", "", "Bo (person): On the third.\r\n\r\nCy (person): There too.\n"]
    starts = (0, len(pages[0]), len(pages[0]))
    pipeline = make_pipeline(store, chunker=MarkdownChunker(8, 0))
    await pipeline.insert([NewDocument("".join(pages), "a.pdf", page_starts=starts)])
    (document,) = await store.records.get_documents([document_id("a.pdf")])
    assert document.page_starts == (0, 24, 24)
    chunks = await store.records.get_document_chunks(document.id)
    assert [chunk.page for chunk in chunks if chunk.text.startswith(("Ann", "Bo", "Cy"))] == [1, 3, 3]


async def test_other_pages_of_the_same_text_are_an_update_without_reading(store: Store) -> None:
    pipeline = make_pipeline(store)
    text = "Ann (person): One.\n\nBo (person): Two."
    await pipeline.insert([NewDocument(text, "a.pdf", page_starts=(0,))])
    report = await pipeline.insert([NewDocument(text, "a.pdf", page_starts=(0, 20))])
    assert report.results[0].outcome is Outcome.PROCESSED
    chunks = await store.records.get_document_chunks(document_id("a.pdf"))
    assert [chunk.page for chunk in chunks] == [1, 2]
    report = await pipeline.insert([NewDocument(text, "a.pdf", page_starts=(0, 20))])
    assert report.results[0].outcome is Outcome.UNCHANGED


async def test_wrong_pages_fail_their_document_alone(store: Store) -> None:
    report = await make_pipeline(store).insert([NewDocument("Ann.", "a", page_starts=(9,)), NewDocument("Bo.", "b")])
    assert [result.outcome for result in report.results] == [Outcome.FAILED, Outcome.PROCESSED]


def test_ready_documents_keep_their_pages() -> None:
    (document,) = new_documents(NewDocument("a", "x", page_starts=(0,)), sources=["y"])
    assert document == NewDocument("a", "y", page_starts=(0,))
