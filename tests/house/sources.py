"""The source tree as data, for the rules of the house."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "heliograph"


@dataclass(frozen=True)
class Module:
    """One file: its dotted name, its package, its lines and its syntax tree."""

    path: Path
    name: str
    package: str
    lines: int
    tree: ast.Module


@cache
def modules() -> tuple[Module, ...]:
    return tuple(_read(path) for path in sorted(PACKAGE.rglob("*.py")))


def _read(path: Path) -> Module:
    text = path.read_text("utf-8")
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    name = ".".join(("heliograph", *parts))
    package = parts[0] if parts else "heliograph"
    return Module(path, name, package, text.count("\n"), ast.parse(text))


def imported_modules(node: ast.AST) -> list[str]:
    """The modules of Heliograph that an import statement names."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module:
        names = [node.module]
    else:
        names = []
    return [name for name in names if name == "heliograph" or name.startswith("heliograph.")]
