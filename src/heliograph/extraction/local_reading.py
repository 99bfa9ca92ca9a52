"""Finds where entities occur in a chunk, before any is chosen.

Chunks with their contexts become `ReadChunk`s: sentences, and every occurrence of an entity with its position. Short
names are resolved to full ones, abbreviations linked to long forms, pronouns and nouns ("he", "the film") resolved,
speakers of dialogue found, and recurring phrases taken for concepts. A chunk's reading depends only on its text,
headings, title and context, so an unchanged chunk reads the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import repeat

from heliograph.extraction.local_names import NameBook, cleaned_name, shorter_names
from heliograph.extraction.local_subjects import (
    Opening,
    Part,
    prose_of,
    read_parts,
    says_something,
    singular,
    speaker_spans,
    subjects_of,
    title_line,
)
from heliograph.ids import clean_name, entity_key
from heliograph.models import Chunk
from heliograph.text.analysis import HAN, languages_of, word_list
from heliograph.text.german import NO_GERMAN_WORDS, GermanWords, german_words, is_german_noun, is_known_name
from heliograph.text.name_spans import (
    COMMON_WORDS,
    SHOUTED_WORDS,
    STRUCTURE_WORDS,
    is_identifier,
    type_of_name,
)
from heliograph.text.patterns import compiled
from heliograph.text.phrases import (
    Abbreviation,
    Phrase,
    SentenceReading,
    find_abbreviations,
    phrases_outside,
    read_texts,
)
from heliograph.text.sentences import NameSpan, spans_within, without_overlaps
from heliograph.text.tokens import encode, is_everyday, is_usually_lower

# What the reading of a chunk depends on besides its own text: its context, which the whole document decides.
#
# It says whether the chunk opens the document, which full names of other chunks its short names may mean ("weber" for
# "Anna Weber"), which of its words the document uses as labels, whether the document discusses what its title names,
# and, for a German document, which words of the chunk it uses as names or as nouns. Nothing else of the document
# matters, so a chunk with the same context reads the same, whatever else was changed.

_FIRST = "first"
_GERMAN_WORDS = "de:"
_IN = "in:"
_LABELS = "labels:"
_UNSAID = "unsaid"


@dataclass(frozen=True, slots=True)
class ChunkContext:
    """The context of a chunk, which is stored as a short text.

    Attributes:
        opens_document: Whether the chunk is the first of its document.
        full_names: Full names of persons by their surnames in lower case.
        german: The evidence of a German document about words in the chunk; None in other languages.
        language: The language of the whole document, if its headings are read by other rules than English ones.
        labels: Words of the chunk that the document has both with a capital and without.
        says_title: Whether the document mentions what its title names, other than as a heading.
    """

    opens_document: bool
    full_names: Mapping[str, str]
    german: GermanWords | None = None
    language: str = ""
    labels: frozenset[str] = frozenset()
    says_title: bool = True

    def __str__(self) -> str:
        """Return the context as text, which `of` parses."""
        lines = [_FIRST] if self.opens_document else []
        lines += (f"{surname}\t{name}" for surname, name in sorted(self.full_names.items()))
        if self.german is not None:
            lines.append(_GERMAN_WORDS + "|".join(" ".join(sorted(words)) for words in self.german))
        if self.language:
            lines.append(_IN + self.language)
        if self.labels:
            lines.append(_LABELS + " ".join(sorted(self.labels)))
        return "\n".join(lines if self.says_title else [*lines, _UNSAID])

    @classmethod
    def of(cls, context: str) -> ChunkContext:
        """Parse a context from its text."""
        lines = context.split("\n")
        german = (line.removeprefix(_GERMAN_WORDS).split("|") for line in lines if line.startswith(_GERMAN_WORDS))
        return cls(
            _FIRST in lines,
            dict(line.split("\t") for line in lines if "\t" in line),
            next((GermanWords(*(frozenset(words.split()) for words in parts)) for parts in german), None),
            next((line.removeprefix(_IN) for line in lines if line.startswith(_IN)), ""),
            frozenset(next((line.removeprefix(_LABELS) for line in lines if line.startswith(_LABELS)), "").split()),
            _UNSAID not in lines,
        )


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A place in a chunk that names an entity.

    Attributes:
        key: The entity's key, the same for all spellings.
        name: The name to store.
        sentence: Index of the sentence.
        start: Index of the first character in the chunk.
        end: One past the last character.
        is_phrase: Whether it is a term found among common words, not a name.
    """

    key: str
    name: str
    sentence: int
    start: int
    end: int
    is_phrase: bool = False


