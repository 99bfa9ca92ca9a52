"""The parts of ARCHITECTURE.md that follow from the code: the tree of files, and the two walks through them.

`python -m tests.house.architecture` writes them anew; `test_architecture.py` fails when they are out of date.
"""

from __future__ import annotations

import ast
import asyncio
import sys
import tempfile
import threading
from types import FrameType

from heliograph import AsyncHeliograph, QueryParam

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


def walks() -> str:
    """The files that one document and one question run through, in the order in which they are first entered."""
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
    return (
        f"A document's way in (`kb.insert`, {len(inserting)} files):\n\n{_listed(inserting)}\n\n"
        f"A question's way out (`kb.query`, mode `fusion`, no chat model, {len(asking)} files):\n\n{_listed(asking)}"
    )


def _listed(seen: dict[str, str]) -> str:
    """One line a file: which of its functions is called first, and what the file does."""
    does = {module.path.relative_to(PACKAGE).as_posix(): _sentence(module) for module in modules()}
    return "\n".join(
        f"{number}. `{path.removesuffix('.py')}` ({name.removesuffix('.<locals>.work')}): {does[path]}"
        for number, (path, name) in enumerate(seen.items(), 1)
    )


class Trace:
    """Notes, in all threads that start within its block, which files run, by the function that is called first."""

    def begin(self) -> dict[str, str]:
        """Return what is filled from now on until the next call."""
        self._seen: dict[str, str] = {}
        return self._seen

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
            self._seen.setdefault(code.co_filename.removeprefix(_SOURCES), code.co_qualname)


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
