"""Runs programs on the real package, by the Python that has it: `python run.py FOLDER OUTPUT [PROGRAM ...]`.

Each program has a process of its own: instances of LightRAG in one process share what they hold by workspace.
"""

# pyright: basic, reportMissingImports=false

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import lightrag.lightrag  # noqa: F401 (imported once, before processes are forked)
import outsiders
import programs
import tutorials


def main(folder, output, *names):
    found = {}
    for name in names or [
        program.__name__ for program in (*programs.PROGRAMS, *tutorials.TUTORIALS, *outsiders.OUTSIDERS)
    ]:
        told = Path(folder, f"{name}.json")
        told.parent.mkdir(parents=True, exist_ok=True)
        child = os.fork()
        if not child:
            try:
                seen = programs.run("lightrag", name, f"{folder}/{name}")
            except BaseException:
                seen = {"failed": traceback.format_exc()}
            told.write_text(json.dumps(seen, ensure_ascii=False, default=str), "utf-8")
            os._exit(0)
        os.waitpid(child, 0)
        found[name] = json.loads(told.read_text("utf-8"))
    Path(output).write_text(json.dumps(found, ensure_ascii=False), "utf-8")


main(*sys.argv[1:])
