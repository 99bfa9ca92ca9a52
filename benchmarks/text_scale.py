"""Asks a full-text collection of a million chunks for what holds any of six terms, and of ten.

Chunks have some 60 terms by Zipf's law (300,000 words, the most frequent in four of five chunks), written through the
store's own code. Questions are distinct terms drawn by the same law, so most have a term in a tenth of all chunks or
more. Taken is the CPU time of finding 40 hits on one core. Some questions are asked of FTS5 too, which ranks every row:
agreement is the share of the first 20 hits whose score there is not below that of the 20th.

The index is made from the rows of the database, saved, and read again. Beside questions it is measured what that costs,
and what a commit of one chunk adds to the question after it.

`python -m benchmarks text_scale [CHUNKS ...]` takes other sizes. A collection is kept in the folder for temporary
files and used again.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import apsw
import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Stopwatch, peak_memory_mib, pin
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from heliograph.stores.changeset import Changeset, Collection, TextEntry
from heliograph.stores.sqlite.database import fetch, fetch_value
from heliograph.stores.sqlite.schema import migrate
from heliograph.stores.sqlite.search import TextAccelerator, write_texts

__all__ = ["TITLE", "run"]

TITLE = "Full text of a million chunks"

_TABLE = "chunks_terms"
_FILE = "heliograph.db"
_WORDS = 300_000
_STEP = 5_000
_HITS, _COMPARED = 40, 20
_TERMS = (6, 10)
_COMMITS = 20
# Sums of idf in another order, and terms that weigh a millionth.
_TIE = 1e-4
_CACHE_KIB = 24 * 1024


def run(options: Options) -> Findings:
    """Measure each size."""
    how = pin()
    sizes = [int(text) for text in options.arguments] or ([20_000] if options.quick else [100_000, 1_000_000])
    figures = [figure for size in sizes for figure in _measure(size, 10 if options.quick else 100)]
    return Findings(tuple(figures), (f"Timing {how}.",))


def _measure(size: int, questions: int) -> Iterator[Figure]:
    folder = _collection(size)
    connection = apsw.Connection(str(folder / _FILE))
    connection.pragma("cache_size", -_CACHE_KIB)
    yield from _made(folder, connection, size)
    index = TextAccelerator(folder, Collection.CHUNKS)
    for count in _TERMS:
        yield from _asked(index, connection, size, list(_questions(questions, count)))
    yield from _changed(index, connection, size, list(_questions(_COMMITS, _TERMS[0])))
    connection.close()


def _made(folder: Path, connection: apsw.Connection, size: int) -> Iterator[Figure]:
    """Make the index from rows and save it; then read it as another process would."""
    (folder / "chunks.postings").unlink(missing_ok=True)
    index, watch, words = TextAccelerator(folder, Collection.CHUNKS), Stopwatch(), next(_questions(1, _TERMS[0]))
    with watch.lap():
        index.search(connection, words, _HITS)
    yield Figure(f"{size:,} chunks, making the index", watch.laps[-1] * 1000 / size, "us a chunk", at_most=100)
    yield Figure(f"{size:,} chunks, peak memory then", peak_memory_mib(), "MiB")
    with watch.lap():
        index.record(connection, *index.sync(connection, continues=index.claim(connection)))
    yield Figure(f"{size:,} chunks, saving it", watch.laps[-1], "ms")
    yield Figure(f"{size:,} chunks, size of its file", (folder / "chunks.postings").stat().st_size / 2**20, "MiB")
    with watch.lap():
        TextAccelerator(folder, Collection.CHUNKS).search(connection, words, _HITS)
    yield Figure(f"{size:,} chunks, reading it and the first question", watch.laps[-1], "ms")


def _asked(
    index: TextAccelerator, connection: apsw.Connection, size: int, questions: Sequence[Sequence[str]]
) -> Iterator[Figure]:
    watch, ranked, agreement = Stopwatch(), Stopwatch(), list[float]()
    for place, terms in enumerate(questions):
        with watch.lap():
            found = index.search(connection, terms, _HITS)
        if place % 10 == 0:
            with ranked.lap():
                exact = _rank_all(connection, terms)
            agreement.append(_agreement([key for key, _ in found], exact))
    name = f"{size:,} chunks, {len(questions[0])} terms"
    bound = 15.0 if size >= 1_000_000 else 2.0
    yield Figure(name, watch.median(), "ms", note=watch.spread())
    yield Figure(f"{name}, 95th percentile", float(np.percentile(watch.laps, 95)), "ms", at_most=bound)
    yield Figure(f"{name}, every row ranked by FTS5", ranked.median(), "ms")
    yield Figure(f"{name}, agreement of the first 20", statistics.fmean(agreement), at_least=1.0)


def _changed(
    index: TextAccelerator, connection: apsw.Connection, size: int, questions: Sequence[Sequence[str]]
) -> Iterator[Figure]:
    watch, random = Stopwatch(), np.random.default_rng(3)
    connection.execute("BEGIN")
    for place, terms in enumerate(questions):
        _write(connection, size + 1 + place, [f"w{word:x}" for word in _draw(random, 60)])
        with watch.lap():
            index.search(connection, terms, _HITS)
    connection.execute("ROLLBACK")
    yield Figure(f"{size:,} chunks, a question after a commit of one", watch.median(), "ms", note=watch.spread())


def _write(connection: apsw.Connection, key: int, terms: Sequence[str]) -> None:
    connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'data_version'")
    version = int(fetch_value(connection, "SELECT value FROM meta WHERE name = 'data_version'"))
    entry = TextEntry(f"chunk-{key}", tuple(terms))
    write_texts(connection, Changeset(texts={Collection.CHUNKS: (entry,)}), {entry.id: key}, version)


def _collection(size: int) -> Path:
    """Return a folder with a database of that many chunks, making it if it is not there."""
    folder = Path(tempfile.gettempdir()) / f"heliograph-benchmark-text-{size}"
    folder.mkdir(exist_ok=True)
    unfinished = folder / "unfinished.db"
    if (folder / _FILE).exists():
        return folder
    unfinished.unlink(missing_ok=True)
    start = time.process_time()
    connection = apsw.Connection(str(unfinished))
    connection.pragma("page_size", 2048)
    connection.pragma("synchronous", "off")
    migrate(connection, str(unfinished))
    random, names = np.random.default_rng(7), [f"w{number:x}" for number in range(_WORDS)]
    for version, first in enumerate(range(1, size + 1, _STEP), 1):
        keys = {f"chunk-{key}": key for key in range(first, min(first + _STEP, size + 1))}
        rows = zip(keys, _rows(random), strict=False)
        entries = tuple(TextEntry(id_, tuple(names[word] for word in row)) for id_, row in rows)
        with connection:
            write_texts(connection, Changeset(texts={Collection.CHUNKS: entries}), keys, version)
            connection.execute("UPDATE meta SET value = ? WHERE name = 'data_version'", (version,))
    connection.close()
    unfinished.rename(folder / _FILE)
    print(f"{size:,} chunks written in {time.process_time() - start:.0f} s of CPU time", flush=True)
    return folder


def _rows(random: np.random.Generator) -> list[NDArray[np.int64]]:
    lengths = np.clip(random.lognormal(np.log(56), 0.4, _STEP), 8, 300).astype(int)
    return np.split(_draw(random, int(lengths.sum())), np.cumsum(lengths)[:-1])


def _draw(random: np.random.Generator, count: int) -> NDArray[np.int64]:
    shares = np.cumsum(1 / (np.arange(_WORDS) + 2.7))
    return np.minimum(np.searchsorted(shares / shares[-1], random.random(count)), _WORDS - 1)


def _questions(count: int, terms: int) -> Iterator[list[str]]:
    random = np.random.default_rng(1)
    for _ in range(count):
        words = dict.fromkeys(int(word) for word in _draw(random, 8 * terms))
        yield [f"w{word:x}" for word in list(words)[:terms]]


def _rank_all(connection: apsw.Connection, terms: Sequence[str]) -> dict[int, float]:
    """Return the exact scores of the best rows, best first; more than are compared, for the sake of ties."""
    match = " OR ".join(f'"{term}"' for term in terms)
    query = f"SELECT rowid, -rank FROM {_TABLE} WHERE {_TABLE} MATCH ? ORDER BY rank LIMIT ?"
    return dict(fetch(connection, query, (match, 10 * _COMPARED)))


def _agreement(found: Sequence[int], exact: dict[int, float]) -> float:
    scores = list(exact.values())[:_COMPARED]
    return sum(exact.get(key, 0.0) >= scores[-1] - _TIE for key in found[:_COMPARED]) / len(scores)
