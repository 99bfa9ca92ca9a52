"""Changes one sentence of a document of about 200 chunks, against inserting a document of one chunk.

Extraction is by a chat model that costs nothing and counts its calls; embedding costs nothing. Taken is the CPU time of
each call of `AsyncHeliograph.insert`, on one core: cutting the whole text and comparing its chunks is part of it. The
sentence is another one each time.
"""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.corpus import HashEmbedding, corpus_document
from benchmarks.measure import Stopwatch, pin
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from heliograph import AsyncHeliograph
from heliograph.chat.base import ChatRequest, Purpose
from heliograph.ids import document_id
from heliograph.settings import Settings
from heliograph.testing.fakes import FakeChatModel

__all__ = ["TITLE", "run"]

TITLE = "Updating one paragraph"

_DIMENSION = 384
_CHUNKS = 200
_CHUNK_TOKENS = 344
_MOST_RATIO = 3.0
_PARAGRAPHS_PER_CHUNK = 0.4
_BLOCKS = 5


def run(options: Options) -> Findings:
    """Measure updates and inserts in turn."""
    how = pin()
    chunks, repeats = (20, 5) if options.quick else (_CHUNKS, 50)
    with TemporaryDirectory() as folder:
        figures, notes = asyncio.run(_measure(Path(folder), chunks, repeats))
    return Findings(figures, (*notes, f"{repeats} of each, the least median of {_BLOCKS} blocks; {how}."))


async def _measure(folder: Path, chunks: int, repeats: int) -> tuple[tuple[Figure, ...], tuple[str, ...]]:
    chat = FakeChatModel(_reply)
    settings = Settings.load(
        ingest={"chunk_tokens": _CHUNK_TOKENS, "gleaning_passes": 0, "overlap_tokens": 0}, chat={"cache": False}
    )
    updates, inserts, calls = Stopwatch(), Stopwatch(), list[int]()
    async with AsyncHeliograph(folder, settings=settings, embedding=HashEmbedding(_DIMENSION), chat=chat) as kb:
        paragraphs = [_paragraph(number) for number in range(round(chunks * _PARAGRAPHS_PER_CHUNK))]
        await kb.insert(_text(paragraphs), sources=["large.md"])
        stored = await kb.chunks(document_id("large.md"))
        for number in range(repeats):
            place = number * 7 % len(paragraphs)
            paragraphs[place] = paragraphs[place].replace(". ", f", as of revision {number}. ", 1)
            text, before = _text(paragraphs), len(chat.requests)
            with updates.lap():
                await kb.insert(text, sources=["large.md"])
            calls.append(sum(request.purpose is Purpose.EXTRACT for request in chat.requests[before:]))
            small = corpus_document(20_000 + number)
            with inserts.lap():
                await kb.insert(small.text, sources=[f"small-{number}.md"])
    ratio = updates.median(_BLOCKS) / inserts.median(_BLOCKS)
    figures = (
        Figure("chunks of the document", len(stored)),
        Figure("model calls of an update, mean", sum(calls) / len(calls)),
        Figure("model calls of an update, most", max(calls)),
        Figure("update", updates.median(_BLOCKS), "ms", note=updates.spread()),
        Figure("insert of one chunk", inserts.median(_BLOCKS), "ms", note=inserts.spread()),
        Figure("update over insert", ratio, at_most=_MOST_RATIO),
    )
    return figures, ()


def _paragraph(number: int) -> str:
    return corpus_document(number).text.split("\n\n", 1)[1].strip()


def _text(paragraphs: list[str]) -> str:
    return "\n\n".join(("# Large report", *paragraphs))


def _reply(request: ChatRequest) -> str:
    """Return a few entities and relations named by the passage's own words."""
    passage = request.messages[-1].content.split("===")[2]
    words = [word.strip(".,") for word in passage.split() if word[:1].isupper()]
    names = list(dict.fromkeys(words))[:8]
    entities = [{"name": name, "type": "concept", "description": f"{name} is mentioned."} for name in names]
    relations = [
        {"source": left, "target": right, "keywords": "near", "description": f"{left} and {right}.", "strength": 1}
        for left, right in pairwise(names)
    ]
    return json.dumps({"entities": entities, "relations": relations})
