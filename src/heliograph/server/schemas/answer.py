"""An `Answer` as the JSON of `/query` and of the last lines of a stream."""

from __future__ import annotations

from typing import Any

from heliograph.query.data import citation_data, reference_data
from heliograph.query.models import Answer, QueryParam

# What LightRAG says where there is no text at all.
NOTHING_FOUND = "No relevant context found for the query."


def answer_body(answer: Answer, param: QueryParam, seconds: float) -> dict[str, Any]:
    """Return the whole body.

    Args:
        answer: The answer.
        param: What was asked for; with `include_sources` or `return_structured` the body has what they bring as well.
        seconds: How long it took.
    """
    body: dict[str, Any] = {"response": answer_text(answer)}
    if param.include_references:
        body["references"] = reference_data(answer.context, param.include_chunk_content)
    return body | {"response_time": round(seconds, 6)} | answer_details(answer, param)


def answer_text(answer: Answer) -> str:
    """Return the text, never an empty one."""
    return answer.text or NOTHING_FOUND


def answer_details(answer: Answer, param: QueryParam) -> dict[str, Any]:
    """Return all that is told of an answer beside its text and references."""
    payload = answer.payload(param)
    return ({} if isinstance(payload, str) else payload) | {
        "llm_generated": answer.is_generated and bool(answer.text),
        "mode": answer.mode.value,
        "kind": answer.kind.value,
        "is_complete": answer.is_complete,
        "from_cache": answer.from_cache,
        "is_unanswered": answer.is_unanswered,
        "citations": [citation_data(citation) for citation in answer.citations],
        "unsupported_references": answer.unsupported_references,
        "unsupported_sentences": answer.unsupported_sentences,
        "warnings": list(answer.warnings),
        "usage": {"input_tokens": answer.usage.input_tokens, "output_tokens": answer.usage.output_tokens},
    }