@dataclass(frozen=True, slots=True)
class Definition:
    """A sentence introduces an abbreviation; both forms are keys of entities."""

    short: str
    long: str
    sentence: int


@dataclass(frozen=True, slots=True)
class Topic:
    """The topic of a part of a chunk.

    Attributes:
        key: Key of the entity; empty if unknown.
        name: Its name.
        nouns: Common nouns, in lower case, that the text says it is: "the film" refers to it.
    """

    key: str = ""
    name: str = ""
    nouns: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ReadChunk:
    """The result of reading a chunk.

    Attributes:
        chunk: The chunk.
        sentences: Its sentences.
        occurrences: All occurrences in order.
        references: Places that mean an entity without naming it, in order.
        definitions: The abbreviations that it introduces.
        subjects: Keys and names of the chunk's subjects, in order; they need not occur in its text.
        topics: The topic of each sentence's part of the chunk.
        says: Per sentence whether it states something, and is no heading, label, caption or cell.
        type_of: Returns the type of an entity by its key.
    """

    chunk: Chunk
    sentences: Sequence[SentenceReading]
    occurrences: Sequence[Occurrence]
    references: Sequence[Occurrence]
    definitions: Sequence[Definition]
    subjects: dict[str, str]
    topics: Sequence[Topic]
    says: Sequence[bool]
    type_of: Callable[[str], str]


_HAN = re.compile(rf"[{HAN}]")


# Other names of a passage's subject, from its first sentence: "better known as X", "又称X".
#
# Of the entities in the first sentence, those that are only another name of the subject are returned, and also shorter
# forms of a person's full name. The chunk is about each of them.

_SAID_TO_BE = (
    r"\b(?:known|referred to|called|billed|credited|styled|spelled|spelt|abbreviated|released|titled|translated)\b"
    r"[^.;()]{0,40}?\b(?:as|simply|by (?:his|her|its|their|the) [\w ]{0,20}?names?)"
)
_IS_CALLED = r"\bn[ée]e|\bborn|\b(?:pen|stage|birth|real) name|\baka|a\.k\.a\.|\bsimply|\bEnglish(?: title)?:"
_HAN_IS_CALLED = "又称|又名|别名|也称|也叫|简称|俗称|原名|本名|全称|英文名?[:：]?"
_CUE = re.compile(rf"(?:{_SAID_TO_BE}|{_IS_CALLED}|{_HAN_IS_CALLED})[\s\"'“‘(（「《:：]*$")
_ALIAS_REACH = 90
_OR = compiled(r"[\s,\"”’]*(?:or|或)[\s\"'“‘「《]*")
_AND = compiled(r"[\s,、\"”’」》]*(?:and|or|和|或|、)[\s\"'“‘「《]*")


def other_names(
    text: str, subject: tuple[str, str], occurrences: Sequence[Occurrence], *, is_person: bool
) -> Iterator[tuple[str, str]]:
    """Yield keys and names of the subject's other names.

    Args:
        text: The chunk's text.
        subject: Key and name of the first sentence's subject.
        occurrences: The entities in that sentence, in order.
        is_person: Whether the subject is a person.
    """
    joined_by: re.Pattern[str] | None = None
    end = -1
    for occurrence in occurrences:
        if occurrence.key == subject[0]:
            joined_by, end = _OR, occurrence.end
            continue
        goes_on = joined_by and joined_by.fullmatch(text, end, occurrence.start) is not None
        before = text[max(0, occurrence.start - _ALIAS_REACH) : occurrence.start]
        if end >= 0 and not occurrence.is_phrase and (goes_on or _CUE.search(before)):
            yield occurrence.key, occurrence.name
            joined_by, end = _AND, occurrence.end
        else:
            joined_by = None
    if is_person:
        yield from ((entity_key(name), name) for name in shorter_names(subject[1]))


