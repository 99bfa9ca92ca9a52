"""Options that several commands share: which documents count, how much is kept, and where documents are read.

`combine_filters` makes one filter of `--filter`, `--where` and sources. `engine_settings` applies `--engine`,
`--workers` and the cluster's address to the settings of the session.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import typer

from heliograph.cli.session import Session
from heliograph.filters import And, Filter, Or, SourcePrefix, check_filter, parse_expression, parse_filter
from heliograph.settings import Settings

# The options that say which things count: conditions as one filter, and how many may be passed over.

# Larger numbers are none to a database.
MAX_OFFSET = 2**31 - 1


def combine_filters(
    expressions: Sequence[str] | None, source_prefixes: Sequence[str] | None = None, filter_json: str = ""
) -> Filter | None:
    """Return the filter that the options give together, or None if there are none.

    All expressions and the JSON must hold, and any of the prefixes.

    Raises:
        InvalidRequestError: One of them cannot be served.
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


# The options that say from what, and how much is searched and kept for a question.

QuestionFilters = Annotated[
    list[str] | None,
    typer.Option(
        "--filter", metavar="CONDITION", help="Only from documents that match, such as 'team=red'; may be repeated."
    ),
]

TopK = Annotated[int | None, typer.Option(help="Entities and relations searched.", show_default=False)]
ChunkTopK = Annotated[int | None, typer.Option(help="Chunks kept.", show_default=False)]
MaxEntityTokens = Annotated[int | None, typer.Option(help="Budget of the entities.", show_default=False)]
MaxRelationTokens = Annotated[int | None, typer.Option(help="Budget of the relations.", show_default=False)]
MaxTotalTokens = Annotated[int | None, typer.Option(help="Budget of everything.", show_default=False)]

# The options that say where documents are read, and the settings that they lead to.


# Where documents can be read.
Engine = Literal["local", "ray"]
EngineOption = Annotated[
    Engine | None,
    typer.Option(help="Where documents are read: in this process, or on a Ray cluster.", show_default=False),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(min=1, help="Processes that read, with --engine ray; else one a core.", show_default=False),
]
AddressOption = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="A Ray cluster, or 'auto'; else one is started here.", show_default=False),
]


def engine_settings(session: Session, engine: Engine | None, workers: int | None, address: str | None) -> Settings:
    """Return the settings in force, with what the options say in place of theirs.

    Raises:
        SettingsError: A setting is not valid.
        typer.BadParameter: Options of a cluster are given, and none is to be used.
    """
    ray: dict[str, Any] = {
        name: value for name, value in (("workers", workers), ("address", address)) if value is not None
    }
    if engine is None and not ray:
        return session.settings
    sections: dict[str, Any] = {"ray": ray} if ray else {}
    if engine is not None:
        sections["ingest"] = {"engine": engine}
    settings = session.load_settings(**sections)
    if ray and settings.ingest.engine != "ray":
        raise typer.BadParameter("--workers and --address are those of a Ray cluster; add --engine ray")
    return settings
