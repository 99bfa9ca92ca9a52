"""The commands that look into retrieval and measure it: inspect, compare, visualize, benchmark, assert, eval.

Each gets a report from `heliograph.analysis` or `heliograph.evaluation` and shows it as tables or JSON. `assert` fails
when expectations are missed. Output files of `eval` are checked before anything is measured and written after the
results were shown. `make_async_engine` and `open_embedding` are the only places that make an engine and a model here,
so that tests can replace them.
"""

from __future__ import annotations

import asyncio
import json as json_library
import logging
import os
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Group, RenderableType
from rich.text import Text

import heliograph.analysis.benchmarking as benchmarking
import heliograph.analysis.inspection as inspection
import heliograph.evaluation.reports as reports
from heliograph.analysis.graph_page import draw_neighbourhood, draw_retrieval, to_html
from heliograph.cli.options import QuestionOptions
from heliograph.cli.output import BriefText, FlowText, Output, one_line
from heliograph.cli.rendering import FIGURE, KEY, WIDE, ProgressView, amount, make_table, seconds, status_text, to_plain
from heliograph.cli.session import EXIT_FAILED, Session
from heliograph.embedding.base import EmbeddingModel
from heliograph.engine import AsyncHeliograph
from heliograph.errors import ConflictError, InvalidRequestError, NotFoundError
from heliograph.evaluation.harness import EvaluationPlan, Watcher, evaluate
from heliograph.evaluation.results import Configuration, EvaluationRun, IndexInfo
from heliograph.evaluation.sets import EvaluationSet, find_sets, read_set
from heliograph.extraction.base import Extractor
from heliograph.models import DEFAULT_MODE, Mode
from heliograph.settings import Settings

# Reports about retrieval as tables.

_LIST_CELLS = 160
_SHOWN_CHUNKS = 20


def render_coverage(report: inspection.CoverageReport) -> RenderableType:
    """Return a row per mode: shown of found, and its share of what all modes show."""
    shares = {name: {"justify": "right"} for name in ("entities", "relations", "chunks", "documents")}
    table = make_table(
        {"mode": KEY, **shares, "best entities": WIDE}, f"Coverage: {one_line(report.question, _LIST_CELLS)}"
    )
    for row in report.modes:
        cells = (
            f"{item.shown:,}/{item.found:,} {item.share:.0%}"
            for item in (row.entities, row.relations, row.chunks, row.documents)
        )
        table.add_row(row.mode.value, *cells, _names(row.entity_names))
    totals = f"{report.entities:,} entities, {report.relations:,} relations, {report.chunks:,} chunks, "
    said = f"all modes together show {totals}{report.documents:,} documents; a cell is shown/found, share of these"
    return Group(table, Text(said, "dim"))


def render_keywords(report: inspection.KeywordReport) -> RenderableType:
    """Return a row per keyword: what it finds alone, and how much of that the question shows."""
    table = make_table(
        {"level": KEY, "in result": FIGURE, "chunks": FIGURE, "keyword": {}, "finds": WIDE},
        f"Keywords: {one_line(report.question, _LIST_CELLS)}",
    )
    for item in report.findings:
        is_low = item.level == "low_level"
        found = item.entities if is_low else [" - ".join(pair) for pair in item.relations]
        share = f"{item.in_result:.0%}" if found else "-"
        table.add_row("low" if is_low else "high", share, str(item.chunks), FlowText(item.keyword), _names(found))
    return Group(table, *_warnings(report.warnings))


