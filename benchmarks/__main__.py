"""The command line: ``python -m benchmarks [--quick] [--only NAME …] [--peer-python PATH]``."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.experiment import Experiment, Size
from benchmarks.results import save
from benchmarks.rounds import Outcome, pythons, run
from benchmarks.summary import Line, summarise
from benchmarks.table import table
from benchmarks.workloads import EXPERIMENTS


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, keep the results; 1 when something could not be measured."""
    options = _parser().parse_args(arguments)
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM")
    )  # as Ctrl-C does: after cleaning up
    who = pythons(options.peer_python)
    outcomes: list[Outcome] = []
    lines: list[Line] = []
    for experiment, size in _chosen(options.only, quick=options.quick):
        outcome = run(experiment, size, who, _say)
        outcomes.append(outcome)
        lines += _lines(experiment, outcome)
    _say("")
    print(table(lines))
    print(f"\nkept as {save('quick' if options.quick else 'full', lines, outcomes)}.json, .txt and .svg")
    busiest = max(load for outcome in outcomes for load in outcome.loads)
    if busiest > (os.cpu_count() or 1):
        print(f"the machine was busy: its load reached {busiest:.1f}; trust the ratios, or run it again")
    for outcome in outcomes:
        for failure in outcome.failures:
            print(f"{outcome.name}: {failure}", file=sys.stderr)
        if outcome.killed:
            print(f"{outcome.name}: {outcome.killed} processes were left behind", file=sys.stderr)
    return int(any(outcome.failures or outcome.killed for outcome in outcomes))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="under two minutes instead of ten")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="experiments whose names start like this")
    parser.add_argument(
        "--peer-python", type=Path, metavar="PATH", help="a Python that has TorchX; else it is left out"
    )
    return parser


def _chosen(only: Sequence[str] | None, *, quick: bool) -> list[tuple[Experiment, Size]]:
    wanted = [e for e in EXPERIMENTS if not only or e.name.startswith(tuple(only))]
    sizes = [(e, e.quick if quick else e.full) for e in wanted]
    return [(experiment, size) for experiment, size in sizes if size is not None]


def _lines(experiment: Experiment, outcome: Outcome) -> list[Line]:
    return [
        summarise(
            experiment.name,
            row,
            {side: [some.get(row.metric, []) for some in rounds] for side, rounds in outcome.samples.items()},
        )
        for row in experiment.rows
    ]


def _say(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
