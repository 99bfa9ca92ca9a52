"""A thousand random operations, with `kill -9` around each tenth.

One process inserts, updates, deletes, doubles documents, and creates, edits, renames, merges, splits, hides and relates
entities, and takes such curations back, one to three at once; each is acknowledged on its own. Around each tenth it
is killed at a random instant (sometimes while it opens), and the next one goes on in the folder as the kill left it.
After every kill a copy is opened. What was acknowledged is there, an operation under way has happened or not, `check`
finds nothing, before `resume` and after it, and all projections (texts, chunks, what was read in them, entities,
relations, evidence, vectors, full text) equal those of a fresh workspace that gets the documents that are left, in
another order, and the curations that count, before or after them.
"""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.operations_state import State, describe_difference, read_state, start_afresh
from benchmarks.operations_writer import Operation, Outcome, open_workspace
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from heliograph.models import DocumentStatus

__all__ = ["TITLE", "Tally", "operate", "run"]

TITLE = "Random operations and kills"

_ROOT = Path(__file__).parents[1]
_OPERATIONS = 1_000
_QUICK_OPERATIONS = 25
_TENTH = 10
# Lines of a life are two an operation; no life gets so far.
_MOST_OPERATIONS_OF_A_LIFE = 40


@dataclass(slots=True)
class Tally:
    """What became of the operations.

    Attributes:
        kills: Processes killed.
        done: Operations acknowledged, per kind.
        refused: Operations that could not be done and said so.
        under_way: Operations that a kill cut off.
        survived: Those of them that had happened nevertheless, as far as documents and curations tell.
        lost: What was acknowledged and is not there, or is there and was never asked for.
        problems: What `check` found.
        unequal: Workspaces unlike a fresh one.
    """

    kills: int = 0
    done: Counter[str] = field(default_factory=Counter[str])
    refused: int = 0
    under_way: int = 0
    survived: int = 0
    lost: list[str] = field(default_factory=list[str])
    problems: list[str] = field(default_factory=list[str])
    unequal: list[str] = field(default_factory=list[str])


def run(options: Options) -> Findings:
    """Do a thousand operations, 25 if quick; a word after the name is the seed."""
    seed = options.arguments[0] if options.arguments else str(random.SystemRandom().randrange(10**6))
    tally = operate(_QUICK_OPERATIONS if options.quick else _OPERATIONS, seed)
    kinds = ", ".join(f"{kind} {count}" for kind, count in tally.done.most_common())
    figures = (
        Figure("operations acknowledged", tally.done.total(), note=kinds),
        Figure("kills", tally.kills),
        Figure("operations under way at a kill", tally.under_way, note=f"{tally.survived} of them had happened"),
        Figure("acknowledged operations lost", len(tally.lost), at_most=0),
        Figure("problems that check finds", len(tally.problems), at_most=0),
        Figure("workspaces unlike a fresh one", len(tally.unequal), at_most=0),
    )
    problems = [*tally.lost, *tally.problems, *tally.unequal]
    return Findings(figures, (f"seed {seed}; {tally.refused} operations more were refused", *problems[:10]))


def operate(operations: int, seed: str, folder: Path | None = None) -> Tally:
    """Have that many operations done and acknowledged, killing around each tenth; check what each kill left.

    Args:
        operations: How many.
        seed: Decides, per number of an operation and workspace, what it is; instants differ from run to run.
        folder: Where the workspaces are kept; None keeps none.
    """
    tally, expected, instants = Tally(), _Expected({}, {}), random.Random(seed)
    with TemporaryDirectory() as temporary:
        place = folder or Path(temporary)
        (place / "kb").mkdir(parents=True, exist_ok=True)
        number = 0
        while tally.done.total() < operations:
            life = _run_writer(place / "kb", seed, number, instants)
            number = life.next_number(number)
            for operation, outcome in life.done():
                if not outcome.is_refused:
                    tally.done[operation.kind] += 1
                tally.refused += outcome.is_refused
                expected.acknowledge(operation, outcome)
            tally.kills += 1
            open_operations = life.open()
            tally.under_way += len(open_operations)
            # What an earlier kill cut off waits until a life gets beyond resuming it.
            waiting = set() if life.begun else expected.waiting
            found = asyncio.run(_check(place, replace(expected, waiting=waiting), open_operations, tally, seed))
            waiting |= {source for item in open_operations for source in item.documents}
            active = {item.id: item.is_active for item in found.curations.values()}
            expected = _Expected(found.text_by_source(), active, waiting)
    return tally


@dataclass(slots=True)
class _Expected:
    """What must be there: text per source, and whether each curation counts; and sources that `resume` may finish."""

    texts: dict[str, str]
    curations: dict[str, bool]
    waiting: set[str] = field(default_factory=set[str])

    def acknowledge(self, operation: Operation, outcome: Outcome) -> None:
        """Take in what an operation did."""
        if outcome.is_refused:
            return
        for source, text in operation.documents.items():
            if text is None:
                self.texts.pop(source, None)
            else:
                self.texts[source] = text
        if outcome.curation:
            self.curations[outcome.curation] = operation.kind != "undo"

    def wrong_texts(self, found: Mapping[str, str], under_way: list[Operation]) -> Iterator[str]:
        """Yield the documents that are neither as acknowledged nor as an operation under way makes them."""
        for source in {**self.texts, **found, **{source: "" for item in under_way for source in item.documents}}:
            allowed = [self.texts.get(source), *(item.documents.get(source, ...) for item in under_way)]
            if found.get(source) not in allowed:
                yield f"{source} says {found.get(source)!r} and not {allowed}"

    def wrong_curations(self, found: Mapping[str, bool], under_way: list[Operation]) -> Iterator[str]:
        """Yield the curations that are missing, count or do not count without reason, or that nobody asked for."""
        undone = {item.curation for item in under_way if item.kind == "undo"}
        for id_, is_active in self.curations.items():
            if id_ not in found or (found[id_] != is_active and id_ not in undone):
                yield f"the curation {id_} is {found.get(id_)} and not {is_active}"
        made = sum(not item.documents and item.kind != "undo" for item in under_way)
        if len(found.keys() - self.curations.keys()) > made:
            yield f"{found.keys() - self.curations.keys()} are more than the {made} curations under way"