# Resolution of "he", "it", "the film", "他" and "该公司" to the current topic, or the person named last.
#
# The result is references: places that mean an entity without naming it. The rules cover the commonest case (a section
# is about its subject; a person is the topic until another is named); where they do not decide, there is no reference.

_PRONOUN = re.compile(
    r"\b(?:(?P<person>[Hh]e|[Ss]he|[Hh]is|[Hh]er|[Hh]im|[Hh]imself|[Hh]erself)|(?P<thing>[Ii]ts?|[Tt]hey|[Tt]heir)"
    r"|[Tt]h(?:e|is) (?P<noun>[a-z][\w-]{2,20}))\b"
)
_HAN_PRONOUN = compiled(
    rf"(?P<person>[他她](?!们))|(?P<thing>它|其(?![他它余实中次间])|该(?=[{HAN}])|本(?=[书片剧作站校公市县镇]))"
)
_REFERENCE_REACH = 120


def references(
    text: str,
    sentences: Sequence[SentenceReading],
    occurrences: Sequence[Occurrence],
    topics: Sequence[Topic],
    type_of: Callable[[str], str],
) -> Iterator[Occurrence]:
    """Yield the references of a chunk, at most one per sentence.

    Args:
        text: The chunk's text.
        sentences: Its sentences.
        occurrences: The entities in them, in order.
        topics: The topic of each sentence.
        type_of: Returns the type of an entity by its key.
    """
    named: dict[int, list[Occurrence]] = {}
    for occurrence in occurrences:
        named.setdefault(occurrence.sentence, []).append(occurrence)
    person = ("", "")
    before = Topic()
    for index, (sentence, topic) in enumerate(zip(sentences, topics, strict=True)):
        person, before = person if topic == before else ("", ""), topic
        here = named.get(index, ())
        end = min(sentence.end, sentence.start + _REFERENCE_REACH)
        found = None if text[sentence.start : end].isascii() else _HAN_PRONOUN.search(text, sentence.start, end)
        found = found or _PRONOUN.search(text, sentence.start, end)
        meant = _meant(found, topic, person, type_of) if found else ("", "")
        if found and meant[0] and all(occurrence.key != meant[0] for occurrence in here):
            yield Occurrence(*meant, index, found.start(), found.end())
        # The person who opens a sentence is the topic of the next one.
        opener = next((one for one in here if type_of(one.key) == "person"), None)
        person = (opener.key, opener.name) if opener else person


def _meant(
    found: re.Match[str],
    topic: Topic,
    person: tuple[str, str],
    type_of: Callable[[str], str],
) -> tuple[str, str]:
    parts: Mapping[str, str | None] = found.groupdict()
    subject = (topic.key, topic.name)
    kind = type_of(topic.key) if topic.key else ""
    if parts.get("noun"):
        return subject if parts["noun"] in topic.nouns else ("", "")
    if parts["person"]:
        return subject if kind == "person" else person if person[0] else subject if kind == "unknown" else ("", "")
    return subject if kind and kind != "person" else ("", "")


# Terms that are no names: recurring phrases, Chinese noun phrases, and values that Chinese sentences state.
#
# They come with their positions, from the phrases of a sentence (`heliograph.text.phrases`).

_UNSPACED = re.compile(r"\S+")
_LEAST_REPEATS = 3
_LEAST_REPEATS_HAN = 2
_SHORTEST_HAN_PHRASE = 3
# "the environment variable" has a noun, "I am looking forward" has none.
_WORD_BEFORE = re.compile(r"([^\W\d_]+)\W{1,3}\Z")
_LONGEST_WORD_BEFORE = 12
_BEFORE_NOUNS = word_list("before_nouns")
_POINTING = word_list("pointing_adjectives")
_STAND_BEFORE_NOUNS = _BEFORE_NOUNS | _POINTING
_LONGEST_PHRASE = 80
_POSSESSIVE = re.compile(r"['’]s$")
# "柳江的主要支流是寨蒿河。": the stated value of an attribute.
_STATED = compiled(
    rf"的[{HAN}A-Za-z]{{1,12}}?(?:是|叫做?|名为)(?P<value>[^，。；：！？、的是了在与和及或\s\d][^，。；：！？、的是了在与和及或]{{1,11}})(?=[。；，]|$)"
)


