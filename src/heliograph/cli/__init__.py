"""The command line: parse, call the engine, render. `main` is its entry point.

`app` lists the commands by group, one file a group; `rendering` makes what is shown, `output` writes it; `session`
opens what a command needs and turns errors into one line and an exit code. No command does any work of its own.
"""

import gc
import os
import signal
import threading
from importlib import import_module

__all__ = ["main"]


def main() -> None:
    """Run the command line of this process and end it; a Ctrl-C while it is still being read in ends it silently."""
    # Matrices are small here, and NumPy's threads wait for work by spinning: some 30 ms of CPU time at the start.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Until a command is imported, see `session.uncollected`.
    gc.disable()
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Raised in the midst of imports, a KeyboardInterrupt shows as a traceback, or is lost in a library's callback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    import_module("heliograph.cli.app").main()
