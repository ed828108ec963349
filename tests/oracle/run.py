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
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from backends import BACKENDS, Backend
from engines import ENGINES, Engine, engine, split
from fake_trial import FAKE_FAULTS, HOLDS, FakeTrial, draw_actions
from faults import FAULTS
from judge import Violation, judge, judge_calls
from report import Outcome, markdown, table
from scenarios import Bounds, Scenario, draw
from shrink import dumped, loaded, shrink
from trial import Trial

__all__ = ["Outcome", "Work", "main", "plan", "run_all", "run_one", "start", "start_engines", "table"]


FAKE = "fake"
_REPORT_EVERY = 100
_SHRINK_S = 90.0
_TRIES = 3
"""How often a scenario is run before it counts as good while it is reduced: races do not come every time."""
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


def run_one(work: Work) -> Outcome:
    """Run one trial in this process and judge it; its files stay when a promise was broken."""
    began = time.monotonic()
    root = Path(tempfile.mkdtemp(prefix="o-", dir=work.root))
    violations = _judged_by_engine(work, root) if split(work.backend)[1] else judged(_drawn(work), root)
    if not violations:
        shutil.rmtree(root, ignore_errors=True)
    return Outcome(work.backend, work.fault, work.seed, violations, time.monotonic() - began)


def _drawn(work: Work) -> Scenario:
    backend = STARTED[work.backend]
    capabilities = backend.capabilities()
    bounds = Bounds(
        policies=backend.policies,
        retries=(0,) if not capabilities.retries else (0, 1) if backend.is_small else (0, 0, 1, 2, 3),
        replicas=(1, 1, 2) if backend.is_small else (1, 1, 2, 3),
        daemons=backend.ends_daemons,
        holds=work.fault in HOLDS if work.backend == FAKE else FAULTS[work.fault].holds,
    )
    scenario = draw(work.backend, work.fault, work.seed, bounds)
    if work.backend == FAKE:
        scenario.actions = draw_actions(work.fault, work.seed)
    return scenario


def judged(scenario: Scenario, root: Path) -> list[Violation]:
    """Carry a scenario out below the root, and judge it."""
    if scenario.backend == FAKE:
        return _judged_in_memory(scenario, root)
    fault, backend = FAULTS[scenario.fault], STARTED[scenario.backend]
    capabilities = backend.capabilities()
    trial = Trial(scenario, backend, root)
    promises = trial.promises
    promises.exact, promises.restarts_at_once = backend.exact, backend.restarts_at_once
    promises.doubt_s = backend.doubt_s
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


def _judged_in_memory(scenario: Scenario, root: Path) -> list[Violation]:
    trial = FakeTrial(scenario, root)
    try:
        violations = judge(trial.run(), trial.seen, trial.promises)
    except Exception:  # noqa: BLE001  # likewise
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


def _keep(root: Path, scenario: Scenario, trial: Trial | FakeTrial, violations: list[Violation]) -> None:
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


def plan(
    faults: list[str],
    seed: int,
    root: Path,
    weights: Mapping[str, int] = MappingProxyType({}),
    engines: Collection[str] = (),
) -> Iterator[Work]:
    """Yield trials without end: every fault on all that was started and that it is for, again and again.

    Args:
        faults: These alone; none for all.
        seed: That of the first trials.
        root: Where their files lie.
        weights: How many of each fault a backend, or an engine, gets in each round; otherwise one.
        engines: What was asked for, each ``ENGINE`` or ``ENGINE:FORM``; none for all forms of all.

    Raises:
        SystemExit: No fault of that name is for what was started.
    """
    known = {name: [f.name for f in FAULTS.values() if name in f.backends] for name in STARTED}
    if FAKE in known:
        known[FAKE] = list(FAKE_FAULTS)
    for each in ENGINES_STARTED.values():
        known |= {
            f"{each.name}:{form}": list(names)
            for form, names in each.faults.items()
            if not engines or {each.name, f"{each.name}:{form}"} & set(engines)
        }
    pairs = [
        (name, fault, i)
        for name, those in known.items()
        for fault in those
        if fault in faults or not faults
        for i in range(weights.get(name, weights.get(split(name)[0], 1)))
    ]
    if not pairs:
        raise SystemExit(f"no such fault here: {', '.join(faults)}")
    number = seed
    while True:
        shuffled = pairs[:]
        random.Random(number).shuffle(shuffled)
        for backend, fault, i in shuffled:
            yield Work(backend, fault, number + i, root)
        number += max(i for _, _, i in pairs) + 1


