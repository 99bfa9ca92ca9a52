"""From a retrieval to an `Answer`: by a chat model, or without one.

What needs no model comes from `answer_offline`: the context or prompt that was asked for in place of an answer, the
statement that nothing was found, and, where no chat model is configured, quoted sentences. A model that fails raises;
its failure never turns into an answer. What a model writes passes through a `WrittenAnswer`, which keeps its citations
true to the context.
"""

from __future__ import annotations

from heliograph.chat.base import ChatMessage, ChatModel, ChatReply, ChatRequest, Purpose
from heliograph.errors import InvalidRequestError
from heliograph.models import Usage
from heliograph.query.answers.extractive import nothing_found, quote_answer
from heliograph.query.answers.written import WrittenAnswer
from heliograph.query.context.prompt import drops_user_prompt, show_prompt, system_prompt
from heliograph.query.models import Answer, AnswerKind
from heliograph.query.plan import Plan
from heliograph.query.retrieved import Retrieval
from heliograph.stores.base import RecordsStore

# Of the longest answer that somebody reads; long reports have half of it.
_NEEDED_TOKENS = 8192


def answering_model(plan: Plan, retrieval: Retrieval, chat: ChatModel | None) -> ChatModel | None:
    """Return the chat model if it is to write the answer, or None when none is needed or there.

    Raises:
        InvalidRequestError: The mode is bypass and there is no chat model.
    """
    if plan.param.only_need_context or plan.param.only_need_prompt or retrieval.failure is not None:
        return None
    if chat is None and not plan.channels:
        raise InvalidRequestError(
            f"mode {plan.mode.value!r} needs a chat model and none is configured; set HELIOGRAPH_CHAT__MODEL, "
            "give QueryParam(chat_model=...), or use another mode"
        )
    return chat


async def answer_offline(plan: Plan, retrieval: Retrieval, records: RecordsStore) -> Answer:
    """Return the answer for which no chat model is needed, or none is there.

    Raises:
        StoreError: The documents that are quoted cannot be read.
    """
    if retrieval.failure is not None:
        is_answer = not (plan.param.only_need_context or plan.param.only_need_prompt)
        return _answer(plan, retrieval, nothing_found(retrieval) if is_answer else "", AnswerKind.NOTHING_FOUND)
    if plan.param.only_need_prompt:
        return _answer(plan, retrieval, show_prompt(plan, _prompt(plan, retrieval)), AnswerKind.PROMPT)
    if plan.param.only_need_context:
        return _answer(plan, retrieval, retrieval.context.text, AnswerKind.CONTEXT)
    # What was understood is of the question as it was written.
    understanding = None if retrieval.respelt else retrieval.understanding
    question = retrieval.respelt or plan.question
    quoted = await quote_answer(question, retrieval.context, records, understanding)
    if not quoted.text:
        return _answer(plan, retrieval, nothing_found(retrieval), AnswerKind.NOTHING_FOUND)
    return Answer(
        quoted.text,
        AnswerKind.EXTRACTIVE,
        retrieval,
        warnings=retrieval.warnings,
        usage=retrieval.usage,
        citations=quoted.citations,
    )


async def answer_with(chat: ChatModel, plan: Plan, retrieval: Retrieval, records: RecordsStore) -> Answer:
    """Return the answer that a chat model writes.

    Raises:
        ModelError: It failed.
        StoreError: The documents that are cited cannot be read.
    """
    reply = await chat.complete(answer_request(plan, retrieval))
    written = WrittenAnswer(plan, retrieval)
    written.feed(reply.text)
    written.finish()
    return await finished_answer(plan, retrieval, written, reply, records)


def answer_request(plan: Plan, retrieval: Retrieval) -> ChatRequest:
    """Return what the chat model is asked: system prompt, history, question."""
    prompt = _prompt(plan, retrieval)
    system = (ChatMessage("system", prompt),) if prompt else ()
    messages = (*system, *plan.history, ChatMessage("user", plan.question))
    return ChatRequest(messages, Purpose.ANSWER, needed_tokens=_NEEDED_TOKENS)


async def finished_answer(
    plan: Plan, retrieval: Retrieval, written: WrittenAnswer, reply: ChatReply | None, records: RecordsStore
) -> Answer:
    """Return what a chat model wrote as an answer; `reply` is None when a stream did not tell how it ended."""
    grounding = await written.ground(records)
    answer = _answer(plan, retrieval, written.text, AnswerKind.GENERATED)
    is_complete = reply is None or reply.is_complete
    cut = () if is_complete else ("the answer was cut at a length limit, or because it went on without an end",)
    spent = Usage() if reply is None or reply.from_cache else reply.usage
    return Answer(
        written.text,
        AnswerKind.GENERATED,
        retrieval,
        is_complete=is_complete,
        from_cache=reply is not None and reply.from_cache,
        warnings=(*answer.warnings, *written.warnings(grounding), *cut),
        usage=retrieval.usage + spent,
        citations=grounding.citations,
        unsupported_references=written.dropped,
        unsupported_sentences=grounding.unsupported,
        is_unanswered=written.is_unanswered,
    )


def _answer(plan: Plan, retrieval: Retrieval, text: str, kind: AnswerKind) -> Answer:
    warnings = retrieval.warnings
    if drops_user_prompt(plan) and kind in (AnswerKind.GENERATED, AnswerKind.PROMPT):
        warnings = (*warnings, "system_prompt has no {user_prompt}, so user_prompt is not used")
    is_unanswered = kind is AnswerKind.NOTHING_FOUND
    return Answer(text, kind, retrieval, warnings=warnings, usage=retrieval.usage, is_unanswered=is_unanswered)


def _prompt(plan: Plan, retrieval: Retrieval) -> str:
    """Return the system prompt; in a mode that searches nothing only the caller's, as it is."""
    return system_prompt(plan, retrieval.context.text) if plan.channels else plan.system_prompt
