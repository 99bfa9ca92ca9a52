"""One side of `benchmarks.versus_lightrag`: one task on LightRAG or on `heliograph.lightrag`, by its Python.

    python versus_worker.py LIBRARY TASK CORPUS FOLDER

CORPUS is a JSON file: `documents` (`text`, `source`, `reply`), `dimension`, `names` of entities, `questions`, and what
the task needs. Printed is one JSON value; task `write` prints each document that is acknowledged, until it is killed.
Imports nothing but the library.
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
from base64 import b64decode
from importlib import import_module
from pathlib import Path
from urllib.request import Request, urlopen
from zlib import crc32

import numpy as np

_ROWS = 8192
_MODES = ("local", "global", "hybrid", "mix", "naive")
_DEEPEST = 10


class Words:
    """A tokenizer of words: as good as any for texts that are far from every limit."""

    def __init__(self):
        self._numbers, self._words = {}, []

    def encode(self, content):
        """Return a number per word."""
        found = []
        for word in content.split(" "):
            if word not in self._numbers:
                self._numbers[word] = len(self._words)
                self._words.append(word)
            found.append(self._numbers[word])
        return found

    def decode(self, tokens):
        """Return the words of these numbers."""
        return " ".join(self._words[token] for token in tokens)


class Side:
    """A library over models that cost nothing, either of which may be switched off."""

    def __init__(self, library, corpus, folder):
        self.lightrag, self.utils = import_module(library), import_module(f"{library}.utils")
        self.corpus, self.folder = corpus, folder
        self.down = ""
        self._replies = {item["text"].split("\n")[0]: item["reply"] for item in corpus["documents"]}
        rows = np.random.default_rng(7).normal(size=(_ROWS, corpus["dimension"])).astype(np.float32)
        self._rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)

    async def embed(self, texts, **_):
        """Return vectors: of the service that the corpus names, else of chance."""
        if self.down == "embedding":
            raise ConnectionError("no route to the embedding service")
        if address := self.corpus.get("embedding"):
            request = Request(address, json.dumps(list(texts)).encode(), {"Content-Type": "application/json"})
            with await asyncio.to_thread(urlopen, request) as reply:
                return np.frombuffer(b64decode(reply.read()), "<f4").reshape(len(texts), -1)
        return self._rows[[crc32(text.encode()) % _ROWS for text in texts]]

    async def chat(self, prompt, **given):
        """Return the keywords of a question, or what a document says."""
        if self.down == "chat":
            raise ConnectionError("no route to the chat service")
        if given.get("response_format"):
            question = self.corpus.get("only_question") and prompt
            names = [name for name in self.corpus["names"] if name in prompt]
            return json.dumps(
                {
                    "high_level_keywords": [question] if question else names[:1] or ["report"],
                    "low_level_keywords": names,
                }
            )
        found = (reply for heading, reply in self._replies.items() if f"{heading}\n" in prompt)
        return next(found, "It is described in many reports.")

    async def open(self):
        """Return a LightRAG that is open."""

        # LightRAG copies what it is given, down to the object of a method; a function stays what it is.
        async def embed(texts, **given):
            return await self.embed(texts, **given)

        async def chat(prompt, **given):
            return await self.chat(prompt, **given)

        rag = self.lightrag.LightRAG(
            working_dir=str(self.folder),
            tokenizer=self.utils.Tokenizer("words", Words()),
            embedding_func=self.utils.EmbeddingFunc(self.corpus["dimension"], embed, max_token_size=8192),
            llm_model_func=chat,
            entity_extract_max_gleaning=0,
            enable_llm_cache=False,
            enable_llm_cache_for_entity_extract=False,
            cosine_better_than_threshold=-1.0,
        )
        await rag.initialize_storages()
        return rag

    async def insert(self, rag, items):
        """Take documents in."""
        await rag.ainsert([item["text"] for item in items], file_paths=[item["source"] for item in items])

    def param(self, mode, **fields):
        """Return how a question is asked."""
        return self.lightrag.QueryParam(mode=mode, enable_rerank=False, **fields)


async def cost(side):
    """Return per size what was measured: CPU milliseconds, bytes and memory in MB."""
    corpus = side.corpus
    rag = await side.open()
    found = {}
    count = 0
    for size in corpus["stored"]:
        batch = corpus["documents"][count:size]
        written = _written()
        start = time.process_time()
        await side.insert(rag, batch)
        told = {"ingest, a document": 1000 * (time.process_time() - start) / len(batch)}
        told["written, a document"] = (_written() - written) / len(batch) / 1e6
        laps = []
        for item in corpus["documents"][size : size + corpus["repeats"]]:
            start = time.process_time()
            await side.insert(rag, [item])
            laps.append(1000 * (time.process_time() - start))
        told["one more document"] = statistics.median(laps)
        count = size + corpus["repeats"]
        for mode in _MODES:
            laps = []
            for question in corpus["questions"]:
                start = time.process_time()
                await rag.aquery_data(question, side.param(mode))
                laps.append(1000 * (time.process_time() - start))
            told[f"question, {mode}"] = statistics.median(laps)
        await rag.finalize_storages()
        start = time.process_time()
        rag = await side.open()
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
        told["disk"] = _size(side.folder)
        told["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        found[size] = told
        # Or nothing would be known where the next size takes too long.
        print(json.dumps(found), flush=True)
    await rag.finalize_storages()
    return found


async def recall(side):
    """Return, per mode, the sources of the first chunks of each question."""
    rag = await side.open()
    await side.insert(rag, side.corpus["documents"])
    found = {}
    modes = (*_MODES, "fusion") if side.lightrag.__name__.startswith("heliograph") else _MODES
    for mode in modes:
        found[mode] = []
        for question in side.corpus["questions"]:
            told = await rag.aquery_data(question, side.param(mode, chunk_top_k=_DEEPEST))
            chunks = told["data"].get("chunks", [])
            found[mode].append(list(dict.fromkeys(chunk["file_path"] for chunk in chunks)))
    await rag.finalize_storages()
    return found


async def outage(side):
    """Return what a program is told while a model is down: of each call, in words."""
    rag = await side.open()
    await side.insert(rag, side.corpus["documents"][:3])
    found = {}
    for number, what in enumerate(("chat", "embedding")):
        # A question of its own, since both keep what they know of one.
        question = side.corpus["questions"][number]
        side.down = what
        for mode in ("mix", "naive"):
            try:
                told = await rag.aquery_data(question, side.param(mode))
                parts = told["data"].values()
                said = told["status"] if told["status"] != "success" or any(parts) else "success, and nothing found"
            except Exception as error:  # noqa: BLE001 (whatever it is, it is told)
                said = f"raises {type(error).__name__}"
            found[f"{what} down, `aquery_data`, {mode}"] = said
            answer = await rag.aquery_llm(question, side.param(mode))
            content = answer["llm_response"]["content"]
            found[f"{what} down, `aquery_llm`, {mode}"] = "an answer" if content else f"{answer['status']}, no answer"
        await side.insert(rag, side.corpus["documents"][3 + number : 4 + number])
        failed = (await rag.get_processing_status()).get("failed", 0)
        found[f"{what} down, a new document"] = "failed" if failed > number else "processed"
    side.down = ""
    await rag.finalize_storages()
    return found


async def write(side):
    """Take documents in, one after the other, and print each when it is acknowledged."""
    rag = await side.open()
    print("ready", flush=True)
    for item in side.corpus["documents"]:
        await side.insert(rag, [item])
        print(item["source"], flush=True)
    await rag.finalize_storages()


async def look(side):
    """Return what a store lacks whose writer was killed: acknowledged documents, chunks and vectors of entities."""
    rag = await side.open()
    lost = []
    for source in side.corpus["acknowledged"]:
        row = await rag.doc_status.get_doc_by_file_path(Path(source).name)
        if not row or getattr(row["status"], "value", row["status"]) != "processed":
            lost.append(source)
    nodes = await rag.chunk_entity_relation_graph.get_all_nodes()
    chunks = {id_ for node in nodes for id_ in node["source_id"].split("<SEP>")}
    missing = await rag.text_chunks.filter_keys(chunks)
    unfound = 0
    for node in nodes:
        name = node["entity_id"]
        hits = await rag.entities_vdb.query(f"{name}\n{node['description']}", top_k=3)
        unfound += name not in {hit["entity_name"] for hit in hits}
    await rag.finalize_storages()
    return {"lost": len(lost), "nodes": len(nodes), "chunks missing": len(missing), "vectors missing": unfound}


def _size(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def _written():
    """Return the bytes that this process has handed to the system's files."""
    counters = dict(line.split(": ") for line in Path("/proc/self/io").read_text("ascii").splitlines())
    return int(counters["wchar"])


async def _ids(rag, source):
    row = await rag.doc_status.get_doc_by_file_path(Path(source).name)
    pages = await rag.doc_status.get_docs_paginated(page_size=200, sort_direction="desc")
    return [id_ for id_, item in pages[0] if item.file_path == Path(source).name][:1] if row else []


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    library, task, corpus, folder = sys.argv[1:]
    task = {"cost": cost, "recall": recall, "outage": outage, "write": write, "look": look}[task]
    print(json.dumps(asyncio.run(task(Side(library, json.loads(Path(corpus).read_text("utf-8")), Path(folder))))))
