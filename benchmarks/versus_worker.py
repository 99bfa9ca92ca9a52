"""One side of `benchmarks.versus_lightrag`: one program on LightRAG or on `heliograph.lightrag`, by its Python.

    python versus_worker.py LIBRARY CORPUS FOLDER

CORPUS is a JSON file: `documents` (`text`, `source`, `reply`), `stored` (sizes), `repeats`, `dimension`, `names`,
`questions`. Printed is one JSON object of figures per size. Imports nothing but the library.
"""

# pyright: basic

from __future__ import annotations

import asyncio
import json
import logging
import resource
import statistics
import sys
import time
from importlib import import_module
from pathlib import Path
from zlib import crc32

import numpy as np

_ROWS = 8192
_MODES = ("local", "global", "hybrid", "mix", "naive")


class _Words:
    """A tokenizer of words: as good as any for texts that are far from every limit."""

    def __init__(self):
        self._numbers, self._words = {}, []

    def encode(self, content):
        found = []
        for word in content.split(" "):
            if word not in self._numbers:
                self._numbers[word] = len(self._words)
                self._words.append(word)
            found.append(self._numbers[word])
        return found

    def decode(self, tokens):
        return " ".join(self._words[token] for token in tokens)


async def _measure(library, corpus, folder):
    """Return what was measured, per size."""
    replies = {item["text"].split("\n")[0]: item["reply"] for item in corpus["documents"]}
    rows = np.random.default_rng(7).normal(size=(_ROWS, corpus["dimension"])).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)

    async def embed(texts, **_):
        return rows[[crc32(text.encode()) % _ROWS for text in texts]]

    async def model(prompt, **given):
        if given.get("response_format"):
            names = [name for name in corpus["names"] if name in prompt]
            return json.dumps({"high_level_keywords": names[:1] or ["report"], "low_level_keywords": names})
        found = (reply for heading, reply in replies.items() if f"{heading}\n" in prompt)
        return next(found, "It is described in many reports.")

    utils = import_module(f"{library}.utils")
    fields = {
        "working_dir": str(folder),
        "tokenizer": utils.Tokenizer("words", _Words()),
        "embedding_func": utils.EmbeddingFunc(corpus["dimension"], embed, max_token_size=8192),
        "llm_model_func": model,
        "entity_extract_max_gleaning": 0,
        "enable_llm_cache": False,
        "enable_llm_cache_for_entity_extract": False,
        "cosine_better_than_threshold": -1.0,
    }
    lightrag = import_module(library)
    rag = lightrag.LightRAG(**fields)
    await rag.initialize_storages()
    found = {}
    count = 0
    for size in corpus["stored"]:
        batch = corpus["documents"][count:size]
        start = time.process_time()
        await rag.ainsert([item["text"] for item in batch], file_paths=[item["source"] for item in batch])
        told = {"ingest, a document": 1000 * (time.process_time() - start) / len(batch)}
        laps = []
        for item in corpus["documents"][size : size + corpus["repeats"]]:
            start = time.process_time()
            await rag.ainsert(item["text"], file_paths=item["source"])
            laps.append(1000 * (time.process_time() - start))
        told["one more document"] = statistics.median(laps)
        count = size + corpus["repeats"]
        for mode in _MODES:
            param = lightrag.QueryParam(mode=mode, enable_rerank=False)
            laps = []
            for question in corpus["questions"]:
                start = time.process_time()
                await rag.aquery_data(question, param)
                laps.append(1000 * (time.process_time() - start))
            told[f"question, {mode}"] = statistics.median(laps)
        await rag.finalize_storages()
        start = time.process_time()
        rag = lightrag.LightRAG(**fields)
        await rag.initialize_storages()
        await rag.get_processing_status()
        told["open"] = 1000 * (time.process_time() - start)
        laps = []
        for item in corpus["documents"][count - corpus["repeats"] : count]:
            (id_,) = await _ids(rag, item["source"])
            start = time.process_time()
            result = await rag.adelete_by_doc_id(id_)
            laps.append(1000 * (time.process_time() - start))
            if result.status != "success":
                raise RuntimeError(f"{id_} was not deleted: {result}")
        told["delete a document"] = statistics.median(laps)
        told["disk"] = _size(folder)
        told["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        found[size] = told
    await rag.finalize_storages()
    return found


def _size(folder):
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()) / 1e6


async def _ids(rag, source):
    row = await rag.doc_status.get_doc_by_file_path(Path(source).name)
    pages = await rag.doc_status.get_docs_paginated(page_size=200, sort_direction="desc")
    return [id_ for id_, item in pages[0] if item.file_path == Path(source).name][:1] if row else []


if __name__ == "__main__":
    logging.disable(logging.INFO)
    library, corpus, folder = sys.argv[1:]
    print(json.dumps(asyncio.run(_measure(library, json.loads(Path(corpus).read_text("utf-8")), Path(folder)))))
