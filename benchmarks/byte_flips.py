"""Flips single bits in the files of a workspace and looks at what is said of it.

A small workspace is filled, questioned and closed, so that all its files are there; another copy is taken while it is
open, so that the log holds commits. For every flip one of the two is copied and one bit of it changed, in every other
case of any byte, else of any file. Then it is opened as it is, all that it holds is read (questions in four modes, with
a filter too; documents, chunks, entities; an export of all truth) and checked. Right is an equal answer, an error of
Heliograph's own, or another answer that the check names. What the check names is repaired, read again by `retry` and
indexed again, as the messages say; then all must be as before.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import shutil
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.corpus import NOUNS, HashEmbedding, corpus_document
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from heliograph import AsyncHeliograph, QueryParam
from heliograph.errors import HeliographError
from heliograph.ingest.models import NewDocument

__all__ = ["TITLE", "Outcomes", "flip_repeatedly", "run"]

TITLE = "Flipped bits"

_FLIPS = 500
_NUMBERS = {"closed": 10, "open": 13}
# What another run gives otherwise.
_PASSING = {"created_at", "created_at_unix", "updated_at", "track_id", "exported_at"}
_DIMENSION = 64
_MODES = ("naive", "mix", "local", "fusion")
_QUESTIONS = tuple(
    f"Which {first} reports to which {second}?" for first, second in zip(NOUNS[:2], NOUNS[2:4], strict=True)
)


@dataclass(slots=True)
class Outcomes:
    """What became of the flips.

    Attributes:
        counts: How many had which outcome.
        tracebacks: Errors that are none of Heliograph's.
        unnoticed: Wrong answers that a check does not name.
        unrepaired: Flips after which a repair, `retry` and indexing again do not bring back what was there.
    """

    counts: Counter[str] = field(default_factory=Counter[str])
    tracebacks: list[str] = field(default_factory=list[str])
    unnoticed: list[str] = field(default_factory=list[str])
    unrepaired: list[str] = field(default_factory=list[str])


def run(options: Options) -> Findings:
    """Flip 500 bits, or as many as the argument says; 20 if quick."""
    flips = int(options.arguments[0]) if options.arguments else 20 if options.quick else _FLIPS
    outcomes = flip_repeatedly(flips, seed=15)
    figures = (
        *(Figure(name, count) for name, count in sorted(outcomes.counts.items())),
        Figure("tracebacks", len(outcomes.tracebacks), at_most=0),
        Figure("wrong answers unnoticed", len(outcomes.unnoticed), at_most=0),
        Figure("not as before after repair, retry and indexing again", len(outcomes.unrepaired), at_most=0),
    )
    return Findings(figures, tuple([*outcomes.tracebacks, *outcomes.unnoticed, *outcomes.unrepaired][:20]))


def flip_repeatedly(flips: int, seed: int) -> Outcomes:
    """Flip that many bits, one at a time."""
    return asyncio.run(_flip_repeatedly(flips, random.Random(seed)))


async def _flip_repeatedly(flips: int, drawn: random.Random) -> Outcomes:
    outcomes = Outcomes()
    with TemporaryDirectory() as name:
        folder = Path(name)
        await _fill(folder)
        whole = {kind: await _read_copy(folder, kind) for kind in ("closed", "open")}
        for number in range(flips):
            kind = drawn.choice(("closed", "open"))
            await _flip(folder, kind, drawn, whole[kind], outcomes, number)
    return outcomes


async def _fill(folder: Path) -> None:
    async with _opened(folder / "filled") as engine:
        first = [corpus_document(number) for number in range(_NUMBERS["closed"])]
        await _insert(engine, first)
        await _read(engine, folder)
    # As it is left, with indexes for all of it; and with commits in the log.
    shutil.copytree(folder / "filled", folder / "closed")
    async with _opened(folder / "filled") as engine:
        last = [corpus_document(number) for number in range(_NUMBERS["closed"], _NUMBERS["open"])]
        await _insert(engine, last)
        shutil.copytree(folder / "filled", folder / "open", ignore=shutil.ignore_patterns("*-shm"))


async def _insert(engine: AsyncHeliograph, documents: Sequence[NewDocument]) -> None:
    sources, metadata = [item.source for item in documents], [item.metadata or {} for item in documents]
    await engine.insert([item.text for item in documents], sources=sources, metadata=metadata)


@contextlib.asynccontextmanager
async def _opened(path: Path) -> AsyncGenerator[AsyncHeliograph]:
    async with AsyncHeliograph(path, embedding=HashEmbedding(_DIMENSION)) as engine:
        yield engine


async def _read_copy(folder: Path, kind: str) -> str:
    copy = folder / "copy"
    shutil.copytree(folder / kind, copy)
    try:
        async with _opened(copy) as engine:
            return await _read(engine, folder)
    finally:
        shutil.rmtree(copy)


async def _read(engine: AsyncHeliograph, folder: Path) -> str:
    """Return all that a workspace says, as text; but for moments and batches, which do not follow from the truth."""
    said: list[Any] = []
    for question, mode, filter_ in product(_QUESTIONS, _MODES, (None, {"number": {"gte": 4}})):
        found = await engine.query_data(question, QueryParam(mode=mode, filter=filter_))
        said.append(found["data"])
    page = await engine.documents()
    said += [asdict(document) for document in sorted(page.documents, key=lambda document: document.id)]
    said += [asdict(chunk) for document in page.documents for chunk in await engine.chunks(document.id)]
    said += [asdict(entity) for entity in await engine.entities(limit=10_000)]
    path = folder / "export.jsonl"
    path.unlink(missing_ok=True)
    await engine.export(path)
    said += sorted(json.dumps(_lasting(json.loads(line)), sort_keys=True) for line in path.read_text().splitlines())
    return json.dumps(_lasting(said), default=repr, sort_keys=True)


def _lasting(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lasting(item) for key, item in value.items() if key not in _PASSING}  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return [_lasting(item) for item in value] if isinstance(value, list) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


async def _flip(folder: Path, kind: str, drawn: random.Random, whole: str, outcomes: Outcomes, number: int) -> None:
    copy = folder / "copy"
    shutil.copytree(folder / kind, copy)
    where = f"flip {number}: {_flip_one(copy, drawn)} of the {kind} workspace"
    try:
        outcome, is_named = await _look(copy, folder, whole)
        outcomes.counts[outcome] += 1
        if outcome == "another answer" and not is_named:
            outcomes.unnoticed.append(where)
        if is_named:
            await _repair(copy, folder, kind, whole, outcomes, where)
    except HeliographError as error:
        outcomes.unrepaired.append(f"{where}: {error!r}")
    except Exception as error:  # noqa: BLE001 (what is counted)
        outcomes.tracebacks.append(f"{where}: {error!r}")
    finally:
        shutil.rmtree(copy)


def _flip_one(copy: Path, drawn: random.Random) -> str:
    files = sorted(path for path in copy.rglob("*") if path.is_file() and path.stat().st_size)
    sizes = [path.stat().st_size for path in files]
    (chosen,) = drawn.choices(files, sizes if drawn.random() < 1 / 2 else None)
    contents = bytearray(chosen.read_bytes())
    place, bit = drawn.randrange(len(contents)), drawn.randrange(8)
    contents[place] ^= 1 << bit
    chosen.write_bytes(contents)
    return f"bit {bit} of byte {place} of {chosen.name}"


async def _look(copy: Path, folder: Path, whole: str) -> tuple[str, bool]:
    """Return what a workspace says of itself, and whether a check names that something is wrong."""
    try:
        async with _opened(copy) as engine:
            try:
                outcome = "an equal answer" if await _read(engine, folder) == whole else "another answer"
            except HeliographError:
                outcome = "an error of Heliograph's"
            report = await engine.check()
            return outcome, not report.is_clean
    except HeliographError:
        return "an error of Heliograph's", True


async def _repair(copy: Path, folder: Path, kind: str, whole: str, outcomes: Outcomes, where: str) -> None:
    """Do what the messages say: repair, read again what was lost, index the documents again; all is there then."""
    try:
        async with _opened(copy) as engine:
            report = await engine.check(repair=True)
            await engine.retry()
            await _insert(engine, [corpus_document(number) for number in range(_NUMBERS[kind])])
            again = await engine.check()
            is_equal = await _read(engine, folder) == whole
    except HeliographError:
        outcomes.counts["not to be opened any more, for a backup"] += 1
        return
    lost = [problem for problem in report.problems if not problem.is_repairable]
    outcomes.counts["put right, with what was lost indexed again" if lost else "put right"] += 1
    if again.problems or not is_equal:
        problems = [problem.message for problem in (*report.problems, *again.problems)]
        outcomes.unrepaired.append(f"{where}: equal {is_equal}; {problems[:5]}")
