"""What real models really replied: replies of several models to several prompts, in three languages."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from heliograph.extraction.replies import ParsedExtraction, parse_extraction

pytestmark = pytest.mark.shared

REPLIES = Path(__file__).parents[5] / "shared" / "model_replies" / "responses.jsonl"

# A crude, independent view: a record starts where its kind stands, opened by a bracket or a quote, before a `<`.
START = re.compile(r"[(\"“]\s*(?:entity|relationship)[\"”]?\s*<\|", re.IGNORECASE)
# What is left out on purpose: names that are bare small numbers, a model's own template, relations to oneself.
DROPPED = re.compile(r"(\w.*) dropped(?: \(x(\d+)\))?")


def replies() -> list[str]:
    if not REPLIES.exists():
        pytest.skip("needs the file responses.jsonl in ../shared/model_replies, beside the project")
    with REPLIES.open(encoding="utf-8") as lines:
        return [json.loads(line)["response"] for line in lines]


def record_starts(reply: str) -> set[str]:
    """Return the distinct records of a reply, each as the letters and digits of its first line."""
    answer = reply.rpartition("</think>")[2]
    bounds = [match.start() for match in START.finditer(answer)] + [len(answer)]
    records = (answer[start:end].partition("\n")[0] for start, end in pairwise(bounds))
    return {re.sub(r"[\W_]+", "", record).casefold() for record in records}


def dropped_on_purpose(parsed: ParsedExtraction) -> int:
    matches = filter(None, map(DROPPED.fullmatch, parsed.problems))
    return sum(int(match.group(2) or 1) for match in matches if "breaks off" not in match.group(1))


def test_replies_with_records_are_read_whole() -> None:
    whole = total = read = expected = 0
    for reply in replies():
        if not (starts := record_starts(reply)):
            continue
        parsed = parse_extraction(reply)
        found = len(parsed.entities) + len(parsed.relations)
        total += 1
        whole += found + dropped_on_purpose(parsed) >= len(starts)
        expected += len(starts)
        read += min(found, len(starts))
    assert total > 300
    assert whole / total >= 0.98
    assert read / expected >= 0.98


def test_fields_of_real_replies_hold_no_marks_of_their_form() -> None:
    marks = re.compile(r"<\|>|<\|#|##|\"\)|^\(|content_keywords")
    for reply in replies():
        parsed = parse_extraction(reply)
        for entity in parsed.entities:
            assert not marks.search(f"{entity.name}\n{entity.type}\n{entity.description}")
        for relation in parsed.relations:
            assert not marks.search("\n".join((relation.source, relation.target, relation.description)))
            assert not marks.search("\n".join(relation.keywords))


def test_replies_to_other_prompts_hold_no_records() -> None:
    others = [reply for reply in replies() if not START.search(reply)]
    assert len(others) > 300
    assert not [reply for reply in others if parse_extraction(reply).is_usable]