@dataclass(frozen=True, slots=True)
class Term:
    """A term that a phrase may name, and its position.

    `is_lone` if it counts even when it occurs once; `is_noun` if the word before it is one that precedes nouns.
    """

    key: str
    name: str
    start: int
    end: int
    is_lone: bool = False
    is_noun: bool = False


def repeated_terms(sentences: Iterable[Sequence[Term]]) -> dict[str, str]:
    """Return the terms that recur in the sentences, name by key."""
    counts: Counter[str] = Counter()
    names: dict[str, str] = {}
    nouns: set[str] = set()
    for terms in sentences:
        for term in terms:
            counts[term.key] += 1
            names.setdefault(term.key, term.name)
            if term.is_noun:
                nouns.add(term.key)
    kept: dict[str, str] = {}
    for key, name in names.items():
        is_han = _HAN.match(name) is not None
        if counts[key] >= (_LEAST_REPEATS_HAN if is_han else _LEAST_REPEATS) and (is_han or key in nouns):
            kept[key] = name
    return kept


def kept_terms(text: str, terms: Iterable[Term], repeated: dict[str, str]) -> Iterator[Term]:
    """Yield the recurring terms of a sentence, and Chinese noun phrases even if they occur only once."""
    free_from = 0
    for term in terms:
        if term.start < free_from:
            continue
        # "X 的 官方语言 是 Y": such a phrase only names an attribute of a thing.
        is_attribute = text[term.start - 1 : term.start] == "的" and text[term.end : term.end + 1] in set("是为有在由")
        if term.key in repeated or (term.is_lone and not is_attribute):
            yield Term(term.key, repeated.get(term.key, term.name), term.start, term.end)
            free_from = term.end


def _terms(text: str, phrase: Phrase) -> Iterator[Term]:
    """Yield the concepts that a phrase may name.

    In English these are its runs of three and of two words, in the singular; in Chinese it is the whole phrase.
    """
    if phrase.is_predicate or not _SHORTEST_HAN_PHRASE <= len(phrase.text) <= _LONGEST_PHRASE:
        return
    if _HAN.match(phrase.text):
        name = clean_name(phrase.text)
        yield Term(entity_key(name), name, phrase.start, phrase.end, is_lone=True)
        return
    if " " not in phrase.text and "\n" not in phrase.text:
        return
    words = [match.span() for match in _UNSPACED.finditer(phrase.text)]
    while words and phrase.text[slice(*words[0])].lower() in _POINTING:
        # "The current object" is a different one in each context.
        words.pop(0)
    for length in (3, 2):
        for first in range(len(words) - length + 1):
            start, end = words[first][0], words[first + length - 1][1]
            name = singular(_POSSESSIVE.sub("", clean_name(phrase.text[start:end]).lower()))
            before = _WORD_BEFORE.search(
                text[max(0, phrase.start + start - _LONGEST_WORD_BEFORE) : phrase.start + start]
            )
            is_noun = first == 0 and before is not None and before[1].lower() in _STAND_BEFORE_NOUNS
            yield Term(entity_key(name), name, phrase.start + start, phrase.start + end, is_noun=is_noun)


