"""Shows the lines as a table for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.experiment import ALL_SIDES
from benchmarks.summary import Figure, Line

_HEADS = ("", "unit", "floor", "docker", "TorchX", "ours", "ours/floor", "ours/TorchX", "target", "")
_TEXTS = 2
"""Columns of words come first, and start on the left."""
_DIGITS = 3
"""Significant ones."""


def table(lines: Sequence[Line]) -> str:
    """Return the table: medians, and the tenth to the ninetieth percentile in brackets."""
    rows = [_HEADS, *(_cells(line) for line in lines)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(_join(row, widths) for row in rows)


def _join(row: Sequence[str], widths: Sequence[int]) -> str:
    words = [cell.ljust(width) for cell, width in zip(row[:_TEXTS], widths, strict=False)]
    numbers = [cell.rjust(width) for cell, width in zip(row[_TEXTS:], widths[_TEXTS:], strict=True)]
    return "  ".join(words + numbers).rstrip()


def _cells(line: Line) -> tuple[str, ...]:
    figures = [_figure(line.figures.get(side)) for side in ALL_SIDES]
    ratios = [_figure(ratio, "x") for ratio in (line.to_floor, line.to_peer)]
    return (line.row.what, line.row.unit, *figures, *ratios, *_verdict(line))


def _figure(figure: Figure | None, sign: str = "") -> str:
    if figure is None:
        return "-"
    if _number(figure.p10) == _number(figure.p90):
        return sign + _number(figure.median)
    return f"{sign}{_number(figure.median)} [{_number(figure.p10)}-{_number(figure.p90)}]"


def _verdict(line: Line) -> tuple[str, str]:
    target = line.row.target
    if target is None or line.limit is None:
        return "", ""
    bound = f"{'>=' if target.more else '<='} {_number(line.limit)}"
    return bound, {True: "met", False: "MISSED", None: "?"}[line.met]


def _number(value: float) -> str:
    """Return it with three significant digits, and without an exponent."""
    before_point = len(f"{abs(value):.0f}") if abs(value) >= 1 else 0
    return f"{value:,.{max(0, _DIGITS - before_point)}f}" if value else "0"
