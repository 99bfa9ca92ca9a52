"""The other side of `benchmarks.lightrag_side_by_side`; runs under another Python, so it imports nothing of Heliograph.

    python lightrag_worker.py CORPUS FOLDER

CORPUS is a JSON file: `documents` (`text`, `source`, `reply`: what a model would extract), `stored` (sizes at which to
measure), `repeats`, `dimension`. Printed is, per size, the CPU milliseconds of each of `repeats` single inserts.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from lightrag import LightRAG  # pyright: ignore[reportMissingImports]
from lightrag.kg.shared_storage import initialize_pipeline_status  # pyright: ignore[reportMissingImports]
from lightrag.utils import EmbeddingFunc, Tokenizer  # pyright: ignore[reportMissingImports]

_ROWS = 8192


class _Words:
    """A tokenizer of words: as good as any for texts that are far from every limit."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._words: list[str] = []

    def encode(self, content: str) -> list[int]:
        """Return a number per word."""
        found = []
        for word in content.split(" "):
            if word not in self._numbers:
                self._numbers[word] = len(self._words)
                self._words.append(word)
            found.append(self._numbers[word])
        return found

    def decode(self, tokens: list[int]) -> str:
        """Return the words of these numbers."""
        return " ".join(self._words[token] for token in tokens)


async def _measure(corpus: dict[str, Any], folder: Path) -> dict[int, list[float]]:
    replies = {item["text"].split("\n")[0]: item["reply"] for item in corpus["documents"]}
    rag = LightRAG(
        working_dir=str(folder),
        tokenizer=Tokenizer("words", _Words()),
        embedding_func=EmbeddingFunc(corpus["dimension"], _embedding(corpus["dimension"]), max_token_size=8192),
        llm_model_func=_model(replies),
        entity_extract_max_gleaning=0,
        enable_llm_cache=False,
        enable_llm_cache_for_entity_extract=False,
    )
    await rag.initialize_storages()
    await initialize_pipeline_status()
    laps: dict[int, list[float]] = {}
    count = 0
    for size in corpus["stored"]:
        if size > count:
            batch = corpus["documents"][count:size]
            await rag.ainsert([item["text"] for item in batch], file_paths=[item["source"] for item in batch])
        laps[size] = []
        for item in corpus["documents"][size : size + corpus["repeats"]]:
            start = time.process_time()
            await rag.ainsert(item["text"], file_paths=item["source"])
            laps[size].append(1000 * (time.process_time() - start))
        count = size + corpus["repeats"]
    counts = await rag.get_processing_status()
    await rag.finalize_storages()
    if counts.get("processed") != count:
        raise RuntimeError(f"not all of {count} documents were processed: {counts}")
    return laps


def _embedding(dimension: int) -> Any:
    rows = np.random.default_rng(7).normal(size=(_ROWS, dimension)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)

    async def embed(texts: list[str], **_: Any) -> Any:
        return rows[[crc32(text.encode()) % _ROWS for text in texts]]

    return embed


def _model(replies: dict[str, str]) -> Any:
    async def complete(prompt: str, **_: Any) -> str:
        # What holds no document asks for the summary of a description.
        found = (reply for heading, reply in replies.items() if f"{heading}\n" in prompt)
        return next(found, "It is described in many reports.")

    return complete


if __name__ == "__main__":
    logging.disable(logging.INFO)
    print(json.dumps(asyncio.run(_measure(json.loads(Path(sys.argv[1]).read_text("utf-8")), Path(sys.argv[2])))))
