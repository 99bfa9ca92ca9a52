"""The command that measures retrieval: eval, and eval diff, with the files that they write.

Files are checked before anything is measured and written after the results were shown. `make_async_engine` and
`open_embedding` are the only places that make an engine and a model here, so that tests can put others in their
place.
"""

from __future__ import annotations

import asyncio
import json as json_library
import logging
import os
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from heliograph.cli.output import Output
from heliograph.cli.rendering import ProgressView, seconds, to_plain
from heliograph.cli.session import Session, current_session
from heliograph.embedding.base import EmbeddingModel
from heliograph.engine import AsyncHeliograph
from heliograph.errors import InvalidRequestError, NotFoundError
from heliograph.evaluation.harness import EvaluationPlan, Watcher, evaluate
from heliograph.evaluation.reports import (
    diff_runs,
    diff_to_markdown,
    ragas_lines,
    read_run,
    to_json,
    to_markdown,
    to_svg,
)
from heliograph.evaluation.results import Configuration, EvaluationRun, IndexInfo
from heliograph.evaluation.sets import EvaluationSet, find_sets, read_set
from heliograph.extraction.base import Extractor
from heliograph.query.models import Mode
from heliograph.settings import Settings

# The files that `eval` writes: checked before anything is measured, written after it was shown.

_FORMS = {"output": to_json, "markdown": to_markdown, "plot": to_svg}


@dataclass(frozen=True, slots=True)
class EvaluationFiles:
    """Where to write what was measured; None leaves a form out.

    Attributes:
        output: Everything, as JSON.
        markdown: The tables.
        plot: Recall over places, as SVG.
        ragas: Folder for what Ragas reads, a file a run.
    """

    output: Path | None = None
    markdown: Path | None = None
    plot: Path | None = None
    ragas: Path | None = None

    def make_folders(self) -> None:
        """Make the folders that are missing, so that no measurement is lost for a slip in a path.

        Raises:
            InvalidRequestError: A file is a folder, or the other way round, or it may not be written.
            OSError: A folder cannot be made.
        """
        for name, path in self._named():
            if path.is_dir():
                raise InvalidRequestError(f"--{name} {str(path)!r} is a folder; give the name of a file")
            path.parent.mkdir(parents=True, exist_ok=True)
            _check_writable(name, path if path.exists() else path.parent)
        if self.ragas is not None:
            if self.ragas.exists() and not self.ragas.is_dir():
                raise InvalidRequestError(f"--ragas {str(self.ragas)!r} is a file; give the name of a folder")
            self.ragas.mkdir(parents=True, exist_ok=True)
            _check_writable("ragas", self.ragas)

    def write(self, run: EvaluationRun) -> None:
        """Write what was measured, over what is there."""
        for name, path in self._named():
            path.write_text(_FORMS[name](run), "utf-8")
        if self.ragas is not None:
            _write_ragas(run, self.ragas)

    def _named(self) -> Iterator[tuple[str, Path]]:
        """Yield the option and the path of each file."""
        for name, path in (("output", self.output), ("markdown", self.markdown), ("plot", self.plot)):
            if path is not None:
                yield name, path


def _check_writable(name: str, path: Path) -> None:
    if not os.access(path, os.W_OK):
        raise InvalidRequestError(f"--{name}: {str(path)!r} may not be written; check permissions, or choose another")


def _write_ragas(run: EvaluationRun, folder: Path) -> None:
    for report in run.sets:
        for ran in report.runs:
            name = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in ran.configuration.name)
            text = "".join(f"{line}\n" for line in ragas_lines(ran))
            (folder / f"{report.name}.{name}.jsonl").write_text(text, "utf-8")


_DIFF = "diff"
_KNOWN_MODES = frozenset(mode.value for mode in Mode)
_DEFAULT_MODES = tuple(name for name in ("naive", "mix", "fusion", "auto") if name in _KNOWN_MODES)
_DEFAULT_FOLDER = Path("heliograph_eval")
_LINE_EVERY_SECONDS = 5.0


