"""Schemathesis asks a real service for everything in its OpenAPI document, by what fits it and what does not.

No status, header, type or body may be other than documented, none may be a 5xx. `HELIOGRAPH_TEST_EXAMPLES` is how many
random requests each operation gets beside those that are made from its schema.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import sys
from pathlib import Path

import pytest
from benchmarks.faulty_endpoint import faulty_endpoint
from benchmarks.service_faults import faulty_service

# The models answer; on a busy machine, not within the second that other tests give them.
PATIENCE = 30.0
KEY = "key-of-the-contract-0123456789"
EXAMPLES = os.environ.get("HELIOGRAPH_TEST_EXAMPLES", "1")
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
COMMAND = "from schemathesis.cli import schemathesis; schemathesis()"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("schemathesis") is None, reason="needs schemathesis: pip install schemathesis"
    ),
]


async def test_open_service_answers_as_documented(tmp_path: Path) -> None:
    async with faulty_endpoint() as endpoint:
        with faulty_service(tmp_path / "kb", endpoint, timeout_seconds=PATIENCE) as server:
            await conforms(server.address, tmp_path, *CHECKS)
            assert "Traceback" not in server.log


async def test_guarded_service_answers_as_documented(tmp_path: Path) -> None:
    async with faulty_endpoint() as endpoint:
        guarded = faulty_service(tmp_path / "kb", endpoint, timeout_seconds=PATIENCE, server={"api_key": KEY})
        with guarded as server:
            key = ("--header", f"X-API-Key: {KEY}", "--phases", "examples,fuzzing")
            await conforms(server.address, tmp_path, *CHECKS, "ignored_auth", options=key)
            assert "Traceback" not in server.log
            assert KEY not in server.log


async def conforms(address: str, folder: Path, *checks: str, options: tuple[str, ...] = ()) -> None:
    """Run it in a process of its own, since it brings a plugin, hooks and warnings."""
    more = ("--max-examples", EXAMPLES, "--seed", "1", "--no-shrink", "--suppress-health-check", "all")
    command = ["run", f"{address}/openapi.json", "--checks", ",".join(checks), "--continue-on-failure", *more]
    phases = () if options else ("--phases", "examples,coverage,fuzzing")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", COMMAND, *command, *phases, *options),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode("utf-8", "replace")
