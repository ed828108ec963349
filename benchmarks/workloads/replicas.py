"""One app of some replicas: until its handle is there, all run, all have ended, or are cancelled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.clock import monotonic, ms_since
from benchmarks.experiment import (
    SIDES,
    Experiment,
    Row,
    Samples,
    SideName,
    Size,
    Target,
    at_most,
    at_most_times,
)
from benchmarks.programs import when_up
from benchmarks.sides.side import J, Side
from benchmarks.workloads.upness import UpPipe


def measure(side: Side[J], folder: Path, *, replicas: int, repeats: int) -> Samples:
    """Run the app to its end, and another until it is cancelled; the first of several is not counted."""
    samples: Samples = {"handle_ms": [], "ended_ms": [], "up_ms": [], "status_ms": [], "again_ms": []}
    samples["cancel_ms"] = []
    for i in range(repeats + 1):
        once = _ends_by_itself(side, replicas) | _is_cancelled(side, folder, replicas)
        if i or not repeats:
            for metric, value in once.items():
                samples[metric].append(value)
    return samples


def _ends_by_itself(side: Side[J], replicas: int) -> dict[str, float]:
    start = monotonic()
    job = side.submit(["true"], replicas)
    handle_ms = ms_since(start)
    side.wait(job)
    return {"handle_ms": handle_ms, "ended_ms": ms_since(start)}


def _is_cancelled(side: Side[J], folder: Path, replicas: int) -> dict[str, float]:
    with UpPipe(folder) as pipe:
        start = monotonic()
        job = side.submit(when_up(pipe.path), replicas)
        pipe.wait_for(replicas)
        up_ms = ms_since(start)
        start = monotonic()
        side.status(job)
        status_ms = ms_since(start)
        start = monotonic()
        side.status(job)
        again_ms = ms_since(start)
        start = monotonic()
        side.cancel(job)
        side.wait(job)
        cancel_ms = ms_since(start)
        return {"up_ms": up_ms, "status_ms": status_ms, "again_ms": again_ms, "cancel_ms": cancel_ms}


_HANDLE_TARGETS: dict[int, Target] = {1: at_most(25), 100: at_most_times(1.5, "floor")}
_CANCEL_TARGETS: dict[int, Target] = {10: at_most(25)}


def _experiment(replicas: int, quick: Size | None, full: Size) -> Experiment:
    n = f"{replicas:,} replica" + ("s" if replicas > 1 else "")
    handle, cancel = _HANDLE_TARGETS.get(replicas), _CANCEL_TARGETS.get(replicas)
    return Experiment(
        name=f"replicas-{replicas}",
        measure=measure,
        rows=(
            Row(metric="handle_ms", what=f"{n}: run() until there is a handle", unit="ms", target=handle),
            Row(metric="up_ms", what=f"{n}: run() until all run", unit="ms"),
            Row(metric="ended_ms", what=f"{n} of `true`: run() until wait() returns", unit="ms"),
            Row(metric="status_ms", what=f"{n}: status", unit="ms"),
            Row(metric="again_ms", what=f"{n}: status again", unit="ms"),
            Row(metric="cancel_ms", what=f"{n} asleep: cancel until terminal", unit="ms", target=cancel),
        ),
        quick=quick,
        full=full,
    )


def _size(rounds: int, replicas: int, repeats: int, sides: Sequence[SideName] = SIDES) -> Size:
    return Size(rounds=rounds, params={"replicas": replicas, "repeats": repeats}, sides=sides)


EXPERIMENTS = (
    _experiment(1, quick=_size(2, 1, 5), full=_size(4, 1, 10)),
    _experiment(10, quick=_size(2, 10, 3), full=_size(4, 10, 8)),
    _experiment(100, quick=_size(1, 100, 1), full=_size(3, 100, 2)),
    # TorchX takes minutes to end a thousand replicas, one after another.
    _experiment(1000, quick=None, full=_size(3, 1000, 0, sides=("floor", "ours"))),
)