_OPENING = re.compile(r"[\s\"'“‘«(《「*_#>|-]*(?:(?:The|An?) )?")
_NO_HEADINGS = COMMON_WORDS | STRUCTURE_WORDS | SHOUTED_WORDS | word_list("generic_headings")
_SMALL = word_list("small_words")
_LONGEST_ACRONYM = 6
_BEFORE_HEADING = re.compile(r"^[\W\d_]+")
_BEFORE_SMALL = re.compile(
    r"(?:(?:[EI]l|L[aeo]s?|Gli|De|Het|Een|Une?|Una|Uno|O|Os|As?|Uma?|I) |L['’])(?=[^\W\dA-ZÀ-Þ]{2})"
)
_OPENING_QUOTES = frozenset('"“„«‚»‹')
_IN_TITLE_CASE = re.compile(
    rf"(?:(?:[^\W\d_a-zß-öø-ÿ]\S*|[\d({HAN}]\S*|{'|'.join(sorted(word_list('small_words')))})(?: |$))+"
)
_PRONOUN_FIRST = compiled(r"(?:It|He|She|They|[它他她该])(?!们|\w*[a-z])")
_SPACES = re.compile(r"\s*")


def read_chunks(title: str, chunks: Sequence[Chunk], contexts: Sequence[str]) -> list[ReadChunk]:
    """Read chunks; each result depends on its chunk alone, but reading them together is faster.

    Args:
        title: The title of their document; may be empty.
        chunks: Chunks of one document.
        contexts: The context of each.
    """
    texts = [prose_of(chunk.text) for chunk in chunks]
    known = [ChunkContext.of(context) for context in contexts]
    read = read_texts(texts, [context.german for context in known], [context.labels for context in known])
    return [
        _read_chunk(title, chunk, text, context, sentences)
        for chunk, text, context, sentences in zip(chunks, texts, known, read, strict=True)
    ]


