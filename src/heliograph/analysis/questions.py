"""Files of questions, for benchmarks and assertions.

Three forms, told by the name: `.jsonl`, an object a line; `.json`, a list of objects or an object with `questions`;
anything else, a question a line, where empty lines and lines that begin with `#` say nothing. An object has `question`
(or `query`) and may have `mode`, `entities`, `sources` and `min_recall`; other fields are left alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from heliograph.errors import InvalidRequestError, NotFoundError

__all__ = ["AskedQuestion", "read_questions"]


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question of a file.

    Attributes:
        question: The question.
        mode: How to ask it; empty where the file does not say.
        entities: Names of entities that its result must show.
        sources: Sources of documents that its result must quote.
        min_recall: Least share of these that passes, 0 to 1; None where the file does not say.
    """

    question: str
    mode: str = ""
    entities: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    min_recall: float | None = None


def read_questions(path: Path) -> list[AskedQuestion]:
    """Return the questions of a file, in order.

    Raises:
        NotFoundError: There is no such file.
        InvalidRequestError: It is not UTF-8, not of its form, or holds no question.
    """
    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise NotFoundError(f"the file of questions {str(path)!r} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"the file of questions {str(path)!r} is not UTF-8; convert it") from error
    rows = _rows(path, text)
    if not rows:
        raise InvalidRequestError(f"the file of questions {str(path)!r} holds no question")
    return [_question(f"{path.name} {where}", row) for where, row in rows]


def _rows(path: Path, text: str) -> Sequence[tuple[str, Any]]:
    lines = [(f"line {number}", line.strip()) for number, line in enumerate(text.splitlines(), start=1)]
    match path.suffix.lower():
        case ".jsonl":
            return [(where, _decoded(f"{path.name} {where}", line)) for where, line in lines if line]
        case ".json":
            whole = _decoded(path.name, text)
            listed = cast("Mapping[str, Any]", whole).get("questions") if isinstance(whole, Mapping) else whole
            if not isinstance(listed, list):
                raise InvalidRequestError(f"{path.name} holds neither a list nor an object with 'questions'")
            return [(f"question {number}", row) for number, row in enumerate(cast("list[Any]", listed), start=1)]
        case _:
            return [(where, {"question": line}) for where, line in lines if line and not line.startswith("#")]


def _decoded(where: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRequestError(f"{where} is not JSON: {error}") from error


def _question(where: str, row: Any) -> AskedQuestion:
    if not isinstance(row, Mapping):
        row = {"question": row}
    fields = cast("Mapping[str, Any]", row)
    question = fields.get("question", fields.get("query"))
    if not isinstance(question, str) or not question.strip():
        raise InvalidRequestError(f"{where} has no text in 'question': {question!r:.100}")
    return AskedQuestion(
        question=question,
        mode=str(fields.get("mode") or ""),
        entities=_names(where, "entities", fields.get("entities")),
        sources=_names(where, "sources", fields.get("sources")),
        min_recall=_share(where, fields.get("min_recall")),
    )


def _names(where: str, field: str, value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(name, str) for name in cast("list[Any]", value)):
        raise InvalidRequestError(f"{where} has {field!r} that is no list of texts: {value!r:.100}")
    return tuple(cast("list[str]", value))


def _share(where: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidRequestError(f"{where} has 'min_recall' that is no number from 0 to 1: {value!r:.100}")
    return float(value)
