"""Recall over the number of places read, as an SVG: one panel a set, one line a configuration.

Written by hand rather than by a plotting library, which would be the largest dependency for the smallest part.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from heliograph.evaluation.metrics import CUTS
from heliograph.evaluation.models import EvaluationRun, SetReport

__all__ = ["to_svg"]

_WIDTH, _HEIGHT = 340, 230
_LEFT, _TOP, _RIGHT, _BOTTOM = 44, 34, 12, 40
_PER_ROW = 3
# Told apart by colour-blind readers too: Okabe and Ito, 2008.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")


def to_svg(run: EvaluationRun) -> str:
    """Return the plot; sets without gold are left out, and without any other the drawing is empty."""
    reports = [report for report in run.sets if any(item.summary.questions for item in report.runs)]
    names = list(dict.fromkeys(item.configuration.name for report in reports for item in report.runs))
    columns = max(1, min(_PER_ROW, len(reports)))
    rows = -(-len(reports) // columns)
    width, height = columns * _WIDTH, rows * _HEIGHT + 18 * len(names) + 10
    panels = (
        f'<g transform="translate({place % columns * _WIDTH},{place // columns * _HEIGHT})">'
        f"{''.join(_panel(report, names))}</g>"
        for place, report in enumerate(reports)
    )
    legend = "".join(_legend(names, rows * _HEIGHT + 14))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>'
        f"{''.join(panels)}{legend}</svg>\n"
    )


def _panel(report: SetReport, names: list[str]) -> Iterator[str]:
    title = report.name + (f" (x{report.join})" if report.join > 1 else "")
    yield f'<text x="{_LEFT}" y="20" font-weight="bold">{escape(title)}</text>'
    lowest = _lowest(report)
    for share in range(lowest, 101, 10 if lowest >= 50 else 20):
        y = _y(share, lowest)
        yield f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}" stroke="#ddd"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{share}</text>'
    for place, cut in enumerate(CUTS):
        yield f'<text x="{_x(place):.1f}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle">R@{cut}</text>'
    for run in report.runs:
        colour = _COLOURS[names.index(run.configuration.name) % len(_COLOURS)]
        values = [100 * run.summary.scores[f"recall@{cut}"] for cut in CUTS] if run.summary.scores else []
        points = [(_x(place), _y(value, lowest)) for place, value in enumerate(values)]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>'
        yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points)


def _legend(names: list[str], top: int) -> Iterator[str]:
    for place, name in enumerate(names):
        y = top + 18 * place
        yield f'<rect x="{_LEFT}" y="{y - 9}" width="14" height="10" fill="{_COLOURS[place % len(_COLOURS)]}"/>'
        yield f'<text x="{_LEFT + 20}" y="{y}">{escape(name)}</text>'


def _lowest(report: SetReport) -> int:
    """Return where the scale begins: the ten below the least value, so that lines do not all lie at the top."""
    least = min(
        (100 * run.summary.scores[f"recall@{cut}"] for run in report.runs if run.summary.scores for cut in CUTS),
        default=0.0,
    )
    return min(90, int(least // 10) * 10)


def _x(place: int) -> float:
    return _LEFT + 20 + place * (_WIDTH - _LEFT - _RIGHT - 40) / (len(CUTS) - 1)


def _y(share: float, lowest: int) -> float:
    return _TOP + (100 - share) / (100 - lowest) * (_HEIGHT - _TOP - _BOTTOM)
