"""The command line: ``python -m benchmarks [--quick] [--only NAME …] [--peer-python PATH]``."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

from benchmarks.experiment import Experiment, SideName, Size
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
    for backend, chosen in groupby(_chosen(options.only, quick=options.quick), lambda one: one[0].backend):
        with _prepared(backend, who) as present:
            for experiment, size in chosen if present else ():
                outcome = run(experiment, size, present, _say)
                outcomes.append(outcome)
                lines += _lines(experiment, outcome)
    _say("")
    print(table(lines))
    print(f"\nkept as {save('quick' if options.quick else 'full', lines, outcomes)}.json, .txt and .svg")
    busiest = max((load for outcome in outcomes for load in outcome.loads), default=0.0)
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
    parser.add_argument("--quick", action="store_true", help="minutes instead of half an hour")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="experiments whose names start like this")
    parser.add_argument(
        "--peer-python", type=Path, metavar="PATH", help="a Python that has TorchX; else it is left out"
    )
    return parser


def _chosen(only: Sequence[str] | None, *, quick: bool) -> list[tuple[Experiment, Size]]:
    wanted = [e for e in EXPERIMENTS if not only or e.name.startswith(tuple(only))]
    sizes = [(e, e.quick if quick else e.full) for e in wanted]
    return [(experiment, size) for experiment, size in sizes if size is not None]


@contextmanager
def _prepared(backend: str, who: Mapping[SideName, Path]) -> Iterator[Mapping[SideName, Path]]:
    """Prepare the backend and yield who can be measured on it; workers inherit the environment."""
    from benchmarks import engine

    if backend == "local":
        yield who
        return
    if backend == "prefect":
        reason, start = engine.why_no_prefect_shell(), engine.prefect_server
    elif backend == "slurm":
        reason, start = engine.why_no_cluster(), engine.slurm_cluster
    else:
        operator = engine.why_no_docker_operator() if backend == "airflow" else ""
        reason, start = operator or engine.why_no_engine() or "", engine.docker_engine
    if reason:
        print(f"no {_FLOORS[backend]}: {reason}", file=sys.stderr)
        yield _without_docker(who) if backend == "airflow" else {}
        return
    _say(f"starting what {backend} needs")
    with start() as environment:
        os.environ.update(environment)
        yield who


_FLOORS = {"docker": "Docker", "slurm": "Slurm", "airflow": "DockerOperator", "prefect": "ShellOperation"}


def _without_docker(who: Mapping[SideName, Path]) -> Mapping[SideName, Path]:
    present = dict(who)
    del present["cli"]
    return present


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
