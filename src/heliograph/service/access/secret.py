"""The secret that signs tokens, made once and kept where all processes of the service find it."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import tempfile
from pathlib import Path

from heliograph.errors import SettingsError, StoreUnavailable

_FILE = "token_secret"
_BYTES = 32
_LEAST_CHARACTERS = 16


def make_private_folder(folder: Path) -> None:
    """Make a folder that only this user may enter.

    Raises:
        StoreUnavailable: It cannot be made.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailable(f"the folder {str(folder)!r} cannot be made: {error.strerror}") from error


def signing_key(given: str, folder: Path) -> bytes:
    """Return the 32 bytes that sign tokens.

    Args:
        given: The secret of the settings; empty uses the one kept in the folder, made if it is not there.
        folder: A folder that only this user may enter.

    Raises:
        SettingsError: The secret given is shorter than 16 characters.
        StoreUnavailable: The one kept cannot be read or made.
    """
    if given and len(given) < _LEAST_CHARACTERS:
        raise SettingsError(f"server.token_secret is too short; give it {_LEAST_CHARACTERS} characters or more")
    secret = given.encode() if given else _kept_secret(folder / _FILE)
    # One step from the secret, so that its length and form do not matter.
    return hmac.new(secret, b"heliograph access token", hashlib.sha256).digest()


def _kept_secret(path: Path) -> bytes:
    try:
        if not path.exists():
            _make(path)
        secret = path.read_bytes()
    except OSError as error:
        raise StoreUnavailable(f"the secret in {str(path)!r} cannot be read or made: {error.strerror}") from error
    if len(secret) < _BYTES:
        raise StoreUnavailable(f"the secret in {str(path)!r} is damaged; delete it, and everybody logs in again")
    return secret


def _make(path: Path) -> None:
    """Write a whole secret under another name and link it: of several processes, one wins, and none reads half."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".secret-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(name, path)
    finally:
        Path(name).unlink()