def render_tokens(report: inspection.TokenReport) -> RenderableType:
    """Return one row per section: the tokens of its budget, and how much was cut."""
    figures = dict.fromkeys(("tokens", "budget", "shown", "found", "cut"), FIGURE)
    table = make_table({"section": KEY, **figures, "first cut": WIDE}, f"Tokens, mode {report.mode.value}")
    fixed = (("prompt", report.prompt_tokens), ("question", report.question_tokens), ("frame", report.frame_tokens))
    for name, tokens in fixed:
        table.add_row(name, f"{tokens:,}")
    for item in report.sections:
        figures = (item.tokens, item.budget, item.shown, item.found)
        cut = f"{item.cut_by_budget:,} ({item.cut_share:.0%})" if item.cut_by_budget else "0"
        table.add_row(item.name, *(f"{figure:,}" for figure in figures), cut, _names(item.first_cut))
    table.add_row("buffer", f"{report.buffer_tokens:,}")
    said = f"{report.total_tokens:,} of {report.max_total_tokens:,} tokens, {report.buffer_tokens:,} held back"
    return Group(table, Text(said, "dim"), *_warnings(report.advice))


def render_comparison(report: inspection.Comparison) -> RenderableType:
    """Return modes side by side, their similarity, and the chunks that they show."""
    figures = ("entities", "relations", "chunks", "documents", "only here", "tokens", "time")
    title = f"Modes: {one_line(report.question, _LIST_CELLS)}"
    table = make_table({"mode": KEY} | dict.fromkeys(figures, FIGURE), title)
    for row in report.modes:
        counts = (row.entities, row.relations, row.chunks, row.documents, row.only_here, row.context_tokens)
        table.add_row(row.mode.value, *(f"{count:,}" for count in counts), seconds(row.seconds))
    likeness = make_table({"modes": KEY} | dict.fromkeys(figures[:4], FIGURE), "Likeness (shared over all)")
    for row in report.overlaps:
        shares = (row.entities, row.relations, row.chunks, row.documents)
        likeness.add_row(f"{row.mode.value} / {row.other.value}", *(f"{share:.0%}" for share in shares))
    modes = [row.mode for row in report.modes]
    places = make_table({**{mode.value: FIGURE for mode in modes}, "chunk of": WIDE}, "Places of chunks")
    for row in report.chunks[:_SHOWN_CHUNKS]:
        places.add_row(*(str(row.places.get(mode, "")) for mode in modes), FlowText(f"{row.source} {row.chunk_id}"))
    hidden = len(report.chunks) - _SHOWN_CHUNKS
    more = [Text(f"and {hidden} more (--json)", "dim")] if hidden > 0 else []
    return Group(table, Text(), likeness, Text(), places, *more)


def render_benchmark(report: benchmarking.BenchmarkReport) -> RenderableType:
    """Return a row per mode: latency and mean counts."""
    figures = ("p50 ms", "p99 ms", "entities", "relations", "chunks", "docs", "empty")
    repeats = "once" if report.repeats == 1 else f"{report.repeats:,} times"
    title = f"{amount(report.questions, 'question')}, {repeats} each, {report.concurrency:,} at once"
    table = make_table({"mode": KEY} | dict.fromkeys(figures, FIGURE), title)
    for row in report.modes:
        times = (row.p50_seconds, row.p99_seconds)
        counts = (row.entities, row.relations, row.chunks, row.documents)
        table.add_row(
            row.mode.value,
            *(f"{1000 * time:.1f}" for time in times),
            *(f"{count:.1f}" for count in counts),
            str(row.failures),
        )
    return table


def render_assertions(report: benchmarking.AssertionReport) -> RenderableType:
    """Return a row per question: whether it passed, its recall and the entities and sources it missed."""
    table = make_table({"": KEY, "recall": FIGURE, "of": FIGURE, "question": WIDE, "missed": WIDE})
    for item in report.questions:
        state = status_text("ok" if item.passed else "fail")
        missed = [f"{name} (no such entity)" if name in item.unknown else name for name in item.missed]
        cells = (f"{item.recall:.0%}", f"{item.min_recall:.0%}")
        table.add_row(state, *cells, FlowText(item.question), _names(missed))
    said = "all passed" if report.passed else f"{report.failures:,} of {len(report.questions):,} failed"
    return Group(table, Text(said, "green" if report.passed else "red"))


