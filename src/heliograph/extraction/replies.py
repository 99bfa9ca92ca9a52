"""Turns extraction replies into records and mentions: text of a chat model in, cleaned entities and relations out.

JSON and rows (`reply_readers`) may be mixed. Keys of many spellings, and fields whose position depends on the dialect,
are mapped to records; `RecordCollector` cleans names, drops repeats and bounds the count. Broken records are dropped
and counted by reason, never silently. `ReadRecords` collects the records of one chunk, and `to_mentions` turns them
into mentions.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from heliograph.extraction.base import UNKNOWN_TYPE, unlisted_ends
from heliograph.extraction.local_subjects import subject_keys
from heliograph.extraction.reply_readers import (
    KINDS,
    JsonField,
    JsonObject,
    Row,
    RowKind,
    RowReading,
    is_strength,
    read_json,
    read_rows,
)
from heliograph.ids import clean_name, entity_key, mention_rank
from heliograph.models import FIELD_SEPARATOR, Chunk, Document, EntityMention, RelationMention

# Bounds the cost of a reply that repeats itself endlessly.
MAX_RECORDS = 400
MAX_DESCRIPTION_LENGTH = 2000

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
# Placeholders of the prompt's template that a model copies instead of filling in.
_PLACEHOLDERS = frozenset(
    {"entity_name", "entity_type", "entity_description", "source_entity", "target_entity", "entity1", "entity2"}
    | {"relationship_keywords", "relationship_description", "relationship_strength"}
)


@dataclass(frozen=True, slots=True)
class ParsedEntity:
    """An entity record of a reply; its type is normalised (`clean_type`), `unknown` if the reply gives none."""

    name: str
    type: str
    description: str
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ParsedRelation:
    """A relation record of a reply; its weight, in (0, 10], is 1.0 if the reply gives none (`strength_weight`)."""

    source: str
    target: str
    keywords: tuple[str, ...]
    description: str
    strength: float


@dataclass(frozen=True, slots=True)
class ParsedExtraction:
    """All records of one reply.

    Attributes:
        entities: Distinct entity records in the order of the reply; one entity may have several.
        relations: Distinct relation records, likewise.
        problems: What was repaired or dropped, one line per reason.
        says_empty: Whether the reply is a well-formed "there is nothing", as opposed to an unreadable one.
    """

    entities: tuple[ParsedEntity, ...] = ()
    relations: tuple[ParsedRelation, ...] = ()
    problems: tuple[str, ...] = ()
    says_empty: bool = False

    @property
    def is_usable(self) -> bool:
        """Whether the reply counts as an answer: it has a record or says that there is none."""
        return bool(self.entities or self.relations) or self.says_empty


class RecordCollector:
    """Cleans and collects the records of one reply."""

    def __init__(self) -> None:
        self._entities: dict[tuple[str, str], ParsedEntity] = {}
        self._relations: dict[tuple[str, str, str], ParsedRelation] = {}
        self._problems: Counter[str] = Counter()

    def note(self, problem: str) -> None:
        """Record that something was repaired or dropped."""
        self._problems[problem] += 1

    def add_entity(self, name: str, entity_type: str, description: str, aliases: Iterable[str] = ()) -> None:
        """Add an entity record; an unusable name drops it, unusable aliases are left out."""
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
        """Add a relation record; an unusable name or a relation to itself drops it."""
        ends = _usable_name(source), _usable_name(target)
        keys = entity_key(ends[0]), entity_key(ends[1])
        if not all(ends):
            self.note("a relation without two usable names was dropped")
            return
        if keys[0] == keys[1]:
            self.note("a relation of an entity with itself was dropped")
            return
        text = keywords if isinstance(keywords, str) else "\n".join(keywords)
        parts = (_clean_description(part).strip(" \"'`“”.*[]") for part in _LIST_SEPARATOR.split(text))
        distinct = dict.fromkeys(part[:_MAX_KEYWORD_LENGTH].rstrip() for part in parts)
        themes = tuple(keyword for keyword in distinct if keyword)[:_MAX_KEYWORDS]
        relation = ParsedRelation(*ends, themes, _clean_description(description), weight)
        key = (min(keys), max(keys), relation.description)
        if key in self._relations:
            self.note("a repeated record was read once")
        elif not self._is_full():
            self._relations[key] = relation

    def finish(self, *, says_empty: bool) -> ParsedExtraction:
        """Return the parsed records; `says_empty` is kept only if no record came at all, usable or not."""
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

    Of several types separated by commas, the first counts; the characters `'()<>|/\` are removed; a type without
    letters or digits gives `unknown`.
    """
    folded = unicodedata.normalize("NFKC", _CONTROL.sub(" ", text)).casefold()
    for part in _LIST_SEPARATOR.split(folded):
        name = _TYPE_GAP.sub("_", _TYPE_NOISE.sub("", part).strip()).strip("_.:")
        if name not in _NO_TYPE:
            return name[:_MAX_TYPE_LENGTH].rstrip("_")
    return UNKNOWN_TYPE


