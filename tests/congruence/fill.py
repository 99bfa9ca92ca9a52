"""Lets the real package keep the texts of the fakes somewhere: `python fill.py FOLDER FIELDS`, fields as JSON.

Servers are named by LightRAG's own variables of the environment.
"""

# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import fakes
import programs


async def main(folder, fields):
    lib = programs.Library("lightrag")
    given = json.loads(fields)
    embedding = lib.module("utils").EmbeddingFunc(
        embedding_dim=fakes.DIMENSION, max_token_size=8192, func=fakes.embed, model_name="fake"
    )
    rag = await lib.open(folder, embedding_func=embedding, **given)
    # One after the other, so that descriptions come in the same order each time.
    for text, id_, name in zip(fakes.TEXTS, "abc", programs.FILES, strict=True):
        await rag.ainsert(text, ids=id_, file_paths=name)
    states = await rag.get_processing_status()
    await rag.finalize_storages()
    if states["processed"] != len(fakes.TEXTS):
        sys.exit(f"the real package did not take all in: {states}")


asyncio.run(main(*sys.argv[1:]))
