"""Asks a full-text collection of a million chunks for what holds any of six terms.

Chunks have some 60 terms by Zipf's law (300,000 words, the most frequent in four of five chunks), written through the
store's own code. Questions are six distinct terms drawn by the same law, so most have a term in a tenth of all chunks
or more. Taken is the CPU time of finding 40 hits on one core, with the cache of a reader, whatever the question before
left in it, and with what it counted. Agreement is the share of the first 20 hits whose exact score is not below that
of the exact 20th.

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

from benchmarks.measure import Stopwatch, pin
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from heliograph.stores.changeset import Changeset, Collection, TextEntry
from heliograph.stores.sqlite.schema import migrate
from heliograph.stores.sqlite.text import write_texts
from heliograph.stores.sqlite.text_frequencies import Frequencies
from heliograph.stores.sqlite.text_plan import quote
from heliograph.stores.sqlite.text_search import search_terms

__all__ = ["TITLE", "run"]

TITLE = "Full text of a million chunks"

_TABLE = "chunks_terms"
_WORDS = 300_000
_STEP = 5_000
_HITS, _COMPARED = 40, 20
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
    connection = apsw.Connection(str(_collection(size)))
    connection.pragma("cache_size", -_CACHE_KIB)
    watch, ranked, agreement, known = Stopwatch(), Stopwatch(), list[float](), Frequencies()
    for terms in _questions(questions):
        with watch.lap():
            found = search_terms(connection, _TABLE, terms, _HITS, known)
        with ranked.lap():
            exact = _rank_all(connection, terms)
        agreement.append(_agreement([key for key, _ in found], exact))
    connection.close()
    bound = 50.0 if size >= 1_000_000 else None
    yield Figure(f"{size:,} chunks", watch.median(), "ms", note=watch.spread())
    yield Figure(f"{size:,} chunks, 95th percentile", float(np.percentile(watch.laps, 95)), "ms", at_most=bound)
    yield Figure(f"{size:,} chunks, every row ranked by FTS5", ranked.median(), "ms")
    yield Figure(f"{size:,} chunks, agreement of the first 20", statistics.fmean(agreement), at_least=0.99)


def _collection(size: int) -> Path:
    """Return a database with that many chunks, making it if it is not there."""
    path = Path(tempfile.gettempdir()) / f"heliograph-benchmark-text-{size}.db"
    if path.exists():
        return path
    unfinished = path.with_suffix(".part")
    unfinished.unlink(missing_ok=True)
    start = time.process_time()
    connection = apsw.Connection(str(unfinished))
    connection.pragma("page_size", 2048)
    connection.pragma("synchronous", "off")
    migrate(connection, str(unfinished))
    random, names = np.random.default_rng(7), [f"w{number:x}" for number in range(_WORDS)]
    for first in range(1, size + 1, _STEP):
        keys = {f"chunk-{key}": key for key in range(first, min(first + _STEP, size + 1))}
        rows = zip(keys, _rows(random), strict=False)
        entries = tuple(TextEntry(id_, tuple(names[word] for word in row)) for id_, row in rows)
        with connection:
            write_texts(connection, Changeset(texts={Collection.CHUNKS: entries}), keys)
    connection.close()
    unfinished.rename(path)
    print(f"{size:,} chunks written in {time.process_time() - start:.0f} s of CPU time", flush=True)
    return path


def _rows(random: np.random.Generator) -> list[NDArray[np.int64]]:
    lengths = np.clip(random.lognormal(np.log(56), 0.4, _STEP), 8, 300).astype(int)
    return np.split(_draw(random, int(lengths.sum())), np.cumsum(lengths)[:-1])


def _draw(random: np.random.Generator, count: int) -> NDArray[np.int64]:
    shares = np.cumsum(1 / (np.arange(_WORDS) + 2.7))
    return np.minimum(np.searchsorted(shares / shares[-1], random.random(count)), _WORDS - 1)


def _questions(count: int) -> Iterator[list[str]]:
    random = np.random.default_rng(1)
    for _ in range(count):
        words = dict.fromkeys(int(word) for word in _draw(random, 40))
        yield [f"w{word:x}" for word in list(words)[:6]]


def _rank_all(connection: apsw.Connection, terms: Sequence[str]) -> dict[int, float]:
    """Return the exact scores of the best rows, best first; more than are compared, for the sake of ties."""
    query = f"SELECT rowid, -rank FROM {_TABLE} WHERE {_TABLE} MATCH ? ORDER BY rank LIMIT ?"
    return dict(connection.execute(query, (" OR ".join(map(quote, terms)), 10 * _COMPARED)).fetchall())


def _agreement(found: Sequence[int], exact: dict[int, float]) -> float:
    scores = list(exact.values())[:_COMPARED]
    return sum(exact.get(key, 0.0) >= scores[-1] - _TIE for key in found[:_COMPARED]) / len(scores)
