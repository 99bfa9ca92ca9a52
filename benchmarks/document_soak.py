"""Indexes whatever files a machine has: no run may stop, and every document that fails must say why.

Arguments are files and folders; without any, `/usr/share/doc` and the folder of Python's library. Of folders are taken
files of every kind that is known, and those without an ending that hold text. They go in a random order (of a fixed
seed) into one workspace of the embedded store, in groups, with everything as it is but the embedding, whose vectors are
hashes: what is looked for are crashes, not answers. A group that raises is counted as a run that stopped, and what it
left waiting is resumed. At the end nothing may wait, every file has a document, and `check` finds nothing.

`--minutes N` says how long; without it, until all files are in. What failed for a defect of ours is listed whole, what
failed for other reasons by example.
"""

from __future__ import annotations

import asyncio
import random
import re
import sysconfig
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from heliograph import AsyncHeliograph
from heliograph.documents.sources import FileFilter, find_sources
from heliograph.errors import HeliographError, IngestError
from heliograph.ids import document_id
from heliograph.ingest.models import DocumentResult, IngestReport, Outcome
from heliograph.models import WAITING_STATUSES
from heliograph.settings import Settings
from heliograph.stores.base import DocumentQuery
from heliograph.testing.fakes import FakeEmbeddingModel

__all__ = ["TITLE", "Soak", "run", "soak"]

TITLE = "Documents of every kind that a machine has"

_GROUP = 100
_QUICK_FILES = 40
_FOLDERS = ("/usr/share/doc", sysconfig.get_paths()["stdlib"])
# Changelogs and licences of packages have no ending, or none that says what they are.
_PATTERNS = ("**/*",)
_LARGEST = 20_000_000
_PATH = re.compile(r"'[^']*'|\"[^\"]*\"|\d[\d,.]*")


@dataclass(slots=True)
class Soak:
    """What was seen.

    Attributes:
        outcomes: Documents by what became of them.
        kinds: Files by their ending.
        characters: Of the documents that were taken in.
        seconds: How long it took.
        unexplained: Sources of documents that failed without a reason.
        defects: Reasons of documents that failed for a defect.
        reasons: Other reasons, without names and numbers, each with the first document that has it.
        stopped: Tracebacks of runs that stopped.
        lost: Sources whose documents are not stored.
        waiting: Documents that wait at the end.
        problems: What `check` finds at the end.
    """

    outcomes: Counter[str] = field(default_factory=Counter[str])
    kinds: Counter[str] = field(default_factory=Counter[str])
    characters: int = 0
    seconds: float = 0.0
    unexplained: list[str] = field(default_factory=list[str])
    defects: list[str] = field(default_factory=list[str])
    reasons: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    stopped: list[str] = field(default_factory=list[str])
    lost: list[str] = field(default_factory=list[str])
    waiting: int = 0
    problems: int = 0

    def note(self, results: Iterable[DocumentResult]) -> None:
        """Note what became of documents."""
        for result in results:
            self.outcomes[result.outcome.value] += 1
            if result.outcome is not Outcome.FAILED:
                continue
            said = str(result.error or "")
            if not said.strip():
                self.unexplained.append(result.source)
            elif isinstance(result.error, IngestError) and result.error.traceback:
                self.defects.append(f"{said}\n{result.error.traceback}")
            else:
                kind = _PATH.sub("...", said)
                count, example = self.reasons.get(kind, (0, said))
                self.reasons[kind] = (count + 1, example)


def run(options: Options) -> Findings:
    """Index files for as long as the options say."""
    files = _files(options.arguments or _FOLDERS)
    minutes = options.minutes
    if options.quick:
        files = files[:_QUICK_FILES]
    seen = asyncio.run(soak(files, None if minutes is None else minutes * 60))
    tried = sum(seen.outcomes.values())
    figures = (
        Figure("files", tried, note=", ".join(f"{count} {kind}" for kind, count in seen.kinds.most_common(8))),
        Figure("of them failed, with a reason", sum(count for count, _ in seen.reasons.values())),
        Figure("failed for a defect", len(seen.defects), at_most=0),
        Figure("failed without a reason", len(seen.unexplained), at_most=0),
        Figure("runs that stopped", len(seen.stopped), at_most=0),
        Figure("files without a document", len(seen.lost), at_most=0),
        Figure("documents that wait at the end", seen.waiting, at_most=0),
        Figure("problems that check finds at the end", seen.problems, at_most=0),
        Figure("characters", seen.characters / 1e6, "million", note=f"in {seen.seconds:.0f} s"),
    )
    known = sorted(seen.reasons.values(), reverse=True)
    notes = [f"{count} times: {example}" for count, example in known[:12]]
    return Findings(figures, (*notes, *seen.defects, *seen.stopped, *seen.unexplained[:5], *seen.lost[:5]))


async def soak(files: Sequence[str], seconds: float | None = None) -> Soak:
    """Index files in groups until they are all in or time is over, and look at what is stored then."""
    seen = Soak()
    begun = time.monotonic()
    with TemporaryDirectory() as folder:
        settings = Settings.load(store={"data_dir": folder, "durability": "normal"})
        async with AsyncHeliograph(settings=settings, embedding=FakeEmbeddingModel(16)) as kb:
            for start in range(0, len(files), _GROUP):
                if seconds is not None and time.monotonic() - begun > seconds:
                    break
                await _index(kb, files[start : start + _GROUP], seen)
            seen.waiting = (await kb.documents(DocumentQuery(WAITING_STATUSES, limit=0))).total
            seen.problems = len((await kb.check()).problems)
    seen.seconds = time.monotonic() - begun
    return seen


async def _index(kb: AsyncHeliograph, group: Sequence[str], seen: Soak) -> None:
    seen.kinds.update(Path(name).suffix.lower() or "without an ending" for name in group)
    report = IngestReport("", ())
    try:
        report = await kb.insert_files(group)
    except HeliographError as error:
        seen.stopped.append(f"{error}\n{traceback.format_exc()}")
    except Exception:  # noqa: BLE001 (what is looked for)
        seen.stopped.append(traceback.format_exc())
    seen.note(report.results)
    ids = [document_id(name) for name in group]
    stored = {document.source: document.length for document in await kb.store.records.get_documents(ids)}
    seen.lost += [name for name in group if name not in stored]
    seen.characters += sum(stored.values())


def _files(given: Sequence[str]) -> list[str]:
    known = find_sources(given)
    others = [name for name in find_sources(given, FileFilter(_PATTERNS)) if not Path(name).suffix and _is_text(name)]
    files = [name for name in dict.fromkeys((*known, *others)) if Path(name).stat().st_size < _LARGEST]
    random.Random(1).shuffle(files)
    return files


def _is_text(name: str) -> bool:
    with Path(name).open("rb") as file:
        return b"\0" not in file.read(4096)
