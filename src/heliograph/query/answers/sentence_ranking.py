"""Which sentences of a context answer a question, which of them goes first, and whether any does."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import pairwise

from heliograph.query.answers.candidates import (
    AnswerType,
    AskedQuestion,
    Candidate,
    expected_forms,
    expected_type,
    find_focus,
    named_identifiers,
    named_options,
    nearness,
    plain_name,
    reads_chinese,
    says,
    without_question_words,
)
from heliograph.query.answers.quotables import Form, Quotable, in_passages
from heliograph.query.plan import Channel
from heliograph.query.understanding import LONGEST_READ, Understanding, sides_by_rules
from heliograph.text.analysis import detect_language, is_chinese, question_language, terms_in
from heliograph.text.asking import without_accents
from heliograph.text.glossary import GLOSSARY_LANGUAGES, Renderings
from heliograph.text.patterns import late_pattern
from heliograph.text.phrases import read_texts

# Sentences for a question that compares: one for each side, the side that wins first where dates decide it.
#
# Which came first, who is older, who died later: the years are read off the sentences about each side, or, where a
# person behind it is asked about ("which film has the director who was born first"), off those about the persons it
# names. Where no year decides, the order of the search stays.

_EARLY = late_pattern(
    r"\b(?:first|earlier|earliest|older|oldest|eldest|before)\b|更早|较早|最早|先|年长|[年岁][纪龄数]更?[大老]"
)
_LATE = late_pattern(
    r"\b(?:later|latest|last|younger|youngest|newer|newest|more recent(?:ly)?|most recent(?:ly)?)\b"
    r"|更晚|较晚|最晚|后|年轻|[年岁][纪龄数]更?小"
)
_DEATH = late_pattern(r"\b(?:died|die|dies|death)\b|去世|逝世|死")
_BIRTH = late_pattern(
    r"\b(?:born|birth|birthday|older|oldest|elder|eldest|younger|youngest)\b|出生|生于|年长|年轻|[年岁][纪龄数]"
)
# Questions that ask to choose between their sides or to compare them.
_CHOICE = late_pattern(
    r"\bor\b|^(?:is|are|was|were|do|does|did|has|have)\b|还是|更|比|先|相同|一样|都|同一", re.IGNORECASE
)
_YEAR = late_pattern(r"(?<!\d)(1\d{3}|20\d\d)(?!\d)")
_LIFE = late_pattern(r"[(（][^()（）]*?(?<!\d)(\d{4})(?!\d)[^()（）–—－-]*[–—－-][^()（）]*?(?<!\d)(\d{4})(?!\d)")
_BORN = late_pattern(
    r"\bborn\b[^.;()]{0,60}?(?<!\d)(\d{4})(?!\d)|(?<!\d)(\d{4})年[^，。；]{0,12}(?:出生|生)", re.IGNORECASE
)
_DIED = late_pattern(
    r"\bdied\b[^.;()]{0,60}?(?<!\d)(\d{4})(?!\d)|(?<!\d)(\d{4})年[^，。；]{0,12}(?:去世|逝世|病逝)", re.IGNORECASE
)


class _Event(Enum):
    """The event whose years are compared."""

    BIRTH = auto()
    DEATH = auto()
    ANY = auto()


def compared_sides(question: str, understanding: Understanding | None) -> tuple[str, ...]:
    """Return the sides that a question compares, as plain names; empty if it compares nothing.

    Without an understanding, rules find them.
    """
    if not _CHOICE.search(question):
        return ()
    written = understanding.sides if understanding is not None else sides_by_rules(question)
    sides = tuple(filter(None, map(plain_name, written)))
    return sides if len(sides) > 1 else ()


def side_sentences(asked: AskedQuestion, ranked: Sequence[Candidate]) -> list[Candidate]:
    """Return the best sentence about each side of a comparison; empty unless every side has one of its own."""
    found: dict[str, Candidate] = {}
    for side in asked.sides:
        about = [item for item in _about(side, ranked) if item not in found.values()]
        if not about:
            return []
        found[side] = max(about, key=lambda item: says(item.sentence.shown.casefold(), side))
    winner = _winner(asked, ranked)
    return sorted(found.values(), key=lambda item: item is not found.get(winner or ""))


def _about(side: str, ranked: Sequence[Candidate]) -> list[Candidate]:
    """Return the sentences of documents that bear a side's name, then those that say it."""
    titled = [item for item in ranked if item.title == side]
    return titled or [item for item in ranked if says(item.sentence.shown.casefold(), side)]


