"""The process that `benchmarks.operations` kills: it does random operations and says what it begins and what is done.

    python -m benchmarks.operations_writer FOLDER SEED FIRST_NUMBER LAST_NUMBER

Whatever it did before it is resumed first. An operation is drawn from its number and from what the workspace holds; one
to three run at once, never two on one document. Every line it prints is one JSON object: an operation that begins, or
the number of one that is done, with the curation that it made or took back.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.corpus import HashEmbedding
from benchmarks.operations_text import NAMES, SentenceExtractor, changed_text, draw_text
from heliograph import AsyncHeliograph
from heliograph.errors import ConflictError, InvalidRequestError, NotFoundError
from heliograph.ids import document_id
from heliograph.ingest.models import NewDocument
from heliograph.models import Curation
from heliograph.settings import Settings
from heliograph.stores.base import CurationQuery, DocumentQuery

__all__ = ["Operation", "Outcome", "open_workspace"]

_DIMENSION = 32
_SOURCES = tuple(f"{folder}/log-{number}.md" for folder in ("north", "south") for number in range(10))
_REFUSALS = (ConflictError, InvalidRequestError, NotFoundError)
# Extraction seems to take up to this long, so that a kill lands before, during and after the commits.
_DELAY_SECONDS = 0.004
_KINDS = {
    "insert": 10,
    "update": 10,
    "twin": 8,
    "update of an original": 5,
    "delete": 7,
    "create": 4,
    "edit": 4,
    "rename": 6,
    "merge": 6,
    "split": 8,
    "hide": 3,
    "relate": 3,
    "edit relation": 3,
    "unrelate": 3,
    "undo": 20,
}


@dataclass(frozen=True, slots=True)
class Operation:
    """What is done.

    Attributes:
        number: Which one it is.
        kind: One of `_KINDS`.
        documents: Text per source that documents get; None deletes.
        names: Names of entities.
        scope: Documents or chunks of a split.
        curation: The curation to undo.
    """

    number: int
    kind: str
    documents: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    names: tuple[str, ...] = ()
    scope: tuple[str, ...] = ()
    curation: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an operation: it was refused, or the curation that it made or took back, if any."""

    number: int
    is_refused: bool = False
    curation: str = ""


def open_workspace(folder: Path, delay_seconds: float = 0.0) -> AsyncHeliograph:
    """Return the workspace, not opened yet; its chunks are a paragraph or two."""
    settings = Settings.load()
    ingest = settings.ingest.model_copy(update={"chunking": "semantic", "chunk_tokens": 60, "overlap_tokens": 0})
    return AsyncHeliograph(
        folder,
        settings=settings.model_copy(update={"ingest": ingest}),
        embedding=HashEmbedding(_DIMENSION),
        extractor=SentenceExtractor(delay_seconds),
    )


@dataclass(frozen=True, slots=True)
class _Scene:
    """What a workspace holds, to draw operations from."""

    texts: dict[str, str]
    originals: list[str]
    chunks: list[str]
    names: list[str]
    curations: list[str]


async def _look(kb: AsyncHeliograph) -> _Scene:
    documents = (await kb.documents(DocumentQuery(limit=1_000))).documents
    texts = {item.source: await kb.store.records.get_document_text(item.id) or "" for item in documents}
    with_twins = {item.twin_of for item in documents}
    chunks = [chunk.id for item in documents for chunk in await kb.chunks(item.id)]
    entities = await kb.entities(limit=1_000)
    active = (await kb.curations(CurationQuery(includes_undone=False, limit=10_000))).curations
    return _Scene(
        texts,
        [item.source for item in documents if item.id in with_twins],
        chunks,
        [name for item in entities for name in (item.name, *item.aliases)],
        [item.id for item in active],
    )


def _draw(number: int, scene: _Scene, state: random.Random) -> Operation:
    (kind,) = state.choices(list(_KINDS), list(_KINDS.values())) if scene.texts else ("insert",)
    name, other = (state.choice(scene.names or NAMES) for _ in range(2))
    new = state.choice((*NAMES, f"Machine {state.randrange(20)}"))
    if kind in ("insert", "update", "twin", "update of an original", "delete"):
        return Operation(number, kind, _draw_documents(kind, scene, state))
    if kind == "split":
        places = [*scene.chunks, *map(document_id, scene.texts)]
        return Operation(number, kind, {}, (name, new), tuple(state.sample(places, min(len(places), 8))))
    if kind == "undo":
        return Operation(number, kind, curation=state.choice(scene.curations or ["none"]))
    names = {"create": (new,), "edit": (name,), "hide": (name,), "rename": (name, new)}
    return Operation(number, kind, {}, names.get(kind, (name, other)))


