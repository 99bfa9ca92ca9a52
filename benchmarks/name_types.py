"""Fits and measures what tells a person or a place by the name alone (`heliograph/extraction/local_names.py`).

Taught is what texts tell themselves: names of which the local extractor's rules say the type where they read them
("the physicist Max Tegmark"), of passages of `../shared/bench`, and of manuals, whose names without a type are, all but
a few, neither person nor place. A sixth of the names is held out. Measured are these, and the set whose annotation
says who was born or where something lies (`redocred_gold_kg`), of which no passage is taught: how many names that the
rules leave open get a type, and how many types are right.

    python -m benchmarks name_types [folder=FOLDER] [write=1]

`folder` keeps the manuals' packages; `write` puts the weights into the package.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from benchmarks.extraction_sets import SETS, folder_of, passages
from benchmarks.manuals import fetch_pages, read_pages
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from heliograph.documents.base import Limits, RawDocument
from heliograph.documents.registry import load_document
from heliograph.embedding.e5.model import E5Words
from heliograph.extraction import local_names
from heliograph.extraction.local_reading import read_chunks
from heliograph.models import Chunk
from heliograph.settings import user_cache_dir
from heliograph.text.analysis import is_chinese
from heliograph.text.tokens import count_tokens

__all__ = ["TITLE", "run"]

TITLE = "Persons and places by their names"

_TAUGHT = ("2wiki_train500", "hotpotqa_train100", "musique_train100", "wild_history", "gitlab_handbook", "lihua_world")
_ASKED = "redocred_gold_kg"
_MANUALS = ("git-doc", "debian-handbook", "gimp-help-en", "r-doc-html", "octave-doc", "apache2-doc")
_PIECE = 4000
_RIDGE = 30.0
# What a triple says of its subject and of its object.
_OF_PERSONS = frozenset(
    {"date of birth", "place of birth", "date of death", "place of death", "country of citizenship"}
)
_PLACES = frozenset({"located in the administrative territorial entity", "place of birth", "place of death", "capital"})

Votes = dict[str, Counter[str]]


def run(options: Options) -> Findings:
    """Fit to most of the names, and measure on the others and on the annotated set."""
    given = dict(word.split("=", 1) for word in options.arguments)
    most = 30 if options.quick else 1_000_000
    votes: Votes = defaultdict(Counter)
    for name in (name for name in _TAUGHT if (SETS / name).exists()):
        texts = ((item.title, item.text) for item in list(passages(folder_of(name)).values())[:most])
        _count(texts, votes, otherwise="")
    with TemporaryDirectory() as temporary:
        pages = [page for page in read_pages() if page[0] in _MANUALS and "zh" not in page[1]]
        _count(_texts(fetch_pages(Path(given.get("folder", temporary)), pages[:most])), votes, otherwise="other")
    kinds = {name: counts.most_common(1)[0][0] for name, counts in votes.items()}
    names = sorted(kinds)
    random.Random(0).shuffle(names)
    held_out, taught = names[: len(names) // 6], names[len(names) // 6 :]
    words = E5Words(user_cache_dir())
    if "write" in given:
        np.save(local_names.WEIGHTS_PATH, _fit(words, names, kinds).astype(np.float16))
    weights = _fit(words, taught, kinds)
    figures = list(_figures("held out", words, weights, {name: kinds[name] for name in held_out}))
    if (SETS / _ASKED).exists():
        figures += _figures(_ASKED, words, weights, _annotated(most))
    counts = ", ".join(f"{count:,} {kind}" for kind, count in Counter(kinds[name] for name in taught).most_common())
    return Findings(tuple(figures), (f"names taught: {counts}.",))


def _texts(pages: Iterable[Path]) -> Iterator[tuple[str, str]]:
    for page in pages:
        loaded = load_document(RawDocument(page.name, page.read_bytes()), Limits())
        for start in range(0, len(loaded.text), _PIECE):
            yield "", loaded.text[start : start + _PIECE]


def _count(texts: Iterable[tuple[str, str]], votes: Votes, *, otherwise: str) -> None:
    """Add what the rules read in titles and texts; `otherwise` is what a name is where they leave its type open."""
    for title, text in texts:
        chunk = Chunk("chunk-0", "doc-0", 0, text, count_tokens(text), 0, len(text))
        for read in read_chunks(title, [chunk], [""]):
            for found in read.occurrences:
                kind = "concept" if found.is_phrase else read.type_of(found.key)
                kind = kind if kind in local_names.CLASSES else "other" if kind != "unknown" else otherwise
                if kind and not is_chinese(found.name):
                    votes[found.name][kind] += 1


def _fit(words: E5Words, names: Sequence[str], kinds: Mapping[str, str]) -> NDArray[np.float64]:
    """Return weights `(features, classes)` by ridge regression, in which a class weighs as the root of its size."""
    rows = np.array([local_names.features(words, name) for name in names], np.float32)
    columns = np.array([local_names.CLASSES.index(kinds[name]) for name in names])
    weight = np.bincount(columns, minlength=len(local_names.CLASSES))[columns] ** -0.25
    weight = (weight / np.sqrt(np.mean(weight**2)))[:, None]
    weighted = (rows * weight).astype(np.float32)
    moments = weighted.T @ weighted
    moments[np.diag_indices_from(moments)] += _RIDGE
    return np.linalg.solve(moments, weighted.T @ (np.eye(len(local_names.CLASSES))[columns] * weight))


def _annotated(most: int) -> dict[str, str]:
    """Return what the triples of the annotated set say of the names that stand in them."""
    votes: Votes = defaultdict(Counter)
    with (SETS / _ASKED / "openie.jsonl").open(encoding="utf-8") as lines:
        for item in map(json.loads, islice(lines, most)):
            for subject, predicate, object_ in item["triples"]:
                if predicate in _OF_PERSONS:
                    votes[subject]["person"] += 1
                if predicate in _PLACES:
                    votes[object_]["location"] += 1
    return {name: counts.most_common(1)[0][0] for name, counts in votes.items()}


def _figures(title: str, words: E5Words, weights: NDArray[np.float64], kinds: Mapping[str, str]) -> Iterator[Figure]:
    told = {name: local_names.decide(name, local_names.features(words, name) @ weights) for name in kinds}
    for kind in ("person", "location"):
        right = sum(told[name] == kind for name in kinds if kinds[name] == kind)
        said, there = Counter(told.values())[kind], Counter(kinds.values())[kind]
        yield Figure(f"{title}: {kind}s told", 100 * right / max(there, 1), "%", note=f"of {there:,}")
        yield Figure(f"{title}: names told as {kind}s that are", 100 * right / max(said, 1), "%", note=f"of {said:,}")
