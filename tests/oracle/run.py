"""Runs trials and prints what came of them: ``python tests/oracle/run.py --help``."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from backends import BACKENDS, Backend
from engines import ENGINES, Engine, engine, split
from faults import FAULTS
from judge import Violation, judge, judge_calls
from scenarios import Bounds, Scenario, draw
from trial import Trial

__all__ = ["Outcome", "Work", "main", "plan", "run_all", "run_one", "start", "start_engines", "table"]


STARTED: dict[str, Backend] = {}
"""The backends of this run, by name."""
ENGINES_STARTED: dict[str, Engine] = {}
"""The engines of this run, by name."""


class Work(NamedTuple):
    """One trial to run."""

    backend: str
    """A scheduler's backend, or ``ENGINE:FORM``."""
    fault: str
    seed: int
    root: Path


class Outcome(NamedTuple):
    """What came of a trial."""

    backend: str
    fault: str
    seed: int
    violations: list[Violation]
    seconds: float


def run_one(work: Work) -> Outcome:
    """Run one trial in this process and judge it; its files stay when a promise was broken."""
    began = time.monotonic()
    root = Path(tempfile.mkdtemp(prefix="o-", dir=work.root))
    violations = _judged_by_engine(work, root) if split(work.backend)[1] else _judged(work, root)
    if not violations:
        shutil.rmtree(root, ignore_errors=True)
    return Outcome(work.backend, work.fault, work.seed, violations, time.monotonic() - began)


def _judged(work: Work, root: Path) -> list[Violation]:
    fault = FAULTS[work.fault]
    backend = STARTED[work.backend]
    capabilities = backend.capabilities()
    bounds = Bounds(
        policies=backend.policies,
        retries=(0,) if not capabilities.retries else (0, 1) if backend.is_small else (0, 0, 1, 2, 3),
        replicas=(1, 1, 2) if backend.is_small else (1, 1, 2, 3),
        daemons=backend.ends_daemons,
        holds=fault.holds,
    )
    scenario = draw(work.backend, work.fault, work.seed, bounds)
    trial = Trial(scenario, backend, root)
    promises = trial.promises
    promises.exact = backend.exact
    promises.separate_streams = capabilities.separate_streams
    promises.exit_codes, promises.reports = capabilities.exit_codes, capabilities.reports
    try:
        trial.run(fault.submit, fault.disturb)
        violations = judge(trial.truth(), trial.seen, promises) if trial.expects_app else _calls(trial)
    except Exception:  # noqa: BLE001  # a trial that breaks is told like a promise that breaks
        violations = [Violation("oracle-broke", traceback.format_exc())]
    if violations:
        _keep(root, scenario, trial, violations)
    return violations


def _judged_by_engine(work: Work, root: Path) -> list[Violation]:
    name, form = split(work.backend)
    try:
        violations, report = ENGINES_STARTED[name].trial(form, work.fault, work.seed, root)
    except Exception:  # noqa: BLE001  # likewise
        violations, report = [Violation("oracle-broke", traceback.format_exc())], {}
    if violations:
        _write_report(root, {**report, "violations": violations})
    return violations


def _calls(trial: Trial) -> list[Violation]:
    """Judge a trial that took its app away: by its calls alone."""
    return list(judge_calls(trial.seen.calls))


def _keep(root: Path, scenario: Scenario, trial: Trial, violations: list[Violation]) -> None:
    evidence = asdict(trial.seen)
    _write_report(root, {"scenario": asdict(scenario), "violations": violations, "evidence": evidence})


def _write_report(root: Path, report: dict[str, object]) -> None:
    (root / "report.json").write_text(json.dumps(report, indent=1, default=repr))


def run_all(works: Iterator[Work], *, workers: int, until: float | None) -> Iterator[Outcome]:
    """Run trials side by side, each in one of several processes, until all are run or time is over."""
    context = multiprocessing.get_context("fork")  # the backends that have been started come along
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        running: set[Future[Outcome]] = set()
        while True:
            if until is None or time.monotonic() < until:
                running |= {pool.submit(run_one, work) for work in islice(works, workers + 1 - len(running))}
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)


def start(names: Iterable[str], stack: ExitStack, root: Path) -> None:
    """Start backends for as long as the stack is open."""
    for name in names:
        STARTED[name] = BACKENDS[name]()
        STARTED[name].start(stack, root)


