"""The commands about this installation: stats, settings, doctor."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from heliograph.cli.checks import State, run_checks
from heliograph.cli.exit_codes import EXIT_FAILED
from heliograph.cli.flow import has_bounds
from heliograph.cli.plain import to_plain
from heliograph.cli.render_state import render_checks, render_settings, render_stats
from heliograph.cli.session import current_session
from heliograph.cli.settings_list import list_values, settings_markdown

__all__ = ["doctor", "settings", "stats"]


def stats(ctx: typer.Context) -> None:
    """Count what the workspace holds."""
    session = current_session(ctx)
    with session.engine() as engine:
        found, lags, troubles = engine.stats(), engine.lags(), engine.troubles()
    if session.output.is_json:
        session.output.json(to_plain(found) | {"lags": dict(lags), "troubles": dict(troubles)})
    else:
        session.output.show(render_stats(found, session.settings.store, lags, troubles))


def settings(
    ctx: typer.Context,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the page docs/settings.md.")] = False,
) -> None:
    """Show every setting, its value and where the value comes from."""
    session = current_session(ctx)
    if markdown:
        session.output.piece(settings_markdown())
        return
    values = list_values(session.settings, session.given_settings)
    if session.output.is_json:
        rows = [to_plain(item.row) | {"value": item.value, "origin": item.origin} for item in values]
        session.output.json({"settings": rows})
    else:
        session.output.show(render_settings(values, is_bounded=has_bounds(session.output.console)))


def doctor(ctx: typer.Context) -> None:
    """Check versions, settings, store and models; ends with 1 if something is broken."""
    session = current_session(ctx)
    with session.output.waiting("looking"):
        checks = asyncio.run(run_checks(session.load_settings, session.given_settings))
    is_sound = all(check.state is not State.FAIL for check in checks)
    if session.output.is_json:
        session.output.json({"is_sound": is_sound, "checks": to_plain(checks)})
    else:
        session.output.show(render_checks(checks))
    if not is_sound:
        raise typer.Exit(EXIT_FAILED)
