"""Builds the chat model that the settings ask for, with its wrappers in the one order that works.

From the outside in, and why there:

1. cache: what is kept costs nothing, so it waits for no slot and is not counted;
2. retry: outside the limit, so that a call which waits to be tried again holds no slot meanwhile, and stands in line
   with its priority when its time comes;
3. limit: outside the timeout, so that waiting in line does not count as time of the model;
4. meter: inside the limit and the retries, so that it counts calls that were made, each try on its own;
5. timeout: inside the meter, so that a timeout counts as a failure of that try;
6. the provider.
"""

from __future__ import annotations

from heliograph.calls.limit import CallGuard, RetryPolicy
from heliograph.chat.base import ChatModel
from heliograph.chat.cache import CachedChatModel
from heliograph.chat.wrappers import ChatMeter, GuardedChatModel
from heliograph.errors import SettingsError, import_optional
from heliograph.settings import ChatSettings
from heliograph.stores.base import ReplyCache


def build_chat_model(
    settings: ChatSettings, replies: ReplyCache | None, meter: ChatMeter | None = None
) -> ChatModel | None:
    """Return the chat model of the settings, or None when they name none.

    Args:
        settings: What to call and how.
        replies: Where replies are kept; None keeps none.
        meter: Where to count what is spent; None makes a meter of its own.

    Raises:
        SettingsError: The address or the key cannot be used.
    """
    model = connect_chat_model(settings)
    return None if model is None else wrap_chat_model(model, settings, replies, meter)


def connect_chat_model(settings: ChatSettings) -> ChatModel | None:
    """Return the bare provider of the settings, for several workspaces to wrap, or None when they name none.

    Raises:
        SettingsError: The address or the key cannot be used, or there is an address and no model.
        MissingDependencyError: There is a model, and the extra `openai` is not installed.
    """
    if not settings.model.strip():
        if settings.base_url.strip():
            raise SettingsError("chat.base_url is set, but chat.model is empty; name the model, or leave both out")
        return None
    # Imported on use: the SDK behind it takes longer to import than all of Heliograph.
    return import_optional("heliograph.chat.openai", "openai").OpenAIChatModel(settings)


def wrap_chat_model(
    model: ChatModel, settings: ChatSettings, replies: ReplyCache | None, meter: ChatMeter | None = None
) -> ChatModel:
    """Return any chat model (a caller's own, for example) within the same wrappers.

    Args:
        model: The model to wrap; its own `name` is part of every cache key.
        settings: Timeout, concurrency, retries, and whether to keep replies.
        replies: Where replies are kept; None keeps none.
        meter: Where to count what is spent; None makes a meter of its own.
    """
    guard = CallGuard(settings.max_concurrency, settings.timeout_seconds, RetryPolicy(settings.max_retries))
    guarded = GuardedChatModel(model, guard, meter)
    return CachedChatModel(guarded, replies) if settings.cache and replies is not None else guarded
