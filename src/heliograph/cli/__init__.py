"""The command line: parse, call the engine, render. `main` is its entry point.

`app` holds the commands by group, one file a group; `render_*` and `tables` make what is shown, `output` writes it;
`edge` turns errors into one line and the exit codes of `exit_codes`. No command does any work of its own.
"""

from heliograph.cli.app import app, main

__all__ = ["app", "main"]
