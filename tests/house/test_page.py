"""What is built into the package is what the sources of the page say, and what the service offers."""

from __future__ import annotations

import filecmp
import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"
BUILT = ROOT / "src" / "heliograph" / "server" / "page"


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


def test_every_icon_that_is_named_is_drawn() -> None:
    drawn = set(re.findall(r'<symbol id="([^"]+)"', (WEB / "public" / "icons.svg").read_text("utf-8")))
    text = "".join(path.read_text("utf-8") for path in (WEB / "src").glob("*.tsx"))
    used = set(re.findall(r'\bicon="([a-z]+)"', text)) | set(re.findall(r'<Icon name="([a-z]+)"', text))
    assert used
    assert used <= drawn
