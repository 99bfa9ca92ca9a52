"""A working directory that we export, opened by the real package: it answers in all modes, deletes, and goes on."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from heliograph.lightrag import LightRAG
from heliograph.lightrag.utils import EmbeddingFunc, Tokenizer

from . import fakes, programs

_PYTHON = os.environ.get("HELIOGRAPH_TEST_LIGHTRAG", "")
_OPEN = """
import asyncio, json, sys
sys.path.insert(0, sys.argv[1])
import fakes, programs

async def main():
    lib = programs.Library("lightrag")
    rag = await lib.open(sys.argv[2])
    seen = {"graph": programs.graph(await rag.get_knowledge_graph("*"))}
    question = "Which leadership and measurement does Alice Moreau have with Heron?"
    for mode in ("local", "global", "hybrid", "mix", "naive"):
        param = lib.QueryParam(mode=mode, enable_rerank=False)
        seen[mode] = [programs.data(await rag.aquery_data(question, param)), await rag.aquery(question, param)]
    calls = len(fakes.CALLS)
    gone = await rag.adelete_by_doc_id("b")
    seen["deleted"] = [gone.status, len(fakes.CALLS) - calls, programs.graph(await rag.get_knowledge_graph("*"))]
    await rag.ainsert(fakes.TEXTS[1], ids="again", file_paths="again.md")
    seen["labels"] = await rag.get_graph_labels()
    await rag.finalize_storages()
    print("SEEN" + json.dumps(seen, ensure_ascii=False, default=str))

asyncio.run(main())
"""


async def test_real_package_opens_what_we_export(tmp_path: Path) -> None:
    if not _PYTHON:
        pytest.skip("HELIOGRAPH_TEST_LIGHTRAG names no Python with lightrag-hku 1.5.7: nothing was opened")
    rag = _made(tmp_path / "kb")
    await rag.initialize_storages()
    await rag.ainsert(fakes.TEXTS, ids=["a", "b", "c"], file_paths=programs.FILES)
    ours: dict[str, Any] = {"graph": programs.graph(await rag.get_knowledge_graph("*"))}
    lib = programs.Library("heliograph.lightrag")
    for mode in ("local", "global", "hybrid", "mix", "naive"):
        param = lib.QueryParam(mode=mode, enable_rerank=False)
        question = "Which leadership and measurement does Alice Moreau have with Heron?"
        ours[mode] = [programs.data(await rag.aquery_data(question, param)), await rag.aquery(question, param)]
    await rag.finalize_storages()
    async with rag._kb as kb:  # pyright: ignore[reportPrivateUsage]
        await kb.export(tmp_path / "out", "lightrag")
    rag = _made(tmp_path / "kb")
    await rag.adelete_by_doc_id("b")
    ours["deleted"] = ["success", 0, programs.graph(await rag.get_knowledge_graph("*"))]
    await rag.ainsert(fakes.TEXTS[1], ids="again", file_paths="again.md")
    ours["labels"] = await rag.get_graph_labels()
    await rag.finalize_storages()
    folder = str(Path(__file__).parent)
    done = subprocess.run(  # noqa: ASYNC221 (nothing else is under way)
        [_PYTHON, "-c", _OPEN, folder, str(tmp_path / "out")], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    (told,) = [line.removeprefix("SEEN") for line in done.stdout.splitlines() if line.startswith("SEEN")]
    assert json.loads(told) == json.loads(json.dumps(ours, ensure_ascii=False, default=str))


async def test_directory_of_lightrag_is_taken_in_when_it_is_opened(tmp_path: Path) -> None:
    rag = _made(tmp_path / "first")
    await rag.ainsert(fakes.TEXTS, ids=["a", "b", "c"], file_paths=programs.FILES)
    whole = programs.graph(await rag.get_knowledge_graph("*"))
    async with rag._kb as kb:  # pyright: ignore[reportPrivateUsage]
        await kb.export(tmp_path / "moved", "lightrag")
    moved = _made(tmp_path / "moved")
    await moved.initialize_storages()
    assert programs.graph(await moved.get_knowledge_graph("*")) == whole
    assert sorted(await moved.aget_docs_by_ids(["a", "b", "c"])) == ["a", "b", "c"]
    await moved.finalize_storages()


def _made(folder: Path) -> LightRAG:
    return LightRAG(
        working_dir=str(folder),
        llm_model_func=fakes.model,
        embedding_func=EmbeddingFunc(embedding_dim=fakes.DIMENSION, max_token_size=8192, func=fakes.embed),
        tokenizer=Tokenizer("characters", fakes.Characters()),
    )
