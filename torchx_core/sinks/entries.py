"""What sinks are given of a report: numbers at steps, and the result."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias, cast, final

__all__ = ["Entries", "Entry", "Outcome", "Point"]

PROGRESS: Final = "progress"
RESULT: Final = "result"
_LARGEST_STEP: Final = (1 << 63) - 1


class Point(NamedTuple):
    """One value of a metric."""

    name: str
    value: float
    step: int
    time: float
    """Seconds since the epoch."""


class Outcome(NamedTuple):
    """What the app handed back; the points that follow are the numbers in it."""

    value: object
    """A JSON value."""


Entry: TypeAlias = Point | Outcome


@final
class Entries:
    """Makes entries of reports."""

    def __init__(self) -> None:
        """Know no metric yet."""
        self._counts: Counter[str] = Counter()

    def of(self, report: Mapping[str, object]) -> list[Entry]:
        """Return what a report means to a sink; a link means nothing.

        A metric without a step, and progress, are counted by this process from 0.
        """
        match report["type"]:
            case "metric":
                return [self._point(str(report["name"]), report["value"], report["step"])]
            case "progress":
                return [self._point(PROGRESS, report["fraction"])]
            case "result":
                return [Outcome(report["value"]), *self._numbers(report["value"])]
            case _:
                return []

    def _numbers(self, value: object) -> Iterator[Point]:
        for name, number in _leaves(RESULT, value):
            yield self._point(name, number)

    def _point(self, name: str, value: object, step: object = None) -> Point:
        if not isinstance(step, int):
            step = self._counts[name]
            self._counts[name] += 1
        step = max(-_LARGEST_STEP, min(step, _LARGEST_STEP))
        return Point(name, cast("float", value), step, time.time())


def _leaves(name: str, value: object) -> Iterator[tuple[str, float]]:
    """Yield the numbers in a JSON value, each with its path."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        with suppress(OverflowError):  # a whole number that no float can hold
            yield name, float(value)
    elif isinstance(value, Mapping):
        for key, item in cast("Mapping[object, object]", value).items():
            yield from _leaves(f"{name}/{key}", item)
