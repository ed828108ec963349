"""Reading a long log: one that is finished, and one that is written meanwhile."""

from __future__ import annotations

from pathlib import Path

from benchmarks.clock import monotonic, monotonic_ns
from benchmarks.experiment import Experiment, Row, Samples, Size, at_least, none
from benchmarks.programs import program
from benchmarks.sides.side import J, Side
from benchmarks.workloads.expected import compare, stamps, written

_PER_WRITE = 80  # about what a buffered file object writes


def measure_finished(side: Side[J], folder: Path, *, lines: int, repeats: int) -> Samples:
    """Read the log of an app that has ended."""
    expected = written(lines)
    job = side.submit(program("write_lines", lines, _PER_WRITE, folder / "stamps"))
    side.wait(job)
    samples: Samples = {"batches_mps": [], "each_mps": [], "torn": []}
    for _ in range(repeats):
        for metric, read in (("batches_mps", side.read), ("each_mps", side.read_each)):
            start = monotonic()
            arrived = read(job)
            samples[metric].append(lines / (monotonic() - start) / 1e6)
            samples["torn"].append(sum(compare(arrived, expected)))
    return samples


def measure_live(side: Side[J], folder: Path, *, lines: int, repeats: int, log_mode: str) -> Samples:
    """Follow an app that writes as fast as it can, from its first line to its last."""
    expected = written(lines)
    samples: Samples = {"mps": [], "torn": []}
    for _ in range(repeats):
        arrived: list[str] = []
        command = program("write_lines", lines, _PER_WRITE, folder / "stamps")
        job = side.submit(command, log_mode=log_mode, live=True)
        last = monotonic_ns()
        for some in side.tail(job):
            arrived.extend(some)
            last = monotonic_ns()
        side.wait(job)
        started, _ = stamps(folder / "stamps")
        samples["mps"].append(lines / (last - started) * 1e3)
        samples["torn"].append(sum(compare(arrived, expected)))
    return samples


_LINES = 200_000


def _live(name: str, log_mode: str, what: str) -> Experiment:
    params = {"lines": _LINES, "log_mode": log_mode}
    return Experiment(
        name=name,
        measure=measure_live,
        rows=(
            Row(metric="mps", what=what, unit="M lines/s", target=at_least(1.5)),
            Row(metric="torn", what="… lines torn, lost or repeated", unit="lines", target=none()),
        ),
        quick=Size(rounds=2, params={**params, "repeats": 1}),
        full=Size(rounds=5, params={**params, "repeats": 3}),
    )


EXPERIMENTS = (
    Experiment(
        name="read-finished",
        measure=measure_finished,
        rows=(
            Row(
                metric="batches_mps",
                what="follow a finished 200k line log",
                unit="M lines/s",
                target=at_least(1.5),
            ),
            Row(metric="each_mps", what="… one line at a time (log_lines)", unit="M lines/s"),
            Row(metric="torn", what="… lines torn, lost or repeated", unit="lines", target=none()),
        ),
        quick=Size(rounds=2, params={"lines": _LINES, "repeats": 2}),
        full=Size(rounds=5, params={"lines": _LINES, "repeats": 4}),
    ),
    _live("read-live", "exact", "follow a live 200k line log (log_mode exact, the default)"),
    _live("read-live-pipe", "pipe", "follow a live 200k line log (log_mode pipe)"),
)
