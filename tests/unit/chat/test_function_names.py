"""What a function that stands for a model is called, since kept answers are found by it."""

from __future__ import annotations

from functools import partial

from heliograph.functions import name_of


def _reply(model: str, messages: list[dict[str, str]]) -> str:
    return f"{model}: {messages}"


class _Model:
    def __call__(self, messages: list[dict[str, str]]) -> str:
        return str(messages)


def test_function_and_object_are_called_by_module_and_name() -> None:
    assert name_of(_reply) == f"{__name__}._reply"
    assert name_of(_Model()) == f"{__name__}._Model"


def test_partials_of_one_function_have_names_of_their_own_that_tell_no_secret() -> None:
    one, other = name_of(partial(_reply, "small", key="secret")), name_of(partial(_reply, "large", key="secret"))

    assert one != other
    assert one == name_of(partial(_reply, "small", key="secret"))
    assert one.startswith(f"{__name__}._reply#")
    assert "secret" not in one
