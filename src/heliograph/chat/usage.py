"""Estimating the tokens of a call whose provider does not tell."""

from __future__ import annotations

import asyncio

from heliograph.chat.base import ChatRequest
from heliograph.models import Usage
from heliograph.text.tokens import count_tokens

# What wraps each message in the common chat formats: its role and two or three markers.
_TOKENS_PER_MESSAGE = 4


async def estimate_usage(request: ChatRequest, text: str) -> Usage:
    """Return the `o200k_base` tokens of a request and of the text that came back."""
    return await asyncio.to_thread(_count, request, text)


def _count(request: ChatRequest, text: str) -> Usage:
    read = sum(count_tokens(message.content) + _TOKENS_PER_MESSAGE for message in request.messages)
    return Usage(read, count_tokens(text))
