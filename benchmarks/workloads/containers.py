"""Containers on a Docker engine: starting some, ending those that do not want to, reading what they print."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.clock import monotonic, ms_since
from benchmarks.experiment import (
    Experiment,
    Row,
    Samples,
    SideName,
    Size,
    at_least_times,
    at_most,
    at_most_times,
    none,
)
from benchmarks.sides.docker.side import DockerSide, J
from benchmarks.workloads.expected import compare, written

_EVERYBODY: tuple[SideName, ...] = ("floor", "cli", "peer", "ours")
_FAST: tuple[SideName, ...] = ("floor", "cli", "ours")
"""TorchX takes minutes to end ten stubborn containers, and to read a long log; it knows no other network."""
_STUBBORN = ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"]
_LINES = 200_000


def measure_start(side: DockerSide[J], folder: Path, *, replicas: int, network: bool) -> Samples:
    """Start containers that end at once, and wait for their end."""
    del folder
    start = monotonic()
    job = side.submit(["true"], replicas, network=network)
    started_ms = ms_since(start)
    side.wait(job)
    return {"started_ms": [started_ms], "ended_ms": [ms_since(start)]}


def measure_cancel(side: DockerSide[J], folder: Path, *, replicas: int, grace_s: int) -> Samples:
    """End containers that ignore SIGTERM."""
    del folder
    job = side.submit(_STUBBORN, replicas, network=True)
    start = monotonic()
    side.cancel(job, grace_s)
    return {"cancel_s": [ms_since(start) / 1e3]}


def measure_log(side: DockerSide[J], folder: Path, *, lines: int) -> Samples:
    """Follow a container that prints as fast as it can, and read its log once more when it has ended."""
    del folder
    expected = written(lines)
    arrived: list[str] = []
    job = side.submit(["awk", f'BEGIN {{ for (i = 0; i < {lines}; i++) printf "%-99d\\n", i }}'])
    start = monotonic()
    for some in side.tail(job):
        arrived.extend(some)
    follow_s = monotonic() - start
    side.wait(job)
    start = monotonic()
    again = side.read(job)
    read_s = monotonic() - start
    return {
        "follow_kps": [lines / follow_s / 1e3],
        "read_kps": [lines / read_s / 1e3],
        "torn": [sum(compare(arrived, expected)), sum(compare(again, expected))],
    }


def _start(
    replicas: int, *, network: bool, quick: int | None, full: int, sides: Sequence[SideName]
) -> Experiment:
    """Return what starts containers; TorchX always puts them on a network, so it has no part elsewhere."""
    n = f"{replicas} containers" + (" on a network of their own" if network else " on the engine's bridge")
    params = {"replicas": replicas, "network": network}
    return Experiment(
        name=f"docker-start-{replicas}" + ("" if network else "-bridge"),
        measure=measure_start,
        rows=(
            Row(metric="started_ms", what=f"{n}: run()", unit="ms", target=at_most_times(1.1, "floor")),
            Row(metric="ended_ms", what=f"{n} of `true`: run() until wait() returns", unit="ms"),
        ),
        quick=None if quick is None else Size(rounds=quick, params=params, sides=sides),
        full=Size(rounds=full, params=params, sides=sides),
        backend="docker",
    )


def _cancel(grace_s: int) -> dict[str, object]:
    return {"replicas": 10, "grace_s": grace_s}


EXPERIMENTS = (
    _start(10, network=True, quick=2, full=5, sides=_EVERYBODY),
    _start(10, network=False, quick=2, full=5, sides=_FAST),
    _start(100, network=True, quick=None, full=3, sides=_EVERYBODY),
    Experiment(
        name="docker-cancel",
        measure=measure_cancel,
        rows=(
            Row(
                metric="cancel_s",
                what="10 containers that ignore SIGTERM, 10 s grace: cancel until terminal",
                unit="s",
                target=at_most(11),
            ),
        ),
        quick=None,
        full=Size(rounds=2, params=_cancel(10), sides=_EVERYBODY),
        backend="docker",
    ),
    Experiment(
        name="docker-cancel-2",
        measure=measure_cancel,
        rows=(Row(metric="cancel_s", what="… 2 s grace", unit="s", target=at_most(3)),),
        quick=Size(rounds=1, params=_cancel(2), sides=_FAST),
        full=None,
        backend="docker",
    ),
    Experiment(
        name="docker-log",
        measure=measure_log,
        rows=(
            Row(
                metric="follow_kps",
                what="follow a container that prints 200k lines",
                unit="k lines/s",
                target=at_least_times(1, "cli"),
            ),
            Row(
                metric="read_kps",
                what="read that log when it has ended",
                unit="k lines/s",
                target=at_least_times(1, "cli"),
            ),
            Row(metric="torn", what="… lines torn, lost or repeated", unit="lines", target=none()),
        ),
        quick=Size(rounds=1, params={"lines": _LINES}, sides=_FAST),
        full=Size(rounds=3, params={"lines": _LINES}, sides=_EVERYBODY),
        backend="docker",
    ),
)