def start_engines(names: Iterable[str], stack: ExitStack, root: Path) -> None:
    """Start engines for as long as the stack is open."""
    for name in names:
        ENGINES_STARTED[name] = engine(name)
        ENGINES_STARTED[name].start(stack, root)


def plan(faults: list[str], seed: int, root: Path) -> Iterator[Work]:
    """Yield trials without end: every fault on all that was started and that it is for, again and again.

    Raises:
        SystemExit: No fault of that name is for what was started.
    """
    known = {name: [f.name for f in FAULTS.values() if name in f.backends] for name in STARTED}
    for each in ENGINES_STARTED.values():
        known |= {f"{each.name}:{form}": list(names) for form, names in each.faults.items()}
    pairs = [
        (name, fault) for name, those in known.items() for fault in those if fault in faults or not faults
    ]
    if not pairs:
        raise SystemExit(f"no such fault here: {', '.join(faults)}")
    number = seed
    while True:
        shuffled = pairs[:]
        random.Random(number).shuffle(shuffled)
        for backend, fault in shuffled:
            yield Work(backend, fault, number, root)
        number += 1


def table(outcomes: list[Outcome]) -> str:
    """Return fault x backend x trials x violations."""
    cells: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        cells[outcome.fault, outcome.backend].append(outcome)
    rows = [f"{'fault':32} {'backend':14} {'trials':>7} {'seconds':>7} {'bad':>5}  violations"]
    for (fault, backend), some in sorted(cells.items()):
        names = Counter(name for o in some for name in {v.name for v in o.violations})
        bad = sum(bool(o.violations) for o in some)
        told = ", ".join(f"{name} x{count}" for name, count in names.most_common())
        each_s = sum(o.seconds for o in some) / len(some)
        rows.append(f"{fault:32} {backend:14} {len(some):7} {each_s:7.1f} {bad:5}  {told}")
    total, bad = len(outcomes), sum(bool(o.violations) for o in outcomes)
    rows.append(f"{'all':32} {'':14} {total:7} {'':7} {bad:5}")
    return "\n".join(rows)


def _show(outcome: Outcome) -> None:
    print(f"{outcome.backend} {outcome.fault} --seed {outcome.seed}: ", end="")
    print("; ".join(f"{v.name} ({v.detail[:300]})" for v in outcome.violations[:6]), flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Run as the command line says; returns 1 when a promise was broken."""
    options = _parser().parse_args(arguments)
    for variable in ("TORCHX_STATE_DIR", "TORCHX_PARENT_RUN_ID", "TORCHX_JOB_ID"):
        os.environ.pop(variable, None)
    backends = options.backend or ([] if options.engine else ["local_cwd"])
    root = Path(tempfile.mkdtemp(prefix="oracle-"))
    outcomes: list[Outcome] = []
    with ExitStack() as stack:
        start(backends, stack, root)
        start_engines(options.engine, stack, root)
        works = islice(plan(options.fault, options.seed, root), options.trials)
        until = None if options.seconds is None else time.monotonic() + options.seconds
        started: list[Backend | Engine] = [*STARTED.values(), *ENGINES_STARTED.values()]
        workers = options.workers or min(each.workers or 2 * (os.cpu_count() or 1) for each in started)
        for outcome in run_all(works, workers=workers, until=until):
            outcomes.append(outcome)
            if outcome.violations:
                _show(outcome)
                if options.first:
                    break
    print(table(outcomes))
    bad = any(o.violations for o in outcomes)
    if bad:
        print(f"what the bad trials left is below {root}")
    else:
        shutil.rmtree(root, ignore_errors=True)
    return int(bad)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Attack every promise and judge what is shown by what ran.")
    parser.add_argument("--backend", nargs="*", default=[], choices=sorted(BACKENDS), help="local_cwd")
    parser.add_argument("--engine", nargs="*", default=[], choices=ENGINES, help="run its tasks")
    parser.add_argument("--fault", nargs="*", default=[], help="these alone; default: all")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--trials", type=int, help="how many at most")
    parser.add_argument("--seconds", type=float, help="how long at most")
    parser.add_argument("--first", action="store_true", help="end with the first broken promise")
    parser.add_argument("--workers", type=int, help="trials side by side; default: what suits the backends")
    return parser


if __name__ == "__main__":
    sys.exit(main())
