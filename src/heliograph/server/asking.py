"""How every route asks: in its turn, and only for as long as the client is there.

@router.post("/query")
async def query(body: QueryRequest, asker: CurrentAsker) -> Response:
    answer = await asker.answer(body.query, body.to_param())
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Request

from heliograph.engine import AsyncHeliograph
from heliograph.query.answers.streaming import AnswerStream
from heliograph.query.data import QueryData
from heliograph.query.models import Answer, QueryParam, Retrieval
from heliograph.server.dependencies import ReadEngine
from heliograph.server.openapi import responses
from heliograph.server.streaming import until_disconnect
from heliograph.service.admission import Admission
from heliograph.service.service import Service

# What every route that asks may fail with.
FAILURES = responses(400, 401, 403, 404, 413, 422, 429, 500, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks one workspace for one client.

    All methods raise `OverloadedError` if too many wait, and what the engine raises.

    Attributes:
        engine: The workspace.
        admission: Gives turns.
        client: Whose turn it is.
        request: The client's request.
    """

    engine: AsyncHeliograph
    admission: Admission
    client: str
    request: Request

    async def answer(self, question: str, param: QueryParam) -> Answer:
        """Return the whole answer.

        Raises:
            ClientGone: The client hung up, and the model's call was cancelled.
        """
        return await until_disconnect(self.request, self._answer(question, param))

    async def retrieve(self, question: str, param: QueryParam) -> Retrieval:
        """Return what an answer would be made from.

        Raises:
            ClientGone: The client hung up.
        """
        return await until_disconnect(self.request, self._retrieve(question, param))

    async def query_data(self, question: str, param: QueryParam) -> QueryData:
        """Return the same as a dict, without the text that a chat model would read; raises as `retrieve` does."""
        return await until_disconnect(self.request, self._query_data(question, param))

    @asynccontextmanager
    async def stream(
        self, question: str, param: QueryParam, progress: Callable[[str], None] | None = None
    ) -> AsyncGenerator[AnswerStream]:
        """Retrieve and lend the stream of the answer; the turn lasts until the block is left."""
        async with (
            self.admission.turn(self.client),
            await self.engine.query_stream(question, param, progress=progress) as stream,
        ):
            yield stream

    async def _answer(self, question: str, param: QueryParam) -> Answer:
        async with self.admission.turn(self.client):
            return await self.engine.query(question, param)

    async def _retrieve(self, question: str, param: QueryParam) -> Retrieval:
        async with self.admission.turn(self.client):
            return await self.engine.retrieve(question, param)

    async def _query_data(self, question: str, param: QueryParam) -> QueryData:
        async with self.admission.turn(self.client):
            return await self.engine.query_data(question, param)


async def _asker(request: Request, engine: ReadEngine) -> Asker:
    # The engine's own dependencies have left these; to ask for them again would double what FastAPI walks through.
    service = cast("Service", request.app.state.service)
    await service.access.count_query(request.state.principal)
    return Asker(engine, service.admission, request.state.principal.client, request)


CurrentAsker = Annotated[Asker, Depends(_asker)]