def eval_(
    ctx: typer.Context,
    paths: Annotated[
        list[str],
        typer.Argument(help="Folders of sets, or: diff RUN1.json RUN2.json.", show_default=False),
    ],
    mode: Annotated[
        list[str] | None,
        typer.Option(
            "--mode",
            "-m",
            metavar="MODE[:FIELD=VALUE,...]",
            help="How to ask; may be repeated, the first is what the others are compared with.",
            show_default=", ".join(_DEFAULT_MODES),
        ),
    ] = None,
    join: Annotated[int, typer.Option(min=1, help="Passages in one document.")] = 1,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="ROOM.NAME=VALUE", help="A setting; may be repeated.", show_default=False),
    ] = None,
    questions: Annotated[
        int | None, typer.Option(min=1, help="Ask the first so many of each set.", show_default=False)
    ] = None,
    max_passages: Annotated[
        int | None, typer.Option(min=1, help="Leave out sets with more passages.", show_default=False)
    ] = None,
    split: Annotated[str, typer.Option(help="Which questions, where a set tells them apart.")] = "",
    extractions: Annotated[
        str, typer.Option(metavar="FILE", help="File of each set to take extractions from.", show_default=False)
    ] = "",
    answers: Annotated[bool, typer.Option("--answers/--no-answers", help="Ask for answers too.")] = True,
    index_dir: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of the indexes.")] = _DEFAULT_FOLDER,
    reuse_index: Annotated[
        bool, typer.Option("--reuse-index", help="Use an index even if the code that made it has changed.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write everything as JSON.", show_default=False)
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the tables as Markdown.", show_default=False)
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write recall over places as SVG.", show_default=False)
    ] = None,
    ragas: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write what Ragas reads, a file a run.", show_default=False)
    ] = None,
) -> None:
    """Measure retrieval on sets of questions with known answers, or compare two measurements.

    Indexes each set in a workspace of its own, asks every question, and prints recall, nDCG and more.
    """
    session = current_session(ctx)
    if paths[0] == _DIFF:
        _show_diff(session.output, paths[1:])
        return
    files = EvaluationFiles(output, markdown, plot, ragas)
    plan = EvaluationPlan(
        configurations=tuple(Configuration.parse(text) for text in mode or _DEFAULT_MODES),
        folder=index_dir,
        join=join,
        most_questions=questions,
        with_answers=answers,
        keeps_stale=reuse_index,
    )
    settings = session.load_settings(**_parse_settings(setting or []))
    sets = _read_sets(session.output, paths, (split, extractions), max_passages)
    files.make_folders()
    run = _evaluate(session, sets, settings, plan)
    try:
        _show(session.output, run)
    finally:
        # Also where whoever reads has seen enough.
        files.write(run)


def make_async_engine(settings: Settings, embedding: EmbeddingModel, extractor: Extractor | None) -> AsyncHeliograph:
    """Return an engine for these settings on this model, with this extractor if there is one, not yet open."""
    return AsyncHeliograph(settings=settings, embedding=embedding, extractor=extractor)


def open_embedding(settings: Settings) -> EmbeddingModel | None:  # noqa: ARG001
    """Return the embedding model to use; None leaves it to the settings."""
    return None


def _evaluate(
    session: Session, sets: Sequence[EvaluationSet], settings: Settings, plan: EvaluationPlan
) -> EvaluationRun:
    with _watcher(session.output) as watcher, _without_warnings_of_questions():
        return asyncio.run(
            evaluate(
                sets,
                settings,
                plan,
                embedding=open_embedding(settings),
                open_engine=make_async_engine,
                watcher=watcher,
            )
        )


def _read_sets(
    output: Output, paths: Sequence[str], choice: tuple[str, str], max_passages: int | None
) -> list[EvaluationSet]:
    sets: list[EvaluationSet] = []
    for path in paths:
        found = find_sets(Path(path))
        for folder in found:
            read = read_set(folder, *choice)
            if max_passages is not None and len(read.passages) > max_passages:
                output.note(f"{read.name} is left out: it has {len(read.passages):,} passages")
            else:
                sets.append(read)
    if not sets:
        raise NotFoundError(f"no set in {', '.join(map(repr, paths))} is small enough; raise --max-passages")
    return sets


def _parse_settings(pairs: Sequence[str]) -> dict[str, dict[str, Any]]:
    rooms: dict[str, dict[str, Any]] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        room, dot, field = name.partition(".")
        if not (sign and dot and room and field):
            raise typer.BadParameter(f"--set takes ROOM.NAME=VALUE, got {pair!r}")
        rooms.setdefault(room, {})[field] = value
    return rooms


@contextmanager
def _without_warnings_of_questions() -> Generator[None]:
    """Keep quiet about single questions, of which there are thousands; what fails is raised anyway."""
    logger = logging.getLogger("heliograph.query")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextmanager
def _watcher(output: Output) -> Generator[Watcher]:
    """Yield what tells how far it is: a line a set and a configuration, and one every few seconds between."""
    view = ProgressView(output)
    due_at = time.monotonic() + _LINE_EVERY_SECONDS

    def on_set(name: str, passages: int, questions: int) -> None:
        output.note(f"{name}: {passages:,} passages, {questions:,} questions")

    def on_index(info: IndexInfo) -> None:
        how = "reused" if info.was_reused else f"made in {seconds(info.seconds)}"
        output.note(f"  index {how}: {info.chunks:,} chunks, {info.entities:,} entities")

    def on_question(configuration: Configuration, done: int) -> None:
        nonlocal due_at
        if time.monotonic() >= due_at:
            due_at = time.monotonic() + _LINE_EVERY_SECONDS
            output.note(f"  {configuration.name}: {done:,} questions")

    with view:
        yield Watcher(on_set, on_index, view, on_question)


def _show(output: Output, run: EvaluationRun) -> None:
    if output.is_json:
        output.json(json_library.loads(to_json(_without_questions(run))))
    else:
        output.piece(to_markdown(run))


def _without_questions(run: EvaluationRun) -> EvaluationRun:
    return replace(
        run,
        sets=tuple(replace(item, runs=tuple(replace(ran, questions=()) for ran in item.runs)) for item in run.sets),
    )


def _show_diff(output: Output, paths: Sequence[str]) -> None:
    if len(paths) != 2:
        raise InvalidRequestError(f"'eval diff' compares two files that --output wrote, got {len(paths)}")
    diffs = diff_runs(*(read_run(Path(path)) for path in paths))
    if output.is_json:
        output.json(to_plain(diffs))
    else:
        output.piece(diff_to_markdown(diffs))
