"""Extracts without a chat model: names, and relations from the sentences in which they occur together.

Deterministic and offline, for English, Chinese and mixtures of both. Occurrences come from `local_reading`. A chunk
keeps its most informative entities, each described by the sentence that says most about it; two entities in one
sentence are related, with the words between them as keywords. Chunks are read in windows, so memory is bounded.

Types are `person`, `location`, `organization`, `event`, `content`, `artifact`, `concept`, or `unknown`; the setting
`ingest.entity_types` is for chat models.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from heliograph.errors import SettingsError
from heliograph.extraction.base import Extractor, ignore_progress
from heliograph.extraction.local_names import smallness, type_by_name
from heliograph.extraction.local_reading import ChunkContext, Occurrence, ReadChunk, read_chunks
from heliograph.extraction.local_subjects import plain, spoken_title, subjects_of
from heliograph.ids import mention_rank
from heliograph.models import Chunk, Document, EntityMention, Extraction, RelationMention
from heliograph.text.analysis import (
    HAN,
    LATIN_LANGUAGES,
    detect_language,
    function_words,
    is_chinese,
    stop_words,
    word_list,
)
from heliograph.text.german import german_words
from heliograph.text.labels import labels_of
from heliograph.text.name_spans import COMMON_WORDS, DEMONYMS, GIVEN_NAMES
from heliograph.text.patterns import compiled
from heliograph.text.phrases import SentenceReading
from heliograph.text.sentences import row_cells
from heliograph.text.tokens import is_usually_lower

EXCERPT_LENGTH = 200
# A Chinese character carries, and costs, about as much as two letters.
HAN_EXCERPT_LENGTH = 100

_LINE_MARK = re.compile(r"^\s*(?:#{1,6}|[-*+•>|]|\d{1,3}[.)])\s+")
_CUT = re.compile(r"[\s，、；：,;:]")
_LONGEST_SENTENCE = 4000


def excerpt(sentence: str, at: int) -> str:
    """Return a sentence on one line, without marks, cut at word bounds to 200 characters around `at` (100 in Chinese).

    A table row is "first cell: other cells".

    Args:
        sentence: The sentence.
        at: The position in it that the excerpt must include.
    """
    if len(sentence) > _LONGEST_SENTENCE:
        window = max(0, at - _LONGEST_SENTENCE // 2)
        sentence, at = sentence[window : window + _LONGEST_SENTENCE], at - window
    mark = _LINE_MARK.match(sentence)
    first = mark.end() if mark else 0
    text = plain(sentence[first:])
    if sentence.lstrip().startswith("|"):
        name, *others = [cell for cell in row_cells(text) if cell] or [""]
        text = f"{name.rstrip(':：')}: {'; '.join(others)}" if others else name
    longest = HAN_EXCERPT_LENGTH if is_chinese(text) else EXCERPT_LENGTH
    if len(text) <= longest:
        return text
    # The position of `at` without marks; off by a mark's length if it lies within a pair such as **...**.
    place = min(len(plain(sentence[first : max(at, first)])), len(text))
    # As much as possible from the start of the sentence, where its subject is.
    start = 0
    if place > longest // 2:
        start = place - longest // 4
        cut = _CUT.search(text, start, start + longest // 5)
        start = cut.end() if cut else start
    # The last position nearby that cuts no word, if there is one.
    end = min(start + longest - 2, len(text))
    if end < len(text):
        cuts = [cut.start() for cut in _CUT.finditer(text, max(start + 1, end - EXCERPT_LENGTH // 5), end + 1)]
        end = cuts[-1] if cuts else end
    return ("…" if start else "") + text[start:end].strip() + ("…" if end < len(text) else "")


def keywords_between(text: str, sentence: SentenceReading, start: int, end: int) -> tuple[str, ...]:
    """Return the keywords of a relation: the predicate between `start` and `end`, else the few words there.

    A list of names has no keywords, and where many words separate two names it is unclear which of them relate the
    names.

    Args:
        text: The text that contains the sentence.
        sentence: The sentence.
        start: Where the first entity ends.
        end: Where the second one begins.
    """
    gap = text[max(start, end - _LONGEST_GAP) : end]
    if start == sentence.start and gap.rstrip().endswith(","):
        # A clause that opens the sentence: "As the example shows, RAID ...".
        return ()
    said = _predicate(gap, sentence, start, end) or _few_words(gap)
    return (said,) if said else ()


def _few_words(gap: str) -> str:
    """Return the words between two entities if they are few and no mark separates them."""
    words = _POSSESSIVE.sub("", plain(gap).strip(_AT_EDGES)).split()
    while words and words[-1].lower() in _ARTICLES:
        words.pop()
    said = " ".join(words[1:] if words and words[0].lower() in _ARTICLES else words)
    is_told = len(words) <= _MOST_WORDS and len(said) <= _LONGEST_SAID and not _PARTS_WORDS.search(said)
    is_told = is_told and any(character.isalpha() for character in said)
    return said if is_told and not function_words().issuperset(words) and not is_chinese(said) else ""


_BE = word_list("forms_of_be")
_AUXILIARIES = _BE | word_list("auxiliaries")
_VERB_FORMS = word_list("verb_forms")
_GAP_WORD = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*|[^\w\s]")
_BRACKETS = re.compile(r"[(（\[][^()（）\[\]]*[)）\]]")
_LONGEST_GAP = 200
_POSSESSIVE = re.compile(r"^['’]?s ")
_AT_EDGES = " \t\n\"'“”‘’«»„`*_()[]"
_PARTS_WORDS = re.compile(r"[,;:，、；：。！？《》（）【】|()\[\]{}=<>/\\\"“”«»„`*]|\.(?:\s|$)|\d")
_MOST_WORDS, _LONGEST_SAID = 7, 50
# Another clause or another entity ends the predicate.
_ENDS_PREDICATE = word_list("conjunctions") | word_list("pronouns") | {"and", "or", "but", "nor", "that", "which"}
_MOST_PREDICATE_WORDS = 5
_HAN_GAP = compiled(
    rf"(?:的|[，,]|则|也|还|并|又|曾|将|已|就){{0,3}}(?P<said>[{HAN}]{{2,10}}?)(?:是|为|了|着|过|的|[“「《])*"
)
_HAN_NO_PREDICATE = compiled(r"[和与及或等、]+.*|以及|或者|并且|其中")


def _predicate(gap: str, sentence: SentenceReading, start: int, end: int) -> str:
    """Return the verb nearest to the second entity and the words linking them: "was founded by", "largest city in"."""
    if is_chinese(gap):
        whole = _HAN_GAP.fullmatch(gap.strip())
        if whole and not _HAN_NO_PREDICATE.fullmatch(whole["said"]) and whole["said"] not in stop_words("zh"):
            return whole["said"]
        inside = [phrase for phrase in sentence.phrases if start <= phrase.start and phrase.end <= end]
        at = next((index for index in reversed(range(len(inside))) if inside[index].is_predicate), -1)
        if at < 0:
            return ""
        following = inside[at + 1] if at + 1 < len(inside) and inside[at + 1].start == inside[at].end else None
        return inside[at].text + (following.text if following else "")
    written = _GAP_WORD.findall(_BRACKETS.sub(" ", plain(gap)).lstrip(_AT_EDGES))
    words = [word.lower() for word in written]
    at = next((i for i in reversed(range(len(words))) if written[i].islower() and _is_verb(words, i)), -1)
    if at < 0:
        return ""
    said = written[at:]
    if said[0] in _AUXILIARIES:
        # Keep what somebody or something is, without the auxiliary.
        said = said[1:]
    elif at and words[at - 1] == "not":
        said = ["not", *said]
    ends = (i for i, word in enumerate(said) if not word[0].isalnum() or (i and word.lower() in _ENDS_PREDICATE))
    said = said[: next(ends, len(said))]
    said = said[1:] if said and said[0] in _ARTICLES else said
    if len(said) > _MOST_PREDICATE_WORDS:
        ties = (index for index, word in enumerate(said[:_MOST_PREDICATE_WORDS], 1) if word in _TIES and index > 1)
        said = said[: next(ties, _MOST_PREDICATE_WORDS)]
    said = said[:-1] if said and said[-1] in _ARTICLES else said
    return " ".join(said) if any(word not in stop_words("en") for word in said) else ""


_ARTICLES = frozenset({"a", "an", "the", "its", "his", "her", "their", "both"})
_TIES = word_list("ties")


def _is_verb(words: Sequence[str], index: int) -> bool:
    word, before = words[index], words[index - 1] if index else ""
    if word in _AUXILIARIES or word in _VERB_FORMS:
        return before not in _ARTICLES
    if before == "to" or before in _AUXILIARIES - _BE:
        return word.isalpha() and word not in stop_words("en")
    if (word.endswith("ed") and len(word) > 4) or (word.endswith("ing") and before in _BE):
        # In "an updated version of", "updated" does not say who updated it.
        return before not in _ARTICLES
    if index or not word.endswith("s") or len(word) < 4 or word.endswith(("ss", "us", "'s", "’s")):
        return False
    # "Git uses X", "Git stores the X", but not "Git users, X".
    return len(words) == 1 or words[1] in _ARTICLES or words[1] in _TIES


# Choosing the entities of a chunk, and the description of each.
#
# Every entity that is kept costs an embedding, so a chunk keeps the most informative ones: its subjects, the terms it
# defines, recurring ones, and long names before short ones. The description of a mention is the sentence of the chunk
# that says most about it: a definition first.

_HAN = re.compile(rf"[{HAN}]")
_SAYS_WHAT = compiled(
    r"[^.!?。！？]{0,24}?(?:\b(?:is|are|was|were|means?|refers? to|stands for|denotes?|became)\b|[是为指即]|称为|属于)"
)
_ENDS_OPENING = 12
_USUAL_LENGTH = range(30, 260)
_SAYS_SOMETHING = 2.0
_CLEAR_OF_DOUBT = 100.0
# Both forms of an abbreviation are kept where it is introduced, because there each leads to the other.
_DEFINED = 50.0


@dataclass(frozen=True, slots=True)
class ChosenEntity:
    """An entity that a chunk keeps.

    Attributes:
        mention: Its mention as stored.
        score: How informative it is; comparable within its chunk.
        is_subject: Whether the chunk is about it.
        places: Its occurrences, in order; none when only a title or heading names it.
    """

    mention: EntityMention
    score: float
    is_subject: bool
    places: Sequence[Occurrence]


def choose_entities(read: ReadChunk, limit: int) -> dict[str, ChosenEntity]:
    """Return the `limit` most informative entities by key, best first; ties go to the earlier one."""
    places: dict[str, list[Occurrence]] = {key: [] for key in read.subjects}
    for occurrence in read.occurrences:
        places.setdefault(occurrence.key, []).append(occurrence)
    defined = {key for definition in read.definitions for key in (definition.short, definition.long)}
    scores = {
        key: _score(found, read, read.type_of(key)) + (_DEFINED if key in defined else 0.0)
        for key, found in places.items()
    }
    best = sorted(places, key=lambda key: (-scores[key], places[key][0].start if places[key] else -1, key))[:limit]
    others = [0] * len(read.sentences)
    for found in places.values():
        for index in {occurrence.sentence for occurrence in found}:
            others[index] += 1
    chosen: dict[str, ChosenEntity] = {}
    for key in best:
        found, is_subject = places[key], key in read.subjects
        is_phrase = bool(found) and all(occurrence.is_phrase for occurrence in found)
        name, kind = found[0].name if found else read.subjects[key], "concept" if is_phrase else read.type_of(key)
        mention = EntityMention(
            chunk_id=read.chunk.id,
            name=name,
            type=type_by_name(name) if kind == "unknown" else kind,
            description=_description(key, found, read, others),
            rank=mention_rank(read.chunk.document_id, read.chunk.position, is_subject=is_subject),
        )
        chosen[key] = ChosenEntity(mention, scores[key], is_subject, found)
    return chosen


# What each property adds to the score that decides which entities of a chunk are kept.
_MENTION = 0.5  # per mention, up to a limit
_MOST_COUNTED = 4
_LONG_NAME = 1.0  # a name of several words, with a digit, or of more than three Chinese characters
_TYPED = 0.5  # a type that is more than "concept"
_IN_FIRST_SENTENCE = 0.5
_PHRASE = -1.5  # being a phrase, not a name
_DEMONYM = -2.0
_MAY_BE_COMMON = -1.0  # one word without a type that is mostly in lower case


def _score(found: Sequence[Occurrence], read: ReadChunk, kind: str) -> float:
    if not found:
        return _CLEAR_OF_DOUBT
    first = found[0]
    name = first.name
    is_long = len(name) > 3 if _HAN.match(name) else " " in name or any(character.isdigit() for character in name)
    may_be_common = kind == "unknown" and " " not in first.name and is_usually_lower(first.name)
    return (
        _MENTION * min(len(found), _MOST_COUNTED)
        + _CLEAR_OF_DOUBT * (first.key in read.subjects)
        + _LONG_NAME * is_long
        + _TYPED * (kind not in {"unknown", "concept"})
        + _IN_FIRST_SENTENCE * (first.sentence == 0)
        + _PHRASE * first.is_phrase
        + _DEMONYM * (first.name.lower() in DEMONYMS)
        + _MAY_BE_COMMON * may_be_common
    )


# What each property adds to the score that decides which sentence describes an entity.
_EXPANDS = 4.0  # giving the long form of its short name, or the reverse
_SAYS_WHAT_IT_IS = 3.0  # "X is a ..."
_OPENS = 1.0  # beginning with its name
_OTHER_NAME = 0.3  # per other entity in it, up to a limit
_MOST_OTHERS = 5
_READABLE = 1.0  # being of a usual length


def _description(key: str, found: Sequence[Occurrence], read: ReadChunk, others: Sequence[int]) -> str:
    text = read.chunk.text
    if all(_is_heading(read, place.sentence) for place in found):
        # If only a title or heading names the entity, it gets the first informative sentence below.
        first = found[0].sentence if found else 0
        below = range(first, len(read.sentences))
        index = next((i for i in below if read.says[i]), next((i for i in below if not _is_heading(read, i)), -1))
        return "" if index < 0 else excerpt(text[read.sentences[index].start : read.sentences[index].end], 0)
    defining = {d.sentence for d in read.definitions if key in (d.short, d.long)}

    def says(place: Occurrence) -> float:
        """Return how much the sentence at this occurrence says about the entity."""
        sentence = read.sentences[place.sentence]
        opens = place.start - sentence.start <= _ENDS_OPENING
        defines = opens and _SAYS_WHAT.match(text, place.end, min(sentence.end, place.end + 60)) is not None
        return (
            _SAYS_WHAT_IT_IS * defines
            + _OPENS * opens
            + _OTHER_NAME * min(others[place.sentence], _MOST_OTHERS)
            + _READABLE * (sentence.end - sentence.start in _USUAL_LENGTH)
            + _SAYS_SOMETHING * read.says[place.sentence]
            + _EXPANDS * (place.sentence in defining)
        )

    best = max(found, key=lambda place: (says(place), -place.start))
    sentence = read.sentences[best.sentence]
    return excerpt(text[sentence.start : sentence.end], best.start - sentence.start)


def _is_heading(read: ReadChunk, sentence: int) -> bool:
    return read.chunk.text[read.sentences[sentence].start] == "#"


# Relations of a chunk: sentences in which two of its entities occur.
#
# The sentence is the description, the words between the two names are the keywords. A sentence with one entity relates
# it to the topic of its section. Neighbours in a sentence count more than distant ones, and a bounded number of
# candidates is kept: first those that connect an entity not yet related, then the best of the rest.

_LISTED = compiled(r"(?:\s|[,、，&/;；()（）和与及或]|and|or)*")
_NEAR = 100
_MOST_IN_SENTENCE = 8
_FAR_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class _Candidate:
    source: str
    target: str
    sentence: int
    start: int
    end: int
    weight: float
    score: float
    keywords: tuple[str, ...] = ()


def choose_relations(read: ReadChunk, entities: Mapping[str, ChosenEntity], limit: int) -> list[RelationMention]:
    """Return at most `limit` relations between the chosen entities, each pair once, in order of the text."""
    best: dict[frozenset[str], _Candidate] = {}
    for candidate in _candidates(read, entities):
        pair = frozenset((candidate.source, candidate.target))
        if len(pair) == 2 and (pair not in best or candidate.score > best[pair].score):
            best[pair] = candidate
    ranked = sorted(best.values(), key=lambda candidate: (-candidate.score, candidate.start, candidate.target))
    # First those relations that connect an entity which no better relation connects.
    covered: set[str] = set()
    first: list[_Candidate] = []
    rest: list[_Candidate] = []
    for candidate in ranked:
        ends = {candidate.source, candidate.target}
        (rest if ends <= covered else first).append(candidate)
        covered |= ends
    kept = (first + rest)[:limit]
    chunk, mentions = read.chunk, list[RelationMention]()
    for candidate in sorted(kept, key=lambda candidate: (candidate.sentence, candidate.start, candidate.end)):
        sentence = read.sentences[candidate.sentence]
        source, target = entities[candidate.source], entities[candidate.target]
        mention = RelationMention(
            chunk_id=chunk.id,
            source=source.mention.name,
            target=target.mention.name,
            keywords=candidate.keywords or keywords_between(chunk.text, sentence, candidate.start, candidate.end),
            description=excerpt(chunk.text[sentence.start : sentence.end], candidate.start - sentence.start),
            weight=candidate.weight,
            rank=mention_rank(chunk.document_id, chunk.position, is_subject=source.is_subject or target.is_subject),
        )
        mentions.append(mention)
    return mentions


def _candidates(read: ReadChunk, entities: Mapping[str, ChosenEntity]) -> Iterator[_Candidate]:
    for definition in read.definitions:
        if definition.short in entities and definition.long in entities:
            span = read.sentences[definition.sentence]
            keyword = "缩写" if is_chinese(read.chunk.text[span.start : span.end]) else "abbreviation"
            ends = (definition.short, definition.long)
            yield _Candidate(*ends, definition.sentence, span.start, span.end, 1.0, 10.0, (keyword,))
    # Per sentence, the first place of each entity, named or referred to, in order of the text.
    first = {(place.sentence, place.key): place for place in read.references if place.key in entities}
    for entity in entities.values():
        for place in entity.places:
            first.setdefault((place.sentence, place.key), place)
    by_sentence: dict[int, list[Occurrence]] = {}
    for place in sorted(first.values(), key=lambda place: (place.start, place.key)):
        by_sentence.setdefault(place.sentence, []).append(place)
    for index, places in by_sentence.items():
        if _is_heading(read, index):
            continue
        # "American" only gives a country of origin; as many sentences have it as there are films and singers.
        telling = [place for place in places if place.name.lower() not in DEMONYMS]
        some = telling[:_MOST_IN_SENTENCE]
        # Neighbours are related, and the first entity of the sentence with each further one.
        for left, right in (*pairwise(some), *((some[0], other) for other in some[2:])):
            gap = read.chunk.text[left.end : right.start]
            is_near = len(gap) <= _NEAR
            is_listed = _LISTED.fullmatch(gap[:_NEAR]) is not None
            one, other = entities[left.key], entities[right.key]
            about_subject = one.is_subject or other.is_subject
            score = 2.0 + (1.0 if is_near else 0.0) + (1.0 if about_subject else 0.0) - (1.5 if is_listed else 0.0)
            score += 0.1 * min(one.score + other.score, 10.0)
            weight = 1.0 if is_near and not is_listed else _FAR_WEIGHT
            yield _Candidate(left.key, right.key, index, left.end, right.start, weight, score)
        subject = read.topics[index].key
        if telling and subject in entities and all(place.key != subject for place in places):
            # The first entity of a sentence that does not name its section's topic.
            place, start = telling[0], read.sentences[index].start
            score = 1.5 + 0.1 * min(entities[place.key].score, 10.0)
            yield _Candidate(subject, place.key, index, start, place.start, _FAR_WEIGHT, score)


# What the whole document contributes to each chunk: its `ChunkContext`, as text. Linear in the document.

_CAPITAL = r"[^\W\d_a-zß-öø-ÿ][^\W\d_]+(?:[-'’][^\W\d_]+)*"
_CAPITALISED_NAME = re.compile(
    rf"(?<!\w){_CAPITAL}(?: [^\W\d_]\.| {_CAPITAL})?(?: (?:van|von|de|del|di|da))? {_CAPITAL}(?!\w)"
)
_CAPITALISED_WORD = re.compile(rf"(?<!\w){_CAPITAL}")
_SMALL = word_list("small_words")
# The fewest characters that a sentence about a name has besides the name.
_LEAST_SAID, _LEAST_SAID_IN_HAN = 20, 6
_BELOW_TITLE = 4000


def chunk_contexts(chunks: Sequence[Chunk], language: str = "", title: str = "") -> list[str]:
    """Return the context of every chunk of a document.

    Args:
        chunks: All chunks of the document, in order; for a part of them, the contexts are of that part.
        language: The language of the document, stated or detected, as an ISO 639-1 code; empty if unknown.
        title: The title of the document; empty if it has none.
    """
    text = "\n".join(chunk.text for chunk in chunks)
    language = language[:2].lower()
    language = language if language in LATIN_LANGUAGES and language != "en" else detect_language(text)
    is_german = language == "de"
    german = german_words(text) if is_german else None
    labels = labels_of(text, language) if is_german else labels_of(text, language, smallness)
    named = () if language == "en" else subjects_of(title, language=language, below=text[:_BELOW_TITLE])
    lower = text.lower() if named else ""
    is_unsaid = bool(named) and not any(_is_title_case(name) or _speaks_of(lower, name.lower()) for name, _ in named)
    # Per chunk, the persons that it names in full, by surname.
    introduced: list[dict[str, str]] = []
    known: dict[str, dict[str, None]] = {}
    for chunk in chunks:
        own: dict[str, str] = {}
        for match in _CAPITALISED_NAME.finditer(chunk.text):
            words = match.group().split()
            surname = words[-1].lower()
            if words[0].lower() in GIVEN_NAMES and surname not in COMMON_WORDS and surname not in GIVEN_NAMES:
                own[surname] = match.group()
        introduced.append(own)
        for surname, name in own.items():
            known.setdefault(surname, {})[name] = None
    # A surname shared by two persons stands for neither where neither is named in full.
    sure = {surname: next(iter(names)) for surname, names in known.items() if len(names) == 1}
    contexts: list[ChunkContext] = []
    for chunk, own in zip(chunks, introduced, strict=True):
        words = _CAPITALISED_WORD.findall(chunk.text) if sure or german or labels else []
        written = sure.keys() & {word.lower() for word in words}
        context = ChunkContext(
            opens_document=chunk.position == 0,
            full_names={surname: sure[surname] for surname in written - own.keys()},
            german=german.among(words) if german else None,
            language=language if not german and language in LATIN_LANGUAGES and language != "en" else "",
            labels=labels.intersection((*words, *_CAPITALISED_WORD.findall("\n".join(chunk.headings)))),
            says_title=not is_unsaid,
        )
        contexts.append(context)
    return [str(context) for context in contexts]


def _is_title_case(name: str) -> bool:
    """Return whether all words of a title but those that join names are capitalised, which marks a name."""
    return not any(word.islower() and word not in _SMALL for word in name.split()) or " " not in name


def _speaks_of(text: str, name: str) -> bool:
    """Return whether a line of the text has the name and more than the name; both are in lower case."""
    start = text.find(name)
    while start >= 0:
        first, last = text.rfind("\n", 0, start) + 1, text.find("\n", start)
        line = text[first : last if last >= 0 else len(text)].strip()
        said = len(line) - len(name)
        if line[0] not in "#|" and said > (_LEAST_SAID_IN_HAN if _HAN.search(name) else _LEAST_SAID):
            return True
        start = text.find(name, start + len(name))
    return False


# The extractor. The work runs in a thread, so the event loop stays free.

# Dense prose names 70 to 80 entities in 1000 tokens. The next hop of a question often goes through a passing mention,
# so most are kept. Indexing takes a quarter more CPU time than with 22, since each is embedded.
DEFAULT_ENTITIES_PER_1000_TOKENS = 60.0
DEFAULT_RELATIONS_PER_1000_TOKENS = 24.0

_LEAST_ENTITIES = 16
_LEAST_RELATIONS = 8
_WINDOW_CHUNKS = 64


class LocalExtractor(Extractor):
    """Reads entities and relations by rules."""

    def __init__(
        self,
        entities_per_1000_tokens: float = DEFAULT_ENTITIES_PER_1000_TOKENS,
        relations_per_1000_tokens: float = DEFAULT_RELATIONS_PER_1000_TOKENS,
    ) -> None:
        """Limit the entities and relations kept, since each costs an embedding.

        Args:
            entities_per_1000_tokens: Entities kept per 1000 tokens of a chunk; the shortest chunk may keep sixteen.
            relations_per_1000_tokens: Relations likewise; the shortest chunk may keep eight. 0 keeps none.

        Raises:
            SettingsError: A bound is negative.
        """
        for name, value in (("entities", entities_per_1000_tokens), ("relations", relations_per_1000_tokens)):
            if value < 0:
                raise SettingsError(f"{name}_per_1000_tokens is {value!r}; give 0 or more")
        self._entities_per_token = entities_per_1000_tokens / 1000
        self._relations_per_token = relations_per_1000_tokens / 1000

    @property
    def name(self) -> str:
        """Always `local`."""
        return "local"

    def contexts(self, document: Document, chunks: Sequence[Chunk]) -> list[str]:
        """Return the contexts of `chunk_contexts`; see `Extractor.contexts`."""
        language = document.metadata.get("language")
        return chunk_contexts(chunks, language if isinstance(language, str) else "", spoken_title(document))

    async def extract(
        self, document: Document, chunks: Sequence[Chunk], on_chunk: Callable[[], None] = ignore_progress
    ) -> list[Extraction]:
        """Read the chunks of one document, which should be all of them; see `Extractor.extract`.

        Raises:
            ModelUnavailable: A chunk is Chinese and the files of the Chinese word model are missing or damaged.
        """
        long = len(chunks) > _WINDOW_CHUNKS
        contexts = await asyncio.to_thread(self.contexts, document, chunks) if long else self.contexts(document, chunks)
        return await self.extract_in_context(document, chunks, contexts, on_chunk)

    async def extract_in_context(
        self,
        document: Document,
        chunks: Sequence[Chunk],
        contexts: Sequence[str],
        on_chunk: Callable[[], None] = ignore_progress,
    ) -> list[Extraction]:
        """Read some chunks of one document; see `Extractor.extract_in_context`. No chunk ever fails by itself.

        Raises:
            ModelUnavailable: A chunk is Chinese and the files of the Chinese word model are missing or damaged.
        """
        extractions: list[Extraction] = []
        for first in range(0, len(chunks), _WINDOW_CHUNKS):
            window = slice(first, first + _WINDOW_CHUNKS)
            extractions.extend(await asyncio.to_thread(self._read_window, document, chunks[window], contexts[window]))
            for _ in chunks[window]:
                on_chunk()
        return extractions

    def _read_window(self, document: Document, chunks: Sequence[Chunk], contexts: Sequence[str]) -> list[Extraction]:
        extractions: list[Extraction] = []
        for read in read_chunks(spoken_title(document), chunks, contexts):
            tokens = read.chunk.token_count
            entities = choose_entities(read, _limit(tokens, self._entities_per_token, _LEAST_ENTITIES))
            relations = choose_relations(read, entities, _limit(tokens, self._relations_per_token, _LEAST_RELATIONS))
            mentions = tuple(entity.mention for entity in entities.values())
            extractions.append(Extraction(read.chunk.id, self.name, mentions, tuple(relations)))
        return extractions


def _limit(tokens: int, per_token: float, least: int) -> int:
    return max(least, round(tokens * per_token)) if per_token else 0
