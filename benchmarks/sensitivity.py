"""How much each parameter of fused retrieval matters: R@5 with one of them halved or doubled, all others as they are.

A set is indexed as `python -m benchmarks retrieval` does it; `data=FOLDER` keeps the indexes and uses them again. Of a
large set the first 100 questions are asked. A change of a point or two is chance.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from benchmarks.retrieval import find_folders, recall
from heliograph import AsyncHeliograph, NewDocument, QueryParam
from heliograph.query.fusion import search
from heliograph.query.fusion.parameters import FusionParameters

__all__ = ["TITLE", "run"]

TITLE = "Sensitivity of fused retrieval"

_DEFAULT = ("hotpotqa_train100",)
_MOST_QUESTIONS = 100
_CUT = 5
_FACTORS = (0.5, 2.0)


def run(options: Options) -> Findings:
    """Measure each set with each parameter changed."""
    words = [word.partition("=") for word in options.arguments]
    data = next((Path(value) for name, sign, value in words if sign and name == "data"), None)
    folders = find_folders([name for name, sign, _ in words if not sign] or _DEFAULT)
    figures = [figure for folder in folders for figure in asyncio.run(_measure(folder, data, options.quick))]
    return Findings(tuple(figures), ())


async def _measure(folder: Path, data: Path | None, is_quick: bool) -> list[Figure]:
    questions = [item for item in _read(folder / "queries.jsonl") if item["gold"]][: 3 if is_quick else _MOST_QUESTIONS]
    with TemporaryDirectory() as temporary:
        async with AsyncHeliograph(data or temporary, workspace=folder.name) as kb:
            if not (await kb.stats()).chunks:
                passages = list(_read(folder / "corpus.jsonl"))[: 40 if is_quick else None]
                await kb.insert(
                    [NewDocument(f"{item['title']}\n{item['text']}", source=item["id"]) for item in passages]
                )
            figures: list[Figure] = []
            for label, parameters in _variants():
                with _parameters(parameters):
                    figures.append(Figure(f"{folder.name}, {label}, R@{_CUT}", await _recall(kb, questions), "%"))
    return figures


def _variants() -> Iterator[tuple[str, FusionParameters]]:
    usual = FusionParameters()
    yield "as it is", usual
    for field in fields(usual):
        value = getattr(usual, field.name)
        for factor in _FACTORS:
            changed = type(value)(value * factor)
            if field.name != "damping" or changed < 1:
                yield f"{field.name} {changed:g}", replace(usual, **{field.name: changed})


@contextmanager
def _parameters(parameters: FusionParameters) -> Generator[None]:
    with mock.patch.object(search, "FusionParameters", return_value=parameters):
        yield


async def _recall(kb: AsyncHeliograph, questions: Sequence[dict[str, Any]]) -> float:
    shares: list[float] = []
    for item in questions:
        answer = await kb.query_data(str(item["question"]), QueryParam(mode="fusion"))
        found = [chunk["file_path"] for chunk in answer["data"].get("chunks", ())]
        shares.append(recall(found, frozenset(item["gold"]), _CUT))
    return 100 * fmean(shares)


def _read(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)
