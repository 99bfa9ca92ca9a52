"""Measures what the offline embedding is centred by: mean vectors of general text, and the direction of language.

    python -m benchmarks.embedding_mean FOLDER... [--write]

A folder holds texts in any of these forms: `corpus.jsonl` (`title`, `text`) and `queries.jsonl` (`question`), as
retrieval sets have them; `openie.jsonl` (`entities`, `triples`), made into the texts of entities, relations and
keywords; Markdown, plain text and source code. Chinese, other languages, English prose, code and the texts of a
graph's entities count equally, however much of each there is: what all kinds of text share is to be taken out, not
what is common in these folders. Short texts in some twenty other languages are in `data/embedding_mean.tsv`. The
direction of language leads from the mean of English prose to that of Chinese.

Printed is how far the kinds' own means lie from the result; `--write` puts it into the package. New constants make old
vectors incomparable: raise the version in the model's name with them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heliograph.embedding.base import EmbeddingKind
from heliograph.embedding.e5 import model as centring
from heliograph.embedding.e5.model import E5EmbeddingModel
from heliograph.settings import user_cache_dir

__all__ = ["main", "measure_constants", "sample_texts"]

_OTHER_LANGUAGES = Path(__file__).parent / "data" / "embedding_mean.tsv"
_TEXT_SUFFIXES = {".md": "prose", ".txt": "prose", ".py": "code", ".toml": "code", ".c": "code", ".js": "code"}
_PIECE_CHARACTERS = 1500
_MAX_TEXTS = 400

Texts = dict[tuple[str, EmbeddingKind], list[str]]


def main() -> None:
    """Measure, print, and write if asked to."""
    parser = argparse.ArgumentParser(description="Measure the mean vectors of the offline embedding.")
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--write", action="store_true", help="put the result into the package")
    arguments = parser.parse_args()
    constants = asyncio.run(measure_constants(sample_texts(arguments.folders)))
    if arguments.write:
        np.save(centring.CONSTANTS_PATH, constants)
        print(f"written to {centring.CONSTANTS_PATH}")


def sample_texts(folders: list[Path], max_texts: int = _MAX_TEXTS) -> Texts:
    """Return texts by kind of text and kind of use, the same ones in every run.

    Args:
        folders: Where to look; each gives equally many texts of a kind if it has them.
        max_texts: Texts of a kind, at most.
    """
    found: dict[tuple[str, EmbeddingKind], list[list[str]]] = defaultdict(list)
    for folder in folders:
        own: Texts = defaultdict(list)
        for group, use, text in _read_folder(folder):
            own["chinese" if _is_chinese(text) else group, use].append(text)
        for key, texts in own.items():
            found[key].append(random.Random(0).sample(texts, len(texts)))
    sample = {key: _evenly(lists, max_texts) for key, lists in found.items()}
    for line in _OTHER_LANGUAGES.read_text("utf-8").splitlines():
        use, text = line.split("\t", 1)
        key: tuple[str, EmbeddingKind] = ("other languages", "query" if use == "query" else "document")
        sample.setdefault(key, []).append(text.replace("\\n", "\n"))
    return sample


async def measure_constants(texts: Texts) -> NDArray[np.float32]:
    """Return the means of queries and of documents and the unit direction of language, `(3, hidden)`."""
    model = E5EmbeddingModel(user_cache_dir(), is_centred=False)
    by_use: dict[EmbeddingKind, dict[str, NDArray[np.float32]]] = {"query": {}, "document": {}}
    for (group, use), sample in sorted(texts.items()):
        by_use[use][group] = (await model.embed(sample, use)).vectors.mean(0)
    await model.close()
    means = [np.mean(list(groups.values()), axis=0, dtype=np.float32) for groups in by_use.values()]
    for (use, groups), whole in zip(by_use.items(), means, strict=True):
        for group, mean in groups.items():
            cosine = float(mean @ whole / np.linalg.norm(mean) / np.linalg.norm(whole))
            print(f"{use:9s}{group:16s}{len(texts[group, use]):5d} texts, to the mean {cosine:.3f}")
    direction = sum(groups["chinese"] - groups["prose"] for groups in by_use.values())
    return np.stack([*means, direction / np.linalg.norm(direction)]).astype(np.float32)


def _read_folder(folder: Path) -> Iterator[tuple[str, EmbeddingKind, str]]:
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if path.name == "corpus.jsonl":
            for row in _rows(path):
                yield "prose", "document", f"{row['title']}\n{row['text']}"
        elif path.name == "queries.jsonl":
            for row in _rows(path):
                yield "prose", "query", row["question"]
        elif path.name == "openie.jsonl":
            for row in _rows(path):
                yield from _graph_texts(row)
        elif path.suffix in _TEXT_SUFFIXES:
            text = path.read_text("utf-8", errors="replace")
            group = _TEXT_SUFFIXES[path.suffix]
            for start in range(0, len(text), _PIECE_CHARACTERS):
                piece = text[start : start + _PIECE_CHARACTERS]
                yield group, "document", piece
                yield group, "query", piece.strip().split("\n", 1)[0][:100]


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _graph_texts(row: dict[str, Any]) -> Iterator[tuple[str, EmbeddingKind, str]]:
    """Give the texts that an index makes of entities and relations, and keywords that a question may ask for."""
    names = row["entities"]
    facts = [" ".join(triple) for triple in row["triples"]]
    for number, name in enumerate(names[:4]):
        about = [fact for fact in facts if name in fact]
        yield "graph", "document", f"{name}\n{'. '.join(about[:3])}"
        yield "graph", "query", ", ".join(names[number : number + 1 + number % 3])
    for source, verb, target in row["triples"][:2]:
        yield "graph", "document", f"{verb}\t{source}\t{target}\t{source} {verb} {target}"
        yield "graph", "query", verb


def _evenly(lists: list[list[str]], count: int) -> list[str]:
    """Return up to `count` texts, one from each list in turn."""
    places = ((place, number) for place in range(max(map(len, lists))) for number in range(len(lists)))
    texts = (lists[number][place] for place, number in places if place < len(lists[number]))
    return [text for text, _ in zip(texts, range(count), strict=False)]


def _is_chinese(text: str) -> bool:
    sample = text[:200]
    return sum("\u4e00" <= character <= "\u9fff" for character in sample) * 4 > len(sample)


if __name__ == "__main__":
    main()
