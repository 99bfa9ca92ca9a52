"""References and what was retrieved, as tables; how an answer came about, in a line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from heliograph.cli.flow import BriefText, FlowText
from heliograph.cli.render_documents import tokens
from heliograph.cli.render_graph import render_entities, render_relations
from heliograph.cli.tables import make_table, name_cell
from heliograph.models import Usage
from heliograph.query.models import Answer, AnswerKind, Context, Keywords, Reference, Retrieval

__all__ = [
    "describe_answer",
    "describe_retrieval",
    "render_chunks",
    "render_references",
    "render_retrieved_entities",
    "render_retrieved_relations",
    "without_references",
]

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
    """Return an answer without the list of references at its end; the table of references stands for it."""
    sections = list(_REFERENCE_SECTION.finditer(text))
    body = text[: sections[-1].start()].rstrip() if sections else ""
    return body or text


def render_references(references: Sequence[Reference], text: str, *, shows_all: bool = False) -> RenderableType:
    """Return the documents that a text cites by number, or all of them if it cites none."""
    cited = set(_CITED.findall(text))
    shown = [item for item in references if shows_all or item.reference_id in cited] or references
    table = make_table("References", with_header=False)
    table.add_column(no_wrap=True, justify="right", style="cyan")
    table.add_column(overflow="fold")
    table.add_column(no_wrap=True, style="dim")
    for item in shown:
        count = f"{item.count} chunk{'' if item.count == 1 else 's'}"
        table.add_row(f"[{item.reference_id}]", name_cell(item.source), count)
    hidden = len(references) - len(shown)
    if not hidden:
        return table
    said = f"and {hidden} more document{'' if hidden == 1 else 's'} read (--show references)"
    return Group(table, Text(said, "dim"))


def render_retrieved_entities(context: Context) -> RenderableType:
    """Return the entities of a context."""
    entities = [item.entity for item in context.entities]
    return render_entities(entities, "Entities") if entities else _none("Entities")


def render_retrieved_relations(context: Context) -> RenderableType:
    """Return the relations of a context."""
    relations = [item.relation for item in context.relations]
    return render_relations(relations, "Relations") if relations else _none("Relations")


def render_chunks(context: Context) -> RenderableType:
    """Return the chunks of a context, shortened on a terminal, with how each was found."""
    table = make_table("Chunks")
    table.add_column("ref", no_wrap=True, style="cyan", justify="right")
    table.add_column("found by", no_wrap=True, style="dim")
    table.add_column("chunk", ratio=1)
    for item in context.chunks:
        place = FlowText(" > ".join((item.source, *item.chunk.headings)), "dim")
        marks = " ".join(str(mark) for mark in item.marks)
        table.add_row(f"[{item.reference_id}]", marks, Group(place, BriefText(item.chunk.text, _CHUNK_CELLS)))
    return table if context.chunks else _none("Chunks")


def describe_answer(answer: Answer) -> str:
    """Return how an answer came about, in a line or two."""
    parts = [describe_retrieval(answer.retrieval), _KINDS[answer.kind]]
    parts += ["from the cache"] if answer.from_cache else []
    parts += [tokens(answer.usage)] if answer.usage != Usage() else []
    return ", ".join(parts)


def describe_retrieval(retrieval: Retrieval) -> str:
    """Return mode, keywords and counts of a retrieval."""
    context = retrieval.context
    counts = f"{len(context.entities)} entities, {len(context.relations)} relations, {len(context.chunks)} chunks"
    return f"{_keywords(retrieval.keywords)}mode {retrieval.mode.value}, {counts}"


def _keywords(keywords: Keywords) -> str:
    levels = (("high-level", keywords.high_level), ("low-level", keywords.low_level))
    lines = [f"{name} keywords: {', '.join(words)}\n" for name, words in levels if words]
    return "".join(lines)


def _none(title: str) -> RenderableType:
    return Group(Text(title, "bold"), Text("none", "dim"))
