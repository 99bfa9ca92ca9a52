"""Committing changes optimistically: draft outside any lock, apply, and draft again if something had changed.

Drafts of many documents are computed at once; only applying is one at a time. A draft that was refused is computed
again while no other commit of this process may come in between, so that the second try fails only if another process
writes; what the first try paid for (vectors, summaries) is not paid for again.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass

from heliograph.errors import ConflictError, StaleChangesetError
from heliograph.ingest.changes import Change, CurationChange, DocumentChange, DraftMemo
from heliograph.ingest.drafting import Drafter
from heliograph.models import Document, DocumentStatus, Usage
from heliograph.observing import stage
from heliograph.stores.base import Store
from heliograph.stores.changeset import Changeset

__all__ = ["Commit", "Committer"]

_MAX_TRIES = 6


@dataclass(frozen=True, slots=True)
class Commit:
    """What a commit did.

    Attributes:
        added_entities: How many more entities there are.
        added_relations: How many more relations there are.
        usage: Tokens that chat models spent on descriptions.
    """

    added_entities: int
    added_relations: int
    usage: Usage


class Committer:
    """Applies the changes of one pipeline to one store."""

    def __init__(self, store: Store, drafter: Drafter) -> None:
        self._store = store
        self._drafter = drafter
        self._applying = asyncio.Lock()

    async def commit(self, change: Change) -> Commit:
        """Draft a change and apply it in one transaction.

        Raises:
            ConflictError: The document itself was changed or deleted meanwhile, or other processes kept changing
                what it touches; nothing was applied.
            ModelError: A model failed; nothing was applied.
            StoreError: The store failed; nothing was applied.
        """
        memo = DraftMemo(vectors=dict(change.vectors))
        try:
            return await self._try(change, memo, self._applying)
        except StaleChangesetError:
            async with self._applying:
                return await self._commit_again(change, memo)

    async def apply(self, changeset: Changeset) -> int:
        """Apply a changeset that needs no draft; return the new data version."""
        async with self._applying:
            return await self._apply(changeset)

    async def _commit_again(self, change: Change, memo: DraftMemo) -> Commit:
        for _ in range(_MAX_TRIES):
            if isinstance(change, DocumentChange):
                await self._check_basis(change)
            try:
                return await self._try(change, memo, nullcontext())
            except StaleChangesetError:
                continue
        what = (
            f"{change.curations[0].kind.value} of {change.curations[0].names!r}"
            if isinstance(change, CurationChange)
            else f"the document {change.basis.id!r}"
        )
        raise ConflictError(
            f"{what} could not be committed: other processes changed the same entities {_MAX_TRIES} times in a row; "
            "try again when they have finished (documents: run resume)"
        )

    async def _try(self, change: Change, memo: DraftMemo, applying: AbstractAsyncContextManager[None]) -> Commit:
        draft = await self._drafter.draft(change, memo)
        # A removal does not hold the lock of ingests. Evidence was read before this check, so that a commit of the
        # same document is seen either here or by the versions.
        if isinstance(change, DocumentChange) and change.is_removal:
            await self._check_basis(change)
        async with applying:
            with stage("ingest.commit"):
                await self._apply(draft.changeset)
        return Commit(draft.added_entities, draft.added_relations, memo.usage)

    async def _check_basis(self, change: DocumentChange) -> None:
        basis = change.basis
        stored = await self._store.records.get_documents([basis.id])
        if [_state(item) for item in stored] != ([] if change.is_new else [_state(basis)]):
            raise ConflictError(
                f"the document {basis.id!r} was {'changed' if stored else 'deleted'} by another process while it was "
                "being worked on; what that process did stands"
            )

    async def _apply(self, changeset: Changeset) -> int:
        """Apply to the end even if cancelled, so that whoever cancels knows that nothing is under way any more."""
        applying = asyncio.ensure_future(self._store.apply(changeset))
        try:
            return await asyncio.shield(applying)
        except asyncio.CancelledError:
            await asyncio.gather(applying, return_exceptions=True)
            raise


def _state(document: Document) -> tuple[str, DocumentStatus, int]:
    return (document.content_hash, document.status, document.chunk_count)
