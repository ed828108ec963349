"""How much a program is held up by whoever takes its output."""

from __future__ import annotations

from pathlib import Path

from benchmarks.experiment import Experiment, Row, Samples, Size
from benchmarks.programs import program
from benchmarks.sides.side import J, Side
from benchmarks.workloads.expected import stamps


def measure(
    side: Side[J], folder: Path, *, lines: int, per_write: int, log_mode: str, repeats: int
) -> Samples:
    """Let a program write as fast as it can, and ask it how fast that was."""
    rates: list[float] = []
    for _ in range(repeats):
        command = program("write_lines", lines, per_write, folder / "stamps")
        side.wait(side.submit(command, log_mode=log_mode))
        start, end = stamps(folder / "stamps")
        rates.append(lines / (end - start) * 1e3)
    return {"mps": rates}


def _experiment(kind: str, per_write: int, log_mode: str, *, quick_lines: int) -> Experiment:
    params = {"per_write": per_write, "log_mode": log_mode}
    return Experiment(
        name=f"write-{per_write}-{log_mode}",
        measure=measure,
        rows=(Row(metric="mps", what=f"a program writes {kind}, log_mode {log_mode}", unit="M lines/s"),),
        quick=Size(rounds=2, params={**params, "lines": quick_lines, "repeats": 1}),
        full=Size(rounds=5, params={**params, "lines": 2 * quick_lines, "repeats": 1}),
    )


EXPERIMENTS = tuple(
    _experiment(kind, per_write, log_mode, quick_lines=lines)
    for kind, per_write, lines in (("line by line", 1, 50_000), ("8 KB at a time", 80, 200_000))
    for log_mode in ("exact", "pipe")
)
