"""What is answered to a line that is no message of the protocol, which the SDK passes over in silence.

The SDK hands on the error of its parser in place of the message. A line that is no JSON, or JSON nested too deeply, is
a parse error of JSON-RPC; other JSON is an invalid request. Empty lines are nothing, and what looks like an answer is
never answered, so that no two sides answer one another's errors for ever.
"""

from __future__ import annotations

from typing import Any

from mcp.shared.message import SessionMessage
from mcp.types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError, RequestId
from pydantic import ValidationError

from heliograph.mcp.pipes import TOO_LONG

_NO_JSON = "json_invalid"
_EXPECTED = "Invalid Request: give 'jsonrpc': '2.0', a 'method', 'params' as an object, and an 'id' to be answered"


def answer_malformed(error: Exception) -> SessionMessage | None:
    """Return what to answer to a line that could not be read, or None for nothing."""
    if not isinstance(error, ValidationError):
        return None
    problems = error.errors(include_url=False)
    first = problems[0]
    if first["type"] == _NO_JSON:
        line = str(first["input"])
        told = "the line is longer than any that is taken" if line == TOO_LONG else first["msg"]
        return _answer(None, PARSE_ERROR, f"Parse error: {told}") if line.strip() else None
    # Each kind of message has a field of its own that this one misses, which is told with the whole message.
    whole: Any = next((item["input"] for item in problems if item["type"] == "missing" and len(item["loc"]) == 2), None)
    if not isinstance(whole, dict):
        return _answer(None, INVALID_REQUEST, _EXPECTED)
    return None if {"result", "error"} & whole.keys() else _answer(_id_of(whole.get("id")), INVALID_REQUEST, _EXPECTED)


def _id_of(value: object) -> RequestId | None:
    return value if isinstance(value, int | str) and not isinstance(value, bool) else None


def _answer(id_: RequestId | None, code: int, message: str) -> SessionMessage:
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=id_, error=ErrorData(code=code, message=message)))
