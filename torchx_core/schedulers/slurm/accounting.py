"""What Slurm's accounting remembers of jobs that its queue has forgotten, where there is accounting."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable
from functools import reduce
from itertools import islice
from threading import Lock
from typing import Final, NamedTuple, cast

from torchx_core.schedulers.slurm.commands import CommandFailed, ask
from torchx_core.schedulers.slurm.job import UNLISTED, Job, Row, both, is_over, number, read_rows, state_of
from torchx_core.schedulers.slurm.question import Question

__all__ = ["Accounting", "JobName"]

logger: Final = logging.getLogger(__name__)

GATHER_S = 1.0
"""How long the first who asks waits for others: a cluster forgets many jobs at once."""
INTERVAL_S = 10.0
"""The least time between two questions of this process, as long as somebody follows."""
LONGEST_INTERVAL_S = 120.0
PATIENCE_S = 300.0
"""How long it is believed of a job that the queue has forgotten that it runs: the news may be on its way."""
_MOST = 1000
"""Jobs in one question: their ids are words of a command line."""


class JobName(NamedTuple):
    """Names a job: ids come again, after a controller has lost its state or has counted to the end."""

    job_id: str
    name: str
    """Of an app's job, the app's id."""


class Accounting:
    """Asks sacct for everybody in this process, about many jobs at once; costs no thread.

    How a job ended never changes, so nothing is asked twice. A job that accounting does not know, or takes
    for one that runs long after the queue has forgotten it, has the state `UNLISTED`; so has every job where
    there is no accounting.
    """

    def __init__(self) -> None:
        """Ask nothing yet."""
        self._lock = Lock()
        self._known: dict[JobName, Job] = {}
        self._wanted: dict[JobName, None] = {}
        self._doubted: dict[JobName, float] = {}
        self._question: Question[dict[JobName, Job]] | None = None
        self._asked: list[JobName] = []
        self._next_at = 0.0
        self._interval = INTERVAL_S

    def poll(self, job: JobName) -> Job | None:
        """Return how the job ended, or None as long as there is no answer. Never waits."""
        with self._lock:
            if job in self._known:
                return self._known[job]
            now = time.monotonic()
            if not self._wanted and self._question is None:
                self._next_at = max(self._next_at, now + GATHER_S)
            self._wanted[job] = None
            if self._question is not None:
                self._take_answer(self._question, now)
            elif now >= self._next_at:
                self._asked = list(islice(self._wanted, _MOST))
                self._question = Question(_question(self._asked), _parse)
            return self._known.get(job)

    def ask(self, jobs: Iterable[JobName]) -> None:
        """Wait until `poll` knows these jobs, as far as accounting does.

        Raises:
            NoAnswer: Accounting is there, and away.
        """
        with self._lock:
            unknown = [job for job in jobs if job not in self._known]
        for first in range(0, len(unknown), _MOST):
            some = unknown[first : first + _MOST]
            try:
                answer = ask(_question(some), _parse)
            except CommandFailed:
                answer = {}  # none is kept here
            with self._lock:
                self._learn(some, answer)

    def drop(self) -> None:
        """Leave no question open: nobody follows any more."""
        with self._lock:
            if self._question is not None:
                self._question.drop()
                self._question = None

    def _take_answer(self, question: Question[dict[JobName, Job]], now: float) -> None:
        answer = question.answer()
        if answer is None:
            return
        self._question = None
        if isinstance(answer, Exception) and not isinstance(answer, CommandFailed):
            logger.warning("cannot ask Slurm's accounting just now: %s", answer)
            self._interval = min(2 * self._interval, LONGEST_INTERVAL_S)
        else:
            self._learn(self._asked, answer if isinstance(answer, dict) else {})  # or none is kept here
            self._interval = INTERVAL_S
        self._next_at = now + self._interval

    def _learn(self, asked: Collection[JobName], answer: dict[JobName, Job]) -> None:
        # It may have been renamed; or accounting has heard of its steps alone: then "allocation" waits.
        latest = {name.job_id: job for name, job in answer.items()}
        for name in asked:
            job = answer.get(name) or latest.get(name.job_id) or Job(job_id=name.job_id, state=UNLISTED)
            if not is_over(job):
                since = self._doubted.setdefault(name, time.monotonic())
                if time.monotonic() - since < PATIENCE_S:
                    continue
                job = Job(job_id=name.job_id, state=UNLISTED)
            self._known.setdefault(name, job)
            self._wanted.pop(name, None)
            self._doubted.pop(name, None)


def _question(jobs: Iterable[JobName]) -> list[str]:
    """Ask for all jobs of an id: a controller that has lost its state begins to count anew.

    Source: 22.05 lists those in any case, newer versions only the latest (seen with 24.11).
    """
    return ["sacct", "--json", "--duplicates", f"--jobs={','.join(job.job_id for job in jobs)}"]


def _parse(text: str) -> dict[JobName, Job]:
    """Return the jobs of an answer; of a heterogeneous job all components have a say.

    A job that was requeued has a row for each of its runs, of which the latest counts.
    """
    runs: dict[str, dict[JobName, _Run]] = {}
    for run in sorted(read_rows(text, _remembered), key=lambda run: run.submitted_at):
        component = runs.setdefault(run.job.job_id, {})
        component[JobName(run.component, run.job.name)] = run
    found: dict[JobName, Job] = {}
    for job_id, components in runs.items():
        others = [run.job for name, run in components.items() if name.job_id != job_id]
        if others and len(others) == len(components):  # accounting has not heard of the first component
            found[JobName(job_id, others[0].name)] = reduce(both, others)
        for name, run in components.items():
            if name.job_id == job_id:
                found[name] = reduce(both, others, run.job) if run.has_components else run.job
    return found


class _Run(NamedTuple):
    """One run of a job, or of a component of one."""

    job: Job
    component: str
    submitted_at: int
    has_components: bool


def _remembered(row: Row) -> _Run:
    """Read a job of sacct's JSON.

    Source: seen with 22.05, which wraps nothing; newer versions wrap numbers and give a list of states.
    """
    state = cast("Row", row["state"])
    leader = number(cast("Row", row.get("het") or {}).get("job_id"))
    component = number(row["job_id"])
    time_of = cast("Row", row.get("time") or {})
    job = Job(
        job_id=str(leader or component),
        state=state_of(state["current"]),
        name=str(row.get("name") or ""),
        comment=str(cast("Row", row.get("comment") or {}).get("job") or ""),
        reason=str(state.get("reason") or ""),
        nodes=_nodes(row.get("nodes")),
        ended_at=number(time_of.get("end")),
        ended_by=str(row.get("kill_request_user") or ""),
    )
    return _Run(job, str(component), number(time_of.get("submission")), bool(leader))


def _nodes(value: object) -> str:
    """Return the nodes; accounting has words for a job that never had any."""
    return "" if value in {None, "None assigned"} else str(value)
