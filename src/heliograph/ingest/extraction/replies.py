"""Reading an extraction reply: text of a chat model in, entities and relations out, whatever form it took.

Two forms are read, told apart by what stands there and mixed as they come: JSON (`replies_json`) and rows of
delimited fields (`replies_delimiter`). Around them there may be prose, fences and reasoning. Whole records are kept,
broken ones are dropped and noted; no text raises an error, and time is linear in its length. Whether the reply can
be used at all is `ParsedExtraction.is_usable`.
"""

from __future__ import annotations

import re

from heliograph.ingest.extraction.replies_delimiter import read_rows
from heliograph.ingest.extraction.replies_fields import add_object, add_rows
from heliograph.ingest.extraction.replies_json import read_json
from heliograph.ingest.extraction.replies_records import (
    ParsedEntity,
    ParsedExtraction,
    ParsedRelation,
    RecordCollector,
)

__all__ = ["ParsedEntity", "ParsedExtraction", "ParsedRelation", "parse_extraction"]

_REASONING_START = re.compile(r"^[ \t]*<(think|thinking|reasoning|thought)>", re.IGNORECASE | re.MULTILINE)
_REASONING_END = re.compile(r"</(?:think|thinking|reasoning|thought)>", re.IGNORECASE)
_LONE_REASONING_END = re.compile(rf"^[ \t]*{_REASONING_END.pattern}[ \t]*$", re.IGNORECASE | re.MULTILINE)
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[\w+-]{0,20}[ \t]*$", re.MULTILINE)


def parse_extraction(text: str, *, is_complete: bool = True) -> ParsedExtraction:
    """Read the records in a reply.

    Args:
        text: The reply. Empty text gives an empty, unusable result.
        is_complete: False when the reply was cut at a length limit, so that a last row cannot be trusted.

    Returns:
        Distinct records in the order of the reply (JSON first), and what was repaired or dropped.
    """
    collector = RecordCollector()
    plain = _FENCE.sub("", _without_reasoning(text, collector))
    rest, says_empty = _read_values(plain, collector)
    reading = read_rows(rest, is_complete=is_complete)
    add_rows(reading, collector)
    if reading.is_cut:
        collector.note("a record that breaks off was dropped")
    return collector.finish(says_empty=says_empty or reading.says_empty)


def _read_values(text: str, collector: RecordCollector) -> tuple[str, bool]:
    """Take the records of all JSON values; return the text without those values, and whether any spoke of records."""
    rest: list[str] = []
    kept = 0
    is_extraction = False
    for value in read_json(text):
        taken = [add_object(found, collector) for found in value.objects]
        if any(taken):
            is_extraction = True
            rest.append(text[kept : value.start])
            kept = value.end
            if value.is_cut:
                collector.note("JSON that breaks off was read as far as its last whole record")
    rest.append(text[kept:])
    return "\n".join(rest), is_extraction


def _without_reasoning(text: str, collector: RecordCollector) -> str:
    """Return a reply without the reasoning before or between its lines.

    Reasoning whose start tag the template swallowed ends at its end tag; reasoning that was never finished takes the
    rest of the reply with it, since what it drafts is not yet an answer.
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
