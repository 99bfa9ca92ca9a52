"""The commands about this installation: stats, settings, doctor.

`list_settings` reads every setting (names, type, bounds, default, meaning) from the settings' models; the reference
page is generated from it. `run_checks` runs the checks of `doctor`: each gives ok, a warning or a failure that says
what to do; no check changes a store and none raises.
"""

from __future__ import annotations

import asyncio
import logging
import platform
import re
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import apsw
import typer
from pydantic import BaseModel, SecretStr
from rich.console import Group, RenderableType

from heliograph._version import __version__
from heliograph.arguments import bounds_of
from heliograph.chat.base import ChatMessage, ChatModel, ChatRequest, Purpose, build_chat_model
from heliograph.cli.output import FlowText, has_bounds
from heliograph.cli.rendering import WIDE, WORD, byte_size, fields_table, make_table, seconds, status_text, to_plain
from heliograph.cli.session import EXIT_FAILED, Session, workspace_is_missing
from heliograph.embedding.base import EmbeddingInfo, build_embedding_model
from heliograph.errors import BadModelReply, HeliographError, StoreError
from heliograph.maintenance.check import find_leftovers
from heliograph.models import RETRIED_STATUSES, WAITING_STATUSES, Stats
from heliograph.rerank.base import ChatReranker, build_reranker
from heliograph.settings import ChatSettings, EmbeddingSettings, RerankSettings, Settings, StoreSettings, hide_password
from heliograph.stores.registry import open_store
from heliograph.text.chinese import tag_words

# Every setting as a row: its names, permitted values, default and meaning, read from the settings' models.

_TYPES = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    Path: "path",
    SecretStr: "secret",
}

