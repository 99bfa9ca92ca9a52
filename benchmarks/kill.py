"""Kills an ingest with `kill -9` at random instants and opens what it left.

The process inserts 40 documents eight at a time, replaces a third of them and deletes a fifth, each operation
acknowledged on its own; extraction takes a few random milliseconds. After every kill a copy of the folder is opened
and checked: what was acknowledged is there, and entities, relations, degrees, evidence, vectors, full text and search
agree with what is folded and computed again from the mentions (`benchmarks/projections.py`). Then the copy is resumed
to the end, and must equal a run that nobody disturbed. The next process goes on in the folder as the kill left it, and
is killed in turn.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.corpus import HashEmbedding, corpus_document
from benchmarks.kill_writer import DIMENSION, WAVES, Operation, open_workspace, perform
from benchmarks.projections import Contents, find_disagreements, read_contents
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from heliograph.models import DocumentStatus

__all__ = ["TITLE", "Tally", "kill_repeatedly", "run"]

TITLE = "Killing an ingest"

_ROOT = Path(__file__).parents[1]
_KILLS = 50


@dataclass(slots=True)
class Tally:
    """What became of the kills.

    Attributes:
        kills: Processes killed while they were at work.
        acknowledged: Operations acknowledged before a kill, over all kills.
        lost: What was acknowledged and is not there.
        disagreements: What does not agree with the truth.
        unequal: Resumed workspaces that differ from the undisturbed one.
    """

    kills: int = 0
    acknowledged: int = 0
    lost: list[str] = field(default_factory=list[str])
    disagreements: list[str] = field(default_factory=list[str])
    unequal: list[str] = field(default_factory=list[str])


def run(options: Options) -> Findings:
    """Kill 50 times, 5 if quick."""
    tally = kill_repeatedly(5 if options.quick else _KILLS, seed=None)
    figures = (
        Figure("kills", tally.kills),
        Figure("operations acknowledged before a kill", tally.acknowledged),
        Figure("acknowledged operations lost", len(tally.lost), at_most=0),
        Figure("disagreements between projections and truth", len(tally.disagreements), at_most=0),
        Figure("resumed workspaces unlike an undisturbed one", len(tally.unequal), at_most=0),
    )
    problems = [*tally.lost, *tally.disagreements, *tally.unequal]
    return Findings(figures, tuple(problems[:10]))


def kill_repeatedly(kills: int, seed: int | None) -> Tally:
    """Kill a writer that many times at random instants; check what each kill left."""
    instants = random.Random(seed)
    tally = Tally()
    with TemporaryDirectory() as name:
        folder = Path(name)
        undisturbed = asyncio.run(_finish(folder / "undisturbed", 0))
        duration = _run_writer(folder / "timed", 0, None).seconds
        while tally.kills < kills:
            _kill_until_finished(folder / f"killed-{tally.kills}", duration, instants, tally, kills, undisturbed)
    return tally


def _kill_until_finished(
    folder: Path, duration: float, instants: random.Random, tally: Tally, kills: int, undisturbed: Contents
) -> None:
    """Kill writers of one folder, each going on where the last was killed, until one gets to the end."""
    done: set[tuple[int, int]] = set()
    folder.mkdir()
    while tally.kills < kills:
        life = _run_writer(folder, _first_wave(done), _draw_moment(instants, duration))
        done |= life.acknowledged
        if not life.was_killed:
            return
        tally.kills += 1
        tally.acknowledged += len(life.acknowledged)
        asyncio.run(_check(folder, done, tally, undisturbed))


def _first_wave(done: set[tuple[int, int]]) -> int:
    """Return the first wave in which not everything is acknowledged."""
    for number, wave in enumerate(WAVES):
        if any((number, place) not in done for place in range(len(wave))):
            return number
    return len(WAVES)


@dataclass(frozen=True, slots=True)
class _Moment:
    """When to kill: so many seconds after so many acknowledgements were read, counted from opening the workspace."""

    acknowledgements: int
    seconds: float


def _draw_moment(instants: random.Random, duration: float) -> _Moment:
    """Return an instant: any of a whole life every third time, else one amid the commits, soon enough to go on."""
    if instants.random() < 1 / 3:
        return _Moment(0, instants.uniform(0, duration))
    return _Moment(instants.randint(1, 2 * len(WAVES[0])), instants.uniform(0, 0.03))


@dataclass(frozen=True, slots=True)
class _Life:
    """What a writer did: the operations it acknowledged, as wave and place, how it ended, and when after opening."""

    acknowledged: set[tuple[int, int]]
    was_killed: bool
    seconds: float


def _run_writer(folder: Path, first_wave: int, moment: _Moment | None) -> _Life:
    """Run a writer and kill it at a moment; None lets it live."""
    command = [sys.executable, "-m", "benchmarks.kill_writer", str(folder), str(first_wave)]
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        if process.stdout.readline() != "open\n":
            raise RuntimeError(f"the writer did not start: it ended with {process.wait()}")
        start, lines = time.monotonic(), list[str]()
        if moment is not None:
            lines += islice(process.stdout, moment.acknowledgements)
            time.sleep(moment.seconds)
            process.kill()
        lines += process.stdout
        lived = time.monotonic() - start
    was_killed = "closed\n" not in lines
    if was_killed and process.returncode >= 0:
        raise RuntimeError(f"the writer failed with {process.returncode}")
    pairs = (line.split() for line in lines if line != "closed\n")
    return _Life({(int(wave), int(place)) for wave, place in pairs}, was_killed, lived)


async def _check(folder: Path, done: set[tuple[int, int]], tally: Tally, undisturbed: Contents) -> None:
    """Check a copy, so that the folder itself stays as the kill left it."""
    copy = folder.with_name(f"{folder.name}-copy")
    shutil.copytree(folder, copy)
    async with open_workspace(copy) as kb:
        contents = await read_contents(kb.store)
        tally.lost += _lost(contents, done)
        tally.disagreements += await find_disagreements(kb.store, HashEmbedding(DIMENSION), contents)
    final = await _finish(copy, _first_wave(done), tally)
    if final != undisturbed:
        tally.unequal.append(f"after kill {tally.kills}: {_describe_difference(final, undisturbed)}")
    shutil.rmtree(copy)


async def _finish(folder: Path, first_wave: int, tally: Tally | None = None) -> Contents:
    """Resume and do what is left; return what the workspace then holds."""
    async with open_workspace(folder) as kb:
        await kb.resume()
        for wave in WAVES[first_wave:]:
            await asyncio.gather(*(perform(kb, operation) for operation in wave))
        contents = await read_contents(kb.store)
        if tally:
            tally.disagreements += await find_disagreements(kb.store, HashEmbedding(DIMENSION), contents)
    return contents


def _lost(contents: Contents, done: set[tuple[int, int]]) -> Iterator[str]:
    """Yield the documents that are in a state older than the last one acknowledged."""
    begun = _first_wave(done)
    states: dict[int, list[Operation]] = {}
    for number, wave in enumerate(WAVES[: begun + 1]):
        for place, operation in enumerate(wave):
            if (number, place) in done:
                states[operation.number] = [operation]
            elif operation.number in states:
                states[operation.number].append(operation)
    for allowed in states.values():
        is_open = len(allowed) > 1
        if not any(_is_reached(contents, operation, is_open=is_open) for operation in allowed):
            yield f"acknowledged and not there: {allowed}"


def _is_reached(contents: Contents, operation: Operation, *, is_open: bool) -> bool:
    """Whether a document is in the state that an operation brings it to; pending too, while another is under way."""
    document = contents.documents.get(operation.document_id)
    if operation.version is None or document is None:
        return operation.version is None and document is None
    wanted = corpus_document(operation.number, operation.version)
    statuses = {DocumentStatus.PROCESSED, DocumentStatus.PENDING} if is_open else {DocumentStatus.PROCESSED}
    return document.status in statuses and (contents.texts[document.id] or "").strip() == wanted.text.strip()


def _describe_difference(left: Contents, right: Contents) -> str:
    parts = {part.name: (getattr(left, part.name), getattr(right, part.name)) for part in fields(Contents)}
    changed = {
        name: [key for key in {**one, **other} if one.get(key) != other.get(key)]
        for name, (one, other) in parts.items()
    }
    return ", ".join(f"{len(keys)} {name} ({keys[0]} ...)" for name, keys in changed.items() if keys)
