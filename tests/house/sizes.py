"""Prints how large the house is, and how many of its files one document, one question and one request run through.

`python -m tests.house.sizes`; CI prints it after the tests, so that growth is seen where it lands.
"""

from __future__ import annotations

import ast
import asyncio
import re
import statistics
import tempfile
from collections import Counter

from starlette.testclient import TestClient

from heliograph import AsyncHeliograph, QueryParam
from heliograph.server.app import create_app
from heliograph.settings import Settings

from .architecture import Trace
from .sources import modules

SHORT = 8  # lines; a private helper of at most so many that is called once could stand where it is called
MODES = ("naive", "mix", "fusion", "auto")


def sizes() -> str:
    """Lines and files, functions, short private helpers called once, and classes of two and more fields."""
    lengths: list[int] = []
    helpers: list[str] = []
    names: Counter[str] = Counter()
    records = 0
    for module in modules():
        text = module.path.read_text("utf-8")
        names.update(re.findall(r"\b_[a-z]\w*", text))
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                lengths.append(length)
                if node.name.startswith("_") and not node.name.startswith("__") and length <= SHORT:
                    helpers.append(node.name)
            elif isinstance(node, ast.ClassDef):
                records += sum(isinstance(item, ast.AnnAssign) for item in node.body) >= 2
    files = [module.lines for module in modules()]
    return (
        f"{len(files)} files, {sum(files):,} lines, {statistics.median(files):.0f} a file (median)\n"
        f"{len(lengths):,} functions of {statistics.median(lengths):.0f} lines (median); "
        f"{sum(names[name] == 2 for name in helpers)} private ones of up to {SHORT} lines called once\n"
        f"{records} classes with two or more fields"
    )


async def flows() -> str:
    """Files and functions that one insert and one question in each mode run through."""
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as folder, Trace() as trace:
        async with AsyncHeliograph(folder) as kb:
            await kb.insert("The Lantern gateway forwards readings over MQTT.", sources=["warm.md"])
            for mode in MODES:
                await kb.query_data("What does the gateway forward?", QueryParam(mode=mode))
            seen = trace.begin()
            await kb.insert("Daniel Okafor approves every renewal of a TLS certificate in Bergen.", sources=["a.md"])
            lines.append(f"insert one document: {len(seen)} files")
            for mode in MODES:
                seen = trace.begin()
                await kb.query_data("Who approves a renewal of the certificate?", QueryParam(mode=mode))
                lines.append(f"query_data in mode {mode}: {len(seen)} files")
            trace.begin()
    return "\n".join(lines)


def request() -> str:
    """Files that one REST read runs through, on a service that has answered the like before."""
    with tempfile.TemporaryDirectory() as folder, Trace() as trace:
        app = create_app(Settings.load(store={"data_dir": folder}))
        with TestClient(app, base_url="http://127.0.0.1") as client:
            for name in ("Ada", "Bergen"):
                client.post(
                    "/graph/entity/create", json={"entity_name": name, "entity_data": {"description": "A name."}}
                ).raise_for_status()
            client.get("/graph/entity", params={"name": "Ada"}).raise_for_status()
            seen = trace.begin()
            client.get("/graph/entity", params={"name": "Bergen"}).raise_for_status()
            count = len(seen)
            trace.begin()
    return f"GET /graph/entity: {count} files"


def main() -> None:
    print(sizes())
    print(asyncio.run(flows()))
    print(request())


if __name__ == "__main__":
    main()
