"""Counts, settings and the findings of `doctor`, as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType

from heliograph.cli.checks import Check
from heliograph.cli.flow import FlowText
from heliograph.cli.settings_list import SettingValue
from heliograph.cli.tables import byte_size, fields_table, make_table, status_text
from heliograph.models import Stats
from heliograph.settings import StoreSettings

__all__ = ["render_checks", "render_settings", "render_stats"]


def render_stats(
    stats: Stats,
    store: StoreSettings,
    lags: Mapping[str, int] | None = None,
    troubles: Mapping[str, str] | None = None,
) -> RenderableType:
    """Return the counts of a workspace, how many commits other engines are behind, and which do not serve."""
    statuses = ", ".join(f"{count:,} {status.value}" for status, count in sorted(stats.documents.items()))
    total = sum(stats.documents.values())
    rows: list[tuple[str, RenderableType]] = [
        ("workspace", f"{store.workspace} in {store.data_dir}"),
        ("documents", f"{total:,} ({statuses})" if total else "0"),
        ("chunks", f"{stats.chunks:,}"),
        ("entities", f"{stats.entities:,}"),
        ("relations", f"{stats.relations:,}"),
        ("cached replies", f"{stats.cached_replies:,}"),
        ("data version", f"{stats.data_version:,}"),
        ("on disk", byte_size(stats.bytes_on_disk)),
    ]
    rows += [(name, _follower_text(lag, (troubles or {}).get(name, ""))) for name, lag in (lags or {}).items()]
    return fields_table(rows)


def _follower_text(lag: int, trouble: str) -> str:
    behind = f"{lag:,} commits behind" if lag else "up to date"
    return f"{behind}; cannot be asked now: {trouble}" if trouble else behind


def render_settings(values: Sequence[SettingValue], *, is_bounded: bool) -> RenderableType:
    """Return all settings in force, those that are not the default in bold.

    What they mean stands below them; where no width has to be kept to, in a column of its own.
    """
    table = make_table()
    table.add_column("setting", ratio=3)
    table.add_column("value", ratio=2)
    table.add_column("from", no_wrap=True)
    if not is_bounded:
        table.add_column("meaning")
    for item in values:
        style = "" if item.origin == "default" else "bold"
        name, meaning = FlowText(item.row.path, style or "cyan"), FlowText(item.row.description, "dim")
        value = FlowText(_shown(item.value), style)
        if is_bounded:
            table.add_row(Group(name, meaning), value, item.origin)
        else:
            table.add_row(name, value, item.origin, meaning)
    return table


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    return "" if value is None else str(value)


def render_checks(checks: Sequence[Check]) -> RenderableType:
    """Return what `doctor` found."""
    table = make_table(with_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1)
    for check in checks:
        table.add_row(status_text(check.state), check.name, FlowText(check.detail))
    return table
