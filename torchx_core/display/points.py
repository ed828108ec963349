"""The points of one curve, of which there are never too many: what stands out stays."""

from __future__ import annotations

from typing import Final, NamedTuple, final

__all__ = ["MAX_VALUE", "Point", "Points"]

MAX_VALUE: Final = 1e100
"""No axis shows more."""


class Point(NamedTuple):
    """A value, and where it is on the axis."""

    x: float
    """The step; where none is reported, how many points there were before."""
    y: float | None
    """None where the value is no number that an axis shows: the curve has a gap."""
    time: float = 0.0
    weight: float = 1.0
    """How many points it stands for."""


@final
class Points:
    """A curve's points in the order of their coming, at most twice the number that is wanted."""

    def __init__(self, wanted: int) -> None:
        """Have none yet.

        Args:
            wanted: To how many they are thinned out when there are twice as many.
        """
        self._wanted = wanted
        self.points: list[Point] = []
        self.steps: bool = True
        """Whether all of them have a step."""
        self.count: int = 0
        """How many were added."""

    def add(self, step: int | None, value: float, time: float = 0.0) -> None:
        """Add a point."""
        is_step = step is not None and abs(step) < MAX_VALUE
        self.steps = self.steps and is_step
        x = float(step) if step is not None and is_step else self._next_x()
        self.points.append(Point(x, value if abs(value) < MAX_VALUE else None, time))
        self.count += 1
        if len(self.points) >= 2 * self._wanted:
            self._thin()

    def _next_x(self) -> float:
        return self.points[-1].x + 1 if self.points else 0.0

    def _thin(self) -> None:
        """Let groups of neighbours, each of about as many points, be their lowest and their highest.

        The last point stays as it is: people look for it.
        """
        share = 2 * self.count / self._wanted
        *before, last = self.points
        kept: list[Point] = []
        group: list[Point] = []
        for point in before:
            group.append(point)
            if sum(each.weight for each in group) >= share:
                kept += _outstanding(group)
                group = []
        self.points = [*kept, *_outstanding(group), last]


def _outstanding(group: list[Point]) -> list[Point]:
    """Return the lowest and the highest point, in their order."""
    known = [(point.y, at) for at, point in enumerate(group) if point.y is not None]
    kept = sorted({min(known)[1], max(known)[1]}) if known else [0][: len(group)]
    weight = sum(point.weight for point in group)
    return [group[at]._replace(weight=weight / len(kept)) for at in kept]
