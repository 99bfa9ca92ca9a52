"""`python -m heliograph`: the command line."""

import os
import sys

# `python -m` puts the working folder first in `sys.path`. That folder may hold untrusted documents, whose files must
# not be imported, so it is removed, unless the package itself was found there.
if not sys.flags.safe_path and sys.path[:1] != [os.path.dirname(os.path.dirname(__file__))]:  # noqa: PTH120 (pathlib would be looked for there)
    del sys.path[0]

from heliograph.cli import main

if __name__ == "__main__":
    main()
