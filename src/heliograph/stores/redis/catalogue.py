"""The documents of a workspace in memory, so that a filter can be answered without reading all of them again.

What was read is brought up to date by the changes since; a mapping that was handed out never changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from heliograph.models import Document, Usage
from heliograph.stores.inspection import ScanKind
from heliograph.stores.redis.changes import CHANGED_IDS
from heliograph.stores.redis.documents_write import read_documents
from heliograph.stores.redis.session import Session

__all__ = ["Catalogue", "Documents"]

# Documents that are kept, at about a kilobyte each; of more, all are read for every data version.
_MOST_KEPT = 200_000
_MOST_REPLAYED = 20_000
_PAGE = 200
# ARGV: prefix, data version known and the token of its commit, how many changes are too many. Answers data version,
# token of the last commit, 1 if all is to be read anew, ids that changed.
_CHANGED = f"""{CHANGED_IDS}
local p, known, token = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local version = tonumber(redis.call('GET', p .. 'version') or '0')
local latest = redis.call('LINDEX', p .. 'commits', 0) or ''
if version == known and latest == token then return {{version, latest, 0, {{}}}} end
local ids = changed_ids(p, p .. 'changed:documents', version, known, token, tonumber(ARGV[4]))
return {{version, latest, ids and 0 or 1, ids or {{}}}}
"""


@dataclass(frozen=True, slots=True)
class Documents:
    """The documents of one data version, or of a little later.

    Attributes:
        version: The data version.
        token: Token of its commit.
        by_id: The documents, without errors, usage and pages.
    """

    version: int = -1
    token: str = ""
    by_id: Mapping[str, Document] = field(default_factory=dict[str, Document])


class Catalogue:
    """Documents, as of the last commit when they are asked for.

    Args:
        session: Reads the keys.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known = Documents()
        self._lock = asyncio.Lock()

    async def get_version(self) -> int:
        """Return the data version that Redis has now."""
        return int(await self._session.read_one("GET", self._session.keys.version) or 0)

    async def catch_up(self) -> Documents:
        """Return the documents there are."""
        async with self._lock:
            known = await self._replay(self._known)
            while known is None:
                known = await self._replay(await self._load())
            self._known = known if len(known.by_id) <= _MOST_KEPT else Documents()
            return known

    async def _replay(self, known: Documents) -> Documents | None:
        """Return the documents as of now; None if too much has changed, or nothing is known."""
        arguments = self._session.keys.prefix, known.version, known.token, _MOST_REPLAYED
        version, token, is_too_far, ids = await self._session.read_one("EVAL", _CHANGED, 0, *arguments)
        if is_too_far:
            return None
        if not ids:
            return replace(known, version=version, token=token)
        changed = set(ids)
        left = {id_: item for id_, item in known.by_id.items() if id_ not in changed}
        return Documents(version, token, left | await self._read(ids))

    async def _load(self) -> Documents:
        arguments = self._session.keys.prefix, -1, "", 0
        version, token, *_ = await self._session.read_one("EVAL", _CHANGED, 0, *arguments)
        found: dict[str, Document] = {}
        async for ids in self._session.scan_pages(ScanKind.DOCUMENTS, _PAGE):
            found |= await self._read(ids)
        return Documents(version, token, found)

    async def _read(self, ids: Sequence[str]) -> dict[str, Document]:
        found: dict[str, Document] = {}
        for start in range(0, len(ids), _PAGE):
            documents = await read_documents(self._session, ids[start : start + _PAGE])
            slim = {id_: replace(item, error="", usage=Usage(), page_starts=()) for id_, item in documents.items()}
            found |= slim
        return found
