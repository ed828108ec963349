"""What Slurm says of this user's jobs: one question for all of them, asked at most once a second."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from torchx_core.errors import SchedulerError
from torchx_core.schedulers.slurm.accounting import Accounting
from torchx_core.schedulers.slurm.commands import ask
from torchx_core.schedulers.slurm.job import Job, parse_queue
from torchx_core.schedulers.slurm.question import Question

__all__ = ["JobQueue", "Snapshot", "shared_queue"]

logger: Final = logging.getLogger(__name__)

INTERVAL_S = 1.0
"""The least time between two questions of this process."""
QUIET_INTERVAL_S = 5.0
"""What it grows to while the answers stay the same."""
LONGEST_INTERVAL_S = 30.0
_REST = 4
"""A question that takes a second is asked every 4: a slow controller is a busy one."""

QUESTION: Final = ("squeue", "--json", "--me", "--states=all")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What Slurm said."""

    jobs: Mapping[str, Job] = field(default_factory=dict[str, Job])
    asked_at: float = float("-inf")
    """When it was asked, on the monotonic clock."""

    @property
    def asked_time(self) -> float:
        """When Slurm was asked, in seconds since the epoch."""
        return time.time() - (time.monotonic() - self.asked_at)


class JobQueue:
    """Asks for everybody in this process who follows an app; costs no thread."""

    def __init__(self) -> None:
        """Ask nothing yet."""
        self._lock = Lock()
        self._asking = Lock()
        self._snapshot = Snapshot()
        self._failure: SchedulerError | None = None
        self._failed_at = float("-inf")
        self._asked_at = float("-inf")
        self._pace_s = INTERVAL_S  # how long we wait before we ask again
        self._mercy_s = 0.0  # how long a slow or absent controller is left alone
        self._question: Question[dict[str, Job]] | None = None
        self._followers = 0
        self.accounting: Accounting = Accounting()
        """Knows how jobs ended that Slurm does not list any more."""

    def join(self) -> None:
        """Say that somebody is about to `poll`."""
        with self._lock:
            self._followers += 1
            self._pace_s = INTERVAL_S  # he knows nothing yet

    def leave(self) -> None:
        """Say that he is not any more; when nobody is left, no question stays open."""
        with self._lock:
            self._followers -= 1
            if self._followers:
                return
            self.accounting.drop()
            if self._question is not None:
                self._question.drop()
                self._question = None

    def poll(self) -> Snapshot:
        """Return the newest answer there is; ask again when it is time. Never waits."""
        with self._lock:
            if self._question is not None:
                self._take_answer(self._question)
            rest_s = max(self._pace_s, self._mercy_s)
            if self._question is None and time.monotonic() >= self._asked_at + rest_s:
                self._question = Question(QUESTION, parse_queue)
                self._asked_at = self._question.asked_at
            return self._snapshot

    def ask(self, *, at_most_s_old: float = 0.0) -> Snapshot:
        """Return an answer that is so fresh, waiting for one if need be.

        What a slow controller says counts for longer, and so does that it says nothing.

        Raises:
            SchedulerError: Slurm does not answer.
        """
        asked_at = time.monotonic()
        with self._asking:  # who comes meanwhile takes the same answer
            with self._lock:
                oldest = asked_at - (max(at_most_s_old, self._mercy_s) if at_most_s_old else 0.0)
                if self._snapshot.asked_at >= oldest:
                    return self._snapshot
                if self._failure is not None and self._failed_at >= oldest:
                    raise self._failure.with_traceback(None)
                asked_at = self._asked_at = time.monotonic()
            answer = _answer()
            with self._lock:
                self._note(answer, asked_at, time.monotonic() - asked_at)
                if isinstance(answer, SchedulerError):
                    raise answer
                return self._snapshot

    def _take_answer(self, question: Question[dict[str, Job]]) -> None:
        answer = question.answer()
        if answer is not None:
            self._question = None
            self._note(answer, question.asked_at, question.took_s)

    def _note(self, answer: dict[str, Job] | Exception, asked_at: float, took_s: float) -> None:
        if isinstance(answer, Exception):
            logger.warning("cannot ask Slurm just now: %s", answer)
            self._mercy_s = min(2 * max(self._mercy_s, INTERVAL_S), LONGEST_INTERVAL_S)
            if isinstance(answer, SchedulerError):
                self._failure, self._failed_at = answer, asked_at
            return
        self._mercy_s = min(_REST * took_s, LONGEST_INTERVAL_S)
        same = answer == self._snapshot.jobs
        self._pace_s = min(1.5 * self._pace_s, QUIET_INTERVAL_S) if same else INTERVAL_S
        if asked_at > self._snapshot.asked_at:
            self._snapshot = Snapshot(answer, asked_at)


def _answer() -> dict[str, Job] | SchedulerError:
    try:
        return ask(QUESTION, parse_queue)
    except SchedulerError as err:
        return err


_queues: Final[dict[str, JobQueue]] = {}
_queues_lock: Final = Lock()


def shared_queue() -> JobQueue:
    """Return this process's queue of the cluster that Slurm's commands would ask."""
    key = f"{os.getpid()} {os.environ.get('SLURM_CONF', '')}"  # a fork inherits no question
    with _queues_lock:
        return _queues.setdefault(key, JobQueue())
