"""From what the readers found to records: which key or which place holds which field.

JSON objects come with keys of many spellings, rows with places that depend on the dialect and with kinds that are
sometimes wrong. Both end in a `RecordCollector`, which cleans them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from heliograph.ingest.extraction.replies_delimiter import KINDS, Row, RowKind, RowReading, is_strength
from heliograph.ingest.extraction.replies_json import JsonField, JsonObject
from heliograph.ingest.extraction.replies_records import RecordCollector, clean_type, strength_weight
from heliograph.text.names import clean_name, entity_key

__all__ = ["add_object", "add_rows"]

# Keys without case, spaces and underscores, the most telling first.
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
    """Hand the record in a JSON object or list to the collector.

    Returns:
        Whether the object says anything of an extraction, be it that a list of entities is empty.
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
        _add_relation(source, target, fields, collector)
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
    """Hand the records in rows to the collector."""
    names = {_row_key(row.fields[0]) for row in reading.rows if row.kind == "entity" and row.fields}
    types = {clean_type(row.fields[1]) for row in reading.rows if row.kind == "entity" and len(row.fields) > 1}
    for row in (_set_kind(row, names, types, collector) for row in reading.rows):
        if row.kind == "entity":
            _add_entity_row(row.fields, collector)
        elif row.kind == "relation":
            _add_relation_row(row.fields, collector, has_keywords_first=reading.has_keywords_first)


def _squash(key: str) -> str:
    return _SQUASH.sub("", key).casefold()


def _pick(fields: dict[str, JsonField], keys: Sequence[str]) -> str:
    for key in keys:
        if value := fields.get(key):
            return value if isinstance(value, str) else ", ".join(value)
    return ""


def _add_relation(source: str, target: str, fields: dict[str, JsonField], collector: RecordCollector) -> None:
    predicate = _pick(fields, _PREDICATE)
    if predicate.casefold() in KINDS:
        predicate = ""
    description = _pick(fields, _DESCRIPTION)
    if not description and predicate:
        description = f"{source} {predicate} {target}"  # a bare triple is its own description
    keywords = "\n".join(text for text in (predicate, _pick(fields, _KEYWORDS)) if text)
    collector.add_relation(source, target, keywords, description, strength_weight(_pick(fields, _STRENGTH)))


def _add_list(label: str, items: Sequence[str], collector: RecordCollector) -> bool:
    if items[0].casefold() in KINDS and len(items) >= 3:
        # Rows written as lists are in the order of the older dialect when they end with a strength.
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
    """Return a name without the parts of damaged delimiters that cling to it; `list<int>` stays as it is."""
    name = text.strip("| ").removeprefix(">").removesuffix("<")
    if name.startswith("<") and (name.endswith(">") or ">" not in name):
        name = name[1:].removesuffix(">")
    elif name.endswith(">") and "<" not in name:
        name = name[:-1]
    return name.strip("\"' ")


def _row_key(text: str) -> str:
    return entity_key(clean_name(_row_name(text)))


def _set_kind(row: Row, names: set[str], types: set[str], collector: RecordCollector) -> Row:
    """Return the row with the kind that its fields show it to be; of no kind if they show none."""
    kind: RowKind = row.kind
    fields: Sequence[str] = row.fields
    while len(fields) > 3 and fields[0].casefold() in KINDS:
        kind, fields = KINDS[fields[0].casefold()], fields[1:]
    if len(fields) < 2 or (len(fields) < 3 and kind != "entity"):
        if kind in ("entity", "relation"):
            collector.note("a record with too few fields was dropped")
        return Row("", ())
    if not kind:
        kind = _guess_kind(fields)
    elif kind == "entity" and len(fields) >= 4 and (_row_key(fields[1]) in names or is_strength(fields[-1])):
        collector.note("a relation called an entity was read as a relation")
        kind = "relation"
    elif kind == "relation" and len(fields) == 3 and _is_type(fields[1], names, types):
        collector.note("an entity called a relation was read as an entity")
        kind = "entity"
    return Row(kind, tuple(fields))


def _is_type(field: str, names: set[str], types: set[str]) -> bool:
    return clean_type(field) in types and _row_key(field) not in names


def _guess_kind(fields: Sequence[str]) -> RowKind:
    if len(fields) >= 4 or is_strength(fields[-1]):
        return "relation"
    return "entity" if len(fields[1]) <= _LONGEST_TYPE_AS_WRITTEN else ""


def _add_entity_row(fields: Sequence[str], collector: RecordCollector) -> None:
    name, entity_type, *rest = fields
    if not rest and len(entity_type) > _LONGEST_TYPE_AS_WRITTEN:
        entity_type, rest = "", [entity_type]
    if len(rest) > 1 and is_strength(rest[-1]):
        rest.pop()
    collector.add_entity(_row_name(name), entity_type, " ".join(rest))


def _add_relation_row(fields: Sequence[str], collector: RecordCollector, *, has_keywords_first: bool) -> None:
    source, target, *rest = fields
    weight = strength_weight(rest.pop()) if is_strength(rest[-1]) else 1.0
    if len(rest) < 2:
        keywords, description = "", "".join(rest)
    elif has_keywords_first:
        keywords, description = rest[0], " ".join(rest[1:])
    else:
        keywords, description = rest[-1], " ".join(rest[:-1])
    collector.add_relation(_row_name(source), _row_name(target), keywords, description, weight)
