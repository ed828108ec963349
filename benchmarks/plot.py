"""Draws the lines that have a target: where floor, peer and we are, in multiples of the target."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from benchmarks.experiment import SideName
from benchmarks.summary import Figure, Line

COLOURS: dict[SideName, str] = {"floor": "#8a8a8a", "cli": "#2a9d5c", "peer": "#d95f02", "ours": "#1b6ca8"}
NAMES: dict[SideName, str] = {"floor": "floor", "cli": "docker", "peer": "TorchX", "ours": "ours"}
_LEFT, _WIDTH, _TOP, _STEP = 430, 560, 60, 24
_DECADES = 3  # to each side of the target


def svg(lines: Sequence[Line], title: str) -> str:
    """Return the picture: left of the middle is better than the target, right of it worse."""
    shown = [line for line in lines if line.limit]
    height = _TOP + _STEP * len(shown) + 20
    body = [
        *_frame(title, height),
        *(part for i, line in enumerate(shown) for part in _row(line, _TOP + _STEP * i)),
    ]
    size = f'width="{_LEFT + _WIDTH + 30}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}'
    style = 'font-family="sans-serif" font-size="12"'
    return "\n".join(
        [f"{head} {style}>", '<rect width="100%" height="100%" fill="white"/>', *body, "</svg>\n"]
    )


def _frame(title: str, height: int) -> Iterator[str]:
    yield f'<text x="10" y="20" font-size="14">{escape(title)}</text>'
    for i, side in enumerate(COLOURS):
        left = 10 + 80 * i
        yield f'<circle cx="{left + 4}" cy="38" r="4" fill="{COLOURS[side]}"/>'
        yield f'<text x="{left + 14}" y="42">{NAMES[side]}</text>'
    for decade in range(-_DECADES, _DECADES + 1):
        x = _x(10.0**decade)
        colour, label = ("#333", "target") if decade == 0 else ("#ddd", f"x{10.0**decade:g}")
        yield f'<line x1="{x}" x2="{x}" y1="{_TOP - 10}" y2="{height - 10}" stroke="{colour}"/>'
        yield f'<text x="{x}" y="{_TOP - 15}" text-anchor="middle" fill="#666">{label}</text>'


def _row(line: Line, y: int) -> Iterator[str]:
    colour = "black" if line.met else "#b00"
    place = f'x="{_LEFT - 10}" y="{y + 4}" text-anchor="end"'
    yield f'<text {place} fill="{colour}">{escape(line.row.what)}</text>'
    for side, figure in line.figures.items():
        yield from _mark(line, figure, y, COLOURS[side])


def _mark(line: Line, figure: Figure, y: int, colour: str) -> Iterator[str]:
    low, middle, high = (_x(_times_target(line, v)) for v in (figure.p10, figure.median, figure.p90))
    yield f'<line x1="{low}" x2="{high}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="2"/>'
    yield f'<circle cx="{middle}" cy="{y}" r="4" fill="{colour}"/>'


def _times_target(line: Line, value: float) -> float:
    """Return how much worse than the target: a rate that should be high is turned round."""
    limit = line.limit or 1.0
    if line.row.target is not None and line.row.target.more:
        return limit / value if value else math.inf
    return value / limit


def _x(times: float) -> float:
    decades = max(-_DECADES, min(_DECADES, math.log10(times) if times > 0 else -_DECADES))
    return round(_LEFT + _WIDTH * (decades + _DECADES) / (2 * _DECADES), 1)
