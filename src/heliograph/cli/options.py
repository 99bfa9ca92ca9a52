"""Options that several commands share: document filters, limits of search, and where documents are read.

`combine_filters` makes one filter of `--filter`, `--where` and sources.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

import typer

from heliograph.cli.session import Session
from heliograph.filters import And, Filter, Or, SourcePrefix, check_filter, parse_expression, parse_filter
from heliograph.query.models import PARAMETER_TEXTS, QueryParam
from heliograph.settings import Settings

# The options that select things: conditions as one filter, and how many things to skip.

# Databases accept no larger numbers.
MAX_OFFSET = 2**31 - 1


def combine_filters(
    expressions: Sequence[str] | None, source_prefixes: Sequence[str] | None = None, filter_json: str = ""
) -> Filter | None:
    """Return the filter that the options give together, or None if there are none.

    All expressions and the JSON must hold, and any of the prefixes.

    Raises:
        InvalidRequestError: An expression is invalid.
        typer.BadParameter: `--filter-json` is not JSON.
    """
    parts = [parse_expression(text) for text in expressions or ()]
    if source_prefixes:
        parts.append(Or(tuple(map(SourcePrefix, source_prefixes))))
    if filter_json:
        try:
            value = json.loads(filter_json)
        except (ValueError, RecursionError) as error:
            raise typer.BadParameter(f"--filter-json is not JSON ({error}): {filter_json!r:.200}") from None
        parts.append(parse_filter(value))
    return check_filter(And(tuple(parts))) if parts else None


def parameter(name: str) -> Any:
    """Return an option with the description of the question parameter of this name."""
    return typer.Option(help=PARAMETER_TEXTS[name])


# Records of options that several commands share. A command takes one as a keyword argument, and gets each of its fields
# as a separate option: `load_command` in `app` expands them.


@dataclass(frozen=True, slots=True)
class QuestionOptions:
    """Document filters, and how much is searched and kept for a question; fields have their `QueryParam` names."""

    top_k: Annotated[int | None, parameter("top_k")] = None
    chunk_top_k: Annotated[int | None, parameter("chunk_top_k")] = None
    max_entity_tokens: Annotated[int | None, parameter("max_entity_tokens")] = None
    max_relation_tokens: Annotated[int | None, parameter("max_relation_tokens")] = None
    max_total_tokens: Annotated[int | None, parameter("max_total_tokens")] = None
    filter: Annotated[
        list[str] | None,
        typer.Option(metavar="CONDITION", help="Only from documents that match, such as 'team=red'; may be repeated."),
    ] = None

    def to_param(self, **others: Any) -> QueryParam:
        """Return the engine's parameters, overridden by `others`; raises as `combine_filters` does."""
        given: dict[str, Any] = {item.name: getattr(self, item.name) for item in fields(self)}
        given["filter"] = combine_filters(self.filter)
        return QueryParam(**(given | others))


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """Where documents are read."""

    engine: Annotated[
        Literal["local", "ray"] | None,
        typer.Option(help="Where documents are read: in this process, or on a Ray cluster.", show_default=False),
    ] = None
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Processes that read, with --engine ray; else one a core.", show_default=False),
    ] = None
    address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="A Ray cluster, or 'auto'; else one is started here.", show_default=False
        ),
    ] = None

    def settings(self, session: Session) -> Settings:
        """Return the settings in force, overridden by the options.

        Raises:
            SettingsError: A setting is not valid.
            typer.BadParameter: Options of a cluster are given without a cluster.
        """
        given = (("workers", self.workers), ("address", self.address))
        ray: dict[str, Any] = {name: value for name, value in given if value is not None}
        ingest = {} if self.engine is None else {"engine": self.engine}
        if not ray and not ingest:
            return session.settings
        settings = session.load_settings(ray=ray, ingest=ingest)
        if ray and settings.ingest.engine != "ray":
            raise typer.BadParameter("--workers and --address are those of a Ray cluster; add --engine ray")
        return settings
