"""File sizes, import direction, cycles, hidden imports and declarations that belong together, from the source."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections import defaultdict
from dataclasses import fields
from graphlib import TopologicalSorter

import pytest

import heliograph
from heliograph import QueryParam
from heliograph.client.records import QueryOptions
from heliograph.errors import MissingDependencyError
from heliograph.wire.query import QueryFields

from .sources import PACKAGE, ROOT, Module, imported_modules, modules

MOST_FILE_LINES = 900

# Each package may import the packages below it and itself; `heliograph` is the package's own __init__.
LAYERS = (
    {"errors", "models", "_version"},
    {"ids"},
    {"settings", "filters", "arguments", "observing"},
    {"text"},
    {"prompts"},
    {"calls"},
    {"embedding", "documents"},
    {"stores"},
    {"chat"},
    {"extraction", "rerank"},
    {"ingest", "functions"},
    {"query", "curation", "distributed"},
    {"maintenance"},
    {"engine"},
    {"sync", "evaluation"},
    {"analysis"},
    {"heliograph"},
    {"adapters"},
    {"testing"},
    {"monitoring"},
    {"service"},
    {"wire"},
    {"mcp", "client", "lightrag"},
    {"server"},
    {"cli"},
    {"__main__"},
)
LEVEL = {package: level for level, packages in enumerate(LAYERS) for package in packages}
IDS = [module.name for module in modules()]


@pytest.mark.parametrize("module", modules(), ids=IDS)
def test_file_is_short_enough(module: Module) -> None:
    assert module.lines <= MOST_FILE_LINES


@pytest.mark.parametrize("module", modules(), ids=IDS)
def test_module_says_what_it_owns(module: Module) -> None:
    docstring = ast.get_docstring(module.tree)
    assert docstring, "a module docstring is missing"
    assert len(docstring.split()) >= 5


@pytest.mark.parametrize("module", modules(), ids=IDS)
def test_imports_point_down(module: Module) -> None:
    assert module.package in LEVEL, f"the package {module.package!r} has no place in LAYERS"
    for node in ast.walk(module.tree):
        for name in imported_modules(node):
            package = name.split(".")[1] if "." in name else "heliograph"
            allowed = package == module.package or LEVEL[package] < LEVEL[module.package]
            assert allowed, f"line {node.lineno} imports {name}"


@pytest.mark.parametrize("module", modules(), ids=IDS)
def test_no_import_is_hidden_in_a_function(module: Module) -> None:
    for function in ast.walk(module.tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            hidden = [name for node in ast.walk(function) for name in imported_modules(node)]
            assert not hidden, f"{function.name} imports {hidden}"


def test_imports_have_no_cycle() -> None:
    known = {module.name for module in modules()}
    graph = defaultdict(set)
    for module in modules():
        for node in ast.walk(module.tree):
            graph[module.name].update(name for name in imported_modules(node) if name in known)
        graph[module.name].discard(module.name)
    TopologicalSorter(graph).prepare()


@pytest.mark.parametrize("module", modules(), ids=IDS)
def test_exports_are_there(module: Module) -> None:
    if not _lists_exports(module):
        return  # a private module needs none
    try:
        imported = importlib.import_module(module.name)
    except MissingDependencyError as missing:
        pytest.skip(str(missing))
    assert len(set(imported.__all__)) == len(imported.__all__)  # ruff keeps them sorted
    for name in imported.__all__:
        assert hasattr(imported, name), name


def test_package_offers_what_type_checkers_are_told_of_and_from_the_same_modules() -> None:
    (block,) = (node for node in ast.parse(inspect.getsource(heliograph)).body if isinstance(node, ast.If))
    told = {
        (alias.name, node.module) for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert told == {(name, f"heliograph.{module}") for name, module in vars(heliograph)["_MODULES"].items()}


def _lists_exports(module: Module) -> bool:
    return any(
        isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets)
        for node in module.tree.body
    )


@pytest.mark.parametrize("module", modules(), ids=IDS)
def test_public_methods_are_documented(module: Module) -> None:
    """A method has a docstring, or overrides one of ours that has, or one of a library."""
    try:
        imported = importlib.import_module(module.name)
    except (MissingDependencyError, ModuleNotFoundError) as missing:
        pytest.skip(str(missing))
    classes = [node.name for node in module.tree.body if isinstance(node, ast.ClassDef)]
    for name in classes:
        kind = getattr(imported, name)
        for method, value in vars(kind).items():
            if name.startswith("_") or method.startswith(("_", "test_")) or not callable(value):
                continue
            origin = next((base for base in reversed(kind.__mro__) if hasattr(base, method)), kind)
            is_ours = origin.__module__.startswith("heliograph.")
            assert inspect.getdoc(getattr(kind, method)) or not is_ours, f"{name}.{method} says nothing"


def test_mode_has_one_default_but_on_the_routes_of_lightrag() -> None:
    others = dict.fromkeys(("heliograph.wire.query", "heliograph.lightrag.base"), "LIGHTRAG_MODE")
    found: list[str] = []
    for module in modules():
        for node in ast.walk(module.tree):
            for default in _defaults_of(node, "mode"):
                text = ast.unparse(default)
                found.append(text)
                assert any(name in text for name in ("DEFAULT_MODE", others.get(module.name, "DEFAULT_MODE"))), (
                    f"{module.name} line {default.lineno}: the mode is {text} by default"
                )
    assert sum("LIGHTRAG_MODE" in text for text in found) == 2
    assert len(found) > 10


def test_rest_and_client_take_every_parameter_of_questions() -> None:
    known = {field.name for field in fields(QueryParam)}
    # Models and prompts are the server's own; how an answer is sent follows from the route.
    own = {
        "chat_model",
        "system_prompt",
        "stream",
        "conversation_history",
        "include_references",
        "include_chunk_content",
    }
    assert set(QueryFields.model_fields) == known - own
    # What a client gets back is typed, whatever the form.
    typed = {"mode", "include_sources", "return_structured"}
    sent = {"conversation_history", "include_chunk_content"}
    assert {field.name for field in fields(QueryOptions)} == (known - own - typed) | sent


def _defaults_of(node: ast.AST, name: str) -> list[ast.expr]:
    """Return what a field, or an argument of a function, of this name is by default, but None and an empty text."""
    defaults: list[ast.expr | None] = []
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        named = [*node.args.posonlyargs, *node.args.args]
        pairs: list[tuple[ast.arg, ast.expr | None]] = [
            *zip(reversed(named), reversed(node.args.defaults), strict=False),
            *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True),
        ]
        defaults = [default for argument, default in pairs if argument.arg == name]
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
        defaults = [node.value]
    return [item for item in defaults if item is not None and ast.unparse(item) not in ("None", "''")]


def test_only_settings_reads_the_environment() -> None:
    for module in modules():
        # The package itself only says, before anybody imports onnxruntime, that it is to report nothing; the command
        # line, before anybody imports NumPy, that it is to start no threads.
        if module.package == "settings" or module.name in ("heliograph", "heliograph.cli"):
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
                assert node.attr not in {"environ", "getenv"}, f"{module.name} line {node.lineno}"


def test_who_starts_processes_is_known() -> None:
    """Each of these is tried in a folder full of modules by `tests/integration/test_working_folder.py`."""
    starters = {module.name.removeprefix("heliograph.") for module in modules() if _starts_processes(module.tree)}
    assert starters == {"documents.isolation", "server.run", "distributed.ray_cluster"}


def _starts_processes(tree: ast.Module) -> bool:
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    # Also what is imported on use, by its name as text.
    imported |= {str(node.args[0].value) for node in calls if node.args and isinstance(node.args[0], ast.Constant)}
    starts = ("os.exec", "os.spawn", "os.posix_spawn", "os.fork", "os.system", "os.popen", "asyncio.create_subprocess")
    called = [ast.unparse(node.func) for node in calls]
    return bool(
        {name.partition(".")[0] for name in imported} & {"subprocess", "multiprocessing", "pty", "ray"}
        or any(name.startswith(starts) or name.endswith("ProcessPoolExecutor") for name in called)
    )


def test_nobody_waits_by_select() -> None:
    # It fails as soon as a descriptor is above 1,023.
    for module in modules():
        for node in ast.walk(module.tree):
            assert not (isinstance(node, ast.Import) and node.names[0].name == "select"), module.name
            assert not (isinstance(node, ast.ImportFrom) and node.module == "select"), module.name
            assert not (isinstance(node, ast.Attribute) and node.attr == "SelectSelector"), module.name


def test_back_ends_are_named_only_in_stores() -> None:
    for module in modules():
        if module.package in {"stores", "cli"}:
            continue
        for node in ast.walk(module.tree):
            for name in imported_modules(node):
                assert not name.startswith("heliograph.stores.sqlite"), f"{module.name} imports {name}"


# What our web page is made of.
_PAGE = (".css", ".html", ".js", ".svg", ".woff2")


def test_package_has_no_other_files_than_it_needs() -> None:
    kinds = {path.suffix for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert kinds <= {".py", ".txt", ".toml", ".md", ".typed", ".json", ".npy", "", *_PAGE}, kinds
    assert (ROOT / "LICENSE").read_text("utf-8").startswith("MIT")
