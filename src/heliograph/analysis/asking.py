"""How analyses ask: one question in several modes, with the same parameters, and what a list of modes may hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from heliograph.errors import InvalidRequestError
from heliograph.query.models import Mode, QueryParam, Retrieval
from heliograph.sync import Heliograph

__all__ = ["SEARCHING_MODES", "checked_modes", "retrieve_in_modes"]

SEARCHING_MODES = tuple(mode for mode in Mode if mode is not Mode.BYPASS)


def checked_modes(modes: Iterable[Mode | str]) -> tuple[Mode, ...]:
    """Return the modes, each once, in their order.

    Raises:
        InvalidRequestError: There is none, one is not known, or one is `bypass`, which searches nothing.
    """
    known = {mode.value: mode for mode in SEARCHING_MODES}
    names = [str(mode) for mode in modes]
    for name in names:
        if name not in known:
            raise InvalidRequestError(f"mode {name!r} searches nothing or is not known; use one of {', '.join(known)}")
    if not names:
        raise InvalidRequestError(f"no mode is given; use one or more of {', '.join(known)}")
    return tuple(dict.fromkeys(known[name] for name in names))


def retrieve_in_modes(
    kb: Heliograph, question: str, modes: Iterable[Mode | str] = SEARCHING_MODES, param: QueryParam | None = None
) -> Sequence[Retrieval]:
    """Return what each mode finds for a question, in the order of the modes.

    Args:
        kb: The workspace, open.
        question: The question.
        modes: The modes; each is asked once.
        param: What else the question asks for; its own mode is not looked at.

    Raises:
        InvalidRequestError: A mode, the question or a parameter cannot be served.
        ModelError: A model failed.
        StoreError: The store failed.
    """
    given = param or QueryParam()
    return [kb.retrieve(question, replace(given, mode=mode)) for mode in checked_modes(modes)]
