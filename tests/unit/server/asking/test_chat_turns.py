from __future__ import annotations

import pytest

from heliograph.errors import InvalidRequestError
from heliograph.models import Mode
from heliograph.server.routes.chat_clients import Command, read_command, read_turn
from heliograph.wire.query import QueryFields

NO_OPTIONS = QueryFields.model_validate({})


@pytest.mark.parametrize("mode", list(Mode))
def test_command_names_a_mode(mode: Mode) -> None:
    assert read_command(f"/{mode.value} What is it?") == Command("What is it?", mode)


@pytest.mark.parametrize("mode", [mode for mode in Mode if mode is not Mode.BYPASS])
def test_command_asks_for_the_context_alone(mode: Mode) -> None:
    assert read_command(f"/{mode.value}context What is it?") == Command("What is it?", mode, only_context=True)


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("What is it?", Command("What is it?")),
        ("/context What is it?", Command("What is it?", only_context=True)),
        ("/mix[in a table] What is it?", Command("What is it?", Mode.MIX, instruction="in a table")),
        ("/mix[in a table]What is it?", Command("What is it?", Mode.MIX, instruction="in a table")),
        ("/[in a table] What is it?", Command("What is it?", instruction="in a table")),
        ("/localcontext[short] Why?", Command("Why?", Mode.LOCAL, only_context=True, instruction="short")),
        ("  /naive\nWhat is it?", Command("What is it?", Mode.NAIVE)),
        ("/naive", Command("", Mode.NAIVE)),
        ("/[]", Command("")),
        ("/", Command("/")),
        ("/naively put, what is it?", Command("/naively put, what is it?")),
        ("/contextual what?", Command("/contextual what?")),
        ("/bypasscontext what?", Command("/bypasscontext what?")),
        ("/etc/hosts is what?", Command("/etc/hosts is what?")),
        ("/mix[never closed", Command("/mix[never closed")),
        ("/LOCAL what?", Command("/LOCAL what?")),
        ("what does /naive do?", Command("what does /naive do?")),
        ("/mix 水位是多少？", Command("水位是多少？", Mode.MIX)),
    ],
)
def test_command_is_read_from_the_beginning(text: str, command: Command) -> None:
    assert read_command(text) == command


def test_turn_is_the_last_message_and_what_came_before() -> None:
    messages = [
        ("system", "Be brief."),
        ("user", "Hello"),
        ("assistant", "Hello."),
        ("user", "/naive[in a table] What is it?"),
    ]
    question, param = read_turn(messages, Mode.MIX, NO_OPTIONS)
    assert question == "What is it?"
    assert param.mode is Mode.NAIVE
    assert param.user_prompt == "Be brief.\n\nin a table"
    assert [item["content"] for item in param.conversation_history] == ["Hello", "Hello."]


def test_turn_in_mode_bypass_has_the_system_messages_as_its_prompt() -> None:
    messages = [("system", "Be brief."), ("user", "/bypass Tell a story")]
    _, param = read_turn(messages, Mode.MIX, NO_OPTIONS, "Rhyme.")
    assert param.system_prompt == "Rhyme.\n\nBe brief."
    assert param.user_prompt is None


def test_turn_of_a_clients_own_task_goes_to_the_model_alone() -> None:
    task = "Give a title.\n<chat_history>\nUSER: /naive What is it?\n</chat_history>"
    question, param = read_turn([("user", task)], Mode.MIX, NO_OPTIONS)
    assert param.mode is Mode.BYPASS
    assert question == task


def test_mode_comes_from_the_command_then_the_options_then_the_model() -> None:
    question = ("user", "What is it?")
    options = QueryFields.model_validate({"mode": "fusion"})
    assert read_turn([question], Mode.AUTO, NO_OPTIONS)[1].mode is Mode.AUTO
    assert read_turn([question], Mode.AUTO, options)[1].mode is Mode.FUSION
    assert read_turn([("user", "/local Who?")], Mode.AUTO, options)[1].mode is Mode.LOCAL


def test_turn_leaves_out_what_tools_said_and_calls_without_a_word() -> None:
    messages = [
        ("user", "Hello"),
        ("assistant", ""),
        ("tool", "42"),
        ("assistant", "Hello."),
        ("user", "What is it?"),
    ]
    _, param = read_turn(messages, Mode.MIX, NO_OPTIONS)
    assert [item["content"] for item in param.conversation_history] == ["Hello", "Hello."]


@pytest.mark.parametrize("role", ["tool", "function", ""])
def test_turn_that_ends_with_a_tool_asks_what_the_user_asked_last(role: str) -> None:
    messages = [
        ("user", "Hello"),
        ("assistant", "Hello."),
        ("user", "/naive What is it?"),
        ("assistant", "I look it up."),
        (role, "/bypass 42"),
        (role, "43"),
    ]
    question, param = read_turn(messages, Mode.MIX, NO_OPTIONS)
    assert (question, param.mode) == ("What is it?", Mode.NAIVE)
    assert [item["content"] for item in param.conversation_history] == ["Hello", "Hello."]


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [("tool", "42")],
        [("assistant", "Hello")],
        [("user", "What is it?"), ("assistant", "")],
    ],
)
def test_turn_needs_a_question(messages: list[tuple[str, str]]) -> None:
    with pytest.raises(InvalidRequestError, match="role 'user'"):
        read_turn(messages, Mode.MIX, NO_OPTIONS)
