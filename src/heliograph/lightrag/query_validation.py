"""Errors of invalid questions, as programs written for LightRAG catch them; each is a `ValueError`."""

from __future__ import annotations

from heliograph.errors import InvalidRequestError
from heliograph.models import Mode
from heliograph.query.plan import check_length


class QueryValidationError(ValueError):
    """An invalid question."""


class EmptyQueryError(QueryValidationError):
    """A question without a character."""


class RAGQueryTooShortError(QueryValidationError):
    """A question too short to search for: less than three characters, where a Chinese one counts as two."""


def validate_query_not_empty(query: str) -> str:
    """Return a question, stripped; raises `EmptyQueryError` if nothing is left."""
    question = query.strip()
    if not question:
        raise EmptyQueryError("Query must not be empty.")
    return question


def validate_rag_query(query: str) -> str:
    """Return a question to search for, stripped.

    Raises:
        EmptyQueryError: Nothing is left.
        RAGQueryTooShortError: It is too short to search for.
    """
    question = validate_query_not_empty(query)
    try:
        check_length(question, Mode.MIX)
    except InvalidRequestError as error:
        raise RAGQueryTooShortError(str(error)) from error
    return question
