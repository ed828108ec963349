"""Many apps in one process: submitting, awaiting and ending them, and what they cost while idle."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from benchmarks.clock import monotonic, ms_since, pause
from benchmarks.experiment import SIDES, Experiment, Row, Samples, SideName, Size, at_most
from benchmarks.programs import when_up
from benchmarks.sides.side import J, Side
from benchmarks.workloads.upness import UpPipe
from benchmarks.workloads.usage import Usage, memory, raise_file_limit, usage

_MANY = 50
"""From here on it is worth telling what awaiting costs."""


def measure(side: Side[J], folder: Path, *, apps: int, idle_s: float) -> Samples:
    """Submit sleeping apps, look at them, await them all while nothing happens, and cancel them."""
    raise_file_limit()
    before = memory()
    with UpPipe(folder) as pipe:
        start = monotonic()
        jobs = [side.submit(when_up(pipe.path)) for _ in range(apps)]
        submit_ms = ms_since(start)
        pipe.wait_for(apps)
        up_ms = ms_since(start)
    after = memory()
    start = monotonic()
    for job in jobs:
        side.status(job)
    status_ms = ms_since(start)
    start = monotonic()
    for job in jobs:
        side.status(job)
    again_ms = ms_since(start)
    samples: Samples = {
        "submit_ms": [submit_ms],
        "up_ms": [up_ms],
        "status_ms": [status_ms],
        "again_ms": [again_ms],
        "pss_mb": [(after.pss_mb - before.pss_mb) / apps],
        "private_mb": [(after.private_mb - before.private_mb) / apps],
    }
    return samples | _awaited(side, jobs, idle_s)


def _awaited(side: Side[J], jobs: Sequence[J], idle_s: float) -> Samples:
    """Await the apps; a second thread looks on and ends them."""
    bare = usage()
    readings: list[Usage] = []
    cancelled_at: list[float] = []

    def look_on() -> None:
        pause(_settle_s(len(jobs)))
        readings.append(usage())
        pause(idle_s)
        readings.append(usage())
        cancelled_at.append(monotonic())
        for job in jobs:
            side.cancel(job)

    observer = threading.Thread(target=look_on)
    observer.start()
    side.watch(jobs)
    observer.join()
    for job in jobs:
        side.wait(job)
    first, last = readings
    return {
        "cancel_ms": [ms_since(cancelled_at[0])],
        "cpu_pc": [100 * (last.cpu_s - first.cpu_s) / idle_s],
        "threads": [last.threads - bare.threads - 1],  # the observer is none of theirs
        "fds": [last.fds - bare.fds],
    }


def _settle_s(apps: int) -> float:
    """Return how long it may take until all are awaited."""
    return 0.5 + apps / 100


def _experiment(apps: int, quick: Size | None, full: Size | None) -> Experiment:
    n = f"{apps:,} app" + ("s" if apps > 1 else "")
    rows = [
        Row(metric="submit_ms", what=f"{n}: submit, one after another", unit="ms"),
        Row(metric="up_ms", what=f"{n}: submit until all run", unit="ms"),
        Row(metric="status_ms", what=f"{n}: status of each", unit="ms"),
        Row(metric="again_ms", what=f"{n}: status of each again", unit="ms"),
        Row(metric="cancel_ms", what=f"{n}: cancel until all are terminal", unit="ms"),
    ]
    if apps >= _MANY:
        rows += [
            Row(metric="cpu_pc", what=f"{n} awaited: CPU while idle", unit="% of a core", target=at_most(1)),
            Row(metric="threads", what=f"{n} awaited: threads", unit="threads", target=at_most(2)),
            Row(metric="fds", what=f"{n} awaited: descriptors", unit="fds"),
            Row(metric="pss_mb", what=f"{n}: memory of helpers and submitter, per app (PSS)", unit="MB"),
            Row(metric="private_mb", what=f"{n}: the same, private memory", unit="MB"),
        ]
    return Experiment(name=f"apps-{apps}", measure=measure, rows=rows, quick=quick, full=full)


def _size(rounds: int, apps: int, idle_s: float, sides: Sequence[SideName] = SIDES) -> Size:
    return Size(rounds=rounds, params={"apps": apps, "idle_s": idle_s}, sides=sides)


EXPERIMENTS = (
    _experiment(1, quick=_size(1, 1, 0.1), full=_size(5, 1, 0.1)),
    _experiment(10, quick=_size(1, 10, 0.1), full=_size(5, 10, 0.1)),
    _experiment(50, quick=_size(1, 50, 2.0), full=None),
    _experiment(100, quick=None, full=_size(2, 100, 3.0)),
    # TorchX would need 3,000 threads, and minutes to cancel: what an app costs it shows with 100.
    _experiment(1000, quick=None, full=_size(1, 1000, 10.0, sides=("floor", "ours"))),
)
