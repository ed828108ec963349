"""Following many replicas at once: what of their output never arrives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.clock import monotonic
from benchmarks.experiment import Experiment, Row, Samples, Size, none
from benchmarks.programs import program, script
from benchmarks.sides.side import J, Side
from benchmarks.workloads.expected import Faults, compare, written

_REPLICAS = 32


def measure_scripts(side: Side[J], folder: Path, *, lines: int, pause_s: float, repeats: int) -> Samples:
    """Follow shell scripts that print, sleep, print again and end, as many a job does."""
    del folder
    faults: list[Faults] = []
    took_s: list[float] = []
    expected = [f"line {i}" for i in range(2 * lines)]
    for _ in range(repeats):
        _follow(side, script("two_bursts", lines, pause_s), expected, faults, took_s)
    return _samples(faults, took_s)


def measure_burst(side: Side[J], folder: Path, *, lines: int, repeats: int) -> Samples:
    """Follow replicas that print as fast as they can, line by line."""
    faults: list[Faults] = []
    took_s: list[float] = []
    command = program("write_lines", lines, 1, folder / "stamps")
    for _ in range(repeats):
        _follow(side, command, written(lines), faults, took_s)
    return _samples(faults, took_s)


def _follow(
    side: Side[J], command: Sequence[str], expected: Sequence[str], faults: list[Faults], took_s: list[float]
) -> None:
    start = monotonic()
    job = side.submit(command, _REPLICAS, live=True)
    arrived = side.tail_all(job, _REPLICAS)
    took_s.append(monotonic() - start)
    side.wait(job)
    faults += [compare(one, expected) for one in arrived]


def _samples(faults: Sequence[Faults], took_s: list[float]) -> Samples:
    """Add up: a line lost in one run of ten is a line lost."""
    return {
        "lost": [sum(f.lost for f in faults)],
        "truncated_pc": [100 * sum(f.lost > 0 for f in faults) / len(faults)],
        "faulty": [sum(f.torn + f.repeated for f in faults)],
        "took_s": took_s,
    }


def _rows(what: str) -> Sequence[Row]:
    return (
        Row(metric="lost", what=f"{what}: lines lost", unit="lines", target=none()),
        Row(metric="truncated_pc", what="… replica logs truncated", unit="%", target=none()),
        Row(metric="faulty", what="… lines torn or repeated", unit="lines", target=none()),
        Row(metric="took_s", what="… run() until all lines are there", unit="s"),
    )


EXPERIMENTS = (
    Experiment(
        name="logs-scripts",
        measure=measure_scripts,
        rows=_rows("32 scripts x 400 lines"),
        quick=Size(rounds=1, params={"lines": 200, "pause_s": 0.7, "repeats": 3}),
        full=Size(rounds=4, params={"lines": 200, "pause_s": 0.7, "repeats": 3}),
    ),
    Experiment(
        name="logs-burst",
        measure=measure_burst,
        rows=_rows("32 programs x 5,000 lines, unbuffered"),
        quick=Size(rounds=1, params={"lines": 5000, "repeats": 1}),
        full=Size(rounds=3, params={"lines": 5000, "repeats": 2}),
    ),
)
