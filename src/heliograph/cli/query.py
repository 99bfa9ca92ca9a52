"""The command that asks: query."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer

from heliograph.cli.filters import combine_filters
from heliograph.cli.output import Output
from heliograph.cli.progress import seconds
from heliograph.cli.render_query import (
    describe_answer,
    describe_retrieval,
    render_chunks,
    render_references,
    render_retrieved_entities,
    render_retrieved_relations,
    without_references,
)
from heliograph.cli.session import current_session
from heliograph.models import DEFAULT_MODE
from heliograph.query.models import Answer, AnswerKind, Context, Mode, QueryParam
from heliograph.sync import Heliograph

__all__ = ["query", "show_answer"]


class Part(StrEnum):
    """What of the context can be shown."""

    ENTITIES = "entities"
    RELATIONS = "relations"
    CHUNKS = "chunks"
    REFERENCES = "references"
    ALL = "all"


_TABLES = {
    Part.ENTITIES: render_retrieved_entities,
    Part.RELATIONS: render_retrieved_relations,
    Part.CHUNKS: render_chunks,
}


def query(
    ctx: typer.Context,
    question: Annotated[str, typer.Argument(help="The question, or - for standard input.", show_default=False)],
    mode: Annotated[Mode, typer.Option("--mode", "-m", help="How to search.")] = DEFAULT_MODE,
    top_k: Annotated[int | None, typer.Option(help="Entities and relations searched.", show_default=False)] = None,
    chunk_top_k: Annotated[int | None, typer.Option(help="Chunks kept.", show_default=False)] = None,
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
    response_type: Annotated[str, typer.Option(help="Form of the answer, in words.")] = "Multiple Paragraphs",
    user_prompt: Annotated[str, typer.Option(help="Further instructions to the chat model.")] = "",
    filter_: Annotated[
        list[str] | None,
        typer.Option(
            "--filter", metavar="CONDITION", help="Only from documents that match, such as 'team=red'; may be repeated."
        ),
    ] = None,
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
    """Ask a question and print the answer with the documents it cites."""
    session = current_session(ctx)
    if stream and session.output.is_json:
        raise typer.BadParameter("--stream prints text as it comes; leave it out with --json")
    param = QueryParam(
        mode=mode,
        top_k=top_k,
        chunk_top_k=chunk_top_k,
        hl_keywords=tuple(hl or ()),
        ll_keywords=tuple(ll or ()),
        only_need_context=context_only,
        only_need_prompt=prompt_only,
        response_type=response_type,
        user_prompt=user_prompt or None,
        return_structured=True,
        filter=combine_filters(filter_, source_prefix, filter_json),
    )
    asked = _read_question() if question == "-" else question
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
    show_answer(output, answer, shows_all_references=_wants(show, Part.REFERENCES))
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
    shows_all = _wants(show, Part.REFERENCES)
    # A text that closes with its own list of references needs no second one.
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
    for part, render in _TABLES.items():
        if _wants(show, part):
            output.show("", render(context))


def _wants(show: Sequence[Part], part: Part) -> bool:
    return part in show or Part.ALL in show


def _read_question() -> str:
    return sys.stdin.buffer.read().decode("utf-8", "replace").strip()
