"""The commands about documents: index, documents, document, delete, retry, resume."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any

import typer

from heliograph.cli.engine_options import AddressOption, EngineOption, WorkersOption, engine_settings
from heliograph.cli.exit_codes import EXIT_FAILED, EXIT_INTERRUPTED
from heliograph.cli.filters import MAX_OFFSET, combine_filters
from heliograph.cli.plain import to_plain
from heliograph.cli.progress import ProgressView
from heliograph.cli.render_documents import (
    render_deletion,
    render_document,
    render_documents,
    render_results,
    summarize_results,
)
from heliograph.cli.session import Session, current_session
from heliograph.documents.encoding import decode_text
from heliograph.errors import (
    CancelledIngestError,
    ClusterUnavailable,
    InvalidRequestError,
    ModelError,
    NotFoundError,
    StoreError,
)
from heliograph.filters import And, Sources, parse_expression
from heliograph.ids import is_storable
from heliograph.ingest.models import DocumentResult, IngestReport, NewDocument
from heliograph.ingest.progress import Progress
from heliograph.models import Document, DocumentStatus
from heliograph.stores.base import DocumentQuery
from heliograph.sync import Heliograph

__all__ = ["delete", "document", "documents", "index", "parse_metadata", "resume", "retry", "run_ingest"]

_STDIN = "-"
_PAGE = 1_000
# Documents that are named before they are deleted.
_NAMED = 50

Ingest = Callable[[Callable[[Progress], None]], IngestReport]


class SortField(StrEnum):
    """What documents can be sorted by."""

    CREATED_AT = "created_at"
    UPDATED_AT = "updated_at"
    SOURCE = "source"
    ID = "id"


def index(
    ctx: typer.Context,
    paths: Annotated[
        list[str], typer.Argument(help="Files, folders, URLs, or - for standard input.", show_default=False)
    ],
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
    engine: EngineOption = None,
    workers: WorkersOption = None,
    address: AddressOption = None,
) -> None:
    """Take documents in: files of every known kind, all of them in folders, and web pages.

    A path that is known is an update; an unchanged document costs nothing.
    """
    session = current_session(ctx)
    kept = parse_metadata(metadata or [])
    files = [path for path in paths if path != _STDIN]
    piped = _read_stdin(source, kept) if len(files) < len(paths) else None
    if piped is None and source:
        raise typer.BadParameter("--source names the text from standard input; give - as a path")
    with session.engine(engine_settings(session, engine, workers, address), creates=True) as opened:
        runs: list[Ingest] = []
        if files:
            filters = {"include": include or (), "exclude": exclude or ()}
            runs.append(
                lambda progress: opened.insert_files(files, **filters, metadata=kept or None, progress=progress)
            )
        if piped is not None:
            runs.append(lambda progress: opened.insert(piped, progress=progress))
        _ingest(session, opened, *runs)


def retry(
    ctx: typer.Context, engine: EngineOption = None, workers: WorkersOption = None, address: AddressOption = None
) -> None:
    """Try failed documents once more, and the chunks of partial ones that could not be read."""
    session = current_session(ctx)
    with session.engine(engine_settings(session, engine, workers, address)) as opened:
        _ingest(session, opened, lambda progress: opened.retry(progress=progress))


def resume(
    ctx: typer.Context, engine: EngineOption = None, workers: WorkersOption = None, address: AddressOption = None
) -> None:
    """Finish what an interrupted run left behind; no finished model call is repeated."""
    session = current_session(ctx)
    with session.engine(engine_settings(session, engine, workers, address)) as opened:
        _ingest(session, opened, lambda progress: opened.resume(progress=progress))


def documents(
    ctx: typer.Context,
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
    sort: Annotated[SortField, typer.Option(help="What to sort by.")] = SortField.CREATED_AT,
    descending: Annotated[bool, typer.Option("--descending", help="Largest or latest first.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Documents shown at the most.")] = 50,
    offset: Annotated[int, typer.Option(min=0, max=MAX_OFFSET, help="Documents passed over.")] = 0,
) -> None:
    """List the documents."""
    session = current_session(ctx)
    query = DocumentQuery(
        statuses=tuple(status or ()),
        track_id=track or None,
        source_prefix=source or None,
        filter=combine_filters(filter_, filter_json=filter_json),
        sort=sort.value,
        descending=descending,
        offset=offset,
        limit=limit,
    )
    with session.engine() as engine:
        page = engine.documents(query)
    if session.output.is_json:
        session.output.json(to_plain(page))
    else:
        session.output.show(render_documents(page, offset, session.output.console.width))


def document(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="ID", help="Id or source of the document.")],
) -> None:
    """Show one document and its chunks."""
    session = current_session(ctx)
    with session.engine() as engine:
        found = _find_document(engine, name)
        if found is None:
            raise NotFoundError(f"there is no document {name!r}; 'heliograph documents' lists them")
        chunks = engine.chunks(found.id)
    if session.output.is_json:
        session.output.json(to_plain(found) | {"chunks": to_plain(chunks)})
    else:
        session.output.show(render_document(found, chunks))


def delete(
    ctx: typer.Context,
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
    session = current_session(ctx)
    if not (names or source_prefix or filter_):
        raise typer.BadParameter("name documents, or give --source-prefix or --filter")
    with session.engine() as engine:
        found = {name: _find_document(engine, name) for name in dict.fromkeys(names or [])}
        if source_prefix or filter_:
            found |= {item.id: item for item in _matching(engine, source_prefix, filter_)}
        known = [item for item in found.values() if item is not None]
        if known and not yes:
            _confirm_deletion(session, known)
        report = engine.delete([item.id for item in known])
    missing = [name for name, item in found.items() if item is None or item.id in report.missing]
    if session.output.is_json:
        session.output.json(to_plain(report) | {"missing": missing})
    elif report.deleted:
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
        typer.Exit: Ctrl-C was pressed; how to go on has been said.
        HeliographError: As the engine raises.
    """
    output = session.output
    try:
        with ProgressView(output) as view, session.interrupts.cancelling(engine.cancel):
            report = work(view)
    except CancelledIngestError:
        output.warn("interrupted; finished documents are kept, 'heliograph resume' goes on with the others")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except (ModelError, StoreError, ClusterUnavailable):
        output.note("finished documents are kept; when this is mended, 'heliograph resume' goes on with the others")
        raise
    return report, view.last


