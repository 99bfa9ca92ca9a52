"""Passages as documents, and retrieved chunks as passages again.

A passage is a document: its title a first line, its text below. On request several neighbouring passages make one
document, so that chunks mix topics; a chunk then stands for the passages that it shares enough characters with.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from heliograph.documents.cleaning import clean_text
from heliograph.evaluation.sets import EvaluationSet, Passage
from heliograph.ingest.models import NewDocument

__all__ = ["ChunkSpan", "CorpusMap", "map_corpus"]

_GAP = "\n\n"
# A chunk holds a passage if they share this part of the shorter of the two.
_LEAST_SHARED = 0.5


@dataclass(frozen=True, slots=True)
class ChunkSpan:
    """Where a retrieved chunk stands: the source of its document and its characters in it, `start` to before `end`."""

    source: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Spans:
    """The passages of one document, in order: the id, first character and end of each."""

    ids: tuple[str, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    def within(self, start: int, end: int) -> list[str]:
        found: list[str] = []
        for place in range(max(0, bisect_right(self.starts, start) - 1), len(self.ids)):
            first, last = self.starts[place], self.ends[place]
            if first >= end:
                break
            shared = min(end, last) - max(start, first)
            if shared >= _LEAST_SHARED * min(end - start, last - first):
                found.append(self.ids[place])
        return found

    def touching(self, start: int, end: int) -> list[tuple[str, bool]]:
        spans = zip(self.ids, self.starts, self.ends, strict=True)
        return [
            (id_, start <= first and last <= end) for id_, first, last in spans if min(end, last) > max(start, first)
        ]


@dataclass(frozen=True, slots=True)
class CorpusMap:
    """The documents to index, and the way back.

    Attributes:
        documents: In the order of the corpus; each has a source, by which its chunks are known.
        spans: Passages per source.
    """

    documents: tuple[NewDocument, ...]
    spans: Mapping[str, _Spans]

    def passages_in(self, chunk: ChunkSpan) -> list[tuple[str, bool]]:
        """Return the passages that a chunk holds any character of, in order, and whether it holds them whole.

        A chunk of an unknown source holds none.
        """
        spans = self.spans.get(chunk.source)
        return spans.touching(chunk.start, chunk.end) if spans else []

    def places(self, chunks: Iterable[ChunkSpan]) -> list[tuple[str, ...]]:
        """Return, per chunk that brings a passage which none before it brought, those passages; order is kept.

        A chunk of an unknown source, such as of a document that does not belong to the set, is a place without any
        passage: it took room that a passage could have had.
        """
        seen: set[str] = set()
        places: list[tuple[str, ...]] = []
        for chunk in chunks:
            spans = self.spans.get(chunk.source)
            if spans is None:
                places.append(())
                continue
            new = tuple(id_ for id_ in spans.within(chunk.start, chunk.end) if id_ not in seen)
            if new:
                seen.update(new)
                places.append(new)
        return places


def map_corpus(evaluation_set: EvaluationSet, join: int = 1) -> CorpusMap:
    """Return the documents that stand for a set's passages.

    Args:
        evaluation_set: Its passages, in order.
        join: Passages in one document; 1 keeps each alone, with its own title. Joined documents have no title but
            their name.
    """
    passages = evaluation_set.passages
    if join == 1:
        documents = [NewDocument(_text(item), source=item.id, title=item.title) for item in passages]
        spans = {item.id: _Spans((item.id,), (0,), (len(_text(item)),)) for item in passages}
        return CorpusMap(tuple(documents), spans)
    groups = [passages[start : start + join] for start in range(0, len(passages), join)]
    joined = [_joined(group, f"{evaluation_set.name}-{number:05}") for number, group in enumerate(groups)]
    return CorpusMap(tuple(document for document, _ in joined), {document.source: spans for document, spans in joined})


def _joined(passages: Sequence[Passage], source: str) -> tuple[NewDocument, _Spans]:
    texts = [_text(passage) for passage in passages]
    starts: list[int] = []
    place = 0
    for text in texts:
        starts.append(place)
        place += len(text) + len(_GAP)
    ends = tuple(start + len(text) for start, text in zip(starts, texts, strict=True))
    spans = _Spans(tuple(passage.id for passage in passages), tuple(starts), ends)
    return NewDocument(_GAP.join(texts), source=source), spans


def _text(passage: Passage) -> str:
    """Return a passage as it will be stored, so that characters can be counted in it."""
    return clean_text(f"{passage.title}\n{passage.text}" if passage.title else passage.text)