@dataclass(frozen=True, slots=True)
class _Life:
    """What a writer said it began, and what it said was done, by number and in order."""

    begun: Mapping[int, Operation]
    outcomes: Mapping[int, Outcome]

    def done(self) -> list[tuple[Operation, Outcome]]:
        """Return what was acknowledged, in that order."""
        return [(self.begun[number], outcome) for number, outcome in self.outcomes.items()]

    def open(self) -> list[Operation]:
        """Return what was under way."""
        return [operation for number, operation in self.begun.items() if number not in self.outcomes]

    def next_number(self, number: int) -> int:
        """Return the number after the last that was begun; the given one if none was."""
        return max(self.begun, default=number - 1) + 1


def _run_writer(folder: Path, seed: str, number: int, instants: random.Random) -> _Life:
    """Run a writer and kill it: one time in eight while it opens and resumes, else around the tenth operation."""
    limit = str(number + _MOST_OPERATIONS_OF_A_LIFE)
    command = [sys.executable, "-m", "benchmarks.operations_writer", str(folder), seed, str(number), limit]
    outcomes, seconds = (0, 0.4) if instants.random() < 1 / 8 else (_TENTH + instants.randint(-2, 1), 0.04)
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        if process.stdout.readline() != '"open"\n':
            raise RuntimeError(f"the writer did not start: it ended with {process.wait()}")
        lines = list(_read_until(process.stdout, outcomes))
        time.sleep(instants.uniform(0, seconds))
        process.kill()
        lines += process.stdout
    if process.returncode >= 0:
        raise RuntimeError(f"the writer failed with {process.returncode}; seed {seed!r}, from operation {number}")
    return _read_life(lines)


def _read_until(lines: Iterator[str], outcomes: int) -> Iterator[str]:
    """Yield lines up to so many outcomes."""
    left = outcomes
    while left:
        for line in islice(lines, 1):
            left -= "is_refused" in line
            yield line
            break
        else:
            return


def _read_life(lines: list[str]) -> _Life:
    # The last line may have been cut off.
    said: list[dict[str, Any]] = [json.loads(line) for line in lines if line.endswith("}\n")]
    begun = [Operation(**item) for item in said if "kind" in item]
    outcomes = [Outcome(**item) for item in said if "is_refused" in item]
    return _Life({item.number: item for item in begun}, {item.number: item for item in outcomes})


async def _check(folder: Path, expected: _Expected, under_way: list[Operation], tally: Tally, seed: str) -> State:
    """Check a copy, so that the folder itself stays as the kill left it; return what is there once it is resumed."""
    copy, fresh = folder / "copy", folder / "fresh"
    for old in (copy, fresh):
        shutil.rmtree(old, ignore_errors=True)
    shutil.copytree(folder / "kb", copy)
    when = f"after kill {tally.kills}, under way {under_way}"
    async with open_workspace(copy) as kb:
        for moment in ("as it was left", "resumed"):
            report = await kb.check()
            tally.problems += [f"{when}, {moment}: {item}" for item in report.problems]
            found = await read_state(kb.store)
            tally.lost += [f"{when}, {moment}: {item}" for item in _find_lost(found, expected, under_way, moment)]
            await kb.resume()
    tally.survived += _count_survived(found, expected, under_way)
    again = await start_afresh(fresh, found, random.Random(f"{seed} {tally.kills}"))
    if difference := describe_difference(found, again):
        tally.unequal.append(f"{when}: {difference}")
    return found


def _find_lost(found: State, expected: _Expected, under_way: list[Operation], moment: str) -> Iterator[str]:
    texts, curations = found.text_by_source(), {item.id: item.is_active for item in found.curations.values()}
    yield from expected.wrong_texts(texts, under_way)
    yield from expected.wrong_curations(curations, under_way)
    touched = expected.waiting | {source for item in under_way for source in item.documents}
    for item in found.documents.values():
        if item.status is not DocumentStatus.PROCESSED and (moment == "resumed" or item.source not in touched):
            yield f"{item.source} is {item.status}"


def _count_survived(found: State, expected: _Expected, under_way: list[Operation]) -> int:
    """Return how many operations that were cut off had happened, wholly or in part."""
    texts, curations = found.text_by_source(), {item.id: item.is_active for item in found.curations.values()}
    changed = {source for source in {**texts, **expected.texts} if texts.get(source) != expected.texts.get(source)}
    documents = sum(not changed.isdisjoint(item.documents) for item in under_way)
    return documents + sum(curations[id_] != expected.curations.get(id_) for id_ in curations)
