"""LightRAG 1.5.7 and Heliograph, by the same program, on the same documents, with models that cost nothing.

LightRAG stays out of this project: make it an environment of its own and give its Python,
`pip install lightrag-hku==1.5.7` and `python -m benchmarks versus_lightrag /path/to/its/python`. The program
(`versus_worker.py`) imports `lightrag` there and `heliograph.lightrag` here, each in a process on one core. Documents,
entities and relations are those of the other benchmarks, vectors have 1024 numbers, stores are the default ones. Taken
is CPU time: of each document while many are taken in, of single inserts, questions by mode (without reranking, answers
not written), opening, and deletes, the medians of several; then the size on disk and the most memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.corpus import corpus_mentions
from benchmarks.lightrag_side_by_side import lightrag_document
from benchmarks.measure import pin
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings

__all__ = ["TITLE", "run"]

TITLE = "Versus LightRAG 1.5.7"

_WORKER = Path(__file__).with_name("versus_worker.py")
_DIMENSION = 1024
_STORED = (50, 150)
_UNITS = {"disk": "MB", "memory": "MB"}


def run(options: Options) -> Findings:
    """Measure both sides.

    Raises:
        ValueError: No Python of an environment with LightRAG was given.
    """
    if len(options.arguments) != 1:
        raise ValueError("give the Python of an environment that has lightrag-hku 1.5.7")
    how = pin()
    stored, repeats = ((5, 10), 2) if options.quick else (_STORED, 5)
    sides = (("LightRAG", options.arguments[0], "lightrag"), ("Heliograph", sys.executable, "heliograph.lightrag"))
    with TemporaryDirectory() as name:
        folder = Path(name)
        corpus = folder / "corpus.json"
        names = [entity[0] for number in range(max(stored)) for entity in corpus_mentions(number)[0]]
        body = {
            "documents": [lightrag_document(number) for number in range(max(stored) + 2 * repeats)],
            "stored": stored,
            "repeats": repeats,
            "dimension": _DIMENSION,
            "names": sorted(set(names)),
            "questions": [
                f"How is {one} related to {other}?" for one, other in zip(names[:9], names[9:18], strict=True)
            ],
        }
        corpus.write_text(json.dumps(body), "utf-8")
        found = {label: _measured(python, library, corpus, folder / library) for label, python, library in sides}
    figures: list[Figure] = []
    for size in stored:
        for what, theirs in found["LightRAG"][str(size)].items():
            unit, ours = _UNITS.get(what, "ms"), found["Heliograph"][str(size)][what]
            figures += [
                Figure(f"{what}, {size:,} stored, LightRAG", theirs, unit),
                Figure(f"{what}, {size:,} stored, Heliograph", ours, unit, note=f"LightRAG {theirs / ours:.1f} times"),
            ]
    return Findings(tuple(figures), (f"Medians of {repeats} documents and 9 questions; {how}.",))


def _measured(python: str, library: str, corpus: Path, folder: Path) -> dict[str, dict[str, float]]:
    """Run the worker and return what it measured, per size."""
    command = [python, str(_WORKER), library, str(corpus), str(folder)]
    done = subprocess.run(command, cwd=corpus.parent, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{library} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])