_HEAD = """\
# Settings

Every setting has a default, and none has to be set. Later wins:

1. the defaults below;
2. `heliograph.toml` in the working directory, one table a section:

   ```toml
   [chat]
   model = "qwen3:8b"
   base_url = "http://127.0.0.1:11434/v1"

   [ingest]
   gleaning_passes = 0
   ```

3. environment variables: `HELIOGRAPH_CHAT__MODEL=qwen3:8b`; lists as JSON, `["person", "place"]`;
4. what a program passes: `Settings.load(chat={"model": "qwen3:8b"})`, and on the command line `--data-dir` and
   `--workspace`.

An unknown name or a value out of range is an error that names it. `heliograph settings` shows what is in force and
where it comes from. This page is the output of `heliograph settings --markdown`.
"""


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting of a section such as `chat`: its variable, permitted values, default and meaning, in words.

    `value` is the one in force, as plain data (secrets masked), and `origin` where it comes from.
    """

    room: str
    name: str
    environment: str
    allowed: str
    default: str
    description: str
    value: Any = None
    origin: str = "default"

    @property
    def path(self) -> str:
        """Section and name, such as `chat.model`."""
        return f"{self.room}.{self.name}"


def list_settings() -> list[SettingRow]:
    """Return all settings, by section, in the order in which they are defined."""
    rows: list[SettingRow] = []
    for room, model in _sections():
        for name, field in model.model_fields.items():
            bounds = [words for _, _, words in bounds_of(field)]
            bounds += [
                f"at most {item.max_length} characters" for item in field.metadata if hasattr(item, "max_length")
            ]
            bounds += [f"matches `{item.pattern}`" for item in field.metadata if getattr(item, "pattern", None)]
            allowed = ", ".join([_type(field.annotation), *bounds])
            variable = f"HELIOGRAPH_{room}__{name}".upper()
            default = _default(to_plain(field.default))
            rows.append(SettingRow(room, name, variable, allowed, default, field.description or ""))
    return rows


def list_values(settings: Settings, given: Iterable[str] = ()) -> list[SettingRow]:
    """Return all settings with the values in force; `given` are the paths of those from the command line."""
    origins = Settings.find_origins() | dict.fromkeys(given, "command line")
    rows: list[SettingRow] = []
    for row in list_settings():
        value = getattr(getattr(settings, row.room), row.name)
        plain = hide_password(value) if isinstance(value, str) else to_plain(value)
        rows.append(replace(row, value=plain, origin=origins.get(row.path, row.origin)))
    return rows


def settings_markdown() -> str:
    """Return the page `docs/settings.md`."""
    rows = list_settings()
    parts = [_HEAD]
    for room, model in _sections():
        title = (model.__doc__ or "").strip()
        parts.append(f"\n## {room}\n\n{title}\n\n| setting | variable | default | allowed | meaning |\n")
        parts.append("|---|---|---|---|---|\n")
        for row in rows:
            if row.room == room:
                cells = (f"`{row.path}`", f"`{row.environment}`", row.default, row.allowed, row.description)
                parts.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n")
    return "".join(parts)


def _sections() -> list[tuple[str, type[BaseModel]]]:
    kinds = ((room, field.annotation) for room, field in Settings.model_fields.items())
    return [(room, kind) for room, kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]


def _type(annotation: Any) -> str:
    arguments = get_args(annotation)
    if annotation in _TYPES:
        return _TYPES[annotation]
    if get_origin(annotation) is tuple:
        item = arguments[0]
        if isinstance(item, type) and issubclass(item, BaseModel):
            return "list of tables with " + ", ".join(f"`{name}`" for name in item.model_fields)
        return "list of texts"
    kinds = [item for item in arguments if item is not type(None)]
    if all(isinstance(item, str) for item in kinds):
        return " or ".join(f"`{item}`" if item else "empty" for item in kinds)
    return " or ".join(_type(item) for item in kinds) + " or empty"


def _default(plain: Any) -> str:
    if plain is None or plain in ("", []):
        return "empty"
    if isinstance(plain, bool):
        plain = str(plain).lower()
    items = plain if isinstance(plain, list) else [plain]
    return ", ".join(f"`{item}`" for item in items)


# The checks of `doctor`, one function each: none changes a store, and none raises.
#
# Each result is a `Check`: ok, a warning with a suggestion, or a failure with what has to be done. Models get one tiny
# request, with a short timeout.

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)[^;]*(?:;.*extra == ['\"]([a-z0-9-]+)['\"])?")
# Extras that only serve other extras or the developers of Heliograph.
_NO_FEATURE = {"all", "dev"}
_MODEL_TIMEOUT_SECONDS = 15.0
_STORE_TIMEOUT_SECONDS = 3.0
_LOW_DISK_BYTES = 1_000_000_000

_log = logging.getLogger(__name__)


class State(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """A check: its subject, its result, and the particulars."""

    name: str
    state: State
    detail: str


async def run_checks(load_settings: Callable[[], Settings], given: Sequence[str] = ()) -> list[Check]:
    """Run all checks and return their results, in the order in which one would fix problems.

    If the settings cannot be read, checks that depend on them are skipped. `given` are the paths of the settings from
    the command line.
    """
    checks = _check_versions()
    try:
        settings = load_settings()
    except HeliographError as error:
        return [*checks, Check("settings", State.FAIL, str(error))]
    changed = [item for item in list_values(settings, given) if item.origin != "default"]
    said = ", ".join(f"{item.path} = {item.value} ({item.origin})" for item in changed)
    where = f"workspace {settings.store.workspace!r} in {settings.store.place!r}"
    checks += [
        Check("settings", State.OK, f"{where}; {said or 'otherwise all defaults'}"),
        await _guarded("data folder", lambda: asyncio.to_thread(_try_folder, settings.store.data_dir)),
    ]
    checks.append(await _guarded("Chinese words", lambda: asyncio.to_thread(_try_chinese)))
    embedding, info = await _check_embedding(settings.embedding)
    checks += [embedding, await _check_store(settings.store, info)]
    if info is not None and await _may_be_asked(settings.store):
        checks.append(await _guarded("other engines", lambda: _check_followers(settings.store, info)))
    checks.append(await _guarded("chat model", lambda: _check_chat(settings.chat)))
    checks.append(await _guarded("reranker", lambda: _check_reranker(settings.rerank, settings.chat)))
    return checks


async def _guarded(name: str, work: Callable[[], Awaitable[Check]]) -> Check:
    """Run a check; any exception is its failure."""
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
    extras: dict[str, bool] = {}
    for requirement in requires("heliograph") or ():
        if not (match := _REQUIREMENT.match(requirement)) or match[2] in _NO_FEATURE:
            continue
        try:
            installed = f"{match[1]} {version(match[1])}"
        except PackageNotFoundError:
            installed = ""
        if match[2]:
            extras[match[2]] = extras.get(match[2], True) and bool(installed)
        else:
            (found if installed else missing).append(installed or match[1])
    options = set(apsw.compile_options)
    sqlite = Check("SQLite", State.OK, f"{apsw.sqlite_lib_version()} with FTS5")
    if "ENABLE_FTS5" not in options:
        sqlite = Check("SQLite", State.FAIL, f"{apsw.sqlite_lib_version()} lacks FTS5; install apsw from its wheel")
    there = sorted(name for name, is_there in extras.items() if is_there)
    absent = sorted(extras.keys() - set(there))
    said = f"installed: {', '.join(there) or 'none'}"
    checks = [
        Check("heliograph", State.OK, f"{__version__}, Python {platform.python_version()}, {platform.platform()}"),
        sqlite,
        Check("packages", State.OK, ", ".join(found)),
        Check(
            "extras",
            State.OK,
            f"{said}; not installed: {', '.join(absent)} (pip install 'heliograph[NAME]')" if absent else said,
        ),
    ]
    if missing:
        detail = f"not installed: {', '.join(missing)}; run: pip install --force-reinstall heliograph"
        checks.append(Check("packages", State.FAIL, detail))
    return checks


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


def _try_chinese() -> Check:
    started = time.perf_counter()
    words = tag_words(["林知远在成都维护岷江集群。"])
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
        if await workspace_is_missing(settings):
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


async def _may_be_asked(settings: StoreSettings) -> bool:
    """Return whether there is a workspace, as far as can be determined; another check reports problems of the store."""
    try:
        return not await workspace_is_missing(settings)
    except StoreError:
        return True


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


def _hasty_chat(settings: ChatSettings, max_output_tokens: int) -> ChatModel | None:
    hasty = {
        "timeout_seconds": min(settings.timeout_seconds, _MODEL_TIMEOUT_SECONDS),
        "max_retries": 0,
        "max_output_tokens": max_output_tokens,
    }
    return build_chat_model(settings.model_copy(update=hasty), None)


async def _check_chat(settings: ChatSettings) -> Check:
    model = _hasty_chat(settings, 64)
    if model is None:
        return Check("chat model", State.OK, "not configured, which is fine: everything works without one")
    where = f"{settings.model!r} at {settings.base_url or 'the OpenAI API'}"
    started = time.perf_counter()
    try:
        await model.complete(ChatRequest((ChatMessage("user", "Say OK."),), Purpose.ANSWER))
    except BadModelReply as error:
        return Check("chat model", State.WARN, f"{where} is there, but its reply cannot be used: {error}")
    finally:
        await model.close()
    return Check("chat model", State.OK, f"{where} replied in {seconds(time.perf_counter() - started)}")


async def _check_reranker(settings: RerankSettings, chat: ChatSettings) -> Check:
    hasty = {"timeout_seconds": min(settings.timeout_seconds, _MODEL_TIMEOUT_SECONDS), "max_retries": 0}
    reranker, model = await build_reranker(settings.model_copy(update=hasty)), None
    if settings.provider == "chat":
        model = _hasty_chat(chat, 256)
        if model is None:
            return Check("reranker", State.FAIL, "`rerank.provider` is 'chat', and no chat model is configured")
        reranker = ChatReranker(model, settings.max_document_tokens)
    if reranker is None:
        return Check("reranker", State.OK, "not configured, which is fine: chunks keep the order of the search")
    started = time.perf_counter()
    try:
        hits = await reranker.rerank("Which planet is red?", ["Mars is the red planet.", "Bread needs yeast."], 2)
    finally:
        await reranker.close()
        if model is not None:
            await model.close()
    took = seconds(time.perf_counter() - started)
    if [hit.index for hit in hits] != [0, 1]:
        said = ", ".join(f"{hit.score:.3g} for passage {hit.index + 1}" for hit in hits) or "nothing"
        return Check("reranker", State.WARN, f"{reranker.name} ranks a plain example wrongly: {said}; check the model")
    return Check("reranker", State.OK, f"{reranker.name} ranked two passages in {took}")


# Counts, settings and the findings of `doctor`, as tables.


def render_stats(
    stats: Stats,
    store: StoreSettings,
    lags: Mapping[str, int] | None = None,
    troubles: Mapping[str, str] | None = None,
) -> RenderableType:
    """Return the counts of a workspace, how many commits external stores lag, and which stores are unavailable."""
    statuses = ", ".join(f"{count:,} {status.value}" for status, count in sorted(stats.documents.items()))
    total = sum(stats.documents.values())
    rows: list[tuple[str, RenderableType]] = [
        ("workspace", f"{store.workspace} in {store.place}"),
        ("documents", f"{total:,} ({statuses})" if total else "0"),
    ]
    others = [item.name for item in fields(stats) if item.name not in ("documents", "bytes_on_disk")]
    rows += [(name.replace("_", " "), f"{getattr(stats, name):,}") for name in others]
    rows.append(("on disk", byte_size(stats.bytes_on_disk)))
    for name, lag in (lags or {}).items():
        behind = f"{lag:,} commits behind" if lag else "up to date"
        trouble = (troubles or {}).get(name, "")
        rows.append((name, f"{behind}; cannot be asked now: {trouble}" if trouble else behind))
    return fields_table(rows)


def render_settings(values: Sequence[SettingRow], *, is_bounded: bool) -> RenderableType:
    """Return all settings in force, those that differ from the default in bold.

    Their meanings are shown below them, or in a column of their own if there is no width limit.
    """
    columns = {"setting": {"ratio": 3}, "value": {"ratio": 2}, "from": WORD}
    table = make_table(columns if is_bounded else columns | {"meaning": {}})
    for item in values:
        style = "" if item.origin == "default" else "bold"
        name, meaning = FlowText(item.path, style or "cyan"), FlowText(item.description, "dim")
        parts = item.value if isinstance(item.value, list) else [] if item.value is None else [item.value]
        value = FlowText(", ".join(map(str, parts)), style)
        if is_bounded:
            table.add_row(Group(name, meaning), value, item.origin)
        else:
            table.add_row(name, value, item.origin, meaning)
    return table


# The commands about this installation: stats, settings, doctor.


def stats(session: Session) -> None:
    """Count what the workspace holds."""
    with session.engine() as engine:
        found, lags, troubles = engine.stats(), engine.lags(), engine.troubles()
    session.output.result(
        to_plain(found) | {"lags": dict(lags), "troubles": dict(troubles)},
        lambda: render_stats(found, session.settings.store, lags, troubles),
    )


def settings(
    session: Session,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the page docs/settings.md.")] = False,
) -> None:
    """Show every setting, its value and where the value comes from."""
    if markdown:
        session.output.piece(settings_markdown())
        return
    values = list_values(session.settings, session.given_settings)
    is_bounded = has_bounds(session.output.console)
    session.output.result({"settings": to_plain(values)}, lambda: render_settings(values, is_bounded=is_bounded))


def doctor(session: Session) -> None:
    """Check versions, settings, store and models; ends with 1 if something is broken."""
    with session.output.waiting("looking"):
        checks = asyncio.run(run_checks(session.load_settings, session.given_settings))
    is_sound = all(check.state is not State.FAIL for check in checks)
    table = make_table({"state": WORD, "check": WORD, "detail": WIDE}, with_header=False)
    for check in checks:
        table.add_row(status_text(check.state), check.name, FlowText(check.detail))
    session.output.result({"is_sound": is_sound, "checks": to_plain(checks)}, lambda: table)
    if not is_sound:
        raise typer.Exit(EXIT_FAILED)
