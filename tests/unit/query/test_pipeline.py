from __future__ import annotations

from typing import Any

import pytest

from heliograph.chat.base import ChatRequest, Purpose
from heliograph.embedding.base import waits_as
from heliograph.errors import BadModelReply, InvalidRequestError, ModelTimeout, ModelUnavailable
from heliograph.query.answers.models import AnswerKind
from heliograph.query.models import QueryParam
from heliograph.testing.fakes import FakeChatModel

from .world import World

QUESTION = "What is this passage?"
NAIVE = QueryParam(mode="naive")
HISTORY = [{"role": "user", "content": "Before?"}, {"role": "assistant", "content": "Yes."}]


@pytest.fixture
async def filled(world: World) -> World:
    await world.chunk("p", score=0.9)
    await world.entity("A", "p", score=0.9)
    return world


async def test_chat_model_answers_from_the_context(filled: World) -> None:
    chat = FakeChatModel("It is p [1].")
    answer = await filled.engine(chat).query(QUESTION, NAIVE)
    assert answer.text == "It is p [1].\n\n### References\n\n- [1] a.md"
    assert (answer.kind, answer.is_generated) == (AnswerKind.GENERATED, True)
    assert [reference.source for reference in answer.references] == ["a.md"]
    (request,) = chat.requests
    assert request.purpose is Purpose.ANSWER
    assert [message.role for message in request.messages] == ["system", "user"]
    assert answer.context.text in request.messages[0].content
    assert request.messages[1].content == QUESTION
    assert answer.usage.output_tokens > 0


async def test_usage_covers_keywords_and_answer(filled: World) -> None:
    chat = FakeChatModel({Purpose.KEYWORDS: '{"high_level": ["a"], "low_level": ["b"]}', Purpose.ANSWER: "It is."})
    answer = await filled.engine(chat).query(QUESTION)
    assert len(chat.requests) == 2
    assert answer.usage.input_tokens > answer.retrieval.usage.input_tokens > 0


async def test_history_goes_between_prompt_and_question(filled: World) -> None:
    chat = FakeChatModel("x")
    await filled.engine(chat).query(QUESTION, QueryParam(mode="naive", conversation_history=HISTORY))
    assert [message.content for message in chat.requests[0].messages[1:]] == ["Before?", "Yes.", QUESTION]


async def test_context_alone_needs_no_model(filled: World) -> None:
    chat = FakeChatModel()
    answer = await filled.engine(chat).query(QUESTION, QueryParam(mode="naive", only_need_context=True))
    assert (answer.kind, answer.text) == (AnswerKind.CONTEXT, answer.context.text)
    assert "This is passage p." in answer.text
    assert not chat.requests


async def test_prompt_alone_shows_what_the_model_would_get(filled: World) -> None:
    param = QueryParam(mode="naive", only_need_context=True, only_need_prompt=True)
    answer = await filled.engine().query(QUESTION, param)
    assert answer.kind is AnswerKind.PROMPT
    assert answer.context.text in answer.text
    assert answer.text.endswith(f"\n\n---User Query---\n\n{QUESTION}")


async def test_without_a_chat_model_the_answer_is_quoted(filled: World) -> None:
    answer = await filled.engine().query(QUESTION, NAIVE)
    assert (answer.kind, answer.is_generated) == (AnswerKind.EXTRACTIVE, False)
    assert "This is passage p. [1]" in answer.text
    assert "[1] a.md" in answer.text


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_what_an_answer_embeds_does_not_wait_behind_documents(filled: World, is_streamed: bool) -> None:
    await filled.engine().query(QUESTION, QueryParam(mode="naive", stream=is_streamed))
    assert "document" in [kind for kind, _ in filled.embedding.calls]
    assert set(filled.embedding.waited_as) == {"query"}
    assert waits_as("document") == "document"


@pytest.mark.parametrize("chat", [None, FakeChatModel("made up")])
async def test_nothing_found_is_said_and_no_model_is_asked(world: World, chat: FakeChatModel | None) -> None:
    answer = await world.engine(chat).query(QUESTION, NAIVE)
    assert (answer.kind, answer.is_generated) == (AnswerKind.NOTHING_FOUND, False)
    assert "Nothing was found" in answer.text
    assert answer.retrieval.status == "failure"
    assert chat is None or not chat.requests


