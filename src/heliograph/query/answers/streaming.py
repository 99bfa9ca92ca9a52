"""An answer that comes piece by piece: what it draws on first, then its text."""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from types import AsyncGeneratorType, TracebackType
from typing import Self

from heliograph.chat.base import ChatModel, ChatReply
from heliograph.errors import InvalidRequestError
from heliograph.query.answers.answer import answer_request, finished_answer
from heliograph.query.answers.written import WrittenAnswer
from heliograph.query.asked import Asked
from heliograph.query.models import Answer, Context, Reference
from heliograph.query.plan import Plan
from heliograph.query.retrieved import Retrieval
from heliograph.stores.base import RecordsStore


class AnswerStream:
    """The pieces of one answer, to be read once.

        stream = await engine.stream("Who keeps the light?")
        print(stream.references)
        async for piece in stream:
            print(piece, end="")

    Leaving the loop early cancels the call to the chat model; `aclose`, or an `async with` around it, waits until it
    is cancelled. Pieces raise `ModelError` as the model does.

    Attributes:
        retrieval: What was found for the question.
        answer: The whole answer, once the last piece was read; None before.
    """

    def __init__(
        self,
        plan: Plan,
        retrieval: Retrieval,
        source: ChatModel | Answer,
        records: RecordsStore,
        asked: Asked | None = None,
    ) -> None:
        """Take a ready answer as the only piece, or ask a chat model once the first piece is wanted.

        `asked` is told when the last piece was read, or reading was given up.
        """
        self.retrieval = retrieval
        self.answer: Answer | None = None
        self._plan = plan
        self._source = source
        self._records = records
        self._asked = asked or Asked(plan.mode)
        self._reading: weakref.ref[AsyncGenerator[str]] | None = None
        # Once reading has begun, its end is told; a stream that is closed before it tells so itself.
        self._is_begun = False

    @property
    def ready(self) -> Answer | None:
        """The answer where it is known before it is read, since no chat model writes it; else None."""
        return self._source if isinstance(self._source, Answer) else None

    @property
    def context(self) -> Context:
        """Entities, relations and chunks behind the answer."""
        return self.retrieval.context

    @property
    def references(self) -> tuple[Reference, ...]:
        """Documents behind the answer."""
        return self.retrieval.context.references

    def __aiter__(self) -> AsyncIterator[str]:
        """Start reading.

        Raises:
            InvalidRequestError: It was read or closed before.
        """
        if self._reading is not None or self._is_begun:
            raise InvalidRequestError("this stream has been read already or closed; ask again")
        source = self._source
        pieces = self._ready(source) if isinstance(source, Answer) else self._written(source)
        # Weak, so that leaving the loop drops the last reference and thereby ends the call.
        self._reading = weakref.ref(pieces)
        return pieces

    async def collect(self) -> Answer:
        """Read all pieces and return the whole answer."""
        async for _ in self:
            pass
        if self.answer is None:
            raise InvalidRequestError("this stream was closed while it was read; ask again")
        return self.answer

    async def _ready(self, answer: Answer) -> AsyncGenerator[str]:
        self._is_begun = True
        with self._asked:
            if answer.text:
                yield answer.text
            self.answer = answer

    async def _written(self, chat: ChatModel) -> AsyncGenerator[str]:
        self._is_begun = True
        written = WrittenAnswer(self._plan, self.retrieval)
        replies: list[ChatReply] = []
        request = replace(answer_request(self._plan, self.retrieval), on_finish=replies.append)
        with self._asked, self._asked.answering(in_pieces=True):
            pieces = chat.stream(request)
            async with AsyncExitStack() as stack:
                if isinstance(pieces, AsyncGenerator):
                    stack.push_async_callback(pieces.aclose)
                async for piece in pieces:
                    if shown := written.feed(piece):
                        yield shown
            if rest := written.finish():
                yield rest
            reply = replies[0] if replies else None
            self.answer = await finished_answer(self._plan, self.retrieval, written, reply, self._records)

    async def aclose(self) -> None:
        """Stop reading and end the call; closing twice does nothing. What was not begun cannot be read afterwards.

        Raises:
            InvalidRequestError: Another task waits for a piece; cancelling that task ends the call.
        """
        pieces = self._reading() if self._reading is not None else None
        if pieces is not None:
            if isinstance(pieces, AsyncGeneratorType) and pieces.ag_running:
                raise InvalidRequestError("this stream is being read by another task; cancel that task to end the call")
            await pieces.aclose()
        if not self._is_begun:
            self._is_begun = True
            self._asked.give_up()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