def _names(names: Iterable[str]) -> BriefText:
    return BriefText(", ".join(names), _LIST_CELLS)


def _warnings(lines: Iterable[str]) -> list[Text]:
    return [Text(f"! {line}", "yellow") for line in lines]


_ALL_MODES = ", ".join(mode.value for mode in inspection.SEARCHING_MODES)

Question = Annotated[str, typer.Argument(help="The question.", show_default=False)]
Modes = Annotated[
    list[Mode] | None, typer.Option("--mode", "-m", help="How to search; may be repeated.", show_default=_ALL_MODES)
]
OneMode = Annotated[Mode, typer.Option("--mode", "-m", help="How to search.")]


# Aspects of a question that can be inspected.
Part = Literal["coverage", "keywords", "tokens"]


def inspect(
    session: Session,
    part: Annotated[Part, typer.Argument(help="What to look at.", show_default=False)],
    question: Question,
    *,
    mode: Annotated[
        list[Mode] | None,
        typer.Option(
            "--mode",
            "-m",
            help="How to search; may be repeated for coverage.",
            show_default=f"coverage: {_ALL_MODES}; keywords: hybrid; tokens: {DEFAULT_MODE}",
        ),
    ] = None,
    options: QuestionOptions,
) -> None:
    """Look into a question: what it covers, what its keywords find, or what the token budgets cut."""
    if part != "coverage" and mode and len(mode) > 1:
        raise typer.BadParameter(f"inspect {part} takes one --mode, got {len(mode)}")
    single = mode[0] if mode else Mode.HYBRID if part == "keywords" else DEFAULT_MODE
    param = options.to_param(mode=single)
    with session.engine() as engine, session.output.waiting("searching"):
        match part:
            case "coverage":
                report = inspection.inspect_coverage(engine, question, mode or inspection.SEARCHING_MODES, param)
                table = render_coverage(report)
            case "keywords":
                report = inspection.inspect_keywords(engine, question, param)
                table = render_keywords(report)
            case "tokens":
                report = inspection.inspect_tokens(engine, question, param)
                table = render_tokens(report)
    session.output.result(to_plain(report), lambda: table)


def compare(
    session: Session,
    question: Question,
    *,
    mode: Modes = None,
    options: QuestionOptions,
) -> None:
    """Set modes side by side for one question: what they find, how alike it is, time and tokens."""
    param = options.to_param()
    with session.engine() as engine, session.output.waiting("searching"):
        found = inspection.compare_modes(engine, question, mode or inspection.SEARCHING_MODES, param)
    session.output.result(to_plain(found), lambda: render_comparison(found))


def visualize(
    session: Session,
    *,
    question: Annotated[str, typer.Argument(help="The question whose result is drawn.", show_default=False)] = "",
    entity: Annotated[
        str, typer.Option(metavar="NAME", help="Draw what lies around this entity instead.", show_default=False)
    ] = "",
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="File to write.")] = Path("graph.html"),
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    mode: OneMode = DEFAULT_MODE,
    options: QuestionOptions,
    depth: Annotated[int, typer.Option(min=1, max=10, help="Relations between the entity and the farthest.")] = 1,
    max_entities: Annotated[int, typer.Option(min=1, max=2000, help="Entities drawn at the most.")] = 200,
) -> None:
    """Draw the graph of a question's result, or around an entity, as one HTML file that loads nothing."""
    if bool(question) == bool(entity):
        raise typer.BadParameter("give either a question or --entity NAME")
    if output.exists() and not force:
        raise ConflictError(f"there is a file {str(output)!r} already; name another with --output, or add --force")
    with session.engine() as engine, session.output.waiting("searching"):
        if question:
            param = options.to_param(mode=mode)
            drawn = draw_retrieval(engine.retrieve(question, param), max_entities)
        else:
            around = engine.neighbours(entity, depth=depth, max_entities=max_entities)
            if not around.entities:
                raise NotFoundError(f"there is no entity {entity!r}; 'heliograph entities --search TEXT' finds one")
            drawn = draw_neighbourhood(around)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(to_html(drawn), "utf-8")
    counts = {"entities": len(drawn.entities), "relations": len(drawn.relations), "chunks": len(drawn.chunks)}
    plain = {"file": str(output), "title": drawn.title, "summary": drawn.summary} | counts
    session.output.told(plain, f"{output}: {drawn.summary}")


