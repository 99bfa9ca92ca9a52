"""Reads every passage of a set with `LocalExtractor` and compares what it finds with the set's own annotation.

A set is a folder with `corpus.jsonl` (`id`, `title`, `text`) and `openie.jsonl` (`id`, `entities`, `triples`). Names
count as equal by `entity_key`, articles aside; dates, numbers and quantities, which are no entities here, are left out
of recall and not held against precision. A pair is found when any relation joins its two names. Everything is measured
at the default bounds and without bounds; speed is CPU time of one passage after another, the slowest way.

`python -m benchmarks.local_extraction FOLDER ...` prints a table.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Stopwatch
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings, format_table
from heliograph.ingest.extraction.local import LocalExtractor
from heliograph.models import Chunk, Document, Extraction
from heliograph.text.names import entity_key
from heliograph.text.tokens import count_tokens

__all__ = ["TITLE", "run"]

TITLE = "Extraction without a chat model"

_SETS = Path(__file__).parents[2] / "shared" / "bench"
_DEFAULT = ("redocred_gold_kg", "nlpcc_mh_zh")
_UNBOUNDED = 1_000_000.0
_ARTICLE = re.compile(r"(?:the|an?) ")
_QUANTITY = re.compile(
    r".*\d.*|(?:one|two|three|four|five|six|seven|eight|nine|ten|first|second)\b.*"
    r"|.*\b(?:year|month|day|hour|century|decade|dozen|hundred|thousand)s?",
    re.IGNORECASE,
)

Pair = frozenset[str]


@dataclass(frozen=True, slots=True)
class _Passage:
    title: str
    text: str
    entities: frozenset[str]
    other_entities: frozenset[str]
    pairs: frozenset[Pair]


@dataclass(slots=True)
class _Counts:
    found: int = 0
    right: int = 0
    wanted: int = 0

    def add(self, found: set[str] | set[Pair], wanted: frozenset[str] | frozenset[Pair], uncounted: int = 0) -> None:
        self.found += len(found) - uncounted
        self.right += len(found & wanted)
        self.wanted += len(wanted)

    def recall(self) -> float:
        return self.right / max(self.wanted, 1)

    def precision(self) -> float:
        return self.right / max(self.found, 1)


def run(options: Options) -> Findings:
    """Measure each set, at the default bounds and without any."""
    figures: list[Figure] = []
    for folder in _folders(options.arguments or _DEFAULT):
        passages = list(_passages(folder))[: 20 if options.quick else None]
        figures += _measure(folder.name, passages, LocalExtractor())
        figures += _measure(f"{folder.name}, unbounded", passages, LocalExtractor(_UNBOUNDED, _UNBOUNDED))
    return Findings(tuple(figures))


def _folders(names: Sequence[str]) -> Iterator[Path]:
    for name in names:
        folder = Path(name) if (Path(name) / "openie.jsonl").exists() else _SETS / name
        if not (folder / "openie.jsonl").exists():
            raise FileNotFoundError(f"there is no set {name!r}; give a folder that holds openie.jsonl")
        yield folder


def _passages(folder: Path) -> Iterator[_Passage]:
    texts = {item["id"]: item for item in _read(folder / "corpus.jsonl")}
    for item in _read(folder / "openie.jsonl"):
        counted = [name for name in item["entities"] if not _QUANTITY.fullmatch(name)]
        pairs = {
            frozenset((_key(source), _key(target)))
            for source, _, target in item["triples"]
            if not _QUANTITY.fullmatch(source) and not _QUANTITY.fullmatch(target)
        }
        keys = frozenset(map(_key, counted))
        yield _Passage(
            title=texts[item["id"]]["title"],
            # Some sets are tokenised: "Franco - Prussian".
            text=texts[item["id"]]["text"].replace(" - ", "-"),
            entities=keys,
            other_entities=frozenset(map(_key, item["entities"])) - keys,
            pairs=frozenset(pair for pair in pairs if len(pair) == 2),
        )


def _read(path: Path) -> Iterator[dict[str, list[str] | str]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _key(name: str) -> str:
    return _ARTICLE.sub("", entity_key(name.replace(" - ", "-")), count=1)


def _measure(name: str, passages: Sequence[_Passage], extractor: LocalExtractor) -> list[Figure]:
    entities, pairs, watch = _Counts(), _Counts(), Stopwatch()
    tokens = 0
    for passage in passages:
        chunk = Chunk("chunk-0", "doc-0", 0, passage.text, count_tokens(passage.text), 0, len(passage.text))
        tokens += chunk.token_count
        with watch.lap():
            extraction = asyncio.run(extractor.extract(Document("doc-0", "", title=passage.title), [chunk]))[0]
        found = {_key(mention.name) for mention in extraction.entities}
        entities.add(found, passage.entities, len(found & passage.other_entities))
        pairs.add(_pairs(extraction), passage.pairs)
    seconds = sum(watch.laps) / 1000
    return [
        Figure(f"{name}: recall of entities", 100 * entities.recall(), "%", note=f"{entities.wanted:,} wanted"),
        Figure(f"{name}: precision of entities", 100 * entities.precision(), "%", note=f"{entities.found:,} found"),
        Figure(f"{name}: recall of pairs", 100 * pairs.recall(), "%", note=f"{pairs.wanted:,} wanted"),
        Figure(f"{name}: entities per 400 tokens", 400 * entities.found / tokens),
        Figure(f"{name}: relations per 400 tokens", 400 * pairs.found / tokens),
        Figure(
            f"{name}: speed", len(passages) / seconds * 60, "passages/minute", note=f"{tokens / seconds:,.0f} tokens/s"
        ),
    ]


def _pairs(extraction: Extraction) -> set[Pair]:
    return {frozenset((_key(relation.source), _key(relation.target))) for relation in extraction.relations}


if __name__ == "__main__":
    rows = (figure.row()[:2] for figure in run(Options(arguments=tuple(sys.argv[1:]))).figures)
    print(format_table(("figure", "value"), rows))
