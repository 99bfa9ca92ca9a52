"""The command that demonstrates Heliograph: it indexes the packaged samples and asks them questions.

Runs offline in a workspace of its own. The chat model is used if one is configured; the embedding is always the local
one.
"""

from __future__ import annotations

import time

from rich.rule import Rule
from rich.text import Text

from heliograph.cli.documents import render_results, run_ingest, summarize_results
from heliograph.cli.graph import render_entities, render_relations
from heliograph.cli.installation import render_stats
from heliograph.cli.output import FlowText, has_bounds
from heliograph.cli.query import describe_answer, show_answer
from heliograph.cli.rendering import seconds, to_plain
from heliograph.cli.session import Session
from heliograph.ingest.files import find_samples
from heliograph.models import Mode
from heliograph.query.models import QueryParam
from heliograph.sync import Heliograph

_WORKSPACE = "demo"
_SHOWN_ROWS = 4
# Few, as the samples are few: the tables then show only relevant rows.
_TOP_K = 8


# Each with a suitable mode, and with what it demonstrates.
QUESTIONS = (
    ("How long can a Lantern store messages when both uplinks fail?", Mode.NAIVE, "one fact, by passages"),
    ("Who may approve the renewal of a gateway certificate?", Mode.MIX, "two documents, by both"),
    ("望江钟是哪一年铸的，敲几声代表涨水？", Mode.LOCAL, "a story, by its entities"),
    ("何立群联系不上时，网关续期由谁代批？", Mode.GLOBAL, "two people, by their relation"),
)


def demo(session: Session) -> None:
    """Index the sample documents, English and Chinese, and ask them four questions; offline.

    Takes well under a minute at first and seconds after that, as nothing has changed. The workspace is called demo.
    """
    settings = session.load_settings(store={"workspace": _WORKSPACE}, embedding={"provider": "e5"})
    started = time.perf_counter()
    with session.engine(settings, creates=True) as engine:
        samples = find_samples()
        report, progress = run_ingest(session, engine, lambda progress: engine.insert(samples, progress=progress))
        if report.failures and not session.output.is_json:
            session.output.show(render_results(report.results))
        session.output.note(summarize_results(report.results, progress))
        if not session.output.is_json:
            session.output.show("", render_stats(engine.stats(), settings.store))
        # A warm-up query, so that the first question's time includes no loading.
        loading = time.perf_counter()
        with session.output.waiting("loading the embedding model"):
            engine.query_data("Is the model ready?", QueryParam(mode=Mode.NAIVE, chunk_top_k=1))
        session.output.note(f"embedding model ready after {seconds(time.perf_counter() - loading)}")
        answers = [_ask(session, engine, number) for number in range(len(QUESTIONS))]
    if session.output.is_json:
        session.output.json({"questions": answers})
    session.output.note(f"\nall of it took {seconds(time.perf_counter() - started)}; look at it in the browser:")
    session.output.note(f"  heliograph serve --workspace {_WORKSPACE}\nthen try your own documents:")
    session.output.note("  heliograph index PATHS...\n  heliograph query QUESTION")


def _ask(session: Session, engine: Heliograph, number: int) -> object:
    question, mode, shows = QUESTIONS[number]
    output = session.output
    param = QueryParam(mode=mode, top_k=_TOP_K, return_structured=True)
    started = time.perf_counter()
    with output.waiting("searching"):
        answer = engine.query(question, param)
    elapsed_seconds = time.perf_counter() - started
    if output.is_json:
        return to_plain(answer.payload(param))
    title = f"question {number + 1} of {len(QUESTIONS)}: mode {mode.value}, {shows}"
    # A rule is as long as a line may be.
    heading = Rule(Text(title, "dim"), align="left", style="dim") if has_bounds(output.console) else Text(title, "dim")
    output.show("", heading, FlowText(question, "bold"), "")
    show_answer(output, answer)
    entities = [item.entity for item in answer.context.entities]
    relations = [item.relation for item in answer.context.relations]
    if entities:
        title = f"Entities, the first {min(_SHOWN_ROWS, len(entities))} of {len(entities)}"
        output.show("", render_entities(entities[:_SHOWN_ROWS], title))
    if relations:
        title = f"Relations, the first {min(_SHOWN_ROWS, len(relations))} of {len(relations)}"
        output.show("", render_relations(relations[:_SHOWN_ROWS], title))
    output.note(f"\n{describe_answer(answer)}, {seconds(elapsed_seconds)}")
    return None
