"""Which entities occur where in a chunk, before any is chosen.

Chunks with their contexts (`local_context`) in, `ReadChunk`s out: their sentences, and every occurrence of an entity
with its place. Names are cleaned, short names resolved to full ones, abbreviations tied to their long forms, titles and
headings found again in the text, and phrases that keep recurring taken for concepts. A chunk's reading depends on its
text, its headings, the document's title and its context, and on nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import repeat

from heliograph.ingest.extraction.local_aliases import other_names
from heliograph.ingest.extraction.local_context import ChunkContext
from heliograph.ingest.extraction.local_dialogue import speakers
from heliograph.ingest.extraction.local_names import NameBook
from heliograph.ingest.extraction.local_occurrences import Definition, Occurrence, ReadChunk, Topic
from heliograph.ingest.extraction.local_openers import Opening, title_line
from heliograph.ingest.extraction.local_parts import Part, read_parts
from heliograph.ingest.extraction.local_references import references
from heliograph.ingest.extraction.local_subjects import subjects_of
from heliograph.ingest.extraction.local_terms import Term, kept_terms, repeated_terms, sentence_terms, stated_values
from heliograph.models import Chunk
from heliograph.text.abbreviations import Abbreviation, find_abbreviations
from heliograph.text.language import HAN
from heliograph.text.name_spans import NameSpan, spans_within, without_overlaps
from heliograph.text.name_types import type_of_name
from heliograph.text.names import clean_name, entity_key
from heliograph.text.phrases import SentenceReading, phrases_outside, read_texts

__all__ = ["read_chunks"]

_HAN = re.compile(rf"[{HAN}]")
_OPENING = re.compile(r"[\s\"'“‘«(《「*_#>|-]*(?:(?:The|An?) )?")


def read_chunks(title: str, chunks: Sequence[Chunk], contexts: Sequence[str]) -> list[ReadChunk]:
    """Read chunks; each by itself, together they are faster.

    Args:
        title: The title of their document; may be empty.
        chunks: Chunks of one document.
        contexts: The context of each.
    """
    readings = read_texts([chunk.text for chunk in chunks])
    return [
        _read_chunk(title, chunk, ChunkContext.of(context), sentences)
        for chunk, context, sentences in zip(chunks, contexts, readings, strict=True)
    ]


def _read_chunk(title: str, chunk: Chunk, context: ChunkContext, sentences: list[SentenceReading]) -> ReadChunk:
    text, opens_document = chunk.text, context.opens_document
    subjects = _subjects(title, chunk, title_line(text, sentences), opens_document=opens_document)
    parts = read_parts(text, sentences, may_define_term=opens_document and not subjects)
    titles = list(dict.fromkeys((*subjects, *(name for part in parts[1:] for name in part.titles))))
    abbreviations = find_abbreviations(text, sentences)
    inside = _known_spans(text, sentences, abbreviations, titles, [part.opening for part in parts if part.opening])
    named = [without_overlaps([*known, *sentence.names]) for known, sentence in zip(inside, sentences, strict=True)]
    settled = [_without_named(sentence, known) for sentence, known in zip(sentences, inside, strict=True)]
    book = NameBook(titles, context.full_names)
    book.learn(span for spans in named for span in spans)
    terms = [sentence_terms(sentence) for sentence in settled]
    repeated = repeated_terms(terms)
    occurrences = [
        occurrence
        for index, spans in enumerate(named)
        for occurrence in _in_sentence(text, index, spans, book, kept_terms(text, terms[index], repeated))
    ]
    about = [_about(text, settled, occurrences, part, part.titles if part.first else subjects, book) for part in parts]
    topics = list(_topics(parts, about))
    return ReadChunk(
        chunk=chunk,
        sentences=settled,
        occurrences=occurrences,
        references=tuple(references(text, settled, occurrences, topics, book.type_of)),
        definitions=tuple(_definitions(abbreviations, occurrences)),
        subjects={key: name for keys in about for key, name in keys.items()},
        topics=topics,
        type_of=book.type_of,
    )


def _about(
    text: str,
    sentences: Sequence[SentenceReading],
    occurrences: Sequence[Occurrence],
    part: Part,
    titles: Iterable[tuple[str, str]],
    book: NameBook,
) -> dict[str, str]:
    """Return keys and names of what a part is about, the main one first.

    The first part is about whatever it opens with, another only about what it defines or has as a title: most
    paragraphs open with some name.
    """
    inside = [occurrence for occurrence in occurrences if part.first <= occurrence.sentence < part.last]
    opener = _opener(text, sentences, inside, part.first) if part.opening or not part.first else {}
    keys = {entity_key(name): name for name, _ in titles} | opener
    main = next(iter(keys.items()), ("", ""))
    if main[0] in opener:
        keys |= _also_called(text, main, inside, book)
    return keys


def _topics(parts: Sequence[Part], about: Sequence[dict[str, str]]) -> Iterator[Topic]:
    """Yield the topic of each sentence; a part that is about nothing of its own goes on with that of the one before."""
    topic = Topic()
    for part, keys in zip(parts, about, strict=True):
        if keys:
            key, name = next(iter(keys.items()))
            is_defined = part.opening and entity_key(part.opening.name) == key
            topic = Topic(key, name, part.opening.nouns if part.opening and is_defined else frozenset())
        yield from repeat(topic, part.last - part.first)


def _also_called(
    text: str, subject: tuple[str, str], occurrences: Sequence[Occurrence], book: NameBook
) -> dict[str, str]:
    """Return what else the subject is called, by the first sentence that names it."""
    first = next(occurrence.sentence for occurrence in occurrences if occurrence.key == subject[0])
    inside = [occurrence for occurrence in occurrences if occurrence.sentence == first]
    return dict(other_names(text, subject, inside, is_person=book.type_of(subject[0]) == "person"))


def _subjects(title: str, chunk: Chunk, line: str, *, opens_document: bool) -> list[tuple[str, str]]:
    """Return the names of the nearest heading that has any, and of the title where the chunk has no other."""
    headings = (subjects_of(heading) for heading in (line, *reversed(chunk.headings)) if heading)
    nearest = next((names for names in headings if names), ())
    if nearest and not opens_document:
        return list(nearest)
    return [*nearest, *(name for name in subjects_of(title) if name not in nearest)]


def _known_spans(
    text: str,
    sentences: Sequence[SentenceReading],
    abbreviations: Sequence[Abbreviation],
    subjects: Sequence[tuple[str, str]],
    openings: Iterable[Opening],
) -> list[list[NameSpan]]:
    """Return, per sentence, the names that are known by other means than their make."""
    known = [*speakers(text), *_defined_spans(text, abbreviations), *_find_again(text, subjects)]
    for opening in openings:
        known.extend(_find_opening(text, opening))
    known.extend(value for sentence in sentences for value in stated_values(text, sentence))
    return list(spans_within(known, [(sentence.start, sentence.end) for sentence in sentences]))


def _in_sentence(
    text: str, index: int, spans: Iterable[NameSpan], book: NameBook, terms: Iterable[Term]
) -> list[Occurrence]:
    names = ((span, book.full_name(span, text)) for span in spans)
    found = [Occurrence(entity_key(name), name, index, span.start, span.end) for span, name in names if name]
    others = (Occurrence(entity_key(term.name), term.name, index, term.start, term.end, True) for term in terms)
    return sorted((*found, *others), key=lambda occurrence: occurrence.start)


def _without_named(sentence: SentenceReading, names: Sequence[NameSpan]) -> SentenceReading:
    """Return the sentence without the phrases that lie within names found by other means."""
    return replace(sentence, phrases=tuple(phrases_outside(sentence.phrases, names))) if names else sentence


def _defined_spans(text: str, abbreviations: Iterable[Abbreviation]) -> Iterator[NameSpan]:
    """Yield both forms of every abbreviation; what the long form is, the short one is too."""
    for abbreviation in abbreviations:
        start, end = abbreviation.long
        long = text[start:end]
        kind = type_of_name(clean_name(long) or "?", "", "") if long[0].isupper() else "concept"
        yield NameSpan(long, start, end, "concept" if kind == "unknown" else kind)
        start, end = abbreviation.short
        yield NameSpan(text[start:end], start, end, "concept" if kind == "unknown" else kind)


def _definitions(abbreviations: Iterable[Abbreviation], occurrences: Iterable[Occurrence]) -> Iterator[Definition]:
    by_span = {(occurrence.start, occurrence.end): occurrence for occurrence in occurrences}
    for abbreviation in abbreviations:
        short, long = by_span.get(abbreviation.short), by_span.get(abbreviation.long)
        if short and long and short.key != long.key:
            yield Definition(short.key, long.key, short.sentence)


def _find_again(text: str, subjects: Sequence[tuple[str, str]]) -> Iterator[NameSpan]:
    """Yield every place where a title's or heading's name stands as a word of its own, in any letter case."""
    for name, kind in subjects:
        yield from _places(text, name, kind, is_cased=False)


def _find_opening(text: str, opening: Opening) -> Iterator[NameSpan]:
    """Yield every place of what the chunk opens with; a name in title case only where it is written so."""
    yield from _places(text, opening.name, opening.kind, is_cased=not opening.name[1:].islower())


def _places(text: str, name: str, kind: str, *, is_cased: bool) -> Iterator[NameSpan]:
    where = text.replace("\n", " ")
    if not is_cased and len(where.lower()) == len(text):
        where, wanted = where.lower(), name.lower()
    else:
        wanted = name
    start = where.find(wanted)
    while start >= 0:
        end = start + len(wanted)
        # Chinese has no word bounds.
        if _HAN.search(name) or not (_is_word(where[start - 1 : start]) or _is_word(where[end : end + 1])):
            yield NameSpan(name, start, end, kind)
        start = where.find(wanted, end)


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _opener(
    text: str, sentences: Sequence[SentenceReading], occurrences: Sequence[Occurrence], first: int
) -> dict[str, str]:
    """Return the entity with which the part from sentence `first` on opens, if it opens with one."""
    for occurrence in occurrences:
        sentence = sentences[occurrence.sentence]
        if text[sentence.start] == "#":
            continue
        start = _OPENING.match(text, sentence.start)
        is_first = occurrence.sentence == first or text[sentences[occurrence.sentence - 1].start] == "#"
        is_opener = is_first and start is not None and occurrence.start <= start.end()
        return {occurrence.key: occurrence.name} if is_opener else {}
    return {}
