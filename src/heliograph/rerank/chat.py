"""A chat model as reranker: it reads the question and the first passages together, and says in which order they help.

Listwise, after RankGPT (Sun et al., "Is ChatGPT Good at Search?", EMNLP 2023): one call for all passages, so that they
are held against each other, and a list of their numbers in return. What the model leaves out keeps the order of the
search, behind what it named.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from heliograph.chat.base import ChatMessage, ChatModel, ChatRequest, Purpose
from heliograph.errors import BadModelReply
from heliograph.prompts import load_prompt
from heliograph.rerank.base import Reranker, RerankHit
from heliograph.text.tokens import token_ends

# Passages that are read at once; those behind them keep their places.
_MOST_PASSAGES = 20
# Of the reply: a number, brackets and a comma for each passage, and some words around them.
_NEEDED_TOKENS = 512
_NUMBER = re.compile(r"(?<![\w.])\d{1,2}(?![\w.]*\d)")


class ChatReranker(Reranker):
    """Asks a chat model for the order of the first 20 passages.

    Args:
        chat: The model; it stays the caller's to close.
        max_tokens: Tokens (o200k_base) of a passage that are shown to it.
    """

    def __init__(self, chat: ChatModel, max_tokens: int) -> None:
        self._chat = chat
        self._max_tokens = max_tokens

    @property
    def name(self) -> str:
        """The chat model's, and how much it reads."""
        return f"chat:{self._chat.name}/{self._max_tokens}"

    async def rerank(self, query: str, documents: Sequence[str], top_n: int) -> list[RerankHit]:
        """Return all passages in the model's order, up to `top_n`; scores fall evenly from 1 and stand for places only.

        Raises:
            ModelError: The model failed; `BadModelReply` if it names no passage.
        """
        if top_n < 1 or len(documents) < 2:
            return [RerankHit(index, 1.0) for index in range(min(len(documents), max(top_n, 0)))]
        read = documents[:_MOST_PASSAGES]
        passages = await asyncio.to_thread(lambda: "\n\n".join(map(self._shown, range(1, len(read) + 1), read)))
        messages = (
            ChatMessage("system", load_prompt("rerank")),
            ChatMessage("user", f"{passages}\n\nQuestion: {query}"),
        )
        request = ChatRequest(messages, Purpose.RERANK, needed_tokens=_NEEDED_TOKENS)
        reply = (await self._chat.complete(request)).text
        numbers = [int(number) - 1 for number in _NUMBER.findall(reply)]
        named = dict.fromkeys(index for index in numbers if 0 <= index < len(read))
        if not named:
            raise BadModelReply(f"the reply names no passage: {reply!r:.200}; try a more capable chat model")
        order = dict.fromkeys((*named, *range(len(documents))))
        return [RerankHit(index, 1 - place / len(order)) for place, index in enumerate(order)][:top_n]

    def _shown(self, number: int, passage: str) -> str:
        """Return a passage on one line behind its number, cut to its share."""
        ends = token_ends(passage)
        cut = passage if len(ends) <= self._max_tokens else passage[: int(ends[self._max_tokens - 1])]
        return f"[{number}] {' '.join(cut.split())}"