def _winner(asked: AskedQuestion, ranked: Sequence[Candidate]) -> str | None:
    is_early = _EARLY.search(asked.folded) is not None
    if is_early == (_LATE.search(asked.folded) is not None):
        return None
    event = _Event.DEATH if _DEATH.search(asked.folded) else _Event.ANY
    event = _Event.BIRTH if event is _Event.ANY and _BIRTH.search(asked.folded) else event
    years = {side: _year_of(side, event, ranked) for side in asked.sides}
    known = [year for year in years.values() if year is not None]
    if len(known) < len(years) or len(set(known)) < len(known):
        return None
    return min(years, key=lambda side: (years[side] or 0) * (1 if is_early else -1))


def _year_of(side: str, event: _Event, ranked: Sequence[Candidate]) -> int | None:
    """Return the year of a side's event, or of that of the first person named with it whose years are known."""
    about = _about(side, ranked)
    year = _first_year(about, event)
    if year is not None or event is _Event.ANY:
        return year
    for name in [name.text for item in about for name in item.new]:
        year = _first_year([item for item in ranked if item.title == plain_name(name)], event)
        if year is not None:
            return year
    return None


def _first_year(sentences: Sequence[Candidate], event: _Event) -> int | None:
    years = (_year_in(item.sentence.shown, event) for item in sentences)
    return next((year for year in years if year is not None), None)


def _year_in(text: str, event: _Event) -> int | None:
    match event:
        case _Event.ANY:
            found = _YEAR.search(text)
            return int(found[1]) if found else None
        case _Event.BIRTH:
            found, life, place = _BORN.search(text), _LIFE.search(text), 1
        case _Event.DEATH:
            found, life, place = _DIED.search(text), _LIFE.search(text), 2
    if life:
        return int(life[place])
    return int(found[1] or found[2]) if found else None


# Which of the sentences goes first: the one likeliest to hold the answer.
#
# The *lead* is the sentence that shares most with the question. Of a question of several steps it often is the one that
# leads to the answer: it speaks of what the question names and brings up a new name. So it competes with its
# *followers*, sentences of other documents that speak of a name which the first sentences brought up. The winner comes
# first, the lead stays beside it. Each side of a comparison has a sentence.

# Number of leading sentences whose new names are followed; shorter names are not matched within titles.
_LEADING = 3
_LEAST_IN_TITLE = 4
# What each adds where lead and followers compete; 1.0 is a sentence that holds all that stands near the question word.
_STANDING = 1.25  # how well its chunk was found, as `_standing` says
_BRIDGE = 0.75  # what a bridge gave its chunk, as a share of the best chunk's score
_TYPE_WEIGHT = 0.6  # a new name of the kind asked for
_LEADS = 0.2  # being the lead
_LEADS_FROM_NAMED = -0.7  # being the lead in the document that the question names, which seldom holds the answer then
_MEANING_FIRST = 1.0  # its cosine with the question
# What a sentence must hold of the question, by weight, and of the kind asked for, to answer it alone.
_WHOLE = 0.999
_LEAST_TYPE = 0.5
# Least bridge score, as a share of the best chunk's score, of a chunk reached over a bridge.
_LEAST_BRIDGED = 0.02


