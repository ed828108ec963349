"""From a line's write to the follower that has it."""

from __future__ import annotations

from pathlib import Path

from benchmarks.clock import monotonic_ns
from benchmarks.experiment import Experiment, Row, Samples, Size, at_most
from benchmarks.programs import program
from benchmarks.sides.side import J, Side
from benchmarks.summary import quantile

_WARM_UP = 5


def measure(side: Side[J], folder: Path, *, lines: int) -> Samples:
    """Follow a program that writes a line every now and then."""
    del folder
    job = side.submit(program("tick", lines + _WARM_UP), live=True)
    delays: list[float] = []
    for some in side.tail(job):
        now = monotonic_ns()
        delays += [(now - int(line)) / 1e6 for line in some]
    side.wait(job)
    return {"delay_ms": delays[_WARM_UP:], "p95_ms": [quantile(delays[_WARM_UP:], 0.95)]}


EXPERIMENT = Experiment(
    name="latency",
    measure=measure,
    rows=(
        Row(metric="delay_ms", what="line written -> seen by the follower", unit="ms", target=at_most(5)),
        Row(metric="p95_ms", what="… the 95th percentile", unit="ms"),
    ),
    quick=Size(rounds=2, params={"lines": 40}),
    full=Size(rounds=4, params={"lines": 120}),
)
