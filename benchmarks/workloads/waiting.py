"""From an app's last instruction to the moment when `wait` returns in another process."""

from __future__ import annotations

import random
from pathlib import Path

from benchmarks.clock import monotonic_ns
from benchmarks.experiment import Experiment, Row, Samples, Size, at_most
from benchmarks.programs import program
from benchmarks.sides.side import J, Side


def measure(side: Side[J], folder: Path, *, repeats: int, longest_s: float, tuned: bool) -> Samples:
    """Wait for apps of one replica that take between half the longest time and all of it."""
    stamp = folder / "last_word"
    delays: list[float] = []
    for _ in range(repeats):
        job = side.submit(program("last_word", random.uniform(longest_s / 2, longest_s), stamp))
        side.wait(job, tuned=tuned)
        returned = monotonic_ns()
        delays.append((returned - int(stamp.read_text())) / 1e6)
        stamp.unlink()
    return {"delay_ms": delays}


EXPERIMENTS = (
    Experiment(
        name="wait-tuned",
        measure=measure,
        rows=(
            Row(metric="delay_ms", what="last exit -> wait returns, tuned", unit="ms", target=at_most(10)),
        ),
        quick=Size(rounds=2, params={"repeats": 3, "longest_s": 0.3, "tuned": True}),
        full=Size(rounds=4, params={"repeats": 8, "longest_s": 0.3, "tuned": True}),
    ),
    Experiment(
        name="wait-default",
        measure=measure,
        rows=(
            Row(
                metric="delay_ms",
                what="last exit -> wait returns, as it comes",
                unit="ms",
                target=at_most(10),
            ),
        ),
        quick=Size(rounds=1, params={"repeats": 1, "longest_s": 2.5, "tuned": False}),
        full=Size(rounds=3, params={"repeats": 1, "longest_s": 2.5, "tuned": False}),
    ),
)
