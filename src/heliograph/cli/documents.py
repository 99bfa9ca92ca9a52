"""The commands about documents, and their tables: index, watch, documents, document, delete, retry, resume.

`run_ingest` runs an ingest and shows its progress; `watch` keeps the workspace in sync with a folder until Ctrl-C.
Results come out as tables or as JSON; the exit code says whether every document was indexed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from sys import maxsize
from typing import Annotated, Any, cast

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

import heliograph.errors as errors
from heliograph.cli.options import (
    MAX_OFFSET,
    ReadingOptions,
    combine_filters,
)
from heliograph.cli.output import BriefText, FlowText, one_line
from heliograph.cli.rendering import (
    FAINT,
    FIGURE,
    FOLDED,
    WIDE,
    WORD,
    ProgressView,
    amount,
    fields_table,
    growth,
    local_time,
    make_table,
    name_cell,
    seconds,
    status_text,
    to_plain,
)
from heliograph.cli.session import EXIT_FAILED, EXIT_INTERRUPTED, Session
from heliograph.documents.encoding import decode_text
from heliograph.filters import And, Sources, parse_expression
from heliograph.ids import is_storable
from heliograph.ingest.files import FolderChange
from heliograph.ingest.models import DeleteReport, DocumentResult, IngestReport, NewDocument, Outcome, Progress
from heliograph.models import Chunk, Document, DocumentStatus, Usage, heading_path
from heliograph.stores.base import DocumentPage, DocumentQuery, DocumentSort
from heliograph.sync import Heliograph

# Documents, chunks and the outcome of indexing, as tables.

_WIDE = 120
_BAD = (Outcome.FAILED, Outcome.PARTIAL)
_SHOWN_FAILURES = 100
_SHOWN_RESULTS = 20
_SHOWN_ENDINGS = 5
_CHUNK_CELLS = 160


def render_documents(page: DocumentPage, offset: int, width: int) -> RenderableType:
    """Return one page of documents, after `offset` others; one line each if `width` suffices, else stacked."""
    if not page.documents:
        return Text(f"no documents ({page.total:,} match)" if page.total else "no documents")
    table = _wide_documents(page.documents) if width >= _WIDE else _stacked_documents(page.documents)
    last = offset + len(page.documents)
    return Group(table, Text(f"\n{offset + 1:,} to {last:,} of {page.total:,}", "dim"))


def _wide_documents(documents: Sequence[Document]) -> Table:
    details = dict.fromkeys(documents[0].details, WIDE)
    has_errors = any(item.error for item in documents)
    columns = {"id": FAINT, **details, "source": {**WIDE, **FOLDED}, "status": WORD, "chunks": FIGURE, "updated": WORD}
    table = make_table(columns | ({"error": WIDE} if has_errors else {}))
    for item in documents:
        details = (FlowText(value, "bold" if name == "title" else "") for name, value in item.details.items())
        cells = (item.id, *details, name_cell(item.source), status_text(item.status))
        error = (FlowText(item.error, "red"),) if has_errors else ()
        table.add_row(*cells, f"{item.chunk_count:,}", local_time(item.updated_at), *error)
    return table


def _stacked_documents(documents: Sequence[Document]) -> Table:
    table = make_table({"document": WIDE, "status": WORD, "chunks": FIGURE, "updated": WORD})
    for item in documents:
        details = item.details.items()
        about = [FlowText(value, "bold" if name == "title" else "") for name, value in details if value]
        about += [FlowText(item.error, "red")] if item.error else []
        name = Group(*about, name_cell(item.source), FlowText(item.id, "dim"))
        table.add_row(name, status_text(item.status), f"{item.chunk_count:,}", local_time(item.updated_at))
    return table


def render_document(document: Document, chunks: Sequence[Chunk]) -> RenderableType:
    """Return one document and the beginnings of its chunks."""
    about: list[tuple[str, RenderableType]] = [
        ("id", document.id),
        *document.details.items(),
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
    table = make_table({"#": FIGURE, "tokens": FIGURE, "chunk": WIDE})
    for chunk in chunks:
        text = BriefText(chunk.text, _CHUNK_CELLS)
        headings = FlowText(heading_path(chunk.headings), "dim")
        table.add_row(
            f"{chunk.position + 1}", f"{chunk.token_count:,}", Group(headings, text) if chunk.headings else text
        )
    return Group(fields_table(about), Text(), table)


def render_results(results: Sequence[DocumentResult]) -> RenderableType:
    """Return the outcomes of documents: failed and partial ones first, and a limited number of each kind."""
    bad = [item for item in results if item.outcome in _BAD]
    good = [item for item in results if item.outcome not in _BAD]
    table = make_table({"outcome": WORD, "chunks": FIGURE, "document": {}})
    for item in (*bad[:_SHOWN_FAILURES], *good[:_SHOWN_RESULTS]):
        name = name_cell(item.source or item.id or "(without a name)")
        reason = str(item.error) if item.error else item.detail
        lines = [FlowText(reason, "red" if item.error else "yellow")] if reason else []
        if item.omitted_characters and not item.error:
            lines.append(FlowText(_omitted(item.omitted_characters), "dim"))
        table.add_row(status_text(item.outcome), f"{item.chunk_count:,}", Group(name, *lines) if lines else name)
    hidden = (*bad[_SHOWN_FAILURES:], *good[_SHOWN_RESULTS:])
    return (
        Group(table, Text(f"... and {_counts(hidden)}; 'heliograph documents' lists all", "dim")) if hidden else table
    )


def _omitted(characters: int) -> str:
    return f"{amount(characters, 'character')} of menus and the like left out"


def summarize_results(results: Sequence[DocumentResult], progress: Progress | None) -> str:
    """Return one line of counts, with additions and the time they took, if known."""
    line = f"{amount(len(results), 'document')}: {_counts(results) or 'nothing to do'}"
    if omitted := sum(item.omitted_characters for item in results):
        line += f"; {_omitted(omitted)}"
    if progress is not None:
        line += f"; {growth(progress)}; {seconds(progress.elapsed_seconds)}"
        line += f"; chat model {tokens(progress.usage)}" if progress.usage != Usage() else ""
    return line


def _unread(passed_over: Mapping[str, int]) -> str:
    """Return the files skipped in folders, the commonest suffixes first."""
    common = sorted(passed_over.items(), key=lambda item: -item[1])[:_SHOWN_ENDINGS]
    endings = ", ".join(f"{ending or 'without an ending'} {count:,}" for ending, count in common)
    endings += ", ..." if len(passed_over) > len(common) else ""
    files = amount(sum(passed_over.values()), "file")
    return f"passed over: {files} of no known kind ({endings}); name them, or give --include, to have them read"


def _counts(results: Sequence[DocumentResult]) -> str:
    counts = [(outcome, sum(item.outcome is outcome for item in results)) for outcome in Outcome]
    return ", ".join(f"{count:,} {outcome.value}" for outcome, count in counts if count)


def tokens(usage: Usage) -> str:
    """Return the tokens that chat models used."""
    return f"{usage.input_tokens:,} tokens read, {usage.output_tokens:,} written"


def render_deletion(report: DeleteReport) -> RenderableType:
    """Return what a deletion removed."""
    stays = f"; handed over anew meanwhile, so not deleted: {', '.join(report.replaced)}" if report.replaced else ""
    return Text(
        f"deleted {amount(len(report.deleted), 'document')}, {amount(report.removed_chunks, 'chunk')}, "
        f"{report.removed_entities:,} entities and {report.removed_relations:,} relations{stays}"
    )


# Unread documents are not in the store, so only the same command can continue with them.
_GOING_ON = (
    "the same command again goes on with the others, 'heliograph resume' only with those that were read and wait"
)
_STDIN = "-"
# How many documents are named before they are deleted.
_NAMED = 50

Ingest = Callable[[Callable[[Progress], None]], IngestReport]


def index(
    session: Session,
    paths: Annotated[
        list[str], typer.Argument(help="Files, folders, URLs, or - for standard input.", show_default=False)
    ],
    *,
    source: Annotated[str, typer.Option(help="What citations call the text from standard input.")] = "",
    metadata: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Kept with every document; may be repeated.", show_default=False),
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="From folders only files that match, such as '**/*.md'; may be repeated."),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="From folders no files or folders that match; may be repeated."),
    ] = None,
    reading: ReadingOptions,
) -> None:
    """Index documents: files of every known kind, all of them in folders, and web pages.

    A path that is known is an update; an unchanged document costs nothing.
    """
    kept = parse_metadata(metadata or [])
    files = [path for path in paths if path != _STDIN]
    piped = None
    if len(files) < len(paths):
        if not source:
            raise typer.BadParameter("standard input has no name; give one with --source")
        piped = NewDocument(decode_text(sys.stdin.buffer.read(), source), source, metadata=kept or None)
    if piped is None and source:
        raise typer.BadParameter("--source names the text from standard input; give - as a path")
    with session.engine(reading.settings(session), creates=True) as opened:
        is_first = not session.output.is_json and not opened.stats().documents
        runs: list[Ingest] = []
        if files:
            filters = {"include": include or (), "exclude": exclude or ()}
            runs.append(
                lambda progress: opened.insert_files(files, **filters, metadata=kept or None, progress=progress)
            )
        if piped is not None:
            runs.append(lambda progress: opened.insert(piped, progress=progress))
        _ingest(session, opened, *runs)
        if is_first and opened.stats().documents:
            session.output.note("now ask: heliograph query QUESTION, or in the browser: heliograph serve")


def retry(session: Session, *, reading: ReadingOptions) -> None:
    """Try failed documents once more, and the chunks of partial ones that could not be read."""
    with session.engine(reading.settings(session)) as opened:
        _ingest(session, opened, lambda progress: opened.retry(progress=progress))


def resume(session: Session, *, reading: ReadingOptions) -> None:
    """Finish what an interrupted run left behind; no finished model call is repeated."""
    with session.engine(reading.settings(session)) as opened:
        _ingest(session, opened, lambda progress: opened.resume(progress=progress))


def documents(
    session: Session,
    status: Annotated[
        list[DocumentStatus] | None, typer.Option(help="Only of this status; may be repeated.", show_default=False)
    ] = None,
    source: Annotated[str, typer.Option(help="Only those whose source starts so.")] = "",
    track: Annotated[str, typer.Option(help="Only those of this batch.")] = "",
    filter_: Annotated[
        list[str] | None,
        typer.Option(
            "--filter", metavar="CONDITION", help="Only those that match, such as 'team=red'; may be repeated."
        ),
    ] = None,
    filter_json: Annotated[str, typer.Option(metavar="JSON", help="Only those that match, as a JSON object.")] = "",
    sort: Annotated[DocumentSort, typer.Option(help="What to sort by.")] = "created_at",
    descending: Annotated[bool, typer.Option("--descending", help="Largest or latest first.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Documents shown at the most.")] = 50,
    offset: Annotated[int, typer.Option(min=0, max=MAX_OFFSET, help="Documents passed over.")] = 0,
) -> None:
    """List the documents."""
    query = DocumentQuery(
        statuses=tuple(status or ()),
        track_id=track or None,
        source_prefix=source or None,
        filter=combine_filters(filter_, filter_json=filter_json),
        sort=sort,
        descending=descending,
        offset=offset,
        limit=limit,
    )
    with session.engine() as engine:
        page = engine.documents(query)
    session.output.result(to_plain(page), lambda: render_documents(page, offset, session.output.console.width))


def document(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="ID", help="Id or source of the document.")],
) -> None:
    """Show one document and its chunks."""
    with session.engine() as engine:
        found = _find_document(engine, name)
        if found is None:
            raise errors.NotFoundError(f"there is no document {name!r}; 'heliograph documents' lists them")
        chunks = engine.chunks(found.id)
    session.output.result(to_plain(found) | {"chunks": to_plain(chunks)}, lambda: render_document(found, chunks))


def delete(
    session: Session,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="IDS...", help="Ids or sources of documents.", show_default=False)
    ] = None,
    source_prefix: Annotated[str, typer.Option(help="All whose source starts so.")] = "",
    filter_: Annotated[
        list[str] | None,
        typer.Option("--filter", metavar="CONDITION", help="All that match, such as 'team=red'.", show_default=False),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete documents and all that only they said: those named, and those that match; calls no chat model."""
    if not (names or source_prefix or filter_):
        raise typer.BadParameter("name documents, or give --source-prefix or --filter")
    with session.engine() as engine:
        found = {name: _find_document(engine, name) for name in dict.fromkeys(names or [])}
        if source_prefix or filter_:
            conditions = tuple(map(parse_expression, filter_ or ()))
            matching = And(conditions) if conditions else None
            query = DocumentQuery(source_prefix=source_prefix or None, filter=matching, limit=maxsize)
            found |= {item.id: item for item in engine.documents(query).documents}
        known = [item for item in found.values() if item is not None]
        if known and not yes:
            for item in known[:_NAMED]:
                session.output.note(f"{item.id}  {item.source}")
            if len(known) > _NAMED:
                session.output.note(f"and {len(known) - _NAMED:,} more")
            session.output.confirm(f"Delete {amount(len(known), 'document')}?")
        # Documents that change while the confirmation is open are not the ones that were shown.
        hashes = {item.id: item.content_hash for item in known}
        report = engine.delete(list(hashes), content_hashes=hashes)
    missing = [name for name, item in found.items() if item is None or item.id in report.missing]
    if session.output.is_json:
        session.output.json(to_plain(report) | {"missing": missing})
    elif report.deleted or report.replaced:
        session.output.show(render_deletion(report))
    elif not missing:
        session.output.note("no document matches; nothing was deleted")
    for name in missing:
        session.output.error(f"there is no document {name!r}; 'heliograph documents' lists them")
    if missing:
        raise typer.Exit(EXIT_FAILED)


