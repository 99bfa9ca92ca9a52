"""The command `query`: ask a question and show its answer, references, and the retrieved context.

The question comes from the command line or standard input. The answer is streamed to a terminal; tables of entities,
relations and chunks, and one line on how the answer came about, follow on request.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from heliograph.cli.documents import tokens
from heliograph.cli.graph import render_entities, render_relations
from heliograph.cli.options import QuestionOptions, combine_filters, parameter
from heliograph.cli.output import BriefText, FlowText, Output
from heliograph.cli.rendering import FAINT, FOLDED, KEY, WIDE, amount, make_table, name_cell, seconds
from heliograph.cli.session import Session
from heliograph.models import DEFAULT_MODE, Mode, Usage, heading_path
from heliograph.query.answers.models import Answer, AnswerKind
from heliograph.query.models import Context, QueryParam, Reference, Retrieval
from heliograph.sync import Heliograph

# References and retrieved context as tables; how an answer came about, in a line.

_CHUNK_CELLS = 200
_CITED = re.compile(r"\[(\d+)\]")
_REFERENCE_SECTION = re.compile(r"^#{1,6}[ \t]*(?:References|参考资料|参考文献)[ \t]*$", re.MULTILINE | re.IGNORECASE)
_KINDS = {
    AnswerKind.GENERATED: "written by the chat model",
    AnswerKind.EXTRACTIVE: "extractive: quoted, no chat model",
    AnswerKind.NOTHING_FOUND: "nothing found",
    AnswerKind.CONTEXT: "context only",
    AnswerKind.PROMPT: "prompt only",
}


def without_references(text: str) -> str:
    """Return an answer without the list of references at its end, which the table of references replaces."""
    sections = list(_REFERENCE_SECTION.finditer(text))
    body = text[: sections[-1].start()].rstrip() if sections else ""
    return body or text


def render_references(references: Sequence[Reference], text: str, *, shows_all: bool = False) -> RenderableType:
    """Return the sources that a text cites by number, or all of them if it cites none."""
    cited = set(_CITED.findall(text))
    shown = [item for item in references if shows_all or item.reference_id in cited] or references
    columns = {"reference": {**KEY, "justify": "right"}, "source": FOLDED, "chunks": FAINT}
    table = make_table(columns, "References", with_header=False)
    for item in shown:
        count = f"{item.count} chunk{'' if item.count == 1 else 's'}"
        table.add_row(f"[{item.reference_id}]", name_cell(item.source), count)
    hidden = len(references) - len(shown)
    if not hidden:
        return table
    said = f"and {amount(hidden, 'more source')} read (--show references)"
    return Group(table, Text(said, "dim"))


def render_part(context: Context, part: Part) -> RenderableType:
    """Return the entities, relations or chunks of a context, shortened on a terminal, with how each was found."""
    title = part.value.capitalize()
    if not getattr(context, part.value):
        return Group(Text(title, "bold"), Text("none", "dim"))
    if part is Part.ENTITIES:
        return render_entities([item.entity for item in context.entities], title)
    if part is Part.RELATIONS:
        return render_relations([item.relation for item in context.relations], title)
    table = make_table({"ref": {**KEY, "justify": "right"}, "found by": FAINT, "chunk": WIDE}, title)
    for item in context.chunks:
        place = FlowText(heading_path((item.source, *item.chunk.headings)), "dim")
        marks = " ".join(str(mark) for mark in item.marks)
        table.add_row(f"[{item.reference_id}]", marks, Group(place, BriefText(item.chunk.text, _CHUNK_CELLS)))
    return table


def describe_answer(answer: Answer) -> str:
    """Return how an answer came about, in a line or two."""
    parts = [describe_retrieval(answer.retrieval), _KINDS[answer.kind]]
    parts += ["from the cache"] if answer.from_cache else []
    parts += [tokens(answer.usage)] if answer.usage != Usage() else []
    return ", ".join(parts)


def describe_retrieval(retrieval: Retrieval) -> str:
    """Return mode, keywords and counts of a retrieval."""
    context, keywords = retrieval.context, retrieval.keywords
    levels = (("high-level", keywords.high_level), ("low-level", keywords.low_level))
    lines = [f"{name} keywords: {', '.join(words)}\n" for name, words in levels if words]
    counts = f"{len(context.entities)} entities, {len(context.relations)} relations, {len(context.chunks)} chunks"
    return f"{''.join(lines)}mode {retrieval.mode.value}, {counts}"


class Part(StrEnum):
    """The parts of the context that can be shown."""

    ENTITIES = "entities"
    RELATIONS = "relations"
    CHUNKS = "chunks"
    REFERENCES = "references"
    ALL = "all"


def query(
    session: Session,
    question: Annotated[str, typer.Argument(help="The question, or - for standard input.", show_default=False)],
    *,
    mode: Annotated[Mode, typer.Option("--mode", "-m", help="How to search.")] = DEFAULT_MODE,
    options: QuestionOptions,
    hl: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="High-level keyword; may be repeated.", show_default=False)
    ] = None,
    ll: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="Low-level keyword; may be repeated.", show_default=False)
    ] = None,
    stream: Annotated[bool, typer.Option("--stream", help="Print the answer as it is written.")] = False,
    context_only: Annotated[
        bool, typer.Option("--context-only", help="Print what the chat model would read, and ask it nothing.")
    ] = False,
    prompt_only: Annotated[
        bool, typer.Option("--prompt-only", help="Print the whole prompt, and ask the chat model nothing.")
    ] = False,
    response_type: Annotated[str, parameter("response_type")] = "Multiple Paragraphs",
    user_prompt: Annotated[str, parameter("user_prompt")] = "",
    filter_json: Annotated[
        str, typer.Option(metavar="JSON", help="Only from documents that match, as a JSON object.")
    ] = "",
    source_prefix: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Only from documents whose source starts so; may be repeated."),
    ] = None,
    show: Annotated[
        list[Part] | None,
        typer.Option(help="Show these tables of the context too; may be repeated.", show_default=False),
    ] = None,
) -> None:
    """Ask a question and print the answer with the sources it cites."""
    if stream and session.output.is_json:
        raise typer.BadParameter("--stream prints text as it comes; leave it out with --json")
    param = options.to_param(
        mode=mode,
        hl_keywords=tuple(hl or ()),
        ll_keywords=tuple(ll or ()),
        only_need_context=context_only,
        only_need_prompt=prompt_only,
        response_type=response_type,
        user_prompt=user_prompt or None,
        return_structured=True,
        filter=combine_filters(options.filter, source_prefix, filter_json),
    )
    asked = sys.stdin.buffer.read().decode("utf-8", "replace").strip() if question == "-" else question
    with session.engine(creates=mode is Mode.BYPASS) as engine:
        if stream:
            _stream(session.output, engine, asked, param, show or [])
        else:
            _ask(session.output, engine, asked, param, show or [])


def _ask(output: Output, engine: Heliograph, question: str, param: QueryParam, show: Sequence[Part]) -> None:
    started = time.perf_counter()
    with output.waiting("searching"):
        answer = engine.query(question, param)
    elapsed_seconds = time.perf_counter() - started
    for warning in answer.warnings:
        output.warn(warning)
    if output.is_json:
        output.json(answer.payload(param))
        return
    show_answer(output, answer, shows_all_references=Part.REFERENCES in show or Part.ALL in show)
    _show_tables(output, answer.context, show)
    output.note(f"\n{describe_answer(answer)}, {seconds(elapsed_seconds)}")


def _stream(output: Output, engine: Heliograph, question: str, param: QueryParam, show: Sequence[Part]) -> None:
    started = time.perf_counter()
    with output.waiting("searching"):
        stream = engine.query_stream(question, param)
    for warning in stream.retrieval.warnings:
        output.warn(warning)
    text = ""
    try:
        for piece in stream:
            text += piece
            output.piece(piece)
    finally:
        output.piece("\n")
    references = stream.retrieval.context.references
    shows_all = Part.REFERENCES in show or Part.ALL in show
    # A text that ends with its own list of references needs no second one.
    if references and (shows_all or without_references(text) == text):
        output.show("", render_references(references, text, shows_all=shows_all))
    _show_tables(output, stream.retrieval.context, show)
    output.note(f"\n{describe_retrieval(stream.retrieval)}, {seconds(time.perf_counter() - started)}")


def show_answer(output: Output, answer: Answer, *, shows_all_references: bool = False) -> None:
    """Print an answer and its references; a context or a prompt is printed as it is."""
    if answer.kind not in (AnswerKind.GENERATED, AnswerKind.EXTRACTIVE):
        output.text(answer.text)
        return
    output.text(without_references(answer.text))
    if answer.references:
        output.show("", render_references(answer.references, answer.text, shows_all=shows_all_references))


def _show_tables(output: Output, context: Context, show: Sequence[Part]) -> None:
    for part in (Part.ENTITIES, Part.RELATIONS, Part.CHUNKS):
        if part in show or Part.ALL in show:
            output.show("", render_part(context, part))