def benchmark(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Questions: a line each, or JSON.", show_default=False)],
    *,
    mode: Modes = None,
    repeats: Annotated[int, typer.Option(min=1, max=10_000, help="Times each question is asked in each mode.")] = 1,
    concurrency: Annotated[int, typer.Option(min=1, max=256, help="Questions under way at once.")] = 1,
    answers: Annotated[bool, typer.Option("--answers", help="Have answers written too.")] = False,
    options: QuestionOptions,
) -> None:
    """Time questions in each mode: latency at the median and the 99th percentile, and how much is found."""
    questions = [item.question for item in benchmarking.read_questions(file)]
    param = options.to_param()
    with session.engine() as engine, session.output.counting("asking") as told:
        report = benchmarking.run_benchmark(
            engine,
            questions,
            mode or inspection.SEARCHING_MODES,
            param,
            repeats=repeats,
            concurrency=concurrency,
            answers=answers,
            on_done=lambda done, total: told(f"asked, of {total:,}", done),
        )
    session.output.result(to_plain(report), lambda: render_benchmark(report))


def assert_(
    session: Session,
    target: Annotated[
        str, typer.Argument(metavar="QUESTION|FILE", help="A question, or a .json or .jsonl file.", show_default=False)
    ],
    *,
    entity: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Entity that must be found; may be repeated.", show_default=False),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Document that must be quoted; may be repeated.", show_default=False),
    ] = None,
    min_recall: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Least share that passes.")
    ] = benchmarking.DEFAULT_RECALL,
    mode: OneMode = DEFAULT_MODE,
    options: QuestionOptions,
) -> None:
    """Check that questions find the entities and documents they should; ends with 1 if one does not."""
    if entity or source:
        questions = [benchmarking.AskedQuestion(target, entities=tuple(entity or ()), sources=tuple(source or ()))]
    else:
        questions = benchmarking.read_questions(Path(target))
    param = options.to_param(mode=mode)
    with session.engine() as engine, session.output.waiting("searching"):
        report = benchmarking.check_expectations(engine, questions, param, min_recall)
    session.output.result(to_plain(report), lambda: render_assertions(report))
    if not report.passed:
        raise typer.Exit(EXIT_FAILED)


# The files that `eval` writes: checked before anything is measured, written after the results were shown.

_FORMS = {"output": reports.to_json, "markdown": reports.to_markdown, "plot": reports.to_svg}