def run_ingest(session: Session, engine: Heliograph, work: Ingest) -> tuple[IngestReport, Progress | None]:
    """Run an ingest with progress and Ctrl-C, and return its report and last progress.

    Raises:
        typer.Exit: Ctrl-C was pressed; the user has been told how to continue.
        HeliographError: As the engine raises.
    """
    output = session.output
    try:
        with ProgressView(output) as view, session.interrupts.cancelling(engine.cancel):
            report = work(view)
    except errors.CancelledIngestError:
        output.warn(f"interrupted; finished documents are kept; {_GOING_ON}")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except (errors.ModelError, errors.StoreError, errors.ClusterUnavailable):
        output.note(f"finished documents are kept; when this is mended, {_GOING_ON}")
        raise
    return report, view.last


def _ingest(session: Session, engine: Heliograph, *runs: Ingest) -> None:
    """Run ingests one after the other, show their results, and fail if a document failed."""
    results: list[DocumentResult] = []
    batches: list[str] = []
    passed_over: dict[str, int] = {}
    for work in runs:
        if session.interrupts.is_stopping:
            raise KeyboardInterrupt
        report, progress = run_ingest(session, engine, work)
        results += report.results
        passed_over |= report.passed_over
        batches.append(report.track_id)
        if session.output.is_json:
            continue
        if report.results:
            session.output.show(render_results(report.results))
        session.output.note(summarize_results(report.results, progress))
        if report.passed_over:
            session.output.note(_unread(report.passed_over))
    if session.output.is_json:
        session.output.json({"track_ids": batches, "results": to_plain(results), "passed_over": passed_over})
    if any(item.error is not None for item in results):
        session.output.note("what failed says why; mend it and run 'heliograph index' or 'heliograph retry' again")
        raise typer.Exit(EXIT_FAILED)


