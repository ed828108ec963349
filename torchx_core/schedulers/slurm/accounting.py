"""What Slurm's accounting remembers of jobs that its queue has forgotten, where there is accounting."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable
from itertools import islice
from threading import Lock
from typing import Final, cast

from torchx_core.schedulers.slurm.commands import CommandFailed, ask
from torchx_core.schedulers.slurm.job import UNLISTED, Job, Row, is_over, merged, number, state_of
from torchx_core.schedulers.slurm.question import Question

__all__ = ["Accounting"]

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


class Accounting:
    """Asks sacct for everybody in this process, about many jobs at once; costs no thread.

    How a job ended never changes, so nothing is asked twice. A job that accounting does not know, or takes
    for one that runs long after the queue has forgotten it, has the state `UNLISTED`; so has every job where
    there is no accounting.
    """

    def __init__(self) -> None:
        """Ask nothing yet."""
        self._lock = Lock()
        self._known: dict[str, Job] = {}
        self._wanted: dict[str, None] = {}
        self._doubted: dict[str, float] = {}
        self._question: Question[dict[str, Job]] | None = None
        self._asked: list[str] = []
        self._next_at = 0.0
        self._interval = INTERVAL_S

    def poll(self, job_id: str) -> Job | None:
        """Return how the job ended, or None as long as there is no answer. Never waits."""
        with self._lock:
            if job_id in self._known:
                return self._known[job_id]
            now = time.monotonic()
            if not self._wanted and self._question is None:
                self._next_at = max(self._next_at, now + GATHER_S)
            self._wanted[job_id] = None
            if self._question is not None:
                self._take_answer(self._question, now)
            elif now >= self._next_at:
                self._asked = list(islice(self._wanted, _MOST))
                self._question = Question(_question(self._asked), _parse)
            return self._known.get(job_id)

    def ask(self, job_ids: Iterable[str]) -> None:
        """Wait until `poll` knows these jobs, as far as accounting does.

        Raises:
            NoAnswer: Accounting is there, and away.
        """
        with self._lock:
            unknown = [job_id for job_id in job_ids if job_id not in self._known]
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

    def _take_answer(self, question: Question[dict[str, Job]], now: float) -> None:
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

    def _learn(self, asked: Collection[str], answer: dict[str, Job]) -> None:
        for job_id in asked:
            job = answer.get(job_id, Job(job_id=job_id, state=UNLISTED))
            if not is_over(job):
                since = self._doubted.setdefault(job_id, time.monotonic())
                if time.monotonic() - since < PATIENCE_S:
                    continue
                job = Job(job_id=job_id, state=UNLISTED)
            self._known.setdefault(job_id, job)
            self._wanted.pop(job_id, None)
            self._doubted.pop(job_id, None)


def _question(job_ids: Iterable[str]) -> list[str]:
    return ["sacct", "--json", f"--jobs={','.join(job_ids)}"]


def _parse(text: str) -> dict[str, Job]:
    return merged(text, _remembered)


def _remembered(row: Row) -> Job:
    """Read a job of sacct's JSON.

    Source: seen with 22.05, which wraps nothing; newer versions wrap numbers and give a list of states.
    """
    state = cast("Row", row["state"])
    het = cast("Row", row.get("het") or {})
    return Job(
        job_id=str(number(het.get("job_id")) or number(row["job_id"])),
        state=state_of(state["current"]),
        name=str(row.get("name") or ""),
        comment=str(cast("Row", row.get("comment") or {}).get("job") or ""),
        reason=str(state.get("reason") or ""),
        nodes=_nodes(row.get("nodes")),
        ended_at=number(cast("Row", row.get("time") or {}).get("end")),
        ended_by=str(row.get("kill_request_user") or ""),
    )


def _nodes(value: object) -> str:
    """Return the nodes; accounting has words for a job that never had any."""
    return "" if value in {None, "None assigned"} else str(value)
