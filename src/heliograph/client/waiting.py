"""Waiting for documents to be finished, and reading a file to upload: what both faces do between two calls."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from heliograph.client.records import DocumentList, DocumentRecord
from heliograph.errors import InvalidRequestError, NotFoundError, ServiceUnavailable

__all__ = ["Upload", "Wait", "read_upload"]

_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Upload:
    """A file to upload."""

    content: bytes
    name: str


class Wait:
    """Follows the documents of one batch, page by page, until all are finished.

    Attributes:
        documents: Those seen in this round.
        offset: Where the next page begins.
        page_size: How many it holds.
        pause_seconds: How long to wait before the next page.
    """

    page_size = 1000

    def __init__(self, track_id: str, timeout_seconds: float) -> None:
        self.documents: tuple[DocumentRecord, ...] = ()
        self.pause_seconds = _FIRST_PAUSE_SECONDS
        self._track_id = track_id
        self._timeout_seconds = timeout_seconds
        self._deadline = time.monotonic() + timeout_seconds

    @property
    def offset(self) -> int:
        """Where the next page begins."""
        return len(self.documents)

    def take(self, page: DocumentList) -> bool:
        """Take in a page and return whether all is done.

        Raises:
            ServiceUnavailable: The time is over.
        """
        self.documents += page.documents
        is_finished = all(item.is_finished for item in page.documents)
        if is_finished and page.total and len(self.documents) >= page.total:
            return True
        if time.monotonic() > self._deadline:
            raise ServiceUnavailable(
                f"the documents of {self._track_id!r} are not finished after {self._timeout_seconds:g} seconds; "
                "they go on; wait again, or see jobs.list()"
            )
        if is_finished and page.documents:
            self.pause_seconds = 0.0
            return False
        self.documents = ()
        self.pause_seconds = min(_LONGEST_PAUSE_SECONDS, 1.5 * max(self.pause_seconds, _FIRST_PAUSE_SECONDS))
        return False


def read_upload(file: str | Path | bytes, name: str | None) -> Upload:
    """Return what to upload.

    Raises:
        InvalidRequestError: Bytes without a name.
        NotFoundError: The file cannot be read.
    """
    if isinstance(file, bytes):
        if not name:
            raise InvalidRequestError("bytes to upload need a name, whose ending says what they are; give name=")
        return Upload(file, name)
    try:
        return Upload(Path(file).read_bytes(), name or Path(file).name)
    except OSError as error:
        raise NotFoundError(f"the file {str(file)!r} cannot be read: {error.strerror or error}") from error
