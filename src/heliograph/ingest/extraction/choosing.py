"""Which extractor the settings ask for, given whether there is a chat model."""

from __future__ import annotations

from heliograph.chat.base import ChatModel
from heliograph.errors import SettingsError
from heliograph.ingest.extraction.base import Extractor
from heliograph.ingest.extraction.chat import ChatExtractor
from heliograph.ingest.extraction.local import LocalExtractor
from heliograph.ingest.extraction.none import NoExtractor
from heliograph.settings import IngestSettings

__all__ = ["choose_extractor"]


def choose_extractor(settings: IngestSettings, chat: ChatModel | None) -> Extractor:
    """Return the extractor of the settings.

    Args:
        settings: What is asked for.
        chat: The chat model, if there is one.

    Raises:
        SettingsError: Extraction by a chat model is asked for, and there is none.
    """
    wanted = settings.extractor
    if wanted == "none":
        return NoExtractor()
    if wanted == "chat" and chat is None:
        raise SettingsError("ingest.extractor is 'chat' but no chat model is configured; set chat.model, or use 'auto'")
    if wanted == "local" or chat is None:
        return LocalExtractor()
    return ChatExtractor(chat, settings)
