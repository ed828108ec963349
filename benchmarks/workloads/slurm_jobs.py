"""Many tiny jobs on a Slurm cluster: submitting them, following them while they wait and until they end."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.clock import monotonic, pause
from benchmarks.experiment import Experiment, Row, Samples, SideName, Size, at_most
from benchmarks.sides.slurm.side import J, SlurmSide
from benchmarks.workloads.usage import usage

_SIDES: tuple[SideName, ...] = ("floor", "ours")
"""TorchX asks accounting, and needs a cluster with slurmdbd."""
_SETTLE_S = 3.0


def measure(side: SlurmSide[J], folder: Path, *, jobs: int, idle_s: float) -> Samples:
    """Submit to a partition that is down, watch while nothing happens, let go, watch until all have ended."""
    _set_partition("DOWN")
    start = monotonic()
    handles = [side.submit(["sh", "-c", f"date +%s.%N >{folder}/end.{i}"]) for i in range(jobs)]
    submit_s = monotonic() - start
    seen: dict[int, float] = {}
    idle_cpu_s: list[float] = []

    def note(number: int) -> None:
        seen[number] = time.time()

    def look_on() -> None:
        pause(_SETTLE_S)
        before = usage().cpu_s
        pause(idle_s)
        idle_cpu_s.append(usage().cpu_s - before)
        _set_partition("UP")

    observer = threading.Thread(target=look_on)
    before, start = usage().cpu_s, monotonic()
    with _counted(folder) as asked:
        observer.start()
        side.watch(handles, note)
        observer.join()
    watched_s, cpu_s = monotonic() - start, usage().cpu_s - before
    return {
        "submit_ps": [jobs / submit_s],
        "idle_pc": [100 * idle_cpu_s[0] / idle_s],
        "cpu_ms": [1e3 * (cpu_s - idle_cpu_s[0]) / jobs],
        "squeue_ps": [asked.read_text().count("\n") / watched_s],
        "delay_s": [seen[i] - float((folder / f"end.{i}").read_text()) for i in range(jobs)],
        "drained_s": [watched_s - idle_s - _SETTLE_S],
    }


def _set_partition(state: str) -> None:
    subprocess.run(["scontrol", "update", "PartitionName=main", f"State={state}"], check=True)


@contextmanager
def _counted(folder: Path) -> Iterator[Path]:
    """Yield a file that has a line for each call of squeue."""
    calls, program, path = folder / "squeues", folder / "bin" / "squeue", os.environ["PATH"]
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho >>{calls}\nexec {shutil.which("squeue")} "$@"\n')
    program.chmod(0o755)
    calls.touch()
    os.environ["PATH"] = f"{program.parent}:{path}"
    try:
        yield calls
    finally:
        os.environ["PATH"] = path


def _experiment(jobs: int, *, quick: Size | None, full: Size | None) -> Experiment:
    n = f"{jobs} Slurm jobs"
    rows = (
        Row(metric="submit_ps", what=f"{n}: submit", unit="jobs/s"),
        Row(
            metric="idle_pc",
            what=f"{n} followed: CPU while they wait",
            unit="% of a core",
            target=at_most(10),
        ),
        Row(metric="squeue_ps", what=f"{n} followed: squeue", unit="calls/s", target=at_most(1)),
        Row(metric="cpu_ms", what=f"{n} followed: CPU until their end", unit="ms/job"),
        Row(metric="delay_s", what=f"{n} followed: last instruction -> known", unit="s", target=at_most(2)),
        Row(metric="drained_s", what=f"{n}: let go until all are known to have ended", unit="s"),
    )
    return Experiment(
        name=f"slurm-{jobs}", measure=measure, rows=rows, quick=quick, full=full, backend="slurm"
    )


def _size(jobs: int, idle_s: float) -> Size:
    return Size(rounds=1, params={"jobs": jobs, "idle_s": idle_s}, sides=_SIDES)


EXPERIMENTS = (
    _experiment(50, quick=_size(50, 5.0), full=None),
    _experiment(500, quick=None, full=_size(500, 10.0)),
)
