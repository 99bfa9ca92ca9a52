"""Documents that become ready while a commit is under way are committed together, by the next one.

What several of them mention is then read, folded, embedded and written once, and all share one transaction: each is
still in every projection or in none, and none waits for another to become ready. Only new documents that no alias
concerns go together; a joint commit that fails is taken apart, so that what fails for one document fails for it alone.
While a document waits, its passages are embedded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field, replace
from itertools import chain

from heliograph.ingest.changes import DocumentChange
from heliograph.ingest.commit import Commit, Committer
from heliograph.ingest.drafting import Drafter
from heliograph.ingest.tasks import gather_or_cancel
from heliograph.models import Usage

__all__ = ["JointCommits", "is_plain", "joined"]

# Bounds how long a transaction keeps other writers waiting.
_MOST_CHUNKS = 64


def is_plain(change: DocumentChange) -> bool:
    """Whether a change only adds what was read in a document that had no chunks, and no alias of a name is among it."""
    if change.document is None or change.is_new or change.text is not None:
        return False
    others = (change.removed_chunks, change.replaced, change.dropped_texts, change.others, change.gone, change.expected)
    return not any(others) and not any(item.aliases for item in change.extractions)


def joined(changes: Sequence[DocumentChange]) -> DocumentChange:
    """Return one change that does what several do, all of them plain."""
    first, *others = changes
    return replace(
        first,
        chunks=tuple(chain.from_iterable(item.chunks for item in changes)),
        extractions=tuple(chain.from_iterable(item.extractions for item in changes)),
        passages={id_: text for item in changes for id_, text in item.passages.items()},
        terms=tuple(chain.from_iterable(item.terms for item in changes)),
        vectors={text: vector for item in changes for text, vector in item.vectors.items()},
        others=tuple(item.document for item in others if item.document is not None),
        expected={item.basis.id: item.basis.content_hash for item in others},
        is_joint=bool(others),
    )


@dataclass(slots=True, eq=False)
class _Waiting:
    """A document that waits to be committed, and what became of it."""

    change: DocumentChange
    outcome: asyncio.Future[Commit]
    context: Context = field(default_factory=copy_context)

    def settle(self, outcome: Commit | BaseException | None) -> None:
        """Tell it, unless it waits no more; None is that nobody will commit it."""
        if self.outcome.done():
            return
        if outcome is None:
            self.outcome.cancel()
        elif isinstance(outcome, BaseException):
            self.outcome.set_exception(outcome)
        else:
            self.outcome.set_result(outcome)


class JointCommits:
    """Commits what becomes of documents, plain changes together, one joint commit at a time.

    Args:
        committer: Commits one change, which may be joint.
        drafter: Embeds the passages of what waits.
        most_documents: Documents of one commit; 1 commits each by itself, several at a time.
    """

    def __init__(self, committer: Committer, drafter: Drafter, most_documents: int) -> None:
        self._committer = committer
        self._drafter = drafter
        self._most_documents = most_documents
        self._waiting: list[_Waiting] = []
        self._group: list[_Waiting] = []
        self._task: asyncio.Task[None] | None = None

    async def commit(self, change: DocumentChange) -> Commit:
        """Commit a change, with others if they are ready; raises as `Committer.commit` does for it alone.

        What a joint commit added is told of one of its documents.
        """
        if self._most_documents == 1 or not is_plain(change):
            return await self._committer.commit(change)
        if self._task is not None:
            change = await self._drafter.with_vectors(change)
        waiting = _Waiting(change, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._begin()
        try:
            return await waiting.outcome
        except asyncio.CancelledError:
            await self._leave(waiting)
            raise

    def _begin(self) -> None:
        if self._task is None and self._waiting:
            self._group = self._take()
            work = self._commit_group(self._group)
            self._task = asyncio.get_running_loop().create_task(work, context=self._group[0].context)
            self._task.add_done_callback(self._end)

    def _take(self) -> list[_Waiting]:
        """Take the first in line and as many after it as may go with it."""
        count, chunks = 1, len(self._waiting[0].change.chunks)
        for waiting in self._waiting[1 : self._most_documents]:
            chunks += len(waiting.change.chunks)
            if chunks > _MOST_CHUNKS:
                break
            count += 1
        group, self._waiting = self._waiting[:count], self._waiting[count:]
        return group

    async def _commit_group(self, group: Sequence[_Waiting]) -> None:
        if len(group) == 1:
            return await self._commit_alone(group[0])
        try:
            commit = await self._committer.commit(joined([waiting.change for waiting in group]))
        except Exception:  # noqa: BLE001 (not swallowed: whose it is meets it again alone)
            await gather_or_cancel(map(self._commit_alone, group))
            return None
        for waiting in group:
            waiting.settle(commit)
            commit = Commit(0, 0, Usage())
        return None

    async def _commit_alone(self, waiting: _Waiting) -> None:
        try:
            waiting.settle(await self._committer.commit(waiting.change))
        except Exception as error:  # noqa: BLE001 (not swallowed: the document gets it)
            waiting.settle(error)

    def _end(self, task: asyncio.Task[None]) -> None:
        for waiting in self._group:
            waiting.settle(None if task.cancelled() else task.exception())
        self._group, self._task = [], None
        self._begin()

    async def _leave(self, waiting: _Waiting) -> None:
        """Leave the line; or see the commit under way to its end, which is soon if nobody else waits for it."""
        if waiting in self._waiting:
            self._waiting.remove(waiting)
        elif waiting in self._group and self._task is not None:
            if all(other.outcome.cancelled() for other in self._group):
                self._task.cancel()
            await asyncio.wait([self._task])
