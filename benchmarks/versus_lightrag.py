"""LightRAG 1.5.7 and Heliograph, by the same program, on the same documents, with models that cost nothing.

LightRAG stays out of this project: make it an environment of its own and give its Python,
`pip install lightrag-hku==1.5.7` and `python -m benchmarks versus_lightrag /path/to/its/python`. The program
(`versus_worker.py`) imports `lightrag` there and `heliograph.lightrag` here, each in a process on one core; stores are
the default ones.

Cost: documents, entities and relations of the other benchmarks, vectors of 1024 numbers; 30 and 90 documents are
stored, with `--all` 100 and 300, and what does not end within 15 minutes is told. Taken is CPU time, the medians of
several, and what the process wrote; the size on disk and the most memory. Recall: 30 questions of a set that comes
with an extraction (the folder given last, else `../shared/bench/musique_train100` where it is), with their passages
and others up to 100, and the offline embedding for both; the share of a question's passages among the first five
chunks, by mode. Outage: what a program is told while a model is down. Kill: a process that takes documents in is
killed at a moment of chance, five times; counted is what its store then lacks.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from base64 import b64encode
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock, Thread
from typing import Any

from benchmarks.corpus import corpus_document, corpus_mentions
from benchmarks.measure import pin
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings, format_table
from heliograph.embedding.e5.model import E5EmbeddingModel
from heliograph.settings import user_cache_dir

__all__ = ["TITLE", "render_versus", "render_versus_plot", "run"]

TITLE = "Versus LightRAG 1.5.7"

_WORKER = Path(__file__).with_name("versus_worker.py")
# Longer than one side may take for one task.
_MOST_SECONDS = 900
_SET = Path(__file__).parents[2] / "shared" / "bench" / "musique_train100"
_UNITS = {"disk": "MB", "memory": "MB", "written, a document": "MB"}
_COLOURS = {"LightRAG": "#d2691e", "Heliograph": "#2a7ab0"}


class _Sides:
    """Both libraries, each by its Python, in one folder."""

    def __init__(self, python: str, folder: Path) -> None:
        self.pythons = {"LightRAG": (python, "lightrag"), "Heliograph": (sys.executable, "heliograph.lightrag")}
        self.folder = folder

    def command(self, side: str, task: str, corpus: Mapping[str, Any], store: str) -> list[str]:
        python, library = self.pythons[side]
        path = self.folder / f"{task}.json"
        path.write_text(json.dumps(corpus), "utf-8")
        return [python, str(_WORKER), library, task, str(path), str(self.folder / f"{store}-{library}")]

    def each(self, task: str, corpus: Mapping[str, Any]) -> dict[str, Any]:
        """Run a task on both sides, and return what each found."""
        return {side: self.one(side, task, corpus, task) for side in self.pythons}

    def one(self, side: str, task: str, corpus: Mapping[str, Any], store: str) -> Any:
        command = self.command(side, task, corpus, store)
        try:
            done = subprocess.run(command, cwd=self.folder, capture_output=True, timeout=_MOST_SECONDS, check=False)
        except subprocess.TimeoutExpired as error:
            # What it has said so far is what it came to.
            lines = (error.stdout or b"").splitlines()
            return json.loads(lines[-1]) if lines else {}
        if done.returncode:
            raise RuntimeError(f"{side} failed at {task}:\n{done.stderr.decode('utf-8', 'replace')[-2000:]}")
        return json.loads(done.stdout.splitlines()[-1])


def run(options: Options) -> Findings:
    """Measure both sides.

    Raises:
        ValueError: No Python of an environment with LightRAG was given.
    """
    if not options.arguments:
        raise ValueError("give the Python of an environment that has lightrag-hku 1.5.7")
    python, *rest = options.arguments
    folder = Path(rest[0]) if rest else _SET
    how = pin()
    stored, repeats = ((5, 10), 2) if options.quick else ((100, 300) if options.everything else (30, 90), 5)
    with TemporaryDirectory() as name:
        sides = _Sides(python, Path(name))
        corpus = _made(max(stored) + 2 * repeats) | {"stored": stored, "repeats": repeats}
        cost = sides.each("cost", corpus)
        figures = [figure for size in stored for figure in _costs(cost, size)]
        figures += _recall(sides, folder, *((20, 3) if options.quick else (100, 30)))
        small = _made(40) | {"dimension": 64}
        figures += _killed(sides, small, 1 if options.quick else 5)
        told = sides.each("outage", small)
        table = format_table(
            ("", *told), ((what, *(found[what] for found in told.values())) for what in told["LightRAG"])
        )
    late = [
        f"{side} did not end with {size:,} documents within {_MOST_SECONDS // 60} minutes."
        for side, found in cost.items()
        for size in stored
        if str(size) not in found
    ]
    return Findings(tuple(figures), (f"Medians of {repeats} documents and 9 questions; {how}.", table, *late))


def _costs(cost: Mapping[str, Any], size: int) -> list[Figure]:
    """Return the figures of one size, of each side that came so far."""
    theirs, ours = (cost[side].get(str(size), {}) for side in ("LightRAG", "Heliograph"))
    figures: list[Figure] = []
    for what in theirs | ours:
        unit = _UNITS.get(what, "ms")
        if what in theirs:
            figures.append(Figure(f"{what}, {size:,} stored, LightRAG", theirs[what], unit))
        if what in ours:
            note = f"LightRAG {theirs[what] / ours[what]:.1f} times" if what in theirs else "LightRAG did not end"
            figures.append(Figure(f"{what}, {size:,} stored, Heliograph", ours[what], unit, note=note))
    return figures


def _made(count: int) -> dict[str, Any]:
    """Return a corpus of the documents of the other benchmarks, each with what a model says of it."""
    documents: list[dict[str, str]] = []
    for number in range(count):
        document = corpus_document(number)
        entities, relations = corpus_mentions(number)
        documents.append({"text": document.text, "source": document.source, "reply": _reply(entities, relations)})
    names = [entity[0] for number in range(count) for entity in corpus_mentions(number)[0]]
    pairs = zip(names[:9], names[9:18], strict=True)
    return {
        "documents": documents,
        "dimension": 1024,
        "names": sorted(set(names)),
        "questions": [f"How is {one} related to {other}?" for one, other in pairs],
    }


def _reply(entities: Sequence[Sequence[str]], relations: Sequence[Sequence[str]]) -> str:
    rows = ["<|#|>".join(("entity", *entity)) for entity in entities]
    rows += ["<|#|>".join(("relation", *relation)) for relation in relations]
    return "\n".join([*rows, "<|COMPLETE|>"])


# Recall


def _recall(sides: _Sides, folder: Path, passages: int, questions: int) -> list[Figure]:
    """Return the recall of each mode on each side; nothing where the set is not there."""
    if not folder.is_dir():
        return []
    asked = _lines(folder / "queries.jsonl")[:questions]
    gold = {id_ for question in asked for id_ in question["gold"]}
    items = _lines(folder / "corpus.jsonl")
    chosen = [item for item in items if item["id"] in gold]
    chosen += [item for item in items if item["id"] not in gold][: max(0, passages - len(chosen))]
    said = {item["id"]: item for item in _lines(folder / "openie.jsonl")}
    corpus = {
        "documents": [
            {
                "text": f"{item['title']}\n{item['text']}",
                "source": item["id"],
                "reply": _reply(*_extraction(said[item["id"]])),
            }
            for item in chosen
        ],
        "names": sorted({name for item in chosen for name in said[item["id"]]["entities"]}),
        "questions": [question["question"] for question in asked],
        "only_question": True,
    }
    with _served_embedding() as (address, dimension):
        found = sides.each("recall", corpus | {"embedding": address, "dimension": dimension})
    figures: list[Figure] = []
    for side, modes in found.items():
        for mode, lists in modes.items():
            shares = [
                len(set(hits[:5]) & set(question["gold"])) / len(question["gold"])
                for hits, question in zip(lists, asked, strict=True)
            ]
            figures.append(Figure(f"recall among five, {mode}, {side}", 100 * sum(shares) / len(shares), "%"))
    return figures


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _extraction(said: Mapping[str, Any]) -> tuple[list[list[str]], list[list[str]]]:
    """Return the rows of one passage: of an entity, the sentences that name it; of a triple, its three parts."""
    triples = [[part.replace("\n", " ") for part in triple] for triple in said["triples"] if all(triple)]
    sentences: dict[str, list[str]] = {name: [] for name in said["entities"]}
    for source, verb, target in triples:
        for end in {source, target}:
            sentences.setdefault(end, []).append(f"{source} {verb} {target}.")
    entities = [[name, "concept", " ".join(told) or f"{name} is named."] for name, told in sentences.items()]
    relations = [
        [source, target, verb, f"{source} {verb} {target}."] for source, verb, target in triples if source != target
    ]
    return entities, relations


@contextmanager
def _served_embedding() -> Generator[tuple[str, int]]:
    """Serve the offline embedding on loopback, so that both sides have the same vectors: JSON texts in, base64 out."""
    model = E5EmbeddingModel(user_cache_dir())
    vectors: dict[str, bytes] = {}
    lock = Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            texts: list[str] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                if new := [text for text in dict.fromkeys(texts) if text not in vectors]:
                    embedded = asyncio.run(model.embed(new, "document")).vectors
                    vectors.update(
                        (text, vector.astype("<f4").tobytes()) for text, vector in zip(new, embedded, strict=True)
                    )
                body = b64encode(b"".join(vectors[text] for text in texts))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", model.info.dimension
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


# Killed writers


def _killed(sides: _Sides, corpus: Mapping[str, Any], times: int) -> list[Figure]:
    """Kill a writer at moments of chance, and return what its stores lack, all kills together."""
    chance = random.Random(11)
    figures: list[Figure] = []
    for side in sides.pythons:
        total: dict[str, float] = {}
        for turn in range(times):
            store = f"kill-{turn}"
            last = chance.randrange(4, 20)
            acknowledged = _until_killed(sides.command(side, "write", corpus, store), last, chance.uniform(0, 0.2))
            found = sides.one(side, "look", {**corpus, "acknowledged": acknowledged}, store)
            for what, count in found.items():
                total[what] = total.get(what, 0) + count
        names = {
            "lost": "documents lost of those acknowledged",
            "chunks missing": "chunks that the graph names, missing",
        }
        names["vectors missing"] = "entities without a vector"
        figures += [Figure(f"after {times} kills, {names[what]}, {side}", total[what]) for what in names]
    return figures


def _until_killed(command: list[str], last: int, seconds: float) -> list[str]:
    """Kill a writer this long after its `last` document, and return what it had acknowledged."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    stream = process.stdout
    assert stream is not None
    acknowledged: list[str] = []
    for line in stream:
        if line != "ready\n":
            acknowledged.append(line.strip())
        if len(acknowledged) == last:
            break
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
    # What it said between the last that was read and its end counts, too.
    acknowledged += [line.strip() for line in stream]
    process.wait()
    stream.close()
    return [source for source in acknowledged if not source.startswith(("{", "null"))]


