"""From samples to figures: medians, spreads, ratios and whether a target is met."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.experiment import ALL_SIDES, Row, SideName, Target

Rounds = Mapping[SideName, Sequence[Sequence[float]]]
"""One metric's samples: per side, per round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A median and where most samples lie."""

    median: float
    p10: float
    p90: float
    low: float
    high: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One row of the table, filled in."""

    experiment: str
    row: Row
    figures: Mapping[SideName, Figure]
    to_floor: Figure | None
    """Ours divided by the floor's, round by round."""
    to_peer: Figure | None
    limit: float | None
    """What the target comes to, in the row's unit."""
    met: bool | None


def summarise(experiment: str, row: Row, rounds: Rounds) -> Line:
    """Return the row's line."""
    figures: dict[SideName, Figure] = {
        side: figure([value for some in rounds[side] for value in some])
        for side in ALL_SIDES
        if any(rounds.get(side, ()))
    }
    limit = _limit(row.target, figures)
    ours = figures.get("ours")
    return Line(
        experiment=experiment,
        row=row,
        figures=figures,
        to_floor=_ratio(rounds, "floor"),
        to_peer=_ratio(rounds, "peer"),
        limit=limit,
        met=None if limit is None or ours is None or row.target is None else _meets(ours, limit, row.target),
    )


def figure(samples: Sequence[float]) -> Figure:
    """Return the figure of some samples."""
    p10, median, p90 = (quantile(samples, q) for q in (0.1, 0.5, 0.9))
    return Figure(median=median, p10=p10, p90=p90, low=min(samples), high=max(samples), count=len(samples))


def quantile(samples: Sequence[float], q: float) -> float:
    """Return the q-quantile of at least one sample, interpolated."""
    ordered = sorted(samples)
    place = q * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _limit(target: Target | None, figures: Mapping[SideName, Figure]) -> float | None:
    if target is None:
        return None
    if target.times is None:
        return target.limit
    return target.limit * figures[target.times].median if target.times in figures else None


def _meets(ours: Figure, limit: float, target: Target) -> bool:
    if target.always:
        return ours.low >= limit if target.more else ours.high <= limit
    return ours.median >= limit if target.more else ours.median <= limit


def _ratio(rounds: Rounds, other: SideName) -> Figure | None:
    """Return ours over the other's, round by round, so that slow moments cancel out."""
    pairs = [
        (quantile(a, 0.5), quantile(b, 0.5))
        for a, b in zip(rounds.get("ours", ()), rounds.get(other, ()), strict=False)
        if a and b
    ]
    ratios = [ours / others for ours, others in pairs if others > 0]
    return figure(ratios) if ratios else None