@dataclass(frozen=True, slots=True)
class EvaluationFiles:
    """Where to write the results (JSON, tables, recall as SVG, a folder for Ragas); None omits a form."""

    output: Path | None = None
    markdown: Path | None = None
    plot: Path | None = None
    ragas: Path | None = None

    def make_folders(self) -> None:
        """Create missing folders, so that no measurement is lost because of a mistyped path.

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
        """Write the results, replacing existing files."""
        for name, path in self._named():
            path.write_text(_FORMS[name](run), "utf-8")
        if self.ragas is None:
            return
        for report in run.sets:
            for ran in report.runs:
                name = "".join(
                    letter if letter.isalnum() or letter in "-_" else "-" for letter in ran.configuration.name
                )
                text = "".join(f"{line}\n" for line in reports.ragas_lines(ran))
                (self.ragas / f"{report.name}.{name}.jsonl").write_text(text, "utf-8")

    def _named(self) -> Iterator[tuple[str, Path]]:
        """Yield the option and the path of each file."""
        for name, path in (("output", self.output), ("markdown", self.markdown), ("plot", self.plot)):
            if path is not None:
                yield name, path


def _check_writable(name: str, path: Path) -> None:
    if not os.access(path, os.W_OK):
        raise InvalidRequestError(f"--{name}: {str(path)!r} may not be written; check permissions, or choose another")


# Measuring retrieval on sets of questions: eval, and eval diff.

_DIFF = "diff"
_KNOWN_MODES = frozenset(mode.value for mode in Mode)
_DEFAULT_MODES = tuple(name for name in ("naive", "mix", "fusion", "auto") if name in _KNOWN_MODES)
_DEFAULT_FOLDER = Path("heliograph_eval")
_LINE_EVERY_SECONDS = 5.0


def eval_(
    session: Session,
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
    if paths[0] == _DIFF:
        if len(paths) != 3:
            raise InvalidRequestError(f"'eval diff' compares two files that --output wrote, got {len(paths) - 1}")
        diffs = reports.diff_runs(*(reports.read_run(Path(path)) for path in paths[1:]))
        if session.output.is_json:
            session.output.json(to_plain(diffs))
        else:
            session.output.piece(reports.diff_to_markdown(diffs))
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
    with _watcher(session.output) as watcher, _without_warnings_of_questions():
        embedding = open_embedding(settings)
        run = asyncio.run(
            evaluate(sets, settings, plan, embedding=embedding, open_engine=make_async_engine, watcher=watcher)
        )
    try:
        if session.output.is_json:
            # Without single questions, of which there are thousands.
            brief = [replace(item, runs=tuple(replace(ran, questions=()) for ran in item.runs)) for item in run.sets]
            session.output.json(json_library.loads(reports.to_json(replace(run, sets=tuple(brief)))))
        else:
            session.output.piece(reports.to_markdown(run))
    finally:
        # Write them even if the reader closed the pipe.
        files.write(run)


def make_async_engine(settings: Settings, embedding: EmbeddingModel, extractor: Extractor | None) -> AsyncHeliograph:
    """Return an unopened engine for these settings with this model, and with this extractor if there is one."""
    return AsyncHeliograph(settings=settings, embedding=embedding, extractor=extractor)


def open_embedding(settings: Settings) -> EmbeddingModel | None:  # noqa: ARG001
    """Return the embedding model to use; None leaves it to the settings."""
    return None


def _read_sets(
    output: Output, paths: Sequence[str], choice: tuple[str, str], max_passages: int | None
) -> list[EvaluationSet]:
    sets: list[EvaluationSet] = []
    for path in paths:
        for folder in find_sets(Path(path)):
            read = read_set(folder, *choice)
            if max_passages is not None and len(read.passages) > max_passages:
                output.note(f"{read.name} is left out: it has {len(read.passages):,} passages")
            else:
                sets.append(read)
    if not sets:
        raise NotFoundError(f"no set in {', '.join(map(repr, paths))} is small enough; raise --max-passages")
    return sets


def _parse_settings(pairs: Sequence[str]) -> dict[str, dict[str, Any]]:
    sections: dict[str, dict[str, Any]] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        section, dot, field = name.partition(".")
        if not (sign and dot and section and field):
            raise typer.BadParameter(f"--set takes ROOM.NAME=VALUE, got {pair!r}")
        sections.setdefault(section, {})[field] = value
    return sections


@contextmanager
def _without_warnings_of_questions() -> Generator[None]:
    """Suppress warnings about single questions, of which there are thousands; errors are raised anyway."""
    logger = logging.getLogger("heliograph.query")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextmanager
def _watcher(output: Output) -> Generator[Watcher]:
    """Yield a callback that shows progress: a line per set and configuration, and one every few seconds between."""
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
