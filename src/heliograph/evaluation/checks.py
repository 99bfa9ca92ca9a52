"""What the engine would refuse to be asked, told before anything is indexed for it."""

from __future__ import annotations

from collections.abc import Sequence

from heliograph.errors import InvalidRequestError
from heliograph.evaluation.models import Configuration
from heliograph.evaluation.sets import QUERIES, EvaluationSet
from heliograph.query.models import QueryParam
from heliograph.query.plan import make_plan, readable_tokens
from heliograph.settings import Settings

__all__ = ["check_questions", "to_param"]


def check_questions(sets: Sequence[EvaluationSet], configurations: Sequence[Configuration], settings: Settings) -> None:
    """Refuse questions that an engine with these settings would refuse in one of these configurations.

    Raises:
        InvalidRequestError: It would; names set, question, configuration and reason.
    """
    for configuration in configurations:
        param = to_param(configuration)
        for given in sets:
            for question in given.questions:
                try:
                    make_plan(question.text, param, settings.query, readable_tokens(settings.chat))
                except InvalidRequestError as error:
                    raise InvalidRequestError(
                        f"the question {question.id!r:.80} in {QUERIES} of the set {given.name!r} cannot be asked in "
                        f"{configuration.name!r}: {error}"
                    ) from None


def to_param(configuration: Configuration) -> QueryParam:
    """Return how a configuration asks.

    Raises:
        InvalidRequestError: It names a field that `QueryParam` does not have.
    """
    known = set(QueryParam.__dataclass_fields__) - {"mode"}
    unknown = configuration.options.keys() - known
    if unknown:
        raise InvalidRequestError(
            f"{configuration.name!r} sets {min(unknown)!r}, which no question has; known are {', '.join(sorted(known))}"
        )
    return QueryParam(mode=configuration.mode, **configuration.options)
