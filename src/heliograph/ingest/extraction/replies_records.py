"""The records of an extraction reply, cleaned: what both readers (JSON and rows) hand their finds to.

`RecordCollector` takes raw fields and keeps distinct, usable records in the order they were read, at most
`MAX_RECORDS` of them, so that a reply that loops costs no more than one that does not. What it drops or repairs it
notes by reason, never silently. Names go through `heliograph.text.names.clean_name`.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from heliograph.models import FIELD_SEPARATOR
from heliograph.text.names import clean_name, entity_key

__all__ = [
    "MAX_DESCRIPTION_LENGTH",
    "MAX_RECORDS",
    "UNKNOWN_TYPE",
    "ParsedEntity",
    "ParsedExtraction",
    "ParsedRelation",
    "RecordCollector",
    "clean_type",
    "strength_weight",
]

MAX_RECORDS = 400
MAX_DESCRIPTION_LENGTH = 2000
UNKNOWN_TYPE = "unknown"

_MAX_TYPE_LENGTH = 64
_MAX_KEYWORDS = 20
_MAX_KEYWORD_LENGTH = 100
_MAX_ALIASES = 10
_POINTING_WORDS = frozenset(
    {"he", "she", "it", "they", "we", "you", "i", "him", "her", "them", "us", "me", "his", "hers", "its", "their"}
    | {"our", "my", "your", "this", "that", "these", "those", "who", "which", "the", "a", "an", "some"}
    | {"他", "她", "它", "他们", "她们", "它们", "我", "我们", "你", "你们", "其", "该"}
)
_NO_TYPE = frozenset({"", "unknown", "none", "null", "na", "n_a", "undefined", "未知"})
_TYPE_NOISE = re.compile(r"['()<>|/\\\"“”‘’`*#{}\[\]]")
_TYPE_GAP = re.compile(r"[\s\-\u2010-\u2015]+")
_LIST_SEPARATOR = re.compile(r"[,;、，；\n\t]+")
# C0 and C1 controls, line and paragraph separators, byte-order marks and lone surrogates; joiners carry meaning.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")
_SPACE = re.compile(r"\s+")
_LONGEST_RAW_NAME = 1024
_BOLD = re.compile(r"\*\*(.+)\*\*")
# "7" and "1.5" name nothing; "1984" and "192.168.0.1" may.
_SHORT_NUMBER = re.compile(r"\d{1,2}|(?=\d*\.)[\d.]{1,5}")
_NUMBER = re.compile(r"-?\d{1,9}(?:\.\d{1,9})?")
# Words of a prompt's own template that a model copies instead of filling in.
_PLACEHOLDERS = frozenset(
    {"entity_name", "entity_type", "entity_description", "source_entity", "target_entity", "entity1", "entity2"}
    | {"relationship_keywords", "relationship_description", "relationship_strength"}
)


@dataclass(frozen=True, slots=True)
class ParsedEntity:
    """What a reply says of one entity.

    Attributes:
        name: Normalised name; never empty.
        type: Normalised type (`clean_type`), `unknown` where the reply gives none.
        description: One line; may be empty.
        aliases: Other names that the passage gives it.
    """

    name: str
    type: str
    description: str
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ParsedRelation:
    """What a reply says of two entities.

    Attributes:
        source: Normalised name of one entity.
        target: Normalised name of the other; another entity than `source`.
        keywords: Themes, as written, each once.
        description: One line; may be empty.
        strength: Weight of this mention in (0, 10]; 1.0 where the reply gives none (`strength_weight`).
    """

    source: str
    target: str
    keywords: tuple[str, ...]
    description: str
    strength: float


@dataclass(frozen=True, slots=True)
class ParsedExtraction:
    """All that could be read in one reply.

    Attributes:
        entities: Distinct entity records in the order of the reply; one entity may have several.
        relations: Distinct relation records, likewise.
        problems: What was repaired or dropped, one line a reason.
        says_empty: Whether the reply is a well-formed "there is nothing", as opposed to an unreadable one.
    """

    entities: tuple[ParsedEntity, ...] = ()
    relations: tuple[ParsedRelation, ...] = ()
    problems: tuple[str, ...] = ()
    says_empty: bool = False

    @property
    def is_usable(self) -> bool:
        """Whether the reply can be taken as an answer: it holds a record or says that there is none."""
        return bool(self.entities or self.relations) or self.says_empty


class RecordCollector:
    """Cleans and keeps the records of one reply."""

    def __init__(self) -> None:
        self._entities: dict[tuple[str, str], ParsedEntity] = {}
        self._relations: dict[tuple[str, str, str], ParsedRelation] = {}
        self._problems: Counter[str] = Counter()

    def note(self, problem: str) -> None:
        """Remember that something was repaired or dropped."""
        self._problems[problem] += 1

    def add_entity(self, name: str, entity_type: str, description: str, aliases: Iterable[str] = ()) -> None:
        """Take an entity record as written; an unusable name drops it, unusable aliases are left out."""
        cleaned = _usable_name(name)
        if not cleaned:
            self.note("an entity without a usable name was dropped")
            return
        others = dict.fromkeys(alias for text in aliases if (alias := _usable_alias(text, cleaned)))
        entity = ParsedEntity(
            cleaned, clean_type(entity_type), _clean_description(description), tuple(others)[:_MAX_ALIASES]
        )
        key = (entity_key(cleaned), entity.description)
        if key in self._entities:
            self.note("a repeated record was read once")
        elif not self._is_full():
            self._entities[key] = entity

    def add_relation(
        self, source: str, target: str, keywords: str | list[str], description: str, weight: float
    ) -> None:
        """Take a relation record as written; an unusable name or a relation to itself drops it."""
        ends = _usable_name(source), _usable_name(target)
        keys = entity_key(ends[0]), entity_key(ends[1])
        if not all(ends):
            self.note("a relation without two usable names was dropped")
            return
        if keys[0] == keys[1]:
            self.note("a relation of an entity with itself was dropped")
            return
        relation = ParsedRelation(*ends, _split_keywords(keywords), _clean_description(description), weight)
        key = (min(keys), max(keys), relation.description)
        if key in self._relations:
            self.note("a repeated record was read once")
        elif not self._is_full():
            self._relations[key] = relation

    def finish(self, *, says_empty: bool) -> ParsedExtraction:
        """Return what was kept; `says_empty` holds only if no record came at all, usable or not."""
        has_dropped = any("dropped" in problem for problem in self._problems)
        return ParsedExtraction(
            tuple(self._entities.values()),
            tuple(self._relations.values()),
            tuple(f"{problem} (x{count})" if count > 1 else problem for problem, count in self._problems.items()),
            says_empty and not (self._entities or self._relations or has_dropped),
        )

    def _is_full(self) -> bool:
        is_full = len(self._entities) + len(self._relations) >= MAX_RECORDS
        if is_full:
            self.note(f"records after the first {MAX_RECORDS} were dropped")
        return is_full


def clean_type(text: str) -> str:
    r"""Return a type in lower case with underscores: `Natural Object` -> `natural_object`.

    Of several, parted by commas, the first counts; the characters `'()<>|/\` are removed; nothing that says anything
    gives `unknown`.
    """
    folded = unicodedata.normalize("NFKC", _CONTROL.sub(" ", text)).casefold()
    for part in _LIST_SEPARATOR.split(folded):
        name = _TYPE_GAP.sub("_", _TYPE_NOISE.sub("", part).strip()).strip("_.:")
        if name not in _NO_TYPE:
            return name[:_MAX_TYPE_LENGTH].rstrip("_")
    return UNKNOWN_TYPE


def strength_weight(text: str) -> float:
    """Return the weight of a relation from the strength that a reply gives it.

    Strengths are asked for on a scale from 1 to 10, whose middle is an ordinary mention: 5 weighs 1.0 and 10 weighs
    2.0, so that a strong mention counts as much as two ordinary ones. Larger numbers count as 10, numbers below 1 as
    a share of 1 (0.5 weighs 1.0), zero and less as 1. Without a number the weight is 1.0.
    """
    match = _NUMBER.search(text)
    if match is None:
        return 1.0
    number = float(match.group())
    if 0 < number < 1:
        return max(number * 2, 0.2)
    return min(max(number, 1.0), 10.0) / 5


def _usable_name(text: str) -> str:
    name = clean_name(_BOLD.sub(r"\1", text[:_LONGEST_RAW_NAME]).strip(" \t\r\n\\"))
    is_word = any(character.isalnum() for character in name)
    if not is_word or name.casefold() in _PLACEHOLDERS or _SHORT_NUMBER.fullmatch(name):
        return ""
    return name


def _usable_alias(text: str, name: str) -> str:
    """Return an alias as it is stored; empty for what names nothing, or would name other things elsewhere.

    Common nouns, pronouns and a part of the name itself ("Smith") mean something else in the next document.
    """
    alias = _usable_name(text)
    words = alias.casefold().split()
    if not words or words[0] in _POINTING_WORDS or set(words) <= set(name.casefold().split()):
        return ""
    return alias if alias != alias.lower() or not alias.isascii() else ""


def _clean_description(text: str) -> str:
    # The separator of joined fragments must not occur within one.
    line = _SPACE.sub(" ", _CONTROL.sub(" ", text.replace(FIELD_SEPARATOR, " "))).strip()
    return line[:MAX_DESCRIPTION_LENGTH].rstrip()


def _split_keywords(keywords: str | list[str]) -> tuple[str, ...]:
    text = keywords if isinstance(keywords, str) else "\n".join(keywords)
    parts = (_clean_description(part).strip(" \"'`“”.*[]") for part in _LIST_SEPARATOR.split(text))
    distinct = dict.fromkeys(part[:_MAX_KEYWORD_LENGTH].rstrip() for part in parts)
    return tuple(keyword for keyword in distinct if keyword)[:_MAX_KEYWORDS]