def _find_document(engine: Heliograph, name: str) -> Document | None:
    """Return the document with this id, or with this source; refuse a source that several documents have."""
    if (found := engine.document(name)) is not None:
        return found
    if not is_storable(name):
        return None
    page = engine.documents(DocumentQuery(filter=Sources((name,)), sort="id", limit=_NAMED))
    if page.total > 1:
        ids = ", ".join(item.id for item in page.documents[:3])
        raise errors.InvalidRequestError(
            f"{page.total:,} documents come from {name!r} ({ids}{', ...' * (page.total > 3)}); name one by its id, or "
            "give --source-prefix for all"
        )
    return page.documents[0] if page.documents else None


def parse_metadata(pairs: list[str]) -> dict[str, str]:
    """Return the fields of `KEY=VALUE` options; raises `typer.BadParameter` if one has another form."""
    metadata: dict[str, str] = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not sign or not key.strip():
            raise typer.BadParameter(f"--metadata {pair!r} is not KEY=VALUE")
        metadata[key.strip()] = value
    return metadata


# The command `watch`: a folder kept in sync until Ctrl-C.


def watch(
    session: Session,
    folder: Annotated[str, typer.Argument(help="The folder.", show_default=False)],
    include: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Only files that match, such as '**/*.md'; may be repeated."),
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="No files or folders that match; may be repeated.")
    ] = None,
    metadata: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Kept with every document; may be repeated.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Bring into step once, and end.")] = False,
) -> None:
    """Keep the workspace in sync with a folder: new, changed, moved and deleted files.

    Starts by comparing the folder with what is stored below its path; ends with Ctrl-C, which loses nothing.
    """
    kept = parse_metadata(metadata or [])
    has_failed = False
    with session.engine(creates=True) as engine:
        changes = engine.watch(folder, include=include or (), exclude=exclude or (), metadata=kept or None, once=once)
        if not once:
            session.output.note(f"watching {folder}; Ctrl-C ends it")
        with closing(cast("Any", changes)):
            for change in changes:
                has_failed = _show(session, change) or has_failed
    if once and has_failed:
        raise typer.Exit(EXIT_FAILED)


def _show(session: Session, change: FolderChange) -> bool:
    """Show the results, and return whether a document failed."""
    results = change.ingest.results if change.ingest else ()
    if session.output.is_json:
        session.output.json(to_plain(change))
        return any(item.error is not None for item in results)
    told = [item for item in results if item.outcome is not Outcome.UNCHANGED]
    if told:
        session.output.show(render_results(told))
    if change.deletion is not None and change.deletion.deleted:
        session.output.show(render_deletion(change.deletion))
        for source in change.removed_sources:
            session.output.note(f"  {one_line(source, None)}")
    session.output.note(summarize_results(results, None))
    return any(item.error is not None for item in results)