def _ingest(session: Session, engine: Heliograph, *runs: Ingest) -> None:
    """Run ingests one after the other, show what came of them, and fail if a document failed."""
    results: list[DocumentResult] = []
    batches: list[str] = []
    for work in runs:
        if session.interrupts.is_stopping:
            raise KeyboardInterrupt
        report, progress = run_ingest(session, engine, work)
        results += report.results
        batches.append(report.track_id)
        if session.output.is_json:
            continue
        if report.results:
            session.output.show(render_results(report.results))
        session.output.note(summarize_results(report.results, progress))
    if session.output.is_json:
        session.output.json({"track_ids": batches, "results": to_plain(results)})
    if any(item.error is not None for item in results):
        raise typer.Exit(EXIT_FAILED)


def _find_document(engine: Heliograph, name: str) -> Document | None:
    """Return the document with an id, or the one that a source names.

    Raises:
        InvalidRequestError: Several documents have this source.
    """
    if (found := engine.document(name)) is not None:
        return found
    if not is_storable(name):
        return None
    page = engine.documents(DocumentQuery(filter=Sources((name,)), sort="id", limit=_NAMED))
    if page.total > 1:
        ids = ", ".join(item.id for item in page.documents[:3])
        raise InvalidRequestError(
            f"{page.total:,} documents come from {name!r} ({ids}{', ...' * (page.total > 3)}); name one by its id, or "
            "give --source-prefix for all"
        )
    return page.documents[0] if page.documents else None


def _matching(engine: Heliograph, source_prefix: str, expressions: list[str] | None) -> list[Document]:
    conditions = tuple(map(parse_expression, expressions or ()))
    query = DocumentQuery(source_prefix=source_prefix or None, filter=And(conditions) if conditions else None)
    found: list[Document] = []
    while True:
        page = engine.documents(replace(query, offset=len(found), limit=_PAGE)).documents
        found += page
        if len(page) < _PAGE:
            return found


def _confirm_deletion(session: Session, known: list[Document]) -> None:
    for item in known[:_NAMED]:
        session.output.note(f"{item.id}  {item.source}")
    if len(known) > _NAMED:
        session.output.note(f"and {len(known) - _NAMED:,} more")
    typer.confirm(f"Delete {len(known):,} document{'' if len(known) == 1 else 's'}?", abort=True, err=True)


def _read_stdin(source: str, metadata: Mapping[str, Any]) -> NewDocument:
    if not source:
        raise typer.BadParameter("standard input has no name; give one with --source")
    return NewDocument(decode_text(sys.stdin.buffer.read(), source), source, metadata=metadata or None)


def parse_metadata(pairs: list[str]) -> dict[str, str]:
    """Return what `KEY=VALUE` options say.

    Raises:
        typer.BadParameter: One of them is not of this form.
    """
    metadata: dict[str, str] = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not sign or not key.strip():
            raise typer.BadParameter(f"--metadata {pair!r} is not KEY=VALUE")
        metadata[key.strip()] = value
    return metadata
