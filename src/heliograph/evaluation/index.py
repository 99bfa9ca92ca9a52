"""Makes the index of a set, in a workspace of its own, or finds the one that was made before.

Beside each index stands `fingerprint.json`: a hash of all that the index depends on (the texts, how they are joined,
settings of ingest and resolution, embedding model, extractor, chat model and how it is asked, and the code, word lists
and prompts that documents are read with). If it is the same, nothing is indexed; if not, the workspace is made anew.
The file is written last, so an interrupted run counts as none.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

import heliograph.documents
import heliograph.extraction
import heliograph.ingest
import heliograph.prompts
import heliograph.text
from heliograph.embedding.base import EmbeddingInfo
from heliograph.engine import AsyncHeliograph
from heliograph.errors import IngestError, InvalidRequestError
from heliograph.evaluation.results import IndexInfo
from heliograph.evaluation.sets import CorpusMap
from heliograph.ingest.models import Progress
from heliograph.settings import IngestSettings, Settings

_FILE = "fingerprint.json"
_READING_ROOMS = (heliograph.documents, heliograph.extraction, heliograph.ingest, heliograph.prompts, heliograph.text)
# Trying other words in what is asked later must not cost an index that a chat model was paid for.
_QUESTION_PROMPTS = ("answer.txt", "answer_naive.txt", "keywords.txt", "understanding.txt")
_CHAT_OPTIONS = {"temperature", "max_output_tokens", "json_mode"}
_INFO = TypeAdapter(IndexInfo)


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """Where an index belongs and what it must have been made from.

    Attributes:
        settings: Settings with the index's own folder and workspace.
        fingerprint: Of texts, settings and models.
        code: Of the code, word lists and prompts that documents are read with.
    """

    settings: Settings
    fingerprint: str
    code: str

    @property
    def folder(self) -> Path:
        """The workspace's folder."""
        return self.settings.store.data_dir / self.settings.store.workspace


def plan_index(
    name: str, corpus: CorpusMap, settings: Settings, embedding: EmbeddingInfo, folder: Path, extractor: str = ""
) -> IndexPlan:
    """Return where the index of a corpus belongs.

    Args:
        name: Name of the set, for the workspace's name.
        corpus: What it shall hold.
        settings: How to make it; the store's place in it is not used.
        embedding: The embedding model.
        folder: Folder of all indexes; each gets a workspace in it, so several settings stand side by side.
        extractor: Name of an extractor that is used in place of that of the settings.

    Raises:
        InvalidRequestError: The store of the settings is not the embedded one, which alone can be made on the side.
    """
    if settings.store.url != "sqlite:":
        raise InvalidRequestError(
            f"evaluation makes its own indexes in the embedded store, but store.url is {settings.store.url!r}; unset it"
        )
    choices = {
        "ingest": _reading(settings.ingest, corpus),
        "embedding": [embedding.name, embedding.dimension, embedding.max_input_tokens],
        "embedding_prefix": settings.embedding.document_prefix,
        # Whoever extracts, a chat model summarises descriptions.
        "chat": settings.chat.model,
        "extractor": extractor,
    }
    # What is as it was when these were not looked at is left out, so that indexes made then are found.
    further: dict[str, dict[str, Any]] = {}
    if settings.resolution.merge_duplicates:
        further["resolution"] = settings.resolution.model_dump(mode="json", exclude_defaults=True)
    if settings.chat.model:
        further["chat_options"] = settings.chat.model_dump(mode="json", exclude_defaults=True, include=_CHAT_OPTIONS)
    choices |= {room: options for room, options in further.items() if options}
    how = _hash([json.dumps(choices, sort_keys=True, default=str)])
    what = _hash(part for item in corpus.documents for part in (item.source, item.title, item.text))
    workspace = f"{re.sub(r'[^A-Za-z0-9_]+', '-', name).strip('-')[:40] or 'set'}-{_hash([what, how])[:12]}"
    store = settings.store.model_copy(update={"data_dir": folder, "workspace": workspace})
    return IndexPlan(settings.model_copy(update={"store": store}), _hash([what, how]), _code_hash())


def _reading(ingest: IngestSettings, corpus: CorpusMap) -> dict[str, Any]:
    """Return the settings of ingest, as by default where they change nothing of what an index of the corpus holds."""
    idle = {"max_parallel_documents"}
    if all(len(item.text) <= ingest.max_document_characters for item in corpus.documents):
        idle.add("max_document_characters")
    defaults = {name: IngestSettings.model_fields[name].default for name in idle}
    # Where documents are read changes nothing of what is read.
    return ingest.model_dump(mode="json", exclude={"engine"}) | defaults


async def ensure_index(
    plan: IndexPlan,
    corpus: CorpusMap,
    open_engine: Callable[[Settings], AbstractAsyncContextManager[AsyncHeliograph]],
    *,
    keeps_stale: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> IndexInfo:
    """Make the index, unless it is there and nothing changed since.

    Args:
        plan: Where it belongs.
        corpus: What it shall hold.
        open_engine: Returns an engine for settings, to be entered.
        keeps_stale: Reuse an index that was made by other code of ours.
        progress: Called now and then with how far indexing is.

    Raises:
        IngestError: No document could be taken in.
        ModelError: A model is out of reach.
        StoreError: The store failed.
    """
    known = _read_info(plan)
    if known is not None and (keeps_stale or known.fingerprint == _full(plan)):
        return known
    shutil.rmtree(plan.folder, ignore_errors=True)
    start = time.monotonic()
    async with open_engine(plan.settings) as engine:
        report = await engine.insert(list(corpus.documents), progress=progress)
        stats = await engine.stats()
    if len(report.failures) == len(corpus.documents):
        raise IngestError(f"no passage could be taken in; the first failed with: {report.failures[0].error}")
    info = IndexInfo(
        folder=str(plan.folder),
        fingerprint=_full(plan),
        was_reused=False,
        seconds=round(time.monotonic() - start, 2),
        documents=len(corpus.documents) - len(report.failures),
        chunks=stats.chunks,
        entities=stats.entities,
        relations=stats.relations,
        failures=len(report.failures),
    )
    (plan.folder / _FILE).write_bytes(_INFO.dump_json(info, indent=2))
    return info


def _read_info(plan: IndexPlan) -> IndexInfo | None:
    """Return what is noted beside an index; None if there is none, or none that was finished."""
    try:
        noted = json.loads((plan.folder / _FILE).read_bytes())
        return _INFO.validate_python({**noted, "was_reused": True})
    except (OSError, ValueError, TypeError, ValidationError):
        return None


def _full(plan: IndexPlan) -> str:
    return _hash([plan.fingerprint, plan.code])


def _code_hash() -> str:
    folders = [Path(folder) for room in _READING_ROOMS for folder in room.__path__]
    files = sorted(path for folder in folders for kind in ("*.py", "*.txt") for path in folder.rglob(kind))
    unread = {Path(folder, name) for folder in heliograph.prompts.__path__ for name in _QUESTION_PROMPTS}
    return _hash(path.read_text("utf-8") for path in files if path not in unread)


def _hash(parts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()