def _read_chunk(
    title: str, chunk: Chunk, text: str, context: ChunkContext, sentences: list[SentenceReading]
) -> ReadChunk:
    opens_document = context.opens_document
    said = _Said(text, sentences, chunk.headings, context)
    line = title_line(text, sentences)
    subjects = _subjects(title, chunk, line, said, opens_document=opens_document, says_title=context.says_title)
    parts = [
        replace(
            part,
            titles=tuple(name for title in part.titles if (name := said.as_said(*title))),
            # "Beachten Sie, dass ..., was": the English rules would misread the German "was".
            opening=None if said.is_german else part.opening,
        )
        for part in read_parts(text, sentences, said.subjects_of, may_define_term=opens_document and not subjects)
    ]
    titles = list(dict.fromkeys((*subjects, *(name for part in parts[1:] for name in part.titles))))
    abbreviations = find_abbreviations(text, sentences)
    openings = [part.opening for part in parts if part.opening]
    inside = _known_spans(text, sentences, abbreviations, titles, openings, is_english=said.is_english)
    named = [without_overlaps([*known, *sentence.names]) for known, sentence in zip(inside, sentences, strict=True)]
    named = said.without_unsaid(named, inside)
    # Without the phrases that lie within names found in other ways.
    settled = [
        replace(sentence, phrases=tuple(phrases_outside(sentence.phrases, known))) if known else sentence
        for sentence, known in zip(sentences, inside, strict=True)
    ]
    book = NameBook(titles, context.full_names)
    book.learn(span for spans in named for span in spans)
    # The terms that the phrases of each sentence may name, in order, longer ones first.
    terms = [
        sorted(
            (term for phrase in (sentence.phrases if says else ()) for term in _terms(text, phrase)),
            key=lambda term: (term.start, -term.end),
        )
        for sentence, says in zip(settled, said.says, strict=True)
    ]
    repeated = repeated_terms(terms)
    occurrences: list[Occurrence] = []
    for index, spans in enumerate(named):
        names = ((span, book.full_name(span, text)) for span in spans)
        found = [Occurrence(entity_key(name), name, index, span.start, span.end) for span, name in names if name]
        kept = kept_terms(text, terms[index], repeated)
        others = (Occurrence(entity_key(term.name), term.name, index, term.start, term.end, True) for term in kept)
        occurrences += sorted((*found, *others), key=lambda occurrence: occurrence.start)
    by_span = {(occurrence.start, occurrence.end): occurrence for occurrence in occurrences}
    forms = ((by_span.get(short), by_span.get(long)) for short, long in abbreviations)
    about = [_about(text, settled, occurrences, part, part.titles if part.first else subjects, book) for part in parts]
    topics = list(_topics(parts, about, None if opens_document else {one.key for one in occurrences}))
    return ReadChunk(
        chunk=chunk,
        sentences=settled,
        occurrences=occurrences,
        references=tuple(references(text, settled, occurrences, topics, book.type_of)),
        definitions=tuple(
            Definition(short.key, long.key, short.sentence)
            for short, long in forms
            if short and long and short.key != long.key
        ),
        subjects={key: name for keys in about for key, name in keys.items()},
        topics=topics,
        says=said.says,
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
    """Return keys and names of a part's subjects, the main one first.

    The first part is about whatever it opens with, another only about what it defines or has as a title: most
    paragraphs open with some name.
    """
    inside = [occurrence for occurrence in occurrences if part.first <= occurrence.sentence < part.last]
    opener = _opener(text, sentences, inside, part.first) if part.opening or not part.first else {}
    keys = {entity_key(name): name for name, _ in titles} | opener
    main = next(iter(keys.items()), ("", ""))
    if main[0] in opener:
        # Its other names, from the first sentence that names it.
        first = next(occurrence.sentence for occurrence in inside if occurrence.key == main[0])
        named = [occurrence for occurrence in inside if occurrence.sentence == first]
        keys |= other_names(text, main, named, is_person=book.type_of(main[0]) == "person")
    return keys


def _topics(parts: Sequence[Part], about: Sequence[dict[str, str]], named: Collection[str] | None) -> Iterator[Topic]:
    """Yield the topic of each sentence; a part without a subject of its own keeps the topic of the part before.

    A subject that the chunk never names (`named`; None for the first chunk of a document) is no topic, because a
    section need not be about what the title names.
    """
    topic = Topic()
    for part, keys in zip(parts, about, strict=True):
        if found := next(((key, name) for key, name in keys.items() if named is None or key in named), None):
            key, name = found
            is_defined = part.opening and entity_key(part.opening.name) == key
            topic = Topic(key, name, part.opening.nouns if part.opening and is_defined else frozenset())
        yield from repeat(topic, part.last - part.first)


def _subjects(
    title: str, chunk: Chunk, line: str, said: _Said, *, opens_document: bool, says_title: bool
) -> list[tuple[str, str]]:
    """Return the names of the nearest heading that has any, and in the first chunk, or failing these, of the title.

    A heading names something if the text below it does too; a title that is not English, if any part of its document
    does.
    """
    read = said.subjects_of
    given = (*read(title), *(read(line) if opens_document and line and line[0] != "#" else ())) if says_title else ()
    found = (read(heading) for heading in (line, *reversed(chunk.headings), title) if heading)
    told = [
        tuple(
            name
            for one in names
            # An English title with the form of a name is one, whatever the text says.
            if (name := one if said.is_english and one in given else said.as_said(*one, is_given=one in given))
        )
        for names in found
    ]
    nearest = next((names for names in told if names), ())
    if not title or (nearest and not opens_document):
        return list(nearest)
    return [*nearest, *(name for name in told[-1] if name not in nearest)]


class _Said:
    """What the sentences of a chunk say, without its headings, labels, captions and cells."""

    def __init__(
        self,
        text: str,
        sentences: Sequence[SentenceReading],
        headings: Sequence[str],
        context: ChunkContext,
    ) -> None:
        self._stated_language = context.language
        self._labels = context.labels
        self.says = [says_something(text[sentence.start : sentence.end]) for sentence in sentences]
        self._sentences = sentences
        stated = [s for s, says in zip(sentences, self.says, strict=True) if says]
        self._whole = text
        self._text = "\n".join(text[sentence.start : sentence.end].replace("\n", " ") for sentence in stated)
        self._lower = self._text.lower()
        self._names = {entity_key(cleaned_name(name.text)) for sentence in stated for name in sentence.names}
        self._german = context.german
        self.is_german = context.german is not None
        lines = (*headings, *(line for line in text.split("\n") if line[:1] == "#"))
        self._headings = {_BEFORE_HEADING.sub("", line).rstrip() for line in lines}

    def subjects_of(self, heading: str) -> tuple[tuple[str, str], ...]:
        """Return names and types in a heading, telling verbs from nouns by the text below."""
        return subjects_of(heading, language=self._language, below=self._text)

    def as_said(self, name: str, kind: str, *, is_given: bool = False) -> tuple[str, str] | None:
        """Return a heading's name as sentences write it, with its type; None if none has it and it may be no name.

        Args:
            name: The name.
            kind: Its type.
            is_given: Whether other parts of the document mention it.
        """
        if name in self._labels or (name.isupper() and not self._labels.isdisjoint(name.split())):
            return None
        if self._language != "en" and (article := _BEFORE_SMALL.match(name)) and not self._is_inside(name):
            # "L'archivio Debian", but not "La dolce vita" if the text has it with its article.
            name = name[article.end() :]
        start = _find_word(self._lower, name.lower()) if len(self._lower) == len(self._text) else -1
        if start < 0:
            if self._is_german_noun(name):
                return None
            if is_given:
                return name, kind
            # A capital proves nothing in German, where every noun has one, and little for a single word.
            has_capitals = "de" not in self._languages and " " in name and _IN_TITLE_CASE.fullmatch(name) is not None
            # "SINOPSIS" and "BOGUES": in a heading in capitals, they prove nothing about a word.
            longest = (0 if " " in name else _LONGEST_ACRONYM - 1) if name.isupper() else len(name)
            has_sure_word = any(
                word[0].isalpha()
                and (
                    is_identifier(word)
                    or (word.isupper() and len(word) <= longest)
                    or (has_capitals and _is_sure(word))
                )
                for word in name.split()
            )
            # Find the start of the text below the heading.
            at = self._whole.find(name)
            behind = _SPACES.match(self._whole, at + len(name) if at >= 0 else 0)
            is_meant = has_sure_word or _PRONOUN_FIRST.match(self._whole, behind.end() if behind else 0) is not None
            return (name, kind) if is_meant and "," not in name and "、" not in name else None
        if _HAN.search(name) and len(encode(name)) == 1 and entity_key(name) not in self._names:
            # "颜色" occurs in every text. Places that are as common are tagged as names.
            return None
        said = name if is_given or name in self._text else self._text[start : start + len(name)]
        if " " not in name and not _HAN.search(name):
            is_word = said.islower() and is_everyday(said, is_english=self._languages[0] == "en")
            forms = (name.lower(), singular(name.lower()), f"{name.lower()}s")
            is_common = name.endswith("ing") or not _NO_HEADINGS.isdisjoint(forms)
            if is_common or self._is_german_noun(name) or is_word:
                return None
        return said, kind

    def _is_inside(self, name: str) -> bool:
        """Return whether a sentence has this name, as written, after another word."""
        return re.search(rf"\w,? {re.escape(name)}", self._text) is not None

    @cached_property
    def _languages(self) -> list[str]:
        return languages_of(self._text or self._whole, is_german=self.is_german)

    @property
    def _language(self) -> str:
        return "de" if self.is_german else self._stated_language or self._languages[0]

    @property
    def is_english(self) -> bool:
        """Whether the chunk is mostly English, and its document not German."""
        return not self.is_german and self._languages[0] == "en"

    def _is_german_noun(self, name: str) -> bool:
        words = name.split()
        if "de" not in self._languages:
            return False
        # A whole heading is a term if it is a noun, but a single word of it is not: "Software in Paketen organisieren".
        german = german_words(self._whole) if self._german is None else self._german
        german = german._replace(nouns=frozenset()) if name in self._headings else german
        return is_german_noun(("in", *words), 1, len(words), german)

    def without_unsaid(
        self, named: Sequence[Sequence[NameSpan]], known: Sequence[Sequence[NameSpan]]
    ) -> list[list[NameSpan]]:
        """Return the names per sentence, without doubtful ones in headings, labels and cells.

        Where every word is capitalised, a capital proves nothing; but names that a sentence has are names in headings,
        too.
        """
        return [
            list(spans) if says else [span for span in spans if span in inside or self._is_name(span, sentence)]
            for spans, inside, says, sentence in zip(named, known, self.says, self._sentences, strict=True)
        ]

    def _is_name(self, span: NameSpan, sentence: SentenceReading) -> bool:
        name = cleaned_name(span.text)
        if entity_key(name) in self._names:
            return True
        if name.isupper() and len(name) >= _LONGEST_ACRONYM and self._whole[sentence.start] == "#":
            return False
        # "Bugfix checklist", "2.1. Properties": the first word of a line is capitalised for its position.
        if span.type != "unknown" or any(map(str.isalpha, self._whole[sentence.start : span.start])):
            return _is_sure(name)
        words = name.split()
        if self.is_german:
            return _is_sure(name) and any(is_known_name(word, self._german or NO_GERMAN_WORDS) for word in words)
        return _is_sure(name) and not (name[1:].islower() and (len(words) == 1 or self._language != "en"))


def _find_word(text: str, word: str) -> int:
    """Return where a text has a word or phrase, or -1; a quoted phrase is skipped, as it only refers to a heading."""
    start = text.find(word)
    while start >= 0 and not _HAN.search(word):
        around = text[start - 1 : start], text[start + len(word) : start + len(word) + 1]
        if not any(map(_is_word, around)) and not (" " in word and around[0] in _OPENING_QUOTES):
            break
        start = text.find(word, start + 1)
    return start


def _is_sure(name: str) -> bool:
    """Return whether a name is one in any position: none of its words is usually in lower case."""
    if _HAN.search(name):
        return False
    words = [word for word in name.replace("-", " ").split() if word[0].isalpha() and word.lower() not in _SMALL]
    return bool(words) and not any(
        word.lower() in _NO_HEADINGS
        or (is_usually_lower(word) and not (word.isupper() and len(name) <= _LONGEST_ACRONYM))
        for word in words
    )


def _known_spans(
    text: str,
    sentences: Sequence[SentenceReading],
    abbreviations: Sequence[Abbreviation],
    subjects: Sequence[tuple[str, str]],
    openings: Iterable[Opening],
    *,
    is_english: bool,
) -> list[list[NameSpan]]:
    """Return, per sentence, the names known from other evidence than their form."""
    known = [*speaker_spans(text, is_english=is_english)]
    for short, (start, end) in abbreviations:
        long = text[start:end]
        kind = type_of_name(clean_name(long) or "?", "", "") if long[0].isupper() else "concept"
        # The short form has the type of the long form.
        kind = "concept" if kind == "unknown" else kind
        known.append(NameSpan(long, start, end, kind))
        known.append(NameSpan(text[slice(*short)], *short, kind))
    for name, kind in subjects:
        # A name from the title or a heading matches in any letter case.
        known.extend(_places(text, name, kind, is_cased=False))
    for opening in openings:
        # A name in title case matches only in title case.
        known.extend(_places(text, opening.name, opening.kind, is_cased=not opening.name[1:].islower()))
    # The value that a Chinese sentence states for an attribute, however the word model cuts it.
    stated = (match for sentence in sentences for match in _STATED.finditer(text, sentence.start, sentence.end))
    types = {(name.start, name.end): name.type for sentence in sentences for name in sentence.names}
    known += [
        NameSpan(match["value"], *match.span("value"), types.get(match.span("value"), "unknown")) for match in stated
    ]
    return list(spans_within(known, [(sentence.start, sentence.end) for sentence in sentences]))


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
    """Return the entity that opens the part from sentence `first` on, if one does."""
    for occurrence in occurrences:
        sentence = sentences[occurrence.sentence]
        if text[sentence.start] == "#":
            continue
        start = _OPENING.match(text, sentence.start)
        is_first = occurrence.sentence == first or text[sentences[occurrence.sentence - 1].start] == "#"
        is_opener = is_first and start is not None and occurrence.start <= start.end()
        return {occurrence.key: occurrence.name} if is_opener else {}
    return {}