@pytest.mark.parametrize("param", [{"only_need_context": True}, {"only_need_prompt": True}])
async def test_nothing_found_is_no_context_and_no_prompt(world: World, param: dict[str, bool]) -> None:
    answer = await world.engine().query(QUESTION, QueryParam(mode="naive", **param))
    assert (answer.kind, answer.text) == (AnswerKind.NOTHING_FOUND, "")


async def test_bypass_talks_to_the_model_alone(filled: World) -> None:
    chat = FakeChatModel("Hello!")
    param = QueryParam(mode="bypass", conversation_history=HISTORY, user_prompt="ignored")
    answer = await filled.engine(chat).query("Hi", param)
    assert answer.text == "Hello!"
    assert [message.content for message in chat.requests[0].messages] == ["Before?", "Yes.", "Hi"]
    await filled.engine(chat).query("Hi", QueryParam(mode="bypass", system_prompt="Be {kind}."))
    assert chat.requests[1].messages[0].content == "Be {kind}."
    assert not filled.embedding.calls


async def test_bypass_without_a_model_says_what_to_configure(filled: World) -> None:
    with pytest.raises(InvalidRequestError, match="HELIOGRAPH_CHAT__MODEL"):
        await filled.engine().query("Hi", QueryParam(mode="bypass"))
    with pytest.raises(InvalidRequestError, match="HELIOGRAPH_CHAT__MODEL"):
        await filled.engine().stream("Hi", QueryParam(mode="bypass"))


async def test_own_model_takes_the_place_of_the_configured_one(filled: World) -> None:
    configured = FakeChatModel("configured")
    own = FakeChatModel({Purpose.KEYWORDS: '{"low_level": ["b"], "high_level": ["a"]}', Purpose.ANSWER: "own"})
    answer = await filled.engine(configured).query(QUESTION, QueryParam(chat_model=own))
    assert answer.text == "own"
    assert (len(own.requests), len(configured.requests)) == (2, 0)


async def test_own_prompt_is_used_and_dropped_instructions_are_warned_of(filled: World) -> None:
    chat = FakeChatModel("x")
    param = QueryParam(mode="naive", system_prompt="Only this: {context_data}", user_prompt="Rhyme.")
    answer = await filled.engine(chat).query(QUESTION, param)
    assert chat.requests[0].messages[0].content == f"Only this: {answer.context.text}"
    assert any("user_prompt" in warning for warning in answer.warnings)


@pytest.mark.parametrize("error", [ModelUnavailable("down"), ModelTimeout("late"), BadModelReply("odd")])
async def test_model_failure_is_an_error_never_an_answer(filled: World, error: Exception) -> None:
    chat = FakeChatModel("x")
    chat.fail_next(error)
    with pytest.raises(type(error)):
        await filled.engine(chat).query(QUESTION, NAIVE)


async def test_outage_while_finding_keywords_is_an_error(filled: World) -> None:
    chat = FakeChatModel("x")
    chat.fail_next(ModelUnavailable("down"))
    with pytest.raises(ModelUnavailable):
        await filled.engine(chat).query_data(QUESTION)


async def test_answer_is_left_as_the_model_wrote_it(filled: World) -> None:
    text = f"user model {QUESTION} <system> " * 500
    answer = await filled.engine(FakeChatModel(text)).query(QUESTION, NAIVE)
    assert answer.text == text


async def test_cut_answer_says_so(filled: World) -> None:
    answer = await filled.engine(FakeChatModel("half an", is_complete=False)).query(QUESTION, NAIVE)
    assert not answer.is_complete
    assert "cut at a length limit" in answer.warnings[-1]


async def test_progress_ends_with_the_answer(filled: World) -> None:
    stages: list[str] = []
    await filled.engine(FakeChatModel("x")).query(QUESTION, NAIVE, stages.append)
    assert stages == ["retrieving_chunks", "generating_response"]


async def test_keyword_reply_that_is_unusable_still_gives_an_answer(filled: World) -> None:
    def reply(request: ChatRequest) -> str:
        return "no json" if request.purpose is Purpose.KEYWORDS else "It is p."

    answer = await filled.engine(FakeChatModel(reply)).query(QUESTION, QueryParam(mode="mix"))
    assert answer.text == "It is p."
    assert any("no usable keywords" in warning for warning in answer.warnings)


async def test_default_mode_is_auto(filled: World) -> None:
    answer: Any = await filled.engine().query(QUESTION)
    assert answer.mode == "auto"
