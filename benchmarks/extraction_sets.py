"""Annotated passages and questions with gold passages, as the measurement of extraction needs them.

A set is a folder with `corpus.jsonl` (`id`, `title`, `text`), perhaps `openie.jsonl` (`id`, `entities`, `triples`,
perhaps `aliases`) and `queries.jsonl` (`gold`, `type`). Names are compared by `entity_key`, articles aside.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heliograph.ids import entity_key

__all__ = ["SETS", "Annotation", "Passage", "folder_of", "key", "passages", "questions", "read_annotations"]

SETS = Path(__file__).parents[2] / "shared" / "bench"

_ARTICLE = re.compile(r"\A(?:the|an?) ")
_BRACKETED_END = re.compile(r"\s*\([^()]*\)$")
_QUANTITY = re.compile(
    r".*\d.*|(?:one|two|three|four|five|six|seven|eight|nine|ten|first|second)\b.*"
    r"|.*\b(?:year|month|day|hour|century|decade|dozen|hundred|thousand)s?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Passage:
    """A text of a set; `title_key` is its title's key without what stands in brackets."""

    id: str
    title: str
    text: str

    @property
    def title_key(self) -> str:
        """The title as it would be named in a text."""
        return key(_BRACKETED_END.sub("", self.title))


@dataclass(frozen=True, slots=True)
class Annotation:
    """What a set says of a passage.

    Attributes:
        entities: Keys of every spelling, per entity.
        uncounted: Keys of dates, numbers and quantities, which are no entities here.
        pairs: Indices into `entities` that some triple joins.
    """

    entities: tuple[frozenset[str], ...]
    uncounted: frozenset[str]
    pairs: frozenset[tuple[int, int]]


def folder_of(name: str) -> Path:
    """Return the folder of a set by its path, or by its name among the sets at hand."""
    folder = Path(name) if (Path(name) / "corpus.jsonl").exists() else SETS / name
    if not (folder / "corpus.jsonl").exists():
        raise FileNotFoundError(f"there is no set {name!r}; give a folder that holds corpus.jsonl")
    return folder


def key(name: str) -> str:
    """Return what makes two spellings one name here."""
    return _ARTICLE.sub("", entity_key(_joined(name)), count=1)


def passages(folder: Path) -> dict[str, Passage]:
    """Return a set's passages by id, in order."""
    items = _read(folder / "corpus.jsonl")
    return {item["id"]: Passage(item["id"], item["title"], _joined(item["text"])) for item in items}


def read_annotations(folder: Path) -> dict[str, Annotation]:
    """Return what the set says of its passages; nothing if it says nothing."""
    if not (folder / "openie.jsonl").exists():
        return {}
    return {item["id"]: _annotation(item) for item in _read(folder / "openie.jsonl")}


def questions(folder: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the type and the gold passages of every question that has two or more."""
    if (folder / "queries.jsonl").exists():
        for item in _read(folder / "queries.jsonl"):
            if len(item["gold"]) > 1:
                yield item.get("type", ""), tuple(item["gold"])


def _annotation(item: Mapping[str, Any]) -> Annotation:
    names: Sequence[str] = [name for name in item["entities"] if not _QUANTITY.fullmatch(name)]
    aliases: Mapping[str, Sequence[str]] = item.get("aliases", {})
    entities = tuple(frozenset(map(key, (name, *aliases.get(name, ())))) for name in names)
    number = {spelling: index for index, keys in enumerate(entities) for spelling in keys}
    joined = ((number.get(key(source)), number.get(key(target))) for source, _, target in item["triples"])
    pairs = frozenset((min(a, b), max(a, b)) for a, b in joined if a is not None and b is not None and a != b)
    return Annotation(entities, frozenset(map(key, item["entities"])) - set(number), pairs)


def _joined(text: str) -> str:
    """Return the text of a set that is tokenised ("Franco - Prussian") as it would be written."""
    return text.replace(" - ", "-")


def _read(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)
