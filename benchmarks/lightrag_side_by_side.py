"""Adds the same documents to LightRAG 1.5.7 and to Heliograph, on one core each, with models that cost nothing.

LightRAG stays out of this project: make it an environment of its own and give its Python,
`pip install lightrag-hku==1.5.7` and `python -m benchmarks lightrag_side_by_side /path/to/its/python`. Documents,
entities and relations are those of the other benchmarks, vectors have 1024 numbers, and both sides keep their default
stores: LightRAG JSON, NetworkX and NanoVectorDB files, Heliograph its database. LightRAG gets a tokenizer of words in
place of one that it would download, no gleaning and no cache of replies. Taken is the median CPU time of single
inserts.
"""

from __future__ import annotations

import json
import statistics
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.add_document import measure
from benchmarks.corpus import corpus_document, corpus_mentions
from benchmarks.measure import pin
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings

__all__ = ["TITLE", "lightrag_document", "run"]

TITLE = "Beside LightRAG 1.5.7"

_WORKER = Path(__file__).with_name("lightrag_worker.py")
_DIMENSION = 1024
_STORED = (100, 300)


def run(options: Options) -> Findings:
    """Measure both sides.

    Raises:
        ValueError: No Python of an environment with LightRAG was given.
    """
    if len(options.arguments) != 1:
        raise ValueError("give the Python of an environment that has lightrag-hku 1.5.7")
    how = pin()
    stored, repeats = ((5, 10), 2) if options.quick else (_STORED, 7)
    with TemporaryDirectory() as name:
        theirs = _measure_lightrag(Path(name), options.arguments[0], stored, repeats)
        ours = {size: watch.median() for size, watch in measure(Path(name), _DIMENSION, stored, repeats).items()}
    figures: list[Figure] = []
    for size in stored:
        figures += [
            Figure(f"LightRAG, {size:,} stored", theirs[size], "ms"),
            Figure(f"Heliograph, {size:,} stored", ours[size], "ms"),
            Figure(f"ratio, {size:,} stored", theirs[size] / ours[size]),
        ]
    return Findings(tuple(figures), (f"Medians of {repeats} documents; {how}.",))


def _measure_lightrag(folder: Path, python: str, stored: tuple[int, ...], repeats: int) -> dict[int, float]:
    """Run the worker and return the median per size."""
    corpus = folder / "corpus.json"
    documents = [lightrag_document(number) for number in range(max(stored) + repeats)]
    corpus.write_text(
        json.dumps({"documents": documents, "stored": stored, "repeats": repeats, "dimension": _DIMENSION}), "utf-8"
    )
    command = [python, str(_WORKER), str(corpus), str(folder / "lightrag")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"LightRAG failed:\n{done.stderr[-2000:]}")
    laps = json.loads(done.stdout.splitlines()[-1])
    return {int(size): statistics.median(found) for size, found in laps.items()}


def lightrag_document(number: int) -> dict[str, str]:
    """Return a document and what LightRAG's model would reply about it, in LightRAG's own format."""
    document = corpus_document(number)
    entities, relations = corpus_mentions(number)
    lines = [
        *("<|#|>".join(("entity", *entity)) for entity in entities),
        *("<|#|>".join(("relation", *relation)) for relation in relations),
        "<|COMPLETE|>",
    ]
    return {"text": document.text, "source": document.source, "reply": "\n".join(lines)}
