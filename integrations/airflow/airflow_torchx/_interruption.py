"""Ends a try early when it must go: cancels its app, or leaves it to the next try."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic
from typing import NoReturn, final

from airflow_torchx._arguments import OnWorkerShutdown
from airflow_torchx._attachment import Attachment
from airflow_torchx._engine import AirflowException
from airflow_torchx._plan import OnKill, judge_kill, reason_of_worker
from airflow_torchx._record import AirflowUnavailableError
from airflow_torchx._sight import ends_with_task
from airflow_torchx._tries import TaskTry
from torchx_core.errors import SchedulerError

__all__ = ["Interruption"]

logger = logging.getLogger(__name__)

LAST_LINES_S = 3.0
"""How long a cancelled app may still write to the log. Airflow kills the task 5 s after the signal."""


@final
class Interruption:
    """Watches for reasons to go while an app is followed."""

    def __init__(
        self,
        this_try: TaskTry,
        on_worker_shutdown: OnWorkerShutdown,
        *,
        killed: Callable[[], bool],
        present_state: Callable[[], str | None],
        supervisor_is_gone: Callable[[], bool],
    ) -> None:
        """Watch.

        Args:
            this_try: Who would go.
            on_worker_shutdown: What the user wants to happen then.
            killed: Whether `on_kill` was called. Asked at every look, so it must be cheap.
            present_state: The task instance's state on Airflow's server.
            supervisor_is_gone: Whether the process that watches this one has died. Asked at every look too.
        """
        self._try = this_try
        self._on_worker_shutdown: OnWorkerShutdown = on_worker_shutdown
        self._killed = killed
        self._present_state = present_state
        self._supervisor_is_gone = supervisor_is_gone
        self._reason = ""
        self._has_cancelled = False
        self._gone_by = float("inf")

    def look(self, attachment: Attachment) -> None:
        """Act on a kill and on a lost supervisor; pass to `Attachment`.

        Raises:
            AirflowException: It is time to go.
        """
        if self._supervisor_is_gone():
            raise AirflowException(f"Airflow's supervisor of this task is gone; {attachment.name} goes on")
        if self._killed() and not self._reason:
            self._go(attachment)
        elif self._reason and not self._has_cancelled:
            self._cancel(attachment)
        if monotonic() >= self._gone_by:
            self.check()

    def check_deferral(self, attachment: Attachment) -> None:
        """Act on what happened since the last heartbeat: a process that defers does not hear of it any more.

        Airflow refuses its deferral then, and makes no trigger that could cancel the app.

        Raises:
            AirflowException: It is time to go.
        """
        try:
            state = self._present_state()
        except AirflowUnavailableError:
            return
        if state != "running":
            self._go(attachment)
            self.check()

    def check(self) -> None:
        """Raise AirflowException if the app was cancelled because this try must go."""
        if self._reason:
            raise AirflowException(self._reason)

    def _go(self, attachment: Attachment) -> None:
        """Cancel and watch for the last lines, or leave at once.

        An app that ends with this process cannot be left. As long as the pod lasts, it may save its work.
        """
        ends_too = ends_with_task(attachment.name)
        try:
            state = self._present_state()
        except AirflowUnavailableError:
            if not ends_too:
                # Not knowing who wants it, leave the app alone. If nobody comes for it, its lease ends it.
                self._leave(attachment)
            state = "running"
        choice = "cancel" if ends_too else self._on_worker_shutdown
        if judge_kill(state, choice, is_last_try=self._try.is_last) is OnKill.DETACH:
            self._leave(attachment)
        self._reason = reason_of_worker(state)
        if not (ends_too and state == "running"):
            self._gone_by = monotonic() + LAST_LINES_S
        self._cancel(attachment)

    def _cancel(self, attachment: Attachment) -> None:
        try:
            self._has_cancelled = attachment.cancel(self._reason)
        except SchedulerError as err:
            logger.warning("cannot cancel %s just now: %s", attachment.name, err)  # the next look tries again

    def _leave(self, attachment: Attachment) -> NoReturn:
        attachment.save_position()
        raise AirflowException(
            f"the worker of try {self._try.number} is shutting down; {attachment.name} goes on and the next"
            " try follows it"
        )