# What docs/comparison.md shows of a report


def render_versus(figures: Sequence[Figure], notes: Sequence[str]) -> str:
    """Return the table of both sides, and the one of outages."""
    rows: dict[str, dict[str, str]] = {}
    for figure in figures:
        what, _, side = figure.name.rpartition(", ")
        shown = f"{figure.value:,.0f}" if figure.value >= 1000 else f"{figure.value:.3g}"
        rows.setdefault(what, {})[side] = f"{shown} {figure.unit}".strip()
    lines = ((what, *(cells.get(side, "") for side in _COLOURS)) for what, cells in rows.items())
    return "\n\n".join((format_table(("", *_COLOURS), lines), *notes[1:]))


def render_versus_plot(figures: Sequence[Figure]) -> str:
    """Return an SVG: CPU time of one more document by what is stored, and recall by mode."""
    values = {figure.name: figure.value for figure in figures}
    grown = [name.removesuffix(", LightRAG") for name in values if name.startswith("one more") and "LightRAG" in name]
    modes = [name.split(", ")[1] for name in values if name.startswith("recall") and name.endswith("Heliograph")]
    bars = [(name.removeprefix("one more document, "), name) for name in grown]
    marks = _bars("CPU time of one more document, ms", bars, values, 0)
    marks += _bars("recall among five, %", [(mode, f"recall among five, {mode}") for mode in modes], values, 300)
    for place, (side, colour) in enumerate(_COLOURS.items()):
        marks.append(f'<rect x="{20 + 120 * place}" y="262" width="12" height="12" fill="{colour}"/>')
        marks.append(f'<text x="{38 + 120 * place}" y="272">{side}</text>')
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 290" font-family="sans-serif" font-size="12"'
    return "\n".join([head, ' fill="#777">', *marks, "</svg>", ""])


def _bars(title: str, groups: Sequence[tuple[str, str]], values: Mapping[str, float], left: int) -> list[str]:
    sides = [(side, [values.get(f"{name}, {side}") for _, name in groups]) for side in _COLOURS]
    highest = max((value for _, found in sides for value in found if value), default=1.0)
    marks = [f'<text x="{left + 20}" y="20">{title}</text>']
    for place, (label, _) in enumerate(groups):
        x = left + 20 + 72 * place
        marks.append(f'<text x="{x + 24}" y="246" text-anchor="middle">{label}</text>')
        for index, (side, found) in enumerate(sides):
            value = found[place]
            if value is None:
                continue
            height = 180 * value / highest
            top = 230 - height
            marks.append(
                f'<rect x="{x + 24 * index}" y="{top:.1f}" width="22" height="{height:.1f}" fill="{_COLOURS[side]}"/>'
            )
            marks.append(f'<text x="{x + 24 * index + 11}" y="{top - 4:.1f}" text-anchor="middle">{value:,.3g}</text>')
    return marks
