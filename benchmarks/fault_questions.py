"""Questions whose right answers no later document changes, and what came of each.

Each is about a document that was there before anything was hurt, and about names that only this document mentions. A
question goes to the engine as a whole in one of the modes, or for neighbours and paths, or for a vector. An answer is
right if all that the document says of the name is in it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.corpus import HashEmbedding, corpus_document, document_entities
from heliograph import AsyncHeliograph, QueryParam
from heliograph.errors import HeliographError, StoreUnavailable
from heliograph.ids import document_id
from heliograph.models import Usage, utc_now
from heliograph.stores.base import CachedReply
from heliograph.stores.changeset import Collection

__all__ = ["HANG_SECONDS", "Questions", "Tally", "WordEmbedding"]

HANG_SECONDS = 45.0
_MODES = ("local", "mix", "hybrid")


@dataclass(slots=True)
class Tally:
    """What became of questions.

    Attributes:
        outcomes: `right`, `typed error`, `wrong`, `hung`.
        errors: Typed errors by class.
        wrong: What was wrong, in words.
        odd: Errors that do not say that something is out of reach.
        slowest_seconds: Of all.
    """

    outcomes: Counter[str] = field(default_factory=Counter[str])
    errors: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])
    odd: list[str] = field(default_factory=list[str])
    slowest_seconds: float = 0.0


class WordEmbedding(HashEmbedding):
    """Texts with words in common are near: the sum of their words' vectors, so that a name finds what it names."""

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `HashEmbedding`."""
        made = np.stack(
            [super(WordEmbedding, self).vectors(text.lower().split() or [""]).sum(axis=0) for text in texts]
        )
        return made / np.linalg.norm(made, axis=1, keepdims=True)


class Questions:
    """Asks of documents with these numbers, which are there.

    Args:
        kb: Is asked.
        numbers: Of documents.
    """

    def __init__(self, kb: AsyncHeliograph, numbers: range) -> None:
        self._kb = kb
        self._numbers = numbers
        self._put: list[str] = []

    async def ask(self, place: int, tally: Tally) -> None:
        """Ask the question at this place and count what comes of it."""
        number = self._numbers[place % len(self._numbers)]
        kinds: tuple[Callable[[int, int], Awaitable[str]], ...]
        kinds = (self._retrieve, self._neighbours, self._path, self._vector, self._reply)
        start = time.monotonic()
        try:
            async with asyncio.timeout(HANG_SECONDS):
                wrong = await kinds[place % len(kinds)](place, number)
        except TimeoutError:
            outcome, wrong = "hung", f"question {place} hangs"
        except HeliographError as error:
            outcome, wrong = "typed error", ""
            tally.errors[type(error).__name__] += 1
            if not isinstance(error, StoreUnavailable):
                tally.odd.append(f"question {place}: {error!r}")
        else:
            outcome = "wrong" if wrong else "right"
        tally.outcomes[outcome] += 1
        tally.slowest_seconds = max(tally.slowest_seconds, time.monotonic() - start)
        if wrong:
            tally.wrong.append(wrong)

    async def find_lost_replies(self) -> int:
        """Return how many replies that were put away are not there any more."""
        return [await self._kb.store.replies.get_reply(key) for key in self._put].count(None)

    async def _retrieve(self, place: int, number: int) -> str:
        mode = _MODES[(place // 5) % len(_MODES)]
        names = document_entities(number)
        param = QueryParam(mode=mode, ll_keywords=[names[0]], hl_keywords=[names[0]], top_k=20, chunk_top_k=20)
        data = (await self._kb.query_data(f"What does {names[0]} do?", param))["data"]
        pairs = {frozenset((item["src_id"], item["tgt_id"])) for item in data.get("relationships", ())}
        found = {item["entity_name"] for item in data.get("entities", ())}
        is_right = names[0] in found and frozenset(names[:2]) in pairs
        return "" if is_right else f"{mode}: {names[0]!r} is not among {sorted(found)}"

    async def _neighbours(self, place: int, number: int) -> str:  # noqa: ARG002
        names = document_entities(number)
        found = await self._kb.neighbours(names[3], depth=1)
        there = {entity.name for entity in found.entities}
        wanted = {names[2], names[3], names[4]}
        return "" if wanted <= there else f"neighbours of {names[3]!r} are {sorted(there)}"

    async def _path(self, place: int, number: int) -> str:  # noqa: ARG002
        names = document_entities(number)
        paths = await self._kb.paths(names[1], names[3])
        return "" if paths and len(paths[0].relations) <= 2 else f"no path from {names[1]!r} to {names[3]!r}: {paths}"

    async def _vector(self, place: int, number: int) -> str:  # noqa: ARG002
        store = self._kb.store
        (chunk,) = await store.records.get_document_chunks(document_id(corpus_document(number).source))
        stored = (await store.truth.vectors.get_vectors(Collection.CHUNKS, [chunk.id]))[chunk.id]
        hits = await store.vectors.search(Collection.CHUNKS, stored, 5, 0.9)
        return "" if chunk.id in {hit.id for hit in hits} else f"{chunk.id} is not near itself: {hits}"

    async def _reply(self, place: int, number: int) -> str:  # noqa: ARG002
        replies, key = self._kb.store.replies, f"local:extract:{place}"
        await replies.put_reply(CachedReply(key, f"reply {place}", "model", Usage(1, 1), utc_now()))
        self._put.append(key)
        found: Any = await replies.get_reply(key)
        # One that was put into another engine is out of reach with it, which costs a call of a model.
        return "" if found is None or found.text == f"reply {place}" else f"{key}: {found}"
