"""Draws how rows grow with their number: replicas of an app, and apps; both axes in powers of ten."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Final

from benchmarks.experiment import SideName
from benchmarks.plot import COLOURS, NAMES
from benchmarks.summary import Line

_COUNT: Final = re.compile(r"([\d,]+) (replica|app)s?\b")
_PANELS: Final = {
    "up_ms": "until all run",
    "cancel_ms": "cancelled, until all have ended",
    "again_ms": "status again",
}
_LEFT, _TOP, _WIDTH, _HEIGHT, _GAP = 60, 70, 240, 200, 70
_COUNTS, _TIMES = 3, (-2, 5)
"""From one to so many powers of ten; milliseconds, likewise."""

_Curves = Mapping[SideName, Sequence[tuple[float, float]]]


def svg(lines: Sequence[Line]) -> str:
    """Return the picture; a straight line at the angle of the grid's squares grows as the number does."""
    panels = [
        (f"{noun}s: {what}", curves)
        for noun in ("replica", "app")
        for metric, what in _PANELS.items()
        if (curves := _curves(lines, noun, metric))
    ]
    body = [part for i, (title, curves) in enumerate(panels) for part in _panel(title, curves, *_place(i))]
    rows = math.ceil(len(panels) / len(_PANELS))
    width, height = len(_PANELS) * (_WIDTH + _GAP) + _LEFT, rows * (_HEIGHT + _GAP) + _TOP
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
    return "\n".join(
        [
            f'{head} font-family="sans-serif" font-size="12">',
            '<rect width="100%" height="100%" fill="white"/>',
            *_legend(),
            *body,
            "</svg>\n",
        ]
    )


def _curves(lines: Sequence[Line], noun: str, metric: str) -> _Curves:
    curves: dict[SideName, list[tuple[float, float]]] = {}
    for line in lines:
        count = _COUNT.match(line.row.what)
        if count and count[2] == noun and line.row.metric == metric:
            for side, figure in line.figures.items():
                point = float(count[1].replace(",", "")), figure.median
                curves.setdefault(side, []).append(point)
    return curves


def _place(index: int) -> tuple[int, int]:
    row, column = divmod(index, len(_PANELS))
    return _LEFT + column * (_WIDTH + _GAP), _TOP + row * (_HEIGHT + _GAP)


def _legend() -> Iterator[str]:
    sides: list[SideName] = ["floor", "peer", "ours"]
    for i, side in enumerate(sides):
        yield f'<circle cx="{_LEFT + 80 * i}" cy="20" r="4" fill="{COLOURS[side]}"/>'
        yield f'<text x="{_LEFT + 80 * i + 10}" y="24">{NAMES[side]}</text>'


def _panel(title: str, curves: _Curves, left: int, top: int) -> Iterator[str]:
    low, high = _TIMES

    def x(count: float) -> float:
        return round(left + _WIDTH * math.log10(count) / _COUNTS, 1)

    def y(ms: float) -> float:
        return round(top + _HEIGHT * (high - math.log10(max(ms, 10.0**low))) / (high - low), 1)

    yield f'<text x="{left}" y="{top - 10}">{escape(title)}</text>'
    for power in range(_COUNTS + 1):
        at = x(10.0**power)
        yield f'<line x1="{at}" x2="{at}" y1="{top}" y2="{top + _HEIGHT}" stroke="#ddd"/>'
        yield f'<text x="{at}" y="{top + _HEIGHT + 16}" text-anchor="middle" fill="#666">{10**power:,}</text>'
    for power in range(low, high + 1):
        at = y(10.0**power)
        yield f'<line x1="{left}" x2="{left + _WIDTH}" y1="{at}" y2="{at}" stroke="#ddd"/>'
        yield f'<text x="{left - 5}" y="{at + 4}" text-anchor="end" fill="#666">{_time(power)}</text>'
    for side, points in curves.items():
        path = " ".join(f"{x(count)},{y(ms)}" for count, ms in points)
        yield f'<polyline points="{path}" fill="none" stroke="{COLOURS[side]}" stroke-width="2"/>'
        for count, ms in points:
            yield f'<circle cx="{x(count)}" cy="{y(ms)}" r="3" fill="{COLOURS[side]}"/>'


def _time(power: int) -> str:
    """Return ten to the power, of milliseconds, in a unit that reads well."""
    seconds = 10.0 ** (power - 3)
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size * 0.999:
            return f"{seconds / size:g} {unit}"
    return f"{seconds * 1e6:g} µs"
