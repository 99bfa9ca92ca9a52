"""Two groups of documents that speak of the same things; every field of the closed group holds a secret.

Open and closed documents share entities and relations, and the closed ones are in the majority for each, so that any
vote, sum or join over both would show them. A secret holds `zqx`, or is a shared name in capitals.
"""

from __future__ import annotations

import json
from typing import Any

from heliograph.chat.base import ChatRequest, Purpose
from heliograph.ingest.models import NewDocument
from heliograph.ingest.pipeline import IngestPipeline
from heliograph.query.models import QueryParam
from heliograph.query.pipeline import QueryPipeline
from heliograph.settings import QuerySettings, RerankSettings
from heliograph.stores.base import Store
from heliograph.testing.fakes import FakeChatModel, FakeEmbeddingModel

from ..ingest.world import make_pipeline

DIMENSION = 32
THINGS = ("Gateway", "Broker", "Lantern", "Turbine", "Beacon")
OPEN = {"team": "open"}
QUESTION = "How does the Gateway reach the Broker and the Lantern?"


def open_document(number: int) -> NewDocument:
    """A document of the open group: two paragraphs, which are chunks."""
    one, two, three = (THINGS[(number + step) % len(THINGS)] for step in (0, 1, 2))
    text = (
        f"# Report\n\n{one} (device): {one} stands in hall {number}.\n{two} (device): {two} hums.\n"
        f"{one} -> {two} [links] 1.0: {one} feeds {two} in hall {number}.\n\n"
        f"{three} (device): {three} was checked in round {number}.\nHall {number} (place): A hall.\n"
        f"{three} -> Hall {number} [stands] 0.5: {three} stands in hall {number}."
    )
    metadata = {"team": "open", "round": number}
    return NewDocument(text, f"open/report-{number}.md", f"Report {number}", metadata=metadata)


def closed_document(number: int) -> NewDocument:
    """A document of the closed group, longer than an open one."""
    one, two, three = (THINGS[(number + step) % len(THINGS)].upper() for step in (0, 1, 2))
    facts = "\n\n".join(
        f"{one} (zqxtype{number}): Zqxfact{number}-{place} of {one}.\n{two} (zqxtype): Zqxmore{number}-{place}.\n"
        f"{one} -> {two} [zqxword{number}] 7.0: Zqxlink{number}-{place}.\nZqxthing{number} (zqxtype): Zqxown{number}.\n"
        f"{three} -> Zqxthing{number} [zqxties] 9.0: Zqxtie{number}-{place}.\n{three} (zqxtype): Zqxlast{number}."
        for place in range(2)
    )
    metadata = {"team": "closed", "note": f"zqxnote{number}", "round": number}
    text = f"# Zqxheading{number}\n\n{facts}"
    return NewDocument(text, f"closed/zqxsource-{number}.md", f"Zqxtitle {number}", metadata=metadata)


async def fill(store: Store, *, with_closed: bool = True) -> IngestPipeline:
    """Take in thirty open documents, and thirty closed ones in between; return what did."""
    documents = [document for n in range(30) for document in (closed_document(n), open_document(n))]
    kept = documents if with_closed else [document for document in documents if document.source.startswith("open/")]
    pipeline = make_pipeline(store, embedding=FakeEmbeddingModel(DIMENSION))
    report = await pipeline.insert(kept)
    assert not report.failures
    return pipeline


def echo(request: ChatRequest) -> str:
    """Name keywords, or say back all that was said, so that whatever is in a prompt is in the answer too."""
    if request.purpose is Purpose.KEYWORDS:
        return json.dumps({"high_level_keywords": ["links"], "low_level_keywords": list(THINGS)})
    return "\n".join(message.content for message in request.messages)


def engine(store: Store, chat: FakeChatModel | None) -> QueryPipeline:
    """An engine that finds everything there is."""
    settings = QuerySettings(min_cosine=-1.0)
    return QueryPipeline(store, FakeEmbeddingModel(DIMENSION), chat, None, settings, RerankSettings())


def everything(mode: str, **more: Any) -> QueryParam:
    """Parameters with room for all there is."""
    budgets: dict[str, Any] = {
        "top_k": 1000,
        "chunk_top_k": 1000,
        "max_entity_tokens": 100_000,
        "max_relation_tokens": 100_000,
        "max_total_tokens": 1_000_000,
    }
    return QueryParam(mode=mode, hl_keywords=["links"], ll_keywords=list(THINGS), **budgets | more)


def secrets_in(*shown: object) -> list[str]:
    """The secrets that show, with what stands around them."""
    text = "\n".join(item if isinstance(item, str) else repr(item) for item in shown)
    marks = ("zqx", "Zqx", "closed", *(thing.upper() for thing in THINGS))
    return [text[max(0, text.index(mark) - 60) : text.index(mark) + 60] for mark in marks if mark in text]
