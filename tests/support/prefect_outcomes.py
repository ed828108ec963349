"""Carries out a row of the table of kills in every form at once, and tells what became of each."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from prefect_jobs import FORMS, Form, Job
from prefect_kills import Fate, Kill
from prefect_runs import ask_until
from prefect_site import Site, Way

from torchx_core.testing import wait_until

__all__ = ["Outcome", "conduct", "expected"]

END_S = 240.0
LINES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one form's app or apps."""

    apps: tuple[tuple[str, str], ...]
    """State and message of every app there ever was."""
    run: str
    """The state of the flow run."""
    lines: tuple[str, ...]
    """Of all apps, as often as the log shows them."""
    left: int
    """Processes of the app that still run."""
    after_s: float | None = field(default=None, compare=False)
    """How long after it happened the last replica ended; None where it is not a matter of one moment."""


def conduct(site: Site, way: Way, kill: Kill, forms: Sequence[Form] = FORMS) -> dict[Form, Outcome]:
    """Run a flow in every form, make it happen to all of them, and look."""
    jobs = [site.begin(form, way, limit_s=kill.limit_s, **kill.options) for form in forms]
    try:
        for job in jobs:
            job.write(1)
            job.wait_for_apps()
            if kill.limit_s is None and job.form in FORMS:
                job.wait_for_lines(1)
                job.wait_for_saved_positions()
        kill.do(site, way, jobs)
        if kill.app is Fate.FOLLOWED:
            for job in jobs:
                job.write(LINES)
        return {job.form: _observe(job, kill) for job in jobs}
    finally:
        for job in jobs:
            job.clean_up()


def expected(kill: Kill, form: Form) -> Outcome:
    """Return what the table says."""
    names = ("a", "b") if form == "mapped" else ("a",)
    followed = kill.app is Fate.FOLLOWED
    shown = range(LINES if followed else 1)
    return Outcome(
        apps=(("SUCCEEDED", "") if followed else ("CANCELLED", kill.says),) * len(names),
        run=kill.runs.get(form, kill.run),
        lines=tuple(f"line {name} {i}" for name in names for i in shown),
        left=0,
    )


def _observe(job: Job, kill: Kill) -> Outcome:
    """Wait for what the table says, the cheap looks first; then tell what is there."""
    wanted = expected(kill, job.form)
    with contextlib.suppress(AssertionError):
        wait_until(lambda: tuple(_apps(job)) == wanted.apps, END_S)
        wait_until(lambda: not job.processes(), END_S)
        ask_until(lambda: str(job.run.state.name) in wanted.run.split(" or "), END_S)
        ask_until(lambda: job.form not in FORMS or tuple(job.lines()) >= wanted.lines, END_S)
    state = str(job.run.state.name)
    return Outcome(
        apps=tuple(_apps(job)),
        run=wanted.run if state in wanted.run.split(" or ") else state,
        lines=tuple(job.lines()),
        left=len(job.processes()),
        after_s=_end(job) - job.hit_at if job.hit_at and kill.app is Fate.CANCELLED else None,
    )


def _apps(job: Job) -> list[tuple[str, str]]:
    return [(status.state.name, status.msg) for status in job.statuses()]


def _end(job: Job) -> float:
    """Return when the last replica ended; infinity while one runs."""
    replicas = [replica for status in job.statuses() for role in status.roles for replica in role.replicas]
    return max((replica.ended_at or float("inf") for replica in replicas), default=float("inf"))
