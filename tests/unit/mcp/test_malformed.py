from __future__ import annotations

import pytest
from mcp.types import JSONRPCError, jsonrpc_message_adapter
from pydantic import ValidationError

from heliograph.mcp.stdio import TOO_LONG, Unanswered, answer_malformed

from .test_unanswered import Given, read_all


def parsing_error(line: str) -> ValidationError:
    """What the SDK hands on in place of the message."""
    with pytest.raises(ValidationError) as failure:
        jsonrpc_message_adapter.validate_json(line, by_name=False)
    return failure.value


def answer(line: str) -> JSONRPCError:
    reply = answer_malformed(parsing_error(line))
    assert reply is not None
    assert isinstance(reply.message, JSONRPCError)
    return reply.message


@pytest.mark.parametrize("line", ["garbage {", '{"jsonrpc": "2.0", "id": 1', "[" * 1_000, '{"a":' * 300, "(", TOO_LONG])
def test_what_is_no_json_is_a_parse_error_of_no_request(line: str) -> None:
    found = answer(line)
    assert (found.id, found.error.code) == (None, -32700)
    assert ("longer than" in found.error.message) == (line == TOO_LONG)


@pytest.mark.parametrize(
    ("line", "id_"),
    [
        ("null", None),
        ("[1]", None),
        ('{"jsonrpc": "2.0"}', None),
        ('{"jsonrpc": "2.0", "id": true, "method": 5}', None),
        ('{"jsonrpc": "2.0", "id": 3, "method": 5}', 3),
        ('{"jsonrpc": "2.0", "id": "a", "method": "ping", "params": [1]}', "a"),
        ('{"jsonrpc": "1.0", "id": 4, "method": "ping"}', 4),
    ],
)
def test_other_json_is_an_invalid_request_under_its_id_if_it_has_one(line: str, id_: int | str | None) -> None:
    found = answer(line)
    assert (found.id, found.error.code) == (id_, -32600)


@pytest.mark.parametrize("line", ["", " \r", '{"jsonrpc": "2.0", "id": 3, "result": 5}', '{"id": null, "error": {}}'])
def test_empty_lines_and_answers_are_not_answered(line: str) -> None:
    assert answer_malformed(parsing_error(line)) is None


def test_only_errors_of_parsing_are_answered() -> None:
    assert answer_malformed(ValueError("of the transport")) is None


async def test_answer_goes_out_and_the_error_on() -> None:
    unanswered, stream, error = Unanswered(1), Given(), parsing_error("garbage")
    assert await read_all(unanswered.reading(Given([error]), unanswered.writing(stream))) == [error]
    assert [item.message.error.code for item in stream.sent if isinstance(item.message, JSONRPCError)] == [-32700]
