"""Draws reported metrics as curves, in SVG: no library, no fonts, no state."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from typing import TypeAlias, final

from torchx_core.display.points import MAX_VALUE, Points
from torchx_core.schedulers import Metric

__all__ = ["Curves", "data_uri", "draw"]

MAX_POINTS = 1000
"""Of one curve; twice as many are thinned out to these."""
MAX_CURVES = 10
"""In one picture: more cannot be told apart."""
MAX_PICTURES = 12

Point: TypeAlias = tuple[float, float]

_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 640, 280, 70, 36, 110, 36
_COLOURS = (
    "#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951",
    "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e", "#9498a0",
)  # fmt: skip


@final
class Curves:
    """Keeps every metric's values, one curve for each replica that reports it."""

    def __init__(self) -> None:
        """Know no metric yet."""
        self._curves: dict[str, dict[str, Points]] = {}

    def take(self, metric: Metric) -> None:
        """Add a point; what no axis can show is left out."""
        if not abs(metric.value) < MAX_VALUE:  # also when it is no number
            return
        replicas = self._curves.setdefault(metric.name, {})
        points = replicas.setdefault(f"{metric.role}/{metric.replica}", Points(MAX_POINTS))
        points.add(metric.step, metric.value)

    def __bool__(self) -> bool:
        """Return whether there is something to draw."""
        return bool(self._curves)

    def pictures(self) -> dict[str, str]:
        """Return a picture (SVG) for each metric, by its name."""
        names = sorted(self._curves)[:MAX_PICTURES]
        return {
            name: draw(name, {of: _places(each) for of, each in self._curves[name].items()}) for name in names
        }

    def latest(self) -> list[tuple[str, str, float, float]]:
        """Return the last value of each metric and replica: name, replica, step, value."""
        return [
            (name, replica, *_places(points)[-1])
            for name in sorted(self._curves)[:MAX_PICTURES]
            for replica, points in list(self._curves[name].items())[:MAX_CURVES]
        ]


def data_uri(svg: str) -> str:
    """Return an address that is the picture itself."""
    return f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"


def draw(title: str, curves: dict[str, list[Point]]) -> str:
    """Return the curves as SVG, with a line of grid and a number at round values."""
    shown = dict(list(curves.items())[:MAX_CURVES])
    points = [point for curve in shown.values() for point in curve]
    x_axis, y_axis = _ticks([x for x, _ in points]), _ticks([y for _, y in points])
    parts = [*_frame(title, x_axis, y_axis)]
    for number, (name, curve) in enumerate(shown.items()):
        parts += _curve(number, name, [(_place_x(x, x_axis), _place_y(y, y_axis)) for x, y in curve])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}"'
        f' height="{_HEIGHT}" font-family="sans-serif" font-size="12">'
        f'<rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>'
    )


def _places(points: Points) -> list[Point]:
    return [(point.x, point.y) for point in points.points if point.y is not None]


def _ticks(values: Sequence[float]) -> list[float]:
    """Return about five round numbers, the first below and the last above all values."""
    low, high = min(values), max(values)
    if low == high:
        low, high = low - (abs(low) or 1) / 2, high + (abs(high) or 1) / 2
    rough = (high - low) / 4
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough * (1 - 1e-9))
    first = math.floor(low / step)
    last = math.ceil(high / step)
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def _place_x(x: float, axis: Sequence[float]) -> float:
    return _LEFT + (x - axis[0]) / (axis[-1] - axis[0]) * (_WIDTH - _LEFT - _RIGHT)


def _place_y(y: float, axis: Sequence[float]) -> float:
    return _HEIGHT - _BOTTOM - (y - axis[0]) / (axis[-1] - axis[0]) * (_HEIGHT - _TOP - _BOTTOM)


def _frame(title: str, x_axis: Sequence[float], y_axis: Sequence[float]) -> list[str]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    parts = [f'<text x="{_LEFT}" y="20" font-size="15" font-weight="bold">{escape(title)}</text>']
    for value in y_axis:
        y = _place_y(value, y_axis)
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{right}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.6g}</text>')
    for value in x_axis:
        x = _place_x(value, x_axis)
        parts.append(f'<path d="M{x:.1f} {_TOP}V{bottom}" stroke="#eee"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{value:.6g}</text>')
    return parts


def _curve(number: int, name: str, places: Sequence[Point]) -> list[str]:
    colour = _COLOURS[number]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    last_x, last_y = places[-1]
    label_y = _TOP + 12 + number * 18
    return [
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
        f'<circle cx="{last_x:.1f}" cy="{last_y:.1f}" r="3" fill="{colour}"/>',
        f'<text x="{_WIDTH - _RIGHT + 10}" y="{label_y}" fill="{colour}">{escape(name)}</text>',
    ]
