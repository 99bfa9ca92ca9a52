"""The parts of ARCHITECTURE.md that follow from the code: the tree of files, and the walks through them.

`python -m tests.house.architecture` writes them anew; `test_architecture.py` fails when they are out of date.
"""

from __future__ import annotations

import ast
import asyncio
import sys
import tempfile
import threading
from collections.abc import Iterable, Sequence
from types import FrameType

import httpx
from fastapi import FastAPI

from heliograph import AsyncHeliograph, QueryParam
from heliograph.server.app import create_app
from heliograph.settings import Settings

from .sources import PACKAGE, ROOT, Module, modules

PAGE = ROOT / "ARCHITECTURE.md"
_SOURCES = str(PACKAGE) + "/"


def tree() -> str:
    """One line a package and one a file: its name and the first sentence of its docstring."""
    lines: list[str] = []
    for module in sorted(modules(), key=lambda module: (module.path.parent, module.path.name != "__init__.py")):
        depth = len(module.path.relative_to(PACKAGE).parts) - 1
        if module.path.name == "__init__.py" and depth:
            lines.append(f"{'  ' * (depth - 1)}- **{module.path.parent.name}/**: {_sentence(module)}")
        elif module.path.name != "__init__.py":
            lines.append(f"{'  ' * depth}- `{module.path.stem}`: {_sentence(module)}")
    return "\n".join(lines)


def _sentence(module: Module) -> str:
    return " ".join((ast.get_docstring(module.tree) or "").split("\n\n")[0].split())


# What stands before files that no step of a walk names; the test refuses it.
UNTOLD = "In no step yet:"
_REQUEST = "server/requests monitoring/monitoring service/access service/workspaces"
# What happens in each walk, step by step, and in which files.
_INSERT = (
    ("The arguments are held against their types; the engine passes the call on", "arguments engine ingest/pipeline"),
    (
        "Taken in: text is cleaned, gets its id, hash and language, and is compared with what is stored",
        "ingest/intake documents/markdown ids models text/analysis",
    ),
    (
        "The store is asked by a query, which SQL answers",
        "stores/base filters stores/sqlite/records stores/sql stores/sqlite/database calls/tasks",
    ),
    (
        "It waits, durably: a change is drafted and applied in one transaction, role by role",
        "ingest/commit stores/changeset stores/sqlite/store stores/sqlite/graph stores/sqlite/search",
    ),
    ("Read: cut into chunks within budgets of tokens", "ingest/reading ingest/chunking text/tokens observing"),
    (
        "Each chunk is read for entities and relations, in the light of the whole document",
        "extraction/local extraction/local_subjects extraction/local_reading extraction/local_names",
    ),
    (
        "Names are found in each sentence",
        "text/phrases text/name_spans text/labels text/sentences text/patterns",
    ),
    ("What is found gets the one form of all extractions", "extraction/base"),
    ("Passages, names of entities and relations get vectors", "embedding/base embedding/e5/model"),
    (
        "Drafted: names lead to entities, mentions are counted and folded; then applied as above",
        "ingest/resolution ingest/merging stores/graph",
    ),
)
_QUERY = (
    (
        "The parameters are checked and completed to a plan",
        "arguments engine query/pipeline query/plan text/patterns observing",
    ),
    ("The question gets a vector", "embedding/base embedding/e5/model text/tokens models"),
    (
        "Fused search, at one moment of the store: channels by vectors and words",
        "query/fusion query/plain_search text/analysis text/glossary stores/sqlite/store stores/sqlite/database "
        "stores/sql calls/tasks stores/sqlite/search stores/bm25",
    ),
    (
        "Entities that the question names, and bridges over entities from chunk to chunk",
        "query/linking ids query/bridges stores/base stores/sqlite/records stores/sqlite/graph stores/graph",
    ),
    (
        "What fits the budgets becomes a context with references",
        "query/context/assembly query/context/format query/models text/sentences",
    ),
    (
        "What the question asks for is read from it",
        "query/understanding text/asking text/phrases text/name_spans text/labels",
    ),
    (
        "Sentences that answer it are chosen, joined and cited",
        "query/answers/answer query/answers/quotables query/answers/sentence_ranking "
        "query/answers/candidates query/answers/citations",
    ),
)
_READ = (
    ("The request is counted, its caller told, and a workspace lent", _REQUEST),
    ("The route asks the engine", "server/routes/graph arguments engine"),
    (
        "A name is led to its entity, which is read",
        "ingest/resolution ids stores/sqlite/records stores/sql stores/sqlite/database stores/sqlite/graph",
    ),
    ("It becomes a shape of the wire", "wire/graph wire/base"),
)
_WRITE = (
    ("The request is counted, its caller told, and a workspace lent", _REQUEST),
    ("The route reads a shape of the wire into documents", "server/routes/document_intake wire/documents"),
    (
        "They are accepted, if there is room, and a job is kept that has them processed",
        "service/jobs/jobs service/jobs/store service/jobs/models",
    ),
    ("What became of them is told to whoever asks", "ingest/models errors"),
)