def strength_weight(text: str) -> float:
    """Return the weight of a relation from the strength in a reply.

    The prompt asks for strengths from 1 to 10, whose middle is an ordinary mention: 5 gives 1.0 and 10 gives 2.0, so
    that a strong mention counts as much as two ordinary ones. Larger numbers count as 10, numbers below 1 as a share of
    1 (0.5 gives 1.0), zero and less as 1. Without a number the weight is 1.0.
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
    """Return an alias as it is stored; empty if it names nothing, or would name other things elsewhere.

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


# Conversion of parsed JSON and rows to records. Keys come in many spellings, and the kinds of rows are sometimes wrong.

# Keys without case, spaces and underscores, the most specific first.
_NAME = ("entityname", "name", "entity", "entityid", "实体名称", "名称", "实体", "label", "id")
_TYPE = ("entitytype", "type", "category", "kind", "实体类型", "类型", "类别", "label")
_DESCRIPTION = (
    *("entitydescription", "relationshipdescription", "relationdescription", "description", "desc"),
    *("描述", "说明", "explanation", "evidence", "context", "summary", "details"),
)
_SOURCE = (
    *("source", "src", "sourceentity", "srcid", "sourceid", "sourcename", "head", "headentity", "entity1"),
    *("源实体", "源", "头实体"),
)
_TARGET = (
    *("target", "tgt", "targetentity", "tgtid", "targetid", "targetname", "tail", "tailentity", "entity2"),
    *("目标实体", "目标", "尾实体"),
)
# Ends of a relation too, unless the object has a name: then it is an entity with a beginning and an end.
_VAGUE_SOURCE = ("subject", "from", "start", "主体", "主语")
_VAGUE_TARGET = ("object", "to", "end", "客体", "宾语")
_PREDICATE = (
    *("relation", "predicate", "relationship", "relationtype", "relationshiptype", "type", "label", "verb"),
    *("关系", "谓语", "关系类型"),
)
_KEYWORDS = ("keywords", "relationshipkeywords", "relationkeywords", "keyword", "themes", "关键词")
_STRENGTH = ("strength", "relationshipstrength", "relationstrength", "score", "强度")
_ALIASES = ("aliases", "alias", "alsoknownas", "aka", "othernames", "别名", "又称", "简称")
_ENTITY_LISTS = frozenset({"entities", "entity", "nodes", "实体", "实体列表"})
_RELATION_LISTS = frozenset({"relations", "relationships", "relation", "edges", "triples", "triplets", "关系"})
_SQUASH = re.compile(r"[\W_]+")
_LONGEST_TYPE_AS_WRITTEN = 40


def add_object(found: JsonObject, collector: RecordCollector) -> bool:
    """Add the record in a JSON object or list to the collector.

    Returns:
        Whether the object belongs to an extraction, even if only as an empty list of entities.
    """
    if found.items:
        return _add_list(_squash(found.label), found.items, collector)
    fields = {_squash(key): value for key, value in reversed(found.fields.items())}
    in_list = _squash(found.label) in _ENTITY_LISTS
    name = _pick(fields, _NAME) or (found.key if in_list else "")
    source, target = _pick(fields, _SOURCE), _pick(fields, _TARGET)
    if not name:
        source, target = source or _pick(fields, _VAGUE_SOURCE), target or _pick(fields, _VAGUE_TARGET)
    entity_type, description = _pick(fields, _TYPE), _pick(fields, _DESCRIPTION)
    if source and target and not (in_list and name and entity_type):
        predicate = _pick(fields, _PREDICATE)
        if predicate.casefold() in KINDS:
            predicate = ""
        if not description and predicate:
            description = f"{source} {predicate} {target}"  # a bare triple is its own description
        keywords = "\n".join(text for text in (predicate, _pick(fields, _KEYWORDS)) if text)
        collector.add_relation(source, target, keywords, description, strength_weight(_pick(fields, _STRENGTH)))
        return True
    if name and (entity_type or description or in_list):
        aliases = next((fields[key] for key in _ALIASES if fields.get(key)), [])
        given = [aliases] if isinstance(aliases, str) else aliases
        collector.add_entity(name, "" if entity_type == name else entity_type, description, given)
        return True
    lists = [value for key, value in fields.items() if key in _ENTITY_LISTS and isinstance(value, list)]
    for text in (text for value in lists for text in value):
        collector.add_entity(text, "", "")
    return bool(lists)