def _engine(name: str) -> str:
    if split(name)[0] not in ENGINES:
        raise argparse.ArgumentTypeError(f"{name!r}; known: {', '.join(ENGINES)}")
    return name


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
    with ExitStack() as stack:
        if options.scenario:
            return _rerun(loaded(options.scenario.read_text()), stack, root)
        start(backends, stack, root)
        start_engines({split(each)[0] for each in options.engine}, stack, root)
        outcomes = _run(options, root)
        bad = [outcome for outcome in outcomes if outcome.violations]
        for outcome in bad[: options.shrink]:
            _show_smallest(outcome, root)
    print(table(outcomes))
    for outcome in bad:
        _show(outcome)
    if bad:
        print(f"what the bad trials left is below {root}")
    else:
        shutil.rmtree(root, ignore_errors=True)
    return int(bool(bad))


def _run(options: argparse.Namespace, root: Path) -> list[Outcome]:
    weights = {name: int(number) for name, _, number in (each.partition("=") for each in options.weight)}
    works = islice(plan(options.fault, options.seed, root, weights, options.engine), options.trials)
    until = None if options.seconds is None else time.monotonic() + options.seconds
    started: list[Backend | Engine] = [*STARTED.values(), *ENGINES_STARTED.values()]
    workers = options.workers or min(each.workers or 2 * (os.cpu_count() or 1) for each in started)
    outcomes: list[Outcome] = []
    for outcome in run_all(works, workers=workers, until=until):
        outcomes.append(outcome)
        if outcome.violations:
            _show(outcome)
        if options.report and (len(outcomes) % _REPORT_EVERY == 0 or outcome.violations):
            options.report.write_text(markdown(outcomes))
        if outcome.violations and options.first:
            break
    if options.report:
        options.report.write_text(markdown(outcomes))
    return outcomes


def _rerun(scenario: Scenario, stack: ExitStack, root: Path) -> int:
    start([scenario.backend], stack, root)
    violations = _tried(scenario, root)
    for violation in violations:
        print(f"{violation.name}: {violation.detail[:1000]}")
    return int(bool(violations))


def _tried(scenario: Scenario, root: Path) -> list[Violation]:
    return judged(scenario, Path(tempfile.mkdtemp(prefix="s-", dir=root)))


def _show_smallest(outcome: Outcome, root: Path) -> None:
    """Reduce a bad trial and print what is left of it; an engine's cannot be reduced."""
    if split(outcome.backend)[1]:
        return
    names = {violation.name for violation in outcome.violations}
    tries = 1 if outcome.backend == FAKE else _TRIES

    def breaks(scenario: Scenario) -> bool:
        return any(names & {v.name for v in _tried(scenario, root)} for _ in range(tries))

    drawn = _drawn(Work(outcome.backend, outcome.fault, outcome.seed, root))
    smallest = dumped(shrink(drawn, breaks, _SHRINK_S))
    path = root / f"smallest-{outcome.backend.replace(':', '-')}-{outcome.fault}-{outcome.seed}.json"
    path.write_text(smallest)
    print(f"smallest, by `run.py --scenario {path}`: {smallest}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Attack every promise and judge what is shown by what ran.")
    parser.add_argument("--backend", nargs="*", default=[], choices=sorted(BACKENDS), help="local_cwd")
    parser.add_argument(
        "--engine",
        nargs="*",
        default=[],
        type=_engine,
        help="run its tasks, in all forms or in one: prefect:worker",
    )
    parser.add_argument("--fault", nargs="*", default=[], help="these alone; default: all")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--trials", type=int, help="how many at most")
    parser.add_argument("--seconds", type=float, help="how long at most")
    parser.add_argument("--first", action="store_true", help="end with the first broken promise")
    parser.add_argument("--weight", nargs="*", default=[], metavar="NAME=N", help="so many of each fault")
    parser.add_argument("--report", type=Path, help="write the table to this file, as Markdown")
    parser.add_argument("--shrink", type=int, default=1, help="reduce so many bad trials; default: 1")
    parser.add_argument("--scenario", type=Path, help="run this one, as it was printed, and nothing else")
    parser.add_argument("--workers", type=int, help="trials side by side; default: what suits the backends")
    return parser


if __name__ == "__main__":
    sys.exit(main())
