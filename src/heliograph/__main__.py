"""`python -m heliograph`: the command line."""

import os
import sys

# Python looks for modules in the working folder first when it runs one by name; documents that lie there may be
# anybody's, and their files are not to be run. The folder is left where the package itself was found in it.
if not sys.flags.safe_path and sys.path[:1] != [os.path.dirname(os.path.dirname(__file__))]:  # noqa: PTH120 (pathlib would be looked for there)
    del sys.path[0]

from heliograph.cli import main

if __name__ == "__main__":
    main()
