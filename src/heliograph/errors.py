"""Every error that Heliograph raises on purpose.

HeliographError
├── SettingsError              a setting is missing, unknown or out of range
├── MissingDependencyError     an optional package is needed (also an ImportError; names the extra)
├── InvalidRequestError        an argument cannot be served as given (also a ValueError)
├── NotFoundError              the named thing is not in this workspace
├── ConflictError              two writers, or a second thing under one name
│   └── StaleChangesetError    evidence changed between reading and committing it
├── IngestError                one document could not be ingested
│   └── CancelledIngestError   the run was cancelled before the document was finished
├── AccessError
│   ├── AuthenticationError    no credentials, or wrong or expired ones
│   └── PermissionDenied       the credentials do not allow this, or not in this workspace
├── OverloadedError            too many requests in progress; carries `retry_after_seconds`
├── RequestTooLargeError       a request is longer, or nested deeper, than the limits allow
├── ClusterUnavailable         the machines that read documents are out of reach, or cannot be used
├── ServiceUnavailable         a Heliograph service is out of reach, or the address is not one (raised by the client)
├── StoreError
│   ├── StoreUnavailable       closed, locked, full, read-only or out of reach
│   │   ├── StoreAccessDenied  the engine is reachable and refuses the credentials
│   │   └── StoreDamaged       the stored data is not what was written
│   └── SchemaMismatch         made by a newer version, or with another embedding
└── ModelError
    ├── RateLimited            refused for now; carries `retry_after_seconds`
    ├── ModelTimeout           no reply within the time allowed
    ├── BadModelReply          a reply that cannot be used
    ├── ContextTooLong         the request exceeds the model's window
    └── ModelUnavailable       wrong address, credentials or model name, or the service is down

A message says what failed, on which value (as a repr) and what to do. Each back end and provider translates its
driver's exceptions in one place.
"""

import os
import re
from functools import cache
from importlib import import_module
from typing import Any, Self

_LONGEST_RAISED = 300
# An absolute path: in quotes, with any characters, or unquoted up to the next delimiter.
_PATH = re.compile(
    r"""(?P<quote>['"])(?P<quoted>/(?:(?!(?P=quote)).)*)(?P=quote)|(?<![\w.:/~-])/[^\s'"`,;()<>\[\]{}]+"""
)


class HeliographError(Exception):
    """The root: catch this to catch everything that Heliograph raises on purpose.

    All of them can be pickled, whatever their constructors take.
    """

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (type(self), self.args, self.__dict__)


def shown(value: object, most_characters: int) -> str:
    """Return a value as shown in a message: the start of its repr, or its type where repr fails."""
    try:
        return repr(value)[:most_characters]
    except (RecursionError, ValueError):
        return f"a {type(value).__name__} that is too large or nested too deep"


def without_folders(message: str) -> str:
    """Return a message with every absolute path cut to the name of its file or folder."""

    def shorten(found: re.Match[str]) -> str:
        path, quote = found["quoted"] or found[0], found["quote"] or ""
        # Other paths, such as those of HTTP requests, are no files of this machine.
        is_here = path.split("/")[1] in _top_folders()
        name = path.rstrip("/").rpartition("/")[2]
        return f"{quote}{name}{quote}" if is_here else found[0]

    return _PATH.sub(shorten, message)


@cache
def _top_folders() -> frozenset[str]:
    return frozenset(os.listdir("/"))  # noqa: PTH208 (names are what is wanted)


def _restore(kind: type[HeliographError], args: tuple[object, ...], state: dict[str, object]) -> HeliographError:
    error = kind.__new__(kind)
    error.args = args
    if isinstance(error, ImportError):
        # An ImportError keeps its message here.
        error.msg = str(args[0]) if args else ""
    error.__dict__.update(state)
    return error


class SettingsError(HeliographError):
    """A setting is missing, unknown or out of range."""


class MissingDependencyError(HeliographError, ImportError):
    """An optional package is not installed; the message names the extra that brings it."""

    def __init__(self, package: str, extra: str = "") -> None:
        command = f"pip install 'heliograph[{extra}]'" if extra else f"pip install --force-reinstall {package}"
        super().__init__(f"the package {package!r} is not installed, or not whole; run: {command}")


