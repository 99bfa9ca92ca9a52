"""Finished calls of chat models: what is kept of one, and the contract of where it is kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime

from heliograph.models import Usage


@dataclass(frozen=True, slots=True)
class CachedReply:
    """A finished model call.

    Attributes:
        key: `{mode}:{cache_type}:{args_hash}`.
        text: The reply.
        model: Name of the model that gave it.
        usage: What it cost.
        subject_id: The chunk, entity or relation it was asked about, if any; a commit that removes that chunk, or
            anything said of that entity or relation, drops it.
        created_at: When it came, UTC.
    """

    key: str
    text: str
    model: str
    usage: Usage
    created_at: datetime
    subject_id: str = ""

    @property
    def cache_type(self) -> str:
        """The middle part of the key; empty if it has no such part."""
        parts = self.key.split(":", 2)
        return parts[1] if len(parts) == 3 else ""


class ReplyCache(ABC):
    """Finished model calls, so that none is paid for twice."""

    @abstractmethod
    async def get_reply(self, key: str) -> CachedReply | None:
        """Return the reply under this key, or None."""

    @abstractmethod
    async def put_reply(self, reply: CachedReply) -> None:
        """Keep a reply, durably, in place of any under its key."""

    @abstractmethod
    async def delete_replies(self, cache_type: str | None = None) -> int:
        """Drop all replies, or those of one type (the middle part of their key); return how many."""

    async def list_replies(self, after: str, limit: int) -> list[CachedReply]:  # noqa: ARG002 (of those that can)
        """Return replies by ascending key, those after the key `after`; empty says that there are no more.

        For export. A cache that cannot list what it holds returns nothing, and its replies are not exported.
        """
        return []
