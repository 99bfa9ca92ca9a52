"""The default size of chunks against the window of the offline embedding, on real text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from heliograph.embedding.base import EmbeddingInfo
from heliograph.embedding.e5.model import MAX_TEXT_TOKENS, E5Tokenizer, E5Weights
from heliograph.embedding.e5.weights import ArtefactCache, find_weights
from heliograph.ingest.chunking import make_chunker
from heliograph.settings import IngestSettings
from heliograph.text.analysis import chunk_index_text

BENCH = Path(__file__).parents[4] / "shared" / "bench"


@pytest.mark.shared
@pytest.mark.skipif(not BENCH.exists(), reason="needs the sets in ../shared/bench, beside the project")
def test_default_chunks_fit_the_offline_embedding() -> None:
    tokenizer = E5Tokenizer(E5Weights(find_weights()), ArtefactCache(None))
    chunker = make_chunker(IngestSettings(), EmbeddingInfo("e5", 384, MAX_TEXT_TOKENS), extracts_by_chat=False)
    for name in ("gitlab_handbook", "kevinscott_global", "cmrc2018_trial"):
        lines = (BENCH / name / "corpus.jsonl").read_text("utf-8").splitlines()[:150]
        rows = [json.loads(line) for line in lines]
        text = "\n\n".join(row["text"] for row in rows)
        title = max((row["title"] for row in rows), key=len)
        chunks = chunker.chunk("doc-1", text)
        windows = [tokenizer.windows(chunk_index_text(title, chunk), "document") for chunk in chunks]
        fitting = sum(len(found) == 1 for found in windows)
        assert fitting >= 0.95 * len(chunks), name