def add_rows(reading: RowReading, collector: RecordCollector) -> None:
    """Add the records in rows to the collector."""
    names = {_row_key(row.fields[0]) for row in reading.rows if row.kind == "entity" and row.fields}
    types = {clean_type(row.fields[1]) for row in reading.rows if row.kind == "entity" and len(row.fields) > 1}
    for row in (_set_kind(row, names, types, collector) for row in reading.rows):
        if row.kind == "entity":
            name, entity_type, *rest = row.fields
            if not rest and len(entity_type) > _LONGEST_TYPE_AS_WRITTEN:
                entity_type, rest = "", [entity_type]
            if len(rest) > 1 and is_strength(rest[-1]):
                rest.pop()
            collector.add_entity(_row_name(name), entity_type, " ".join(rest))
        elif row.kind == "relation":
            source, target, *rest = row.fields
            weight = strength_weight(rest.pop()) if is_strength(rest[-1]) else 1.0
            if len(rest) < 2:
                keywords, description = "", "".join(rest)
            elif reading.has_keywords_first:
                keywords, description = rest[0], " ".join(rest[1:])
            else:
                keywords, description = rest[-1], " ".join(rest[:-1])
            collector.add_relation(_row_name(source), _row_name(target), keywords, description, weight)


def _squash(key: str) -> str:
    return _SQUASH.sub("", key).casefold()


def _pick(fields: dict[str, JsonField], keys: Sequence[str]) -> str:
    for key in keys:
        if value := fields.get(key):
            return value if isinstance(value, str) else ", ".join(value)
    return ""


def _add_list(label: str, items: Sequence[str], collector: RecordCollector) -> bool:
    if items[0].casefold() in KINDS and len(items) >= 3:
        # Rows written as lists have the field order of the older dialect if they end with a strength.
        row = Row(KINDS[items[0].casefold()], tuple(items[1:]))
        add_rows(RowReading((row,), not is_strength(items[-1]), says_empty=False, is_cut=False), collector)
    elif label in _RELATION_LISTS and len(items) == 3:
        source, predicate, target = items
        collector.add_relation(source, target, predicate, f"{source} {predicate} {target}", 1.0)
    elif label in _ENTITY_LISTS and 2 <= len(items) <= 3:
        collector.add_entity(items[0], items[1], "".join(items[2:]))
    else:
        return False
    return True


def _row_name(text: str) -> str:
    """Return a name without the parts of damaged delimiters attached to it; `list<int>` stays as it is."""
    name = text.strip("| ").removeprefix(">").removesuffix("<")
    if name.startswith("<") and (name.endswith(">") or ">" not in name):
        name = name[1:].removesuffix(">")
    elif name.endswith(">") and "<" not in name:
        name = name[:-1]
    return name.strip("\"' ")


def _row_key(text: str) -> str:
    return entity_key(clean_name(_row_name(text)))


def _set_kind(row: Row, names: set[str], types: set[str], collector: RecordCollector) -> Row:
    """Return the row with the kind that its fields reveal; without a kind if they reveal none."""
    kind: RowKind = row.kind
    fields: Sequence[str] = row.fields
    while len(fields) > 3 and fields[0].casefold() in KINDS:
        kind, fields = KINDS[fields[0].casefold()], fields[1:]
    if len(fields) < 2 or (len(fields) < 3 and kind != "entity"):
        if kind in ("entity", "relation"):
            collector.note("a record with too few fields was dropped")
        return Row("", ())
    if not kind and (len(fields) >= 4 or is_strength(fields[-1])):
        kind = "relation"
    elif not kind:
        kind = "entity" if len(fields[1]) <= _LONGEST_TYPE_AS_WRITTEN else ""
    elif kind == "entity" and len(fields) >= 4 and (_row_key(fields[1]) in names or is_strength(fields[-1])):
        collector.note("a relation called an entity was read as a relation")
        kind = "relation"
    elif (
        kind == "relation" and len(fields) == 3 and clean_type(fields[1]) in types and _row_key(fields[1]) not in names
    ):
        collector.note("an entity called a relation was read as an entity")
        kind = "entity"
    return Row(kind, tuple(fields))


_REASONING_START = re.compile(r"^[ \t]*<(think|thinking|reasoning|thought)>", re.IGNORECASE | re.MULTILINE)
_REASONING_END = re.compile(r"</(?:think|thinking|reasoning|thought)>", re.IGNORECASE)
_LONE_REASONING_END = re.compile(rf"^[ \t]*{_REASONING_END.pattern}[ \t]*$", re.IGNORECASE | re.MULTILINE)
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[\w+-]{0,20}[ \t]*$", re.MULTILINE)


