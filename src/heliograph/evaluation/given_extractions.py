"""Extractions that a set brings with it, in place of what an extractor would read: what would a better one be worth?

A set may hold a file beside its corpus that says what a model or a person read in each passage, one passage a line:
`id`, `entities` (names) and `triples` (lists of source, predicate and target). `GivenExtractor` gives a chunk what
was read in its passages: all of one that it holds whole, of one that is cut off what the chunk's text names. Names
become mentions in the same way as those in the replies of a chat model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from heliograph.evaluation.corpus import ChunkSpan, CorpusMap
from heliograph.evaluation.sets import GivenExtraction
from heliograph.ingest.extraction.base import Extractor, ignore_progress
from heliograph.ingest.extraction.chat_mentions import ReadRecords, to_mentions
from heliograph.ingest.extraction.replies import ParsedEntity, ParsedExtraction, ParsedRelation
from heliograph.ingest.mentions import UNKNOWN_TYPE
from heliograph.models import Chunk, Document, Extraction
from heliograph.text.names import clean_name, entity_key
from heliograph.text.sentences import sentence_spans

__all__ = ["GivenExtractor"]


class GivenExtractor(Extractor):
    """Replays given extractions. The documents must be those of the corpus; they are taken in once and not updated.

    Args:
        corpus: The documents, and which passages each of them holds.
        given: Per id of a passage what was read in it; a passage without any says nothing.
    """

    def __init__(self, corpus: CorpusMap, given: Mapping[str, GivenExtraction]) -> None:
        self._corpus = corpus
        self._given = given
        self._name = f"given-{hashlib.sha256(repr(sorted(given.items())).encode()).hexdigest()[:12]}"

    @property
    def name(self) -> str:
        """`given-` and a hash of all that is given."""
        return self._name

    async def extract(
        self, document: Document, chunks: Sequence[Chunk], on_chunk: Callable[[], None] = ignore_progress
    ) -> list[Extraction]:
        """Return what is given for the passages of each chunk; see `Extractor.extract`."""
        extractions: list[Extraction] = []
        for chunk in chunks:
            extractions.append(self._read(document, chunk))
            on_chunk()
        return extractions

    def _read(self, document: Document, chunk: Chunk) -> Extraction:
        records = ReadRecords()
        sentences = _Sentences(chunk.text)
        for item in self._given_in(document, chunk):
            records.add(_parsed(item, sentences))
        return Extraction(chunk.id, self.name, *to_mentions(records, document, chunk, ()))

    def _given_in(self, document: Document, chunk: Chunk) -> Iterator[GivenExtraction]:
        text = chunk.text.casefold()
        span = ChunkSpan(document.source, chunk.start, chunk.end)
        for passage, is_whole in self._corpus.passages_in(span):
            item = self._given.get(passage, GivenExtraction())
            yield item if is_whole else _named_in(item, text)


class _Sentences:
    """The sentences of a text, to say of a name what the text says of it."""

    def __init__(self, text: str) -> None:
        self._sentences = [" ".join(text[start:end].split()) for start, end in sentence_spans(text)]
        self._folded = [sentence.casefold() for sentence in self._sentences]

    def about(self, name: str) -> str:
        """Return the first sentence that holds the name; empty if none does."""
        wanted = name.casefold()
        held = (sentence for sentence, folded in zip(self._sentences, self._folded, strict=True) if wanted in folded)
        return next(held, "")


def _named_in(item: GivenExtraction, text: str) -> GivenExtraction:
    return GivenExtraction(
        tuple(name for name in item.entities if name.casefold() in text),
        tuple(triple for triple in item.triples if triple[0].casefold() in text and triple[2].casefold() in text),
    )


def _parsed(item: GivenExtraction, sentences: _Sentences) -> ParsedExtraction:
    names = {entity_key(name): name for name in map(clean_name, reversed(item.entities)) if name}
    entities = tuple(ParsedEntity(name, UNKNOWN_TYPE, sentences.about(name)) for name in names.values())
    triples = [(clean_name(source), predicate, clean_name(target)) for source, predicate, target in item.triples]
    relations = tuple(
        ParsedRelation(source, target, (predicate,), f"{source} {predicate} {target}", 1.0)
        for source, predicate, target in triples
        if source and target and entity_key(source) != entity_key(target)
    )
    return ParsedExtraction(entities, relations)