def walks() -> str:
    """The files that a document, a question and two requests run through, step by step."""
    return asyncio.run(_walks())


async def _walks() -> str:
    with tempfile.TemporaryDirectory() as folder, Trace() as trace:
        async with AsyncHeliograph(folder) as kb:
            await kb.insert("The Lantern gateway forwards readings over MQTT.", sources=["warm.md"])
            for mode in ("mix", "fusion"):
                await kb.query("What does the gateway forward?", QueryParam(mode=mode))
            inserting = trace.begin()
            await kb.insert("Daniel Okafor approves every renewal of a TLS certificate in Bergen.", sources=["a.md"])
            asking = trace.begin()
            await kb.query("Who approves a TLS certificate renewal?", QueryParam(mode="fusion"))
            trace.begin()
        reading, writing = await _requests(folder, trace)
    return "\n\n".join(
        (
            _told("A document's way in (`kb.insert`", inserting, _INSERT),
            _told("A question's way out (`kb.query`, mode `fusion`, no chat model", asking, _QUERY),
            _told("A request that reads (`GET /graph/entity`", reading, _READ),
            _told(
                "A request that writes (`POST /documents/text`, beside those of a document's way in",
                writing - inserting,
                _WRITE,
            ),
        )
    )


async def _requests(folder: str, trace: Trace) -> tuple[set[str], set[str]]:
    """Read an entity and hand over a text by HTTP; return the files of each."""
    app = create_app(Settings.load(store={"data_dir": folder}))
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
    ):
        await _send_text(app, client, "The Lantern gateway sends alarms by SMS.", "sms.md")
        await client.get("/graph/entity", params={"name": "SMS"})
        await trace.settle()
        reading = trace.begin()
        (await client.get("/graph/entity", params={"name": "MQTT"})).raise_for_status()
        writing = trace.begin()
        await _send_text(app, client, "Alarms of the Lantern gateway are kept for a year in Oslo.", "year.md")
        await trace.settle()
        trace.begin()
    return reading, writing


async def _send_text(app: FastAPI, client: httpx.AsyncClient, text: str, source: str) -> None:
    (await client.post("/documents/text", json={"text": text, "file_source": source})).raise_for_status()
    while await app.state.service.jobs.count_unfinished("default"):  # noqa: ASYNC110
        await asyncio.sleep(0.05)


def _told(title: str, seen: set[str], steps: Sequence[tuple[str, str]]) -> str:
    """A title and one line a step; what no step has is named at the end."""
    lines = [f"{title}, {len(seen)} files):", ""]
    for number, (what, files) in enumerate(steps, 1):
        lines.append(f"{number}. {what}: {_names(file for file in files.split() if file in seen)}.")
    if left := seen - {file for _, files in steps for file in files.split()}:
        lines.append(f"\n{UNTOLD} {_names(sorted(left))}.")
    return "\n".join(lines)


def _names(files: Iterable[str]) -> str:
    return ", ".join(f"`{file}`" for file in files)


class Trace:
    """Notes, in all threads that start within its block, which files run."""

    _calls = 0

    def begin(self) -> set[str]:
        """Return what is filled from now on until the next call."""
        self._seen: set[str] = set()
        return self._seen

    async def settle(self) -> None:
        """Wait until nothing runs any more, as what follows a job on a busy machine does for a while."""
        before = -1
        while before != self._calls:
            before = self._calls
            await asyncio.sleep(0.25)

    def __enter__(self) -> Trace:
        self.begin()
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(_SOURCES):
            self._calls += 1
            self._seen.add(code.co_filename.removeprefix(_SOURCES).removesuffix(".py"))


def marked(name: str) -> tuple[str, str]:
    """The marks between which a part stands."""
    return f"<!-- {name}: python -m tests.house.architecture -->\n", f"\n<!-- end of {name} -->"


def part(name: str) -> str:
    """The part as the page has it."""
    begin, end = marked(name)
    return PAGE.read_text("utf-8").partition(begin)[2].partition(end)[0]


def main() -> None:
    for name, text in (("tree", tree()), ("walks", walks())):
        begin, end = marked(name)
        before, _, rest = PAGE.read_text("utf-8").partition(begin)
        PAGE.write_text(before + begin + text + end + rest.partition(end)[2], "utf-8")


if __name__ == "__main__":
    main()
