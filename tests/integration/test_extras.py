"""A plain install serves offline use whole, and what needs an extra says which."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from heliograph.documents.base import Limits, Loader, RawDocument
from heliograph.documents.office import SpreadsheetLoader
from heliograph.documents.word import DocxLoader
from heliograph.errors import MissingDependencyError

pytestmark = pytest.mark.slow

# Makes what only extras bring impossible to import, then runs the command line.
BARE = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

ABSENT = set(sys.argv.pop(1).split(","))
sys.meta_path.insert(0, Absent())
from heliograph.cli import main
main()
"""
ROOT = Path(__file__).parents[2]
TEXT = "The lighthouse of Gannet Head was built in 1871 by Ada Merrow. It is 42 metres high.\n"


def modules_of_extras() -> set[str]:
    """Return the modules of every package that an extra names and a plain install does not."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    optional = {line for name, lines in extras.items() if name != "dev" for line in lines}
    names = {"".join(c if c.isalnum() else "-" for c in line.partition(">")[0].partition("[")[0]) for line in optional}
    distributions = packages_distributions().items()
    return {
        module for module, of in distributions for name in of if name.lower().replace("_", "-") in map(str.lower, names)
    } - {"httpx", "numpy", "heliograph"}


def run_bare(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-c", BARE, ",".join(sorted(modules_of_extras())), *arguments],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "COLUMNS": "200", **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_packages_of_extras_are_found() -> None:
    assert {"fastapi", "uvicorn", "mcp", "openai", "jwt", "mammoth", "python_calamine"} <= modules_of_extras()


def test_plain_install_indexes_and_answers(tmp_path: Path) -> None:
    (tmp_path / "light.md").write_text(TEXT, "utf-8")
    (tmp_path / "page.html").write_text(f"<h1>Light</h1><p>{TEXT}</p>", "utf-8")
    indexed = run_bare(tmp_path, "index", "light.md", "page.html")
    assert indexed.returncode == 0, indexed.stderr
    answered = run_bare(tmp_path, "query", "Who built the lighthouse of Gannet Head?")
    assert answered.returncode == 0, answered.stderr
    assert "Ada Merrow" in answered.stdout


@pytest.mark.parametrize(
    ("arguments", "environment", "extra"),
    [
        (("serve",), {}, "server"),
        (("mcp",), {}, "server"),
        (("hash-password",), {}, "server"),
        (("query", "Who?"), {"HELIOGRAPH_CHAT__MODEL": "any"}, "openai"),
        (("query", "Who?"), {"HELIOGRAPH_EMBEDDING__PROVIDER": "openai"}, "openai"),
        (("stats",), {"HELIOGRAPH_STORE__URL": "postgresql://127.0.0.1:1/none"}, "postgres"),
    ],
)
def test_what_is_missing_names_its_extra(
    tmp_path: Path, arguments: tuple[str, ...], environment: dict[str, str], extra: str
) -> None:
    (tmp_path / "light.md").write_text(TEXT, "utf-8")
    assert run_bare(tmp_path, "index", "light.md").returncode == 0
    done = run_bare(tmp_path, *arguments, **environment)
    assert done.returncode == 2
    assert f"pip install 'heliograph[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("loader", "package"), [(DocxLoader, "mammoth"), (SpreadsheetLoader, "python_calamine")])
def test_document_that_needs_an_extra_names_it(
    monkeypatch: pytest.MonkeyPatch, loader: type[Loader], package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'heliograph\[office\]'"):
        loader().load(RawDocument("book", b"PK"), Limits())
