"""What the real package keeps in PostgreSQL, Redis, Neo4j and Qdrant is imported as its own files are."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from heliograph.engine import AsyncHeliograph
from heliograph.maintenance.whole_documents import Contents, ImportReport, NoteKind
from tests.servers.neo4j import running_neo4j
from tests.servers.postgres import running_postgres
from tests.servers.qdrant import running_qdrant
from tests.servers.redis import running_redis

from . import fakes

_PYTHON = os.environ.get("HELIOGRAPH_TEST_LIGHTRAG", "")
_REDIS = {"kv_storage": "RedisKVStorage", "doc_status_storage": "RedisDocStatusStorage"}


def _fill(folder: Path, fields: dict[str, str], environment: dict[str, str]) -> None:
    folder.mkdir()
    command = [_PYTHON, str(Path(__file__).with_name("fill.py")), str(folder), json.dumps(fields)]
    done = subprocess.run(command, cwd=folder, env=os.environ | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


async def _import(folder: Path, *places: str | Path) -> tuple[dict[str, Any], ImportReport]:
    """Return what a workspace holds after an import, which a second one does not change, and the report."""
    async with AsyncHeliograph(folder, embedding=_embed) as kb:
        report = await kb.import_from(places)
        again = await kb.import_from(places)
        assert (again.added, again.updated, again.unchanged) == (0, 0, report.added)
        assert (await kb.check()).is_clean
        contents = Contents(kb.store)
        return {
            "entities": [replace(item, created_at=0) async for item in contents.entities()],
            "relations": [replace(item, created_at=0) async for item in contents.relations()],
            "documents": [
                (item.document.id, item.document.source, item.document.status, item.text, item.chunks)
                async for item in contents.documents()
            ],
        }, report


async def _embed(texts: list[str]) -> Any:
    return await fakes.embed(texts)


@pytest.mark.parametrize("layout", ["postgres", "redis, neo4j, qdrant"])
async def test_storages_of_the_real_package_are_imported_as_its_files_are(layout: str, tmp_path: Path) -> None:
    if not _PYTHON:
        pytest.skip("HELIOGRAPH_TEST_LIGHTRAG names no Python with lightrag-hku 1.5.7: no storage was filled")
    fields: dict[str, str] = {"workspace": "team"}
    environment: dict[str, str] = {}
    places: list[str | Path] = []
    with ExitStack() as stack:
        if "postgres" in layout:
            url = stack.enter_context(running_postgres()).make_database()
            parts = urlsplit(url)
            fields |= {"kv_storage": "PGKVStorage", "doc_status_storage": "PGDocStatusStorage"}
            fields |= {"vector_storage": "PGVectorStorage", "graph_storage": "PGTableGraphStorage"}
            environment |= {"POSTGRES_HOST": parse_qs(parts.query)["host"][0], "POSTGRES_DATABASE": parts.path[1:]}
            environment |= {"POSTGRES_USER": parts.username or "", "POSTGRES_PASSWORD": parts.password or "none"}
            places.append(f"{url}#team")
        if "redis" in layout:
            url = stack.enter_context(running_redis()).url
            fields |= _REDIS
            environment["REDIS_URI"] = url
            places.append(f"{url}#team")
        if "neo4j" in layout:
            server = stack.enter_context(running_neo4j())
            fields["graph_storage"] = "Neo4JStorage"
            environment |= {"NEO4J_URI": f"bolt://127.0.0.1:{server.port}", "NEO4J_USERNAME": "neo4j"}
            environment["NEO4J_PASSWORD"] = server.password
            places.append(f"{server.url}#team")
        if "qdrant" in layout:
            vectors = stack.enter_context(running_qdrant())
            fields["vector_storage"] = "QdrantVectorDBStorage"
            environment |= {"QDRANT_URL": f"http://127.0.0.1:{vectors.port}", "QDRANT_API_KEY": vectors.api_key}
            places.append(f"{vectors.url}#team")
        _fill(tmp_path / "theirs", fields, environment)
        found, report = await _import(tmp_path / "ours", *places)
    _fill(tmp_path / "files", {}, {})
    expected, told = await _import(tmp_path / "expected", tmp_path / "files")
    assert found == expected
    assert (report.added, report.chunks, report.graph) == (told.added, told.chunks, told.graph)
    kept = [note.count for note in report.notes if note.kind is NoteKind.REMARK and "vectors are kept" in note.text]
    assert kept == [len(found["entities"]) + len(found["relations"]) + report.chunks]