def answer_first(asked: AskedQuestion, chosen: Sequence[Candidate], candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the chosen sentences, the one likeliest to answer first; it may be another of the candidates."""
    if not chosen:
        return []
    lead = chosen[0]
    if asked.forms and asked.fit(lead.sentence.told, lead.new) < 1.0:
        # It has not what an answer looks like; what has it in its section leads.
        section = lead.sentence.item.chunk.id, lead.sentence.heading
        beside = [item for item in chosen if (item.sentence.item.chunk.id, item.sentence.heading) == section]
        lead = max(
            (item for item in beside if asked.fit(item.sentence.told, item.new) >= 1.0), key=_score, default=lead
        )

    def likelihood(candidate: Candidate) -> float:
        known = _known_before(candidate, chosen)
        fresh = [name for name in candidate.new if name.text.casefold() not in known]
        value = asked.near_share(candidate.own) + _STANDING * candidate.standing + _BRIDGE * candidate.bridged
        value += _TYPE_WEIGHT * asked.fit(candidate.sentence.told, fresh)
        value += _MEANING_FIRST * candidate.cosine + _EXPLAINS * asked.explains(candidate.sentence)
        if candidate is not lead:
            return value
        return value + (_LEADS_FROM_NAMED if asked.names(lead.title) else _LEADS)

    first = side_sentences(asked, sorted(candidates, key=_score, reverse=True)) if asked.sides else []
    rivals = [item for item in candidates if item.document_id != lead.document_id and _follows(item, chosen, asked)]
    first = first or _alone(asked, lead, candidates) or [max((lead, *rivals), key=likelihood)]
    return [*first, *(candidate for candidate in chosen if candidate not in first)]


def _alone(asked: AskedQuestion, lead: Candidate, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the sentence that answers alone: of the document that the question names, all of it and of its kind."""
    if not asked.names(lead.title):
        return []
    title = frozenset(terms_in(lead.title, asked.language))
    whole = [
        item
        for item in candidates
        if item.document_id == lead.document_id
        and asked.share((item.own | title) & asked.weights.keys()) >= _WHOLE
        and asked.fit(item.sentence.told, item.new) >= _LEAST_TYPE
    ]
    return [max(whole, key=_score)] if whole else []


def _score(candidate: Candidate) -> float:
    return candidate.score


def _before(candidate: Candidate, chosen: Sequence[Candidate]) -> Sequence[Candidate]:
    """Return the leading sentences that stand before one."""
    leading = chosen[:_LEADING]
    return leading[: leading.index(candidate)] if candidate in leading else leading


def _known_before(candidate: Candidate, chosen: Sequence[Candidate]) -> frozenset[str]:
    return frozenset[str]().union(*(item.new_names for item in _before(candidate, chosen)))


def _follows(candidate: Candidate, chosen: Sequence[Candidate], asked: AskedQuestion) -> bool:
    """Return whether a sentence speaks of what leading sentences bring up, itself or by the title of its document."""
    known = _known_before(candidate, chosen)
    is_bridged = candidate.bridged > _LEAST_BRIDGED and asked.near_share(candidate.own) > 0.0
    if is_bridged or not known.isdisjoint(candidate.names):
        return True
    if not candidate.title or asked.names(candidate.title):
        return False
    if any(says(item.sentence.shown.casefold(), candidate.title) for item in _before(candidate, chosen)):
        return True
    return any(name in candidate.title and len(name) >= _LEAST_IN_TITLE for name in known)


# Sentences whose names and meaning are read; the rest score too low to be taken. Of the first chunks some are always
# among them: what answers in another language, or in other words, shares none with the question.
_CANDIDATES = 22
_OF_FIRST_CHUNKS = 10
_FIRST_CHUNKS = 3
# Sentences taken from the first chunks in another language than the question's; a chunk's beginning tells its language.
_FOREIGN = 24
_FOREIGN_CHUNKS = 5
_LONGEST_DETECTED = 600
# Languages with compound nouns, and the shortest part of a compound that is matched, in letters.
_COMPOUNDING = frozenset({"de", "nl"})
_LEAST_PART_OF_COMPOUND = 5
# What each adds to a sentence's score; 1.0 is a sentence that holds every term of the question.
_NEARBY = 0.8  # terms that only the heading, the title, the sentence before or the chunk's first one hold
_BESIDE = 0.3  # those of them that the heading or sentences which it takes in hold
_ASKED = 0.35  # what stands near the question word
_CHUNK_SCORE = 1.0  # its chunk's score, as a share of the best one's
_CHUNK_PLACE = 0.3  # its chunk's place, from the first to the `_LAST_PLACE`-th
_PLACE_ALONE = 0.6  # that place, where it is all that is known
_TYPE = 0.45  # a name of the kind asked for
_SURE_TYPE = 1.0  # a number, a date or code that is asked for: it is seldom there by chance
_LENGTH = -0.1  # its length, by the logarithm
_MEANING = 4.0  # its cosine with the question
_ROW = 0.2  # being a row of a table
_CODE = -0.3  # being a line of code
_ASKS = -0.4  # being a question itself
_EXPLAINS = 1.0  # explaining the option that the question names
_DEFINES = 0.2  # explaining an option, a command or the like, where the question asks for one
# A sentence in another script than the question's has this share of its score.
_OTHER_SCRIPT = 0.9
_LAST_PLACE = 10
# Chunk boundaries are arbitrary, so the chunks of a document move this share of the way to its best chunk's standing.
_OF_DOCUMENT = 0.4
# A quote that holds this share of the question's terms needs no neighbouring sentence.
_HOLDS_MOST = 0.8
# What each adds to the score of a further sentence, given those already chosen.
_REPEATED = -0.8  # the share of the question's terms that it holds and that are covered already
_LEADS_ON = 0.3  # speaking of a name that those brought up
_SAME_DOCUMENT = -0.2  # being of a document that has one already
# Sentences that share this much of their terms are duplicates.
_SAME = 0.8
# A further sentence must reach this share of the best one's score.
_RELEVANT = 0.74
# Without an embedding: a question is declined if no sentence holds this share of its terms.
_LEAST_COVERED = 0.22
# A question is answered if cosine of the nearest sentence + cosine of the nearest chunk + 0.4 * covered >= 0.94, where
# `covered` is the largest share of its terms that one sentence holds; 0.87 where the best chunk is in another language.
# A sentence counts as 0.3 farther where its chunk has none of the names in the question. Across languages only terms
# that the glossary knows and names can be shared, so the share is one of these, or as much less as they are fewer than
# 4, and 0.25 at least. Where one of these names is in no chunk at all, every sentence counts as 0.5 farther.
# `answer_margin` has all cases.
_LEAST_ANSWERED = 0.94
_LEAST_ANSWERED_ACROSS = 0.87
_COVERED = 0.4
_COVERED_ACROSS = 0.25
_KNOWN_ACROSS = 4
_NAME_MISSING = 0.3
_NAME_LOST = 0.5
# Names in English and in languages that write them as English does, without an ending; Latin words in other scripts.
# German writes capitals for more than names.
_CAPITALS_NAME = frozenset({"es", "fr", "it", "nl", "pt", "sv"})
_OTHER_SCRIPTS = frozenset({"ar", "el", "fa", "he", "hi", "ja", "ko", "ru", "sr", "th", "uk"})
_ENGLISH_WORD = late_pattern(
    r"\b(?:the|of|is|are|what|who|whom|which|how|did|does|do|where|when|why|can)\b", re.IGNORECASE
)
_NAME = late_pattern(r"[A-Z][A-Za-z0-9._+-]*(?: [A-Z][A-Za-z0-9._+-]*)*|[a-z]+[A-Z_]\w*")
_LATIN = late_pattern(r"[A-Za-z][A-Za-z0-9._+-]+")
_LATIN_WORD = late_pattern(r"[A-Za-z0-9]+")
# Words of an expanded abbreviation that are not among its initials.
_BETWEEN_INITIALS = frozenset({"of", "the", "and", "for", "in"})
_BETWEEN_PARTS = late_pattern(r"[._+-]+")
_LITERALS = frozenset({"true", "false", "none", "null", "on", "off", "yes", "no", "ok", "am", "pm"})
# Dates that documents may write in digits.
_DATE_NAMES = late_pattern(
    r"(?:jan|feb)(?:uary|ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|(?:nov|dec)(?:ember)?|(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
)
_ACRONYM = late_pattern(r"[A-Z]{2,6}")
# The beginning of a name by which it is known in another form ("Postgres", "PostgreSQL").
_LEAST_STEM = 5
_MADE_NAME = late_pattern(r"[a-z][A-Z]|[A-Z]{2}")
# A sentence this near to the question answers it though it shares no word with it.
_NEAR_ALONE = 0.4


@dataclass(frozen=True, slots=True, eq=False)
class Shortlist:
    """Candidate sentences for a question, before embeddings are compared.

    Attributes:
        items: Sentences that may answer, best first, each with its score by its words and its chunk.
        is_comparable: Whether the best chunk is in the question's language, so that shared words are meaningful.
        covered: The largest share of the question's terms that one of them holds, 0 to 1; 1 if it has no terms.
        unnamed: Ids of the chunks that hold none of the names in the question, also in title and headings.
        is_name_lost: Whether one of these names stands in none of the chunks.
    """

    asked: AskedQuestion
    sentences: Sequence[Quotable]
    items: Sequence[tuple[float, Quotable]]
    titles: Mapping[str, str]
    is_comparable: bool
    covered: float
    unnamed: frozenset[str]
    is_name_lost: bool = False


def shortlist(
    question: str,
    sentences: Sequence[Quotable],
    titles: Mapping[str, str],
    understanding: Understanding | None = None,
) -> Shortlist:
    """Return the sentences that may answer, of those of the context, the best chunk's first.

    Without an understanding of the question rules say what it asks for.
    """
    language = question_language(question)
    words = frozenset(terms_in(without_question_words(question), language))
    if language in _COMPOUNDING:
        sentences = [_with_parts_of_compounds(sentence, words) for sentence in sentences]
    if known := Renderings(question, language, GLOSSARY_LANGUAGES, language):
        # With the words of the question that a sentence says otherwise or in another language.
        sentences = [
            replace(
                item,
                words=known.completed(item.words),
                nearby=known.completed(item.nearby),
                beside=known.completed(item.beside),
            )
            for item in sentences
        ]
    asked = _read_question(question, language, words, sentences, understanding)
    first_chunk = " ".join(sentence.shown for sentence in sentences if sentence.place == sentences[0].place)
    is_comparable = language == detect_language(first_chunk)
    # Terms that no sentence holds count too, unless headings, titles or neighbouring sentences hold them.
    titled = {id_: frozenset(terms_in(title, language)) for id_, title in titles.items()}
    wanted = words if is_comparable else frozenset(word for word in words if word in known.said or word.isascii())
    lost = (wanted - asked.weights.keys()).difference(*titled.values(), *(sentence.nearby for sentence in sentences))
    held_share = max(asked.share(sentence.words) for sentence in sentences)
    covered = held_share * (1.0 - len(lost) / len(wanted)) if wanted else float(not words)
    if not is_comparable:
        covered = max(covered * min(1.0, len(wanted) / _KNOWN_ACROSS), _COVERED_ACROSS)
    names = _names_in(question, language, sentences)
    chunks = {sentence.item.chunk.id: sentence.item.chunk for sentence in sentences}
    held: dict[str, frozenset[str]] = {}
    texts: list[str] = []
    for id_, chunk in chunks.items() if names else ():
        text = without_accents(
            " ".join((titles.get(chunk.document_id, ""), *chunk.headings, *chunk.columns, chunk.text))
        )
        texts.append(text)
        latin = frozenset(word.casefold() for word in _LATIN.findall(text))
        held[id_] = latin | {part for word in latin for part in _BETWEEN_PARTS.split(word)}
    # A chunk names something if it holds a word of one of the names.
    named = {word.casefold().rstrip(".") for name in names for word in name.split()}
    unnamed = frozenset(id_ for id_, words in held.items() if named.isdisjoint(words))
    # Documents in another language may say a name in their own, unless it is made up; Chinese ones abbreviations.
    is_alike = is_comparable or language not in {"en", *_CAPITALS_NAME}
    sought = [
        name
        for name in names
        if (is_alike or _MADE_NAME.search(name)) and not (name.isupper() and is_chinese(question))
    ]
    said = frozenset[str]().union(*held.values())
    missing = [name for name in sought if not _is_held(name.casefold(), said)]
    is_name_lost = not all(_is_said_otherwise(name, said, texts) for name in missing)
    none = frozenset[str]()
    # Sentences that say more than their document's title, or all if none does.
    telling = [item for item in sentences if not item.words <= titled.get(item.item.chunk.document_id, none)]
    scored = sorted(_scored(asked, telling or sentences, titled), key=lambda item: -item[0])
    first = [item for item in scored if item[2].place < _FIRST_CHUNKS][:_OF_FIRST_CHUNKS]
    others = _in_other_languages(asked, scored)
    kept = {item[1]: item for item in (*scored[:_CANDIDATES], *first, *others)}
    items = [(score, sentence) for score, _, sentence in sorted(kept.values(), key=lambda item: -item[0])]
    return Shortlist(asked, sentences, items, titles, is_comparable, covered, unnamed, is_name_lost)


def _is_held(name: str, words: frozenset[str]) -> bool:
    """Return whether a name in lower case has a word among those of the context, in singular or plural, or a part."""
    said = {part for word in name.split() for part in (word.rstrip("."), *_BETWEEN_PARTS.split(word)) if part}
    return any(_DATE_NAMES.fullmatch(part) or not words.isdisjoint(_numbers(part)) for part in said)


def _numbers(word: str) -> set[str]:
    """Return a word, and what may be its singular or plural."""
    stem = word.removesuffix("s")
    return {word, f"{word}s", f"{word}es", stem, stem.removesuffix("e"), f"{stem.removesuffix('ie')}y"}


def _is_said_otherwise(name: str, words: frozenset[str], texts: Sequence[str]) -> bool:
    """Return whether texts say a name together or apart ("Wi-Fi", "Git Hub"), longer or shorter, or by its initials."""
    joined = "".join(_LATIN_WORD.findall(name.casefold()))
    longer = {joined, *(word for word in name.casefold().split() if len(word) >= _LEAST_STEM)}
    for word in words:
        bare = _BETWEEN_PARTS.sub("", word)
        if bare == joined or any(bare.startswith(part) and len(part) >= _LEAST_STEM for part in longer):
            return True
        if len(bare) >= _LEAST_STEM and any(part.startswith(bare) for part in longer):
            return True
    parts = _LATIN_WORD.findall(name)
    if len(parts) > 1 and "".join(part[0] for part in parts).casefold() in words:
        return True
    is_acronym = _ACRONYM.fullmatch(name) is not None
    for text in texts:
        written = _LATIN_WORD.findall(text)
        if any((first + second).casefold() == joined for first, second in pairwise(written)):
            return True
        # Of words in small letters some stand by chance in such an order.
        initials = (word[0] if word[0].isupper() else " " for word in written if word not in _BETWEEN_INITIALS)
        if is_acronym and name in "".join(initials):
            return True
    return False


def _with_parts_of_compounds(sentence: Quotable, words: frozenset[str]) -> Quotable:
    """Return a sentence that also holds the words with which its longer words begin or end ("Vordergrundmodus")."""
    parts = [word for word in words - sentence.words if len(word) >= _LEAST_PART_OF_COMPOUND]
    found = {part for part in parts for word in sentence.words if word.startswith(part) or word.endswith(part)}
    return replace(sentence, words=sentence.words | found) if found else sentence


def _in_other_languages(
    asked: AskedQuestion, scored: Sequence[tuple[float, int, Quotable]]
) -> Sequence[tuple[float, int, Quotable]]:
    """Return sentences of the first chunks in another language, those of the question's type first.

    Words tell nothing of them, so their meaning is read of more of them.
    """
    chunks = {item[2].item.chunk.id: item[2].item.chunk.text for item in scored if item[2].place < _FOREIGN_CHUNKS}
    foreign = {id_ for id_, text in chunks.items() if detect_language(text[:_LONGEST_DETECTED]) != asked.language}
    found = [item for item in scored if item[2].item.chunk.id in foreign]
    return sorted(found, key=lambda item: (-asked.fit(item[2].told, ()), -item[0]))[:_FOREIGN]


def is_answered(listed: Shortlist, cosines: Sequence[float] | None) -> bool:
    """Return whether any of the sentences answers the question, whatever the language; `cosines` as in `choose`."""
    return listed.covered >= _LEAST_COVERED if cosines is None else answer_margin(listed, cosines) >= 0.0


def answer_margin(listed: Shortlist, cosines: Sequence[float]) -> float:
    """Return by how much the sentences exceed the threshold for answering the question; negative if they miss it.

    What counts is how near the nearest sentence is, and the nearest chunk (in modes that merge round robin, which tell
    nothing of the chunks' cosines, the sentence counts twice), and how much of the question one sentence holds. A
    question without content words ("What is it?") is taken for answered, and so is one of which a single sentence has
    every word, whatever an embedding makes of it; a question of one word must name what the sentence explains.
    `docs/answers.md` says how the threshold was found and what it costs.

    Args:
        listed: The sentences.
        cosines: Of the question and each of them, in the usual scale.
    """
    language = listed.asked.language
    wanted = frozenset(terms_in(listed.asked.folded, language))
    if not wanted and not listed.asked.weights:
        return 1.0
    for _, sentence in listed.items:
        is_enough = len(wanted) > 1 or listed.asked.explains(sentence) > 0.0
        if is_enough and wanted <= frozenset(terms_in(sentence.in_place, language)):
            return 1.0
    near: list[float] = []
    for cosine, (_, sentence) in zip(cosines, listed.items, strict=True):
        farther = _NAME_MISSING * (sentence.item.chunk.id in listed.unnamed)
        near.append(cosine - (_NAME_LOST if listed.is_name_lost else farther))
    nearest = max(near, default=0.0)
    found = (sentence.item.scores.get(Channel.VECTOR) for _, sentence in listed.items)
    chunks = [cosine for cosine in found if cosine is not None]
    least = _LEAST_ANSWERED if listed.is_comparable else _LEAST_ANSWERED_ACROSS
    return nearest + max(chunks, default=nearest) + _COVERED * listed.covered - least


def choose(listed: Shortlist, limit: int, cosines: Sequence[float] | None = None) -> list[Quotable]:
    """Return up to `limit` sentences to quote, most telling first.

    `cosines` are of the question and each of them, in the usual scale; None if nothing is known of them.
    """
    candidates = _with_names(listed, cosines)
    ordered = answer_first(listed.asked, _chosen(listed.asked, candidates, listed.titles, limit), candidates)
    quotes = [candidate.sentence for candidate in dict.fromkeys(ordered[:limit])]

    def says_little(quote: Quotable) -> bool:
        # What a bridge led to answers a step of the question alone.
        return listed.asked.share(quote.words) < _HOLDS_MOST and quote.item.scores.get(Channel.BRIDGE, 0.0) <= 0.0

    return in_passages(quotes, listed.sentences, listed.asked.weights.keys(), says_little)


def _read_question(
    question: str,
    language: str,
    words: frozenset[str],
    sentences: Sequence[Quotable],
    understanding: Understanding | None,
) -> AskedQuestion:
    chunks: dict[str, set[str]] = {}
    for sentence in sentences:
        chunks.setdefault(sentence.item.chunk.id, set()).update(sentence.words)
    # The rarer a term of the question is among the chunks, the more it weighs.
    frequencies = Counter(term for held in chunks.values() for term in held)
    weights = {term: math.log1p(len(chunks) / frequencies[term]) for term in words if frequencies[term]}
    total = sum(weights.values()) or 1.0
    read = question[:LONGEST_READ]
    focus = find_focus(read)
    return AskedQuestion(
        question.casefold(),
        weights,
        total,
        nearness(focus, language),
        language,
        expected_type(focus, language),
        compared_sides(read, understanding),
        expected_forms(read, language),
        named_options(read),
        named_identifiers(read),
    )


def _names_in(question: str, language: str, sentences: Sequence[Quotable]) -> list[str]:
    """Return the names in a question that what answers it would say; what is transliterated may stand for others."""
    question = without_accents(question[:LONGEST_READ])
    if is_chinese(question) or language in _OTHER_SCRIPTS:
        return _LATIN.findall(question)
    # In a question written in capitals, capitals mark no names.
    if sum(map(str.isupper, question)) > sum(map(str.islower, question)):
        return []
    is_english = _ENGLISH_WORD.search(question) and not is_chinese(sentences[0].item.chunk.text)
    if is_english or language in _CAPITALS_NAME:
        names: list[str] = []
        for match in _NAME.finditer(question):
            # A capital that only begins a sentence makes no name.
            opens = match.start() == 0 or question[: match.start()].rstrip()[-1:] in ".?!¿¡:"
            first, _, rest = match[0].partition(" ")
            names.append(rest if opens and not _MADE_NAME.search(first) else match[0])
        # "I" is nobody's name, and no value of a setting or time of the day is one.
        return [name for name in names if len(name) > 1 and name.casefold() not in _LITERALS]
    # Every German noun has a capital; only words with inner or several capitals are surely names.
    return [part for word in _LATIN.findall(question) for part in word.split("-") if _MADE_NAME.search(part)]


def _scored(
    asked: AskedQuestion, sentences: Sequence[Quotable], titled: Mapping[str, frozenset[str]]
) -> list[tuple[float, int, Quotable]]:
    best = max((sentence.item.channel_total for sentence in sentences), default=0.0)
    standings: dict[str, float] = {}
    for sentence in sentences:
        id_ = sentence.item.chunk.document_id
        standings[id_] = max(standings.get(id_, 0.0), _standing(sentence, best))
    found: list[tuple[float, int, Quotable]] = []
    for order, sentence in enumerate(sentences):
        title = titled.get(sentence.item.chunk.document_id, frozenset[str]())
        nearby = (sentence.nearby | title) - sentence.words
        score = asked.shared_by(sentence.told, sentence.words, nearby) + _NEARBY * asked.share(nearby)
        own, of_document = _standing(sentence, best), standings[sentence.item.chunk.document_id]
        score += own + _OF_DOCUMENT * (of_document - own) + _LENGTH * math.log1p(len(sentence.shown) / 100)
        score += _EXPLAINS * asked.explains(sentence) + _DEFINES * asked.defines(sentence)
        score += _ROW * (sentence.form is Form.ROW) + _CODE * (sentence.form is Form.CODE) + _ASKS * sentence.asks
        score += _ASKED * asked.near_share(sentence.words & asked.weights.keys())
        if reads_chinese(sentence.told) == asked.is_chinese:
            score += _BESIDE * asked.share(sentence.beside - sentence.words)
        else:
            score *= _OTHER_SCRIPT
        found.append((score, order, sentence))
    return found


def _standing(sentence: Quotable, best: float) -> float:
    """Return how well a sentence's chunk was found; by its place alone where channels were not fused or overruled."""
    place = max(0.0, 1.0 - sentence.place / _LAST_PLACE)
    if best <= 0.0 or sentence.item.rerank_score is not None:
        return _PLACE_ALONE * place
    return _CHUNK_SCORE * max(0.0, sentence.item.channel_total) / best + _CHUNK_PLACE * place


def _with_names(listed: Shortlist, cosines: Sequence[float] | None) -> list[Candidate]:
    asked, sentences = listed.asked, [sentence for _, sentence in listed.items]
    readings = read_texts([sentence.shown for sentence in sentences])
    best = max((sentence.item.channel_total for sentence in sentences), default=0.0)
    near = cosines if cosines is not None else [0.0] * len(sentences)
    is_sure = asked.forms or asked.expected in (AnswerType.NUMBER, AnswerType.DATE, AnswerType.CODE)
    kind = _SURE_TYPE if is_sure else _TYPE
    candidates: list[Candidate] = []
    for (score, sentence), reading, cosine in zip(listed.items, readings, near, strict=True):
        names = [name for part in reading for name in part.names]
        new = tuple(name for name in names if name.text.casefold() not in asked.folded)
        fits = kind * asked.fit(sentence.told, new)
        own = sentence.words & asked.weights.keys()
        candidates.append(
            Candidate(
                sentence,
                score + fits + _MEANING * cosine,
                asked.shared_by(sentence.told, own, sentence.nearby)
                + _EXPLAINS * asked.explains(sentence)
                + fits
                + _MEANING * cosine,
                cosine,
                _standing(sentence, best),
                max(0.0, sentence.item.scores.get(Channel.BRIDGE, 0.0)) / best if best > 0.0 else 0.0,
                plain_name(listed.titles.get(sentence.item.chunk.document_id, "")),
                own,
                frozenset(name.text.casefold() for name in names),
                new,
            )
        )
    return sorted(candidates, key=lambda item: -item.score)


def _chosen(
    asked: AskedQuestion, candidates: Sequence[Candidate], titles: Mapping[str, str], limit: int
) -> list[Candidate]:
    left, taken = list(candidates), list[Candidate]()
    covered: set[str] = set()
    named: set[str] = set()
    documents: set[str] = set()
    least = _RELEVANT * max((item.told for item in candidates), default=0.0)

    def leads_on(candidate: Candidate) -> bool:
        title = titles.get(candidate.document_id, "").casefold()
        return not named.isdisjoint(candidate.names) or any(name in title for name in named)

    def value(candidate: Candidate) -> float:
        score = candidate.score + _REPEATED * asked.share(candidate.own & covered) + _LEADS_ON * leads_on(candidate)
        return score + _SAME_DOCUMENT * (candidate.document_id in documents)

    def is_next_step(candidate: Candidate) -> bool:
        # Of a question of several steps the last one may say little of what is asked.
        return candidate.document_id not in documents and (leads_on(candidate) or candidate.bridged > _LEAST_BRIDGED)

    while len(taken) < limit:
        # What shares no word with the question answers it only by what was said of the name it leads on from.
        telling = [
            item
            for item in left
            if (item.own or not asked.weights or item.cosine >= _NEAR_ALONE or leads_on(item))
            and (not taken or item.told >= least or is_next_step(item))
        ]
        if not telling:
            break
        best = max(telling, key=value)
        left.remove(best)
        if any(_says_again(best.sentence, item.sentence) for item in taken):
            continue
        taken.append(best)
        covered |= best.own
        named |= best.new_names
        documents.add(best.document_id)
    return taken


def _says_again(sentence: Quotable, other: Quotable) -> bool:
    """Return whether two sentences share most terms, or overlap in their document."""
    if sentence.item.chunk.document_id == other.item.chunk.document_id:
        start, end = sentence.item.chunk.start + sentence.start, sentence.item.chunk.start + sentence.end
        if start < other.item.chunk.start + other.end and other.item.chunk.start + other.start < end:
            return True
    smaller = min(len(sentence.words), len(other.words))
    return smaller > 0 and len(sentence.words & other.words) >= _SAME * max(len(sentence.words), len(other.words))
