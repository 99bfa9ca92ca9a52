"""The command line: parse, call the engine, render. `main` is its entry point.

`app` lists the commands by group, one file per group; `rendering` formats results, `output` writes them; `session`
opens the engine for a command and turns errors into one line and an exit code. Commands only parse, call and render.
"""

import gc
import os
import signal
import threading
from importlib import import_module

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit; a Ctrl-C during the imports ends the process silently."""
    # Matrices are small here, and NumPy's threads busy-wait for work: some 30 ms of CPU time at the start.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Until a command is imported, see `session.uncollected`.
    gc.disable()
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # A KeyboardInterrupt during imports shows a traceback, or is lost in a library's callback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    import_module("heliograph.cli.app").main()
