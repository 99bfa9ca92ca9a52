"""Failures as clients are told of them: what failed and what to do, and nothing of the inside of the process.

Where things lie on the machine is told to its operator alone. A tool's failure is a result with `isError`, which the
model reads and may act on. A resource has no such result, so its failure is an error of the protocol.
"""

from __future__ import annotations

import logging

from mcp.shared.exceptions import MCPError
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS, CallToolResult, TextContent
from pydantic import ValidationError

from heliograph.errors import HeliographError, InvalidRequestError, NotFoundError
from heliograph.service.principal import Principal, as_told

_LOG = logging.getLogger(__name__)
_UNEXPECTED = "it failed for a reason that is written in the log of the server; tell whoever runs it"
_MOST_PROBLEMS = 10
_WORDS = {"extra_forbidden": "there is no such argument", "missing": "it is missing"}


def tool_failure(name: str, error: Exception, principal: Principal | None) -> CallToolResult:
    """Return the result of a call that failed, as somebody may read it, or whoever is not known."""
    text = f"{name} failed: {as_told(_tell(name, error), principal)}"
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)


def resource_failure(uri: str, error: Exception, principal: Principal | None) -> MCPError:
    """Return the error of a resource that could not be read; see `tool_failure`."""
    is_callers = isinstance(error, NotFoundError | InvalidRequestError)
    told = as_told(_tell(uri, error), principal)
    return MCPError(INVALID_PARAMS if is_callers else INTERNAL_ERROR, told, {"uri": uri})


def _tell(name: str, error: Exception) -> str:
    if isinstance(error, ValidationError):
        return "the arguments are not valid; " + "; ".join(_problems(error))
    if isinstance(error, HeliographError):
        return " ".join([str(error), *getattr(error, "__notes__", ())])
    _LOG.error("%s failed unexpectedly", name, exc_info=error)
    return _UNEXPECTED


def _problems(error: ValidationError) -> list[str]:
    found = error.errors(include_url=False, include_context=False)
    told = [f"{'.'.join(map(str, item['loc'])) or 'all'}: {_WORDS.get(item['type'], item['msg'])}" for item in found]
    told = told[:_MOST_PROBLEMS]
    return [*told, f"and {len(found) - _MOST_PROBLEMS} more"] if len(found) > _MOST_PROBLEMS else told
