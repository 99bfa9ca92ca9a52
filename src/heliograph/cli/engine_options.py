"""The options that say where documents are read, and the settings that they lead to."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from heliograph.cli.session import Session
from heliograph.settings import Settings

__all__ = ["AddressOption", "Engine", "EngineOption", "WorkersOption", "engine_settings"]


class Engine(StrEnum):
    """Where documents can be read."""

    LOCAL = "local"
    RAY = "ray"


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
    rooms: dict[str, Any] = {"ray": ray} if ray else {}
    if engine is not None:
        rooms["ingest"] = {"engine": engine.value}
    settings = session.load_settings(**rooms)
    if ray and settings.ingest.engine != "ray":
        raise typer.BadParameter("--workers and --address are those of a Ray cluster; add --engine ray")
    return settings