def _draw_documents(kind: str, scene: _Scene, state: random.Random) -> dict[str, str | None]:
    known = list(scene.texts)
    source = state.choice(_SOURCES)
    if kind == "delete" and known:
        return dict.fromkeys(state.sample(known, min(len(known), state.choice((1, 1, 1, 2, 3)))))
    if kind == "twin" and known:
        text = scene.texts[state.choice(known)]
        return dict.fromkeys(state.sample(_SOURCES, state.choice((1, 1, 2))), text)
    if kind in ("update", "update of an original"):
        source = state.choice((kind != "update" and scene.originals) or known or [source])
        return {source: changed_text(scene.texts.get(source) or draw_text(state), state)}
    return {source: draw_text(state)}


async def _perform(kb: AsyncHeliograph, operation: Operation) -> Curation | None:
    """Do one operation; when this returns, it is acknowledged."""
    if not operation.documents:
        return await _curate(kb, operation)
    if operation.kind == "delete":
        await kb.delete([document_id(source) for source in operation.documents])
        return None
    metadata = {"operation": operation.number}
    report = await kb.insert(
        [NewDocument(text or "", source, metadata=metadata) for source, text in operation.documents.items()]
    )
    if report.failures:
        raise report.failures[0].error or RuntimeError("a document failed without an error")
    return None


async def _curate(kb: AsyncHeliograph, operation: Operation) -> Curation:
    names, detail = operation.names, f"by hand {operation.number % 3}"
    match operation.kind:
        case "create":
            return await kb.create_entity(names[0], type="made", description=detail)
        case "edit":
            return await kb.edit_entity(names[0], type="edited", description=detail)
        case "rename":
            return await kb.rename_entity(*names, allow_merge=True)
        case "merge":
            return await kb.merge_entities(names[0], names[1])
        case "split":
            ids = operation.scope
            chunks = [id_ for id_ in ids if not id_.startswith("doc-")]
            return await kb.split_entity(*names, document_ids=set(ids) - set(chunks), chunk_ids=chunks)
        case "hide":
            return await kb.delete_entity(names[0])
        case "relate":
            return await kb.create_relation(*names, keywords=["made"], description=detail, weight=2.0)
        case "edit relation":
            return await kb.edit_relation(*names, weight=7.0, description=detail)
        case "unrelate":
            return await kb.delete_relation(*names)
        case _:
            return await kb.undo(operation.curation)


async def _acknowledge(kb: AsyncHeliograph, operation: Operation) -> None:
    _say(operation)
    try:
        made = await _perform(kb, operation)
    except _REFUSALS:
        _say(Outcome(operation.number, is_refused=True))
        return
    _say(Outcome(operation.number, curation=made.id if made else ""))


def _say(what: Operation | Outcome) -> None:
    print(json.dumps(asdict(what)), flush=True)


def _draw_wave(first: int, limit: int, scene: _Scene, seed: str) -> list[Operation]:
    """Return one to three operations that touch no document twice."""
    size = random.Random(f"{seed} {first} size").choice((1, 1, 1, 2, 3))
    wave: list[Operation] = []
    touched: set[str] = set()
    for number in range(first, min(first + size, limit)):
        drawn = _draw(number, scene, random.Random(f"{seed} {number}"))
        if not touched.isdisjoint(drawn.documents):
            break
        touched |= drawn.documents.keys()
        wave.append(drawn)
    return wave


async def _write(folder: Path, seed: str, number: int, limit: int, say_opening: Callable[[], None]) -> None:
    say_opening()
    async with open_workspace(folder, _DELAY_SECONDS) as kb:
        await kb.resume()
        while number < limit:
            wave = _draw_wave(number, limit, await _look(kb), seed)
            await asyncio.gather(*(_acknowledge(kb, operation) for operation in wave))
            number += len(wave)
    print('"closed"', flush=True)


if __name__ == "__main__":
    asyncio.run(
        _write(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), lambda: print('"open"', flush=True))
    )
