"""Documents, chunks and what became of them, as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from heliograph.cli.flow import BriefText, FlowText
from heliograph.cli.progress import growth, seconds
from heliograph.cli.tables import fields_table, local_time, make_table, name_cell, status_text
from heliograph.ingest.models import DeleteReport, DocumentResult, Outcome
from heliograph.ingest.progress import Progress
from heliograph.models import Chunk, Document, Usage
from heliograph.stores.base import DocumentPage

__all__ = [
    "render_deletion",
    "render_document",
    "render_documents",
    "render_results",
    "summarize_results",
    "tokens",
]

_WIDE = 120
_BAD = (Outcome.FAILED, Outcome.PARTIAL)
_SHOWN_FAILURES = 100
_SHOWN_RESULTS = 20
_CHUNK_CELLS = 160


def render_documents(page: DocumentPage, offset: int, width: int) -> RenderableType:
    """Return one page of documents; on a wide terminal one line each, else stacked.

    Args:
        page: The documents.
        offset: Documents before them.
        width: Cells of the terminal.
    """
    if not page.documents:
        return Text(f"no documents ({page.total:,} match)" if page.total else "no documents")
    table = _wide_documents(page.documents) if width >= _WIDE else _stacked_documents(page.documents)
    last = offset + len(page.documents)
    return Group(table, Text(f"\n{offset + 1:,} to {last:,} of {page.total:,}", "dim"))


def _wide_documents(documents: Sequence[Document]) -> Table:
    table = make_table()
    table.add_column("id", no_wrap=True, style="dim")
    table.add_column("title", ratio=1)
    table.add_column("source", ratio=1, overflow="fold")
    table.add_column("status", no_wrap=True)
    table.add_column("chunks", justify="right", no_wrap=True)
    table.add_column("updated", no_wrap=True)
    if has_errors := any(item.error for item in documents):
        table.add_column("error", ratio=1)
    for item in documents:
        cells = (item.id, FlowText(item.title, "bold"), name_cell(item.source), status_text(item.status))
        error = (FlowText(item.error, "red"),) if has_errors else ()
        table.add_row(*cells, f"{item.chunk_count:,}", local_time(item.updated_at), *error)
    return table


def _stacked_documents(documents: Sequence[Document]) -> Table:
    table = make_table()
    table.add_column("document", ratio=1)
    table.add_column("status", no_wrap=True)
    table.add_column("chunks", justify="right", no_wrap=True)
    table.add_column("updated", no_wrap=True)
    for item in documents:
        table.add_row(
            Group(*_title(item), name_cell(item.source), FlowText(item.id, "dim")),
            status_text(item.status),
            f"{item.chunk_count:,}",
            local_time(item.updated_at),
        )
    return table


def _title(document: Document) -> list[RenderableType]:
    title = [FlowText(document.title, "bold")] if document.title else []
    return [*title, FlowText(document.error, "red")] if document.error else [*title]


def render_document(document: Document, chunks: Sequence[Chunk]) -> RenderableType:
    """Return one document and the beginnings of its chunks."""
    about: list[tuple[str, RenderableType]] = [
        ("id", document.id),
        ("title", document.title),
        ("source", name_cell(document.source)),
        ("status", status_text(document.status)),
        ("characters", f"{document.length:,}"),
        ("chunks", f"{document.chunk_count:,}"),
        ("batch", document.track_id),
        ("created", local_time(document.created_at)),
        ("updated", local_time(document.updated_at)),
    ]
    about += [("error", FlowText(document.error, "red"))] if document.error else []
    about += [("chat model", tokens(document.usage))] if document.usage != Usage() else []
    about += [(f"  {name}", str(value)) for name, value in document.metadata.items()]
    return Group(fields_table(about), Text(), _chunks(chunks))


def _chunks(chunks: Sequence[Chunk]) -> Table:
    table = make_table()
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("tokens", justify="right", no_wrap=True)
    table.add_column("chunk", ratio=1)
    for chunk in chunks:
        text = BriefText(chunk.text, _CHUNK_CELLS)
        headings = FlowText(" > ".join(chunk.headings), "dim")
        table.add_row(
            f"{chunk.position + 1}", f"{chunk.token_count:,}", Group(headings, text) if chunk.headings else text
        )
    return table


def render_results(results: Sequence[DocumentResult]) -> RenderableType:
    """Return what became of documents: those that failed or are partial first, and so many of each kind at most."""
    bad = [item for item in results if item.outcome in _BAD]
    good = [item for item in results if item.outcome not in _BAD]
    table = make_table()
    table.add_column("outcome", no_wrap=True)
    table.add_column("chunks", justify="right", no_wrap=True)
    table.add_column("document")
    for item in (*bad[:_SHOWN_FAILURES], *good[:_SHOWN_RESULTS]):
        table.add_row(status_text(item.outcome), f"{item.chunk_count:,}", _result_cell(item))
    hidden = (*bad[_SHOWN_FAILURES:], *good[_SHOWN_RESULTS:])
    return (
        Group(table, Text(f"... and {_counts(hidden)}; 'heliograph documents' lists all", "dim")) if hidden else table
    )


def _result_cell(item: DocumentResult) -> RenderableType:
    name = name_cell(item.source or item.id or "(without a name)")
    reason = str(item.error) if item.error else item.detail
    lines = [FlowText(reason, "red" if item.error else "yellow")] if reason else []
    if item.omitted_characters and not item.error:
        lines.append(FlowText(_omitted(item.omitted_characters), "dim"))
    return Group(name, *lines) if lines else name


def _omitted(characters: int) -> str:
    return f"{characters:,} character{'' if characters == 1 else 's'} of menus and the like left out"


def summarize_results(results: Sequence[DocumentResult], progress: Progress | None) -> str:
    """Return one line of counts, with what was added and how long it took if that is known."""
    line = f"{len(results):,} document{'' if len(results) == 1 else 's'}: {_counts(results) or 'nothing to do'}"
    if omitted := sum(item.omitted_characters for item in results):
        line += f"; {_omitted(omitted)}"
    if progress is not None:
        line += f"; {growth(progress)}; {seconds(progress.elapsed_seconds)}"
        line += f"; chat model {tokens(progress.usage)}" if progress.usage != Usage() else ""
    return line


def _counts(results: Sequence[DocumentResult]) -> str:
    counts = [(outcome, sum(item.outcome is outcome for item in results)) for outcome in Outcome]
    return ", ".join(f"{count:,} {outcome.value}" for outcome, count in counts if count)


def tokens(usage: Usage) -> str:
    """Return what chat models were paid, in tokens."""
    return f"{usage.input_tokens:,} tokens read, {usage.output_tokens:,} written"


def render_deletion(report: DeleteReport) -> RenderableType:
    """Return what a deletion took away."""
    count = len(report.deleted)
    return Text(
        f"deleted {count:,} document{'' if count == 1 else 's'}, {report.removed_chunks:,} chunks, "
        f"{report.removed_entities:,} entities and {report.removed_relations:,} relations"
    )