def parse_extraction(text: str, *, is_complete: bool = True) -> ParsedExtraction:
    """Parse the records of a reply; empty text gives an empty, unusable result.

    The last row of a reply that was cut at a length limit (`is_complete` False) is not trusted.

    Returns:
        Distinct records in the order of the reply (JSON first), and what was repaired or dropped.
    """
    collector = RecordCollector()
    plain = _FENCE.sub("", _without_reasoning(text, collector))
    # The text without the JSON values that hold records.
    rest: list[str] = []
    kept = 0
    for value in read_json(plain):
        taken = [add_object(found, collector) for found in value.objects]
        if any(taken):
            rest.append(plain[kept : value.start])
            kept = value.end
            if value.is_cut:
                collector.note("JSON that breaks off was read as far as its last whole record")
    says_empty = bool(rest)
    reading = read_rows("\n".join((*rest, plain[kept:])), is_complete=is_complete)
    add_rows(reading, collector)
    if reading.is_cut:
        collector.note("a record that breaks off was dropped")
    return collector.finish(says_empty=says_empty or reading.says_empty)


def _without_reasoning(text: str, collector: RecordCollector) -> str:
    """Return a reply without the reasoning before or between its lines.

    Reasoning whose start tag the chat template swallowed ends at its end tag. Unfinished reasoning removes the rest of
    the reply, since a draft in it is not yet an answer.
    """
    kept: list[str] = []
    position = 0
    while start := _REASONING_START.search(text, position):
        kept.append(text[position : start.start()])
        end = _REASONING_END.search(text, start.end())
        if end is None:
            collector.note("reasoning that breaks off was dropped")
            return "".join(kept)
        position = end.end()
    kept.append(text[position:])
    plain = "".join(kept)
    end = _LONE_REASONING_END.search(plain)
    return plain[end.end() :] if end else plain


# The records of several passes over one chunk, and the mentions made of them.

K = TypeVar("K")
R = TypeVar("R", ParsedEntity, ParsedRelation)


class ReadRecords:
    """The records of one chunk from all passes: for each entity and pair, those of the pass that says more."""

    def __init__(self) -> None:
        self._entities: dict[str, list[ParsedEntity]] = {}
        self._relations: dict[tuple[str, str], list[ParsedRelation]] = {}

    @property
    def entities(self) -> list[ParsedEntity]:
        """Entity records in the order in which their entities were first read."""
        return [record for records in self._entities.values() for record in records]

    @property
    def relations(self) -> list[ParsedRelation]:
        """Relation records, likewise."""
        return [record for records in self._relations.values() for record in records]

    def add(self, parsed: ParsedExtraction) -> bool:
        """Add the records of one pass; return whether it said anything new."""
        entities: dict[str, list[ParsedEntity]] = {}
        for entity in parsed.entities:
            entities.setdefault(entity_key(entity.name), []).append(entity)
        relations: dict[tuple[str, str], list[ParsedRelation]] = {}
        for relation in parsed.relations:
            source, target = sorted((entity_key(relation.source), entity_key(relation.target)))
            relations.setdefault((source, target), []).append(relation)
        changed = [_merge(self._entities, key, records) for key, records in entities.items()]
        changed += [_merge(self._relations, key, records) for key, records in relations.items()]
        return any(changed)


def to_mentions(
    records: ReadRecords, document: Document, chunk: Chunk, types: Sequence[str]
) -> tuple[tuple[EntityMention, ...], tuple[RelationMention, ...]]:
    """Return the mentions of a chunk from the records read in it.

    A mention is ranked as a subject if its entity, or one end of its relation, is a subject of the chunk
    (`chunk_subjects`). Types that differ from the configured ones only in case, spaces or dashes get the configured
    spelling.
    """
    subjects = subject_keys(document.title, chunk, [entity.name for entity in records.entities])

    def rank(*names: str) -> int:
        is_subject = not subjects.isdisjoint(map(entity_key, names))
        return mention_rank(document.id, chunk.position, is_subject=is_subject)

    spellings = {_squash(kind): kind for kind in types}
    entities = [
        EntityMention(chunk.id, e.name, spellings.get(_squash(e.type), e.type), e.description, rank(e.name))
        for e in records.entities
    ]
    relations = [
        RelationMention(
            *(chunk.id, r.source, r.target, r.keywords, r.description, r.strength), rank(r.source, r.target)
        )
        for r in records.relations
    ]
    # An end without a record of its own is described by its relation.
    entities += [
        EntityMention(chunk.id, name, UNKNOWN_TYPE, relation.description, rank(name))
        for name, relation in unlisted_ends(entities, relations)
    ]
    return tuple(entities), tuple(relations)


def _merge(known: dict[K, list[R]], key: K, records: list[R]) -> bool:
    """Replace the known records of an entity or pair by those of a pass if these say more; return whether they do."""
    if key in known and _length(records) <= _length(known[key]):
        return False
    known[key] = records
    return True


def _length(records: Iterable[ParsedEntity | ParsedRelation]) -> int:
    return sum(len(record.description) for record in records)