def import_optional(module: str, extra: str) -> Any:
    """Import and return a module that needs packages which only an extra of Heliograph installs.

    Args:
        module: The package itself, or a module of ours that imports it.
        extra: The extra that installs the packages; empty if a plain install does.

    Raises:
        MissingDependencyError: A package is not installed; the message names it and the command that installs it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        if (error.name or "").startswith("heliograph"):
            raise  # a file of our own is missing, which no extra installs
        raise MissingDependencyError(error.name or module, extra) from error


class InvalidRequestError(HeliographError, ValueError):
    """An argument cannot be served as given."""


class NotFoundError(HeliographError):
    """The named document, entity or relation is not in this workspace."""


class ConflictError(HeliographError):
    """Two writers changed the same thing, or a new thing has the name of an existing one."""


class StaleChangesetError(ConflictError):
    """The evidence that a changeset was computed from has changed; compute it again and retry."""


class IngestError(HeliographError):
    """One document could not be ingested; others are not affected. A defect of ours comes with its traceback."""

    traceback: str = ""

    @classmethod
    def of_defect(cls, what: str, error: Exception) -> Self:
        """Return the error of a document whose processing raised an unforeseen exception.

        Args:
            what: What failed, as the start of a sentence.
            error: What was raised.
        """
        # Not imported at the top: `python -m` would look for it in the working folder. The package's first imports may
        # only be modules that Python has loaded by itself; for the same reason this file has no `__future__` import.
        import traceback

        steps = [(frame.f_globals.get("__name__", ""), line) for frame, line in traceback.walk_tb(error.__traceback__)]
        places = [f" in {module}, line {line}" for module, line in steps if module.startswith("heliograph.")]
        place = places[-1] if places else ""
        if isinstance(error, MemoryError):
            failure = cls(f"{what} needs more memory than there is{place}; split it, or give more memory")
        else:
            said = f"{type(error).__name__}: {error}".rstrip(": ")[:_LONGEST_RAISED]
            failure = cls(
                f"{what} could not be taken in because of a defect ({said}{place}), which leaves others as they are; "
                "the log has the traceback, please report it"
            )
        failure.traceback = "".join(traceback.format_exception(error))
        return failure


class CancelledIngestError(IngestError):
    """The run was cancelled before this document was finished; it stays pending."""


class AccessError(HeliographError):
    """The caller may not do this."""


class AuthenticationError(AccessError):
    """Credentials are missing, wrong, expired or revoked; for a known name the message never says which."""


class PermissionDenied(AccessError):  # noqa: N818
    """The credentials are good, but do not allow this, or not in this workspace."""


class OverloadedError(HeliographError):
    """Too many requests are running or waiting, or one client sends too many; retry after `retry_after_seconds`."""

    def __init__(self, message: str, retry_after_seconds: float) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class RequestTooLargeError(HeliographError):
    """A request is longer, or nested deeper, than the limits allow."""


class ServiceUnavailable(HeliographError):  # noqa: N818
    """A Heliograph service is out of reach, did not answer in time, or the address belongs to another program."""


class ClusterUnavailable(HeliographError):  # noqa: N818
    """The cluster that reads documents is out of reach, lacks a package or file, or has lost all its workers."""


class StoreError(HeliographError):
    """A store failed."""


class StoreUnavailable(StoreError):  # noqa: N818 (reads better than ...Error at every raise)
    """The store is closed, locked, full, read-only or out of reach."""


class StoreAccessDenied(StoreUnavailable):
    """The store's engine is reachable and refuses this user: the credentials are wrong, or lack a permission."""


class StoreDamaged(StoreUnavailable):
    """The store is damaged: a file was changed, cut off, removed or written by another program."""


class SchemaMismatch(StoreError):  # noqa: N818
    """The store was made by a newer version, or with another embedding model or dimension."""


class ModelError(HeliographError):
    """A chat, embedding or rerank model failed; if `is_transient`, the same call may succeed when retried."""

    is_transient = False


class RateLimited(ModelError):  # noqa: N818
    """The service limits the rate of calls, and may say how many seconds to wait."""

    is_transient = True

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class ModelTimeout(ModelError):  # noqa: N818
    """No reply came within the time allowed."""

    is_transient = True


class BadModelReply(ModelError):  # noqa: N818
    """A reply came that cannot be used."""


class ContextTooLong(ModelError):  # noqa: N818
    """The request is longer than the model's context window."""


class ModelUnavailable(ModelError):  # noqa: N818
    """The service is down (transient), or the address, credentials or model name is wrong (not)."""

    def __init__(self, message: str, *, is_transient: bool = False) -> None:
        super().__init__(message)
        self.is_transient = is_transient
