"""Chooses the extractor that the settings ask for: by chat model, by local rules, or none.

`NoExtractor` reads nothing, for workspaces that want no graph: chunks, vectors and full text only. The others are
imported when one is made: most processes only ask questions, and need none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module

from heliograph.chat.base import ChatModel
from heliograph.errors import SettingsError
from heliograph.extraction.base import Extractor, ignore_progress
from heliograph.models import Chunk, Document, Extraction
from heliograph.settings import IngestSettings


class NoExtractor(Extractor):
    """Returns an empty extraction per chunk."""

    @property
    def name(self) -> str:
        return "none"

    async def extract(
        self,
        document: Document,  # noqa: ARG002 (nothing of it is read)
        chunks: Sequence[Chunk],
        on_chunk: Callable[[], None] = ignore_progress,
    ) -> list[Extraction]:
        for _ in chunks:
            on_chunk()
        return [Extraction(chunk.id, self.name) for chunk in chunks]


def choose_extractor(settings: IngestSettings, chat: ChatModel | None) -> Callable[[], Extractor]:
    """Return what makes the extractor of the settings; raises `SettingsError` if it needs a chat model."""
    wanted = settings.extractor
    if wanted == "none":
        return NoExtractor
    if wanted == "chat" and chat is None:
        raise SettingsError("ingest.extractor is 'chat' but no chat model is configured; set chat.model, or use 'auto'")
    if wanted == "local" or chat is None:
        return lambda: import_module("heliograph.extraction.local").LocalExtractor()
    return lambda: import_module("heliograph.extraction.chat").ChatExtractor(chat, settings)
