"""How the service's log is written: to standard error, each line with the id of the request that caused it."""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any

from heliograph.observing import REQUEST_ID
from heliograph.settings import ServerSettings

# Loggers whose lines are the service's; everything else stays as the surrounding program has it.
_LOGGERS = ("heliograph", "uvicorn")
# What ends a line, or tells a terminal to do something; a traceback keeps its line ends.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_CONTROL_IN_LINES = re.compile(rf"(?![\n\t]){_CONTROL.pattern}")


def configure_logging(settings: ServerSettings) -> None:
    """Write the log of this process as the settings say."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.log_format == "json" else TextFormatter())
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(settings.log_level.upper())
    # Its warnings quote questions; whoever asked gets them in the answer.
    logging.getLogger("heliograph.query").setLevel(logging.ERROR)
    # What it says beyond warnings is about itself.
    logging.getLogger("uvicorn").setLevel(max(logging.WARNING, logging.getLogger("uvicorn").level))


class TextFormatter(logging.Formatter):
    """One line a record, the request's id before the message; control characters inside it are escaped."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        request_id = REQUEST_ID.get() or "-"
        message = _CONTROL.sub(_escaped, record.getMessage())
        line = f"{time} {record.levelname} {record.name} {request_id} {message}"
        if not record.exc_info:
            return line
        return f"{line}\n{_CONTROL_IN_LINES.sub(_escaped, self.formatException(record.exc_info))}"


class JsonFormatter(logging.Formatter):
    """One JSON object a record, with the fields of `extra={"fields": ...}`."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "request_id": REQUEST_ID.get() or None,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps({name: value for name, value in fields.items() if value is not None}, default=str)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
