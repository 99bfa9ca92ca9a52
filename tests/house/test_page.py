"""What is built into the package is what the sources of the page say, and what the service offers."""

from __future__ import annotations

import ast
import filecmp
import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from heliograph.ingest.files import find_samples

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"
SOURCE = ROOT / "src" / "heliograph"
BUILT = SOURCE / "server" / "page"


def test_types_of_the_page_are_those_of_the_interface() -> None:
    spec = importlib.util.spec_from_file_location("api_types", WEB / "api_types.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.TARGET.read_text("utf-8") == module.render_types(), "run `make web`"


@pytest.mark.long
def test_fresh_build_is_what_is_committed(tmp_path: Path) -> None:
    if not shutil.which("node") or not (WEB / "node_modules").is_dir():
        pytest.skip("needs Node 20 and `npm ci` in web/ to build the page anew")
    subprocess.run([WEB / "node_modules" / ".bin" / "tsc", "--noEmit"], cwd=WEB, check=True)
    build = [WEB / "node_modules" / ".bin" / "vite", "build", "--outDir", tmp_path / "page"]
    subprocess.run(build, cwd=WEB, check=True, capture_output=True)
    fresh, committed = names(tmp_path / "page"), names(BUILT)
    assert fresh == committed, "run `make web`"
    _, different, unread = filecmp.cmpfiles(tmp_path / "page", BUILT, sorted(fresh), shallow=False)
    assert (different, unread) == ([], []), "run `make web`"


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_every_word_of_the_page_is_there_in_both_languages() -> None:
    text = (WEB / "src" / "words.ts").read_text("utf-8")
    words = re.findall(r'(\w+): \["((?:[^"\\]|\\.)*)", "((?:[^"\\]|\\.)*)"\]', text)
    assert len(words) > 300
    named = {"language", "version"}
    for key, english, chinese in words:
        assert english, key
        assert re.search(r"[\u4e00-\u9fff]|^/$", chinese) or key in named, f"{key}: {chinese!r}"


def test_questions_that_are_proposed_are_about_samples() -> None:
    text = (WEB / "src" / "first-run.tsx").read_text("utf-8")
    named = set(re.findall(r'^ {4}\["([^"]+\.md)", "', text, re.MULTILINE))
    assert len(named) == 8
    assert named <= {item.source for item in find_samples()}


def test_every_icon_that_is_named_is_drawn() -> None:
    drawn = set(re.findall(r'<symbol id="([^"]+)"', (WEB / "public" / "icons.svg").read_text("utf-8")))
    text = "".join(path.read_text("utf-8") for path in (WEB / "src").glob("*.tsx"))
    used = set(re.findall(r'\bicon="([a-z]+)"', text)) | set(re.findall(r'<Icon name="([a-z]+)"', text))
    assert used
    assert used <= drawn


def test_every_reason_why_a_document_is_refused_is_said_in_chinese() -> None:
    sentences = re.findall(r"^  \[/(.+)/s?, \"", (WEB / "src" / "service-words.ts").read_text("utf-8"), re.MULTILINE)
    patterns = [re.compile(pattern, re.DOTALL) for pattern in sentences]
    # What only a path on the server's own machine can bring about, or only a program that uses the engine.
    own = {"isolation.py", "files.py", "chunking.py", "reading.py", "base.py"}
    reasons = [reason for folder in ("documents", "ingest") for reason in refusals(SOURCE / folder, own)]
    assert len(reasons) > 40
    assert [reason for reason in reasons if not any(pattern.search(reason) for pattern in patterns)] == []


def refusals(folder: Path, own: set[str]) -> Iterator[str]:
    """Give the text of every `IngestError` that is raised there, with a word for each value in it."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if path.name in own or not isinstance(node, ast.Call) or ast.unparse(node.func) != "IngestError":
                continue
            (text,) = node.args
            parts = text.values if isinstance(text, ast.JoinedStr) else [text]
            told = "".join(str(part.value) if isinstance(part, ast.Constant) else "7" for part in parts)
            # One that is passed on says it elsewhere, and a path that is empty or no file's is no file of a person.
            if told.strip("7 ") and not told.startswith(("a path is empty", "7 is not a path", "7 is 7; give files")):
                yield told
