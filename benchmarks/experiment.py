"""What an experiment is: a workload, its sizes, and the figures that it yields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Samples = dict[str, list[float]]
"""What one run of a workload measured, by metric."""

Params = Mapping[str, object]

SideName = Literal["floor", "cli", "peer", "ours"]
SIDES: tuple[SideName, ...] = ("floor", "peer", "ours")
"""Those of most experiments."""
ALL_SIDES: tuple[SideName, ...] = ("floor", "cli", "peer", "ours")
"""Those of any; ``cli`` is the ``docker`` command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What our median should reach."""

    limit: float
    more: bool = False
    """At least the limit, rather than at most."""
    times: SideName | None = None
    """The limit counts this side's medians, not units."""
    always: bool = False
    """Every sample, not the median."""


def at_most(limit: float) -> Target:
    """Return the target of a figure that should be small."""
    return Target(limit=limit)


def at_least(limit: float) -> Target:
    """Return the target of a figure that should be large."""
    return Target(limit=limit, more=True)


def at_most_times(limit: float, side: SideName) -> Target:
    """Return the target of a figure that is bound by another side's in the same run."""
    return Target(limit=limit, times=side)


def at_least_times(limit: float, side: SideName) -> Target:
    """Return the target of a figure that should be as large as another side's in the same run."""
    return Target(limit=limit, times=side, more=True)


def none() -> Target:
    """Return the target of something that must never happen."""
    return Target(limit=0, always=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure of the table."""

    metric: str
    what: str
    unit: str
    target: Target | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much of a workload to do."""

    rounds: int
    """How often each side runs it, in turns."""
    params: Params = field(default_factory=dict[str, object])
    sides: Sequence[SideName] = SIDES


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One workload, the same for all sides."""

    name: str
    measure: Callable[..., Samples]
    """Called as ``measure(side, folder, **params)`` in a process of its own."""
    rows: Sequence[Row]
    quick: Size | None
    """None: left out of a quick run."""
    full: Size | None
    """None: left out of a full run."""
    backend: Literal["local", "docker", "slurm", "airflow", "prefect"] = "local"
    """What the sides run jobs on."""
