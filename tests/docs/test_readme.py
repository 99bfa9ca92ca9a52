"""Every Python block of the documentation runs, in order, in one empty folder per file."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from heliograph.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [path for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if path.exists()]


def _blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_python_blocks_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for block in _blocks(path, "python"):
        exec(compile(block, str(path), "exec"), names)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_toml_blocks_are_valid_settings(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in _blocks(path, "toml"):
        Settings.load(**tomllib.loads(block))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text("utf-8")):
        assert (path.parent / target).exists(), target


def test_files_that_are_named_are_there() -> None:
    there = [path.relative_to(ROOT).as_posix() for path in ROOT.glob("*/**/*.py") if ".venv" not in path.parts]
    for page in (*DOCUMENTS, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"):
        for name in re.findall(r"`([\w/]+\.py)(?:::\w+)?`", page.read_text("utf-8")):
            assert any(f"/{path}".endswith(f"/{name}") for path in there), f"{page.name}: {name}"


def test_lines_of_a_recipe_are_those_of_the_code() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.DOTALL)
    for line in block.splitlines():
        code, _, place = line.partition("  # ")
        assert f"    {code}\n" in (ROOT / "src/heliograph" / place.partition(":")[0]).read_text("utf-8"), line


def test_names_in_the_recipes_are_in_the_code() -> None:
    paths = (*ROOT.glob("src/**/*.py"), *ROOT.glob("web/src/*.ts*"), *ROOT.glob("tests/*.py"))
    words = {f"{path}": {path.stem, *re.findall(r"\w+", path.read_text("utf-8"))} for path in paths}
    recipes = " ".join((ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Adding something")[2].split())
    name = r"`[A-Za-z_]\w*(?:\.(?!(?:py|tsx?|toml)`)\w+)*`"
    named = [(item, "") for item in re.findall(name, recipes)]
    for items, file in re.findall(rf"({name}(?:(?:, and|,| and| or) {name})*) (?:in |\()`([\w/]+\.\w+)`", recipes):
        named += [(item, f"/{file}") for item in re.findall(name, items)]
    for item, file in named:
        held = [found for path, found in words.items() if path.endswith(file)]
        assert all(any(part in found for found in held) for part in item.strip("`").split(".")), f"{item} {file}"
