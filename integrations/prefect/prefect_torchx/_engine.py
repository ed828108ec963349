"""Everything that touches Prefect where it is private, untyped, or differs between versions.

Written against Prefect 3.6.27 to 3.9, tried with 3.7.7. What is private here, and what is lost without it:

=========================================  ===========================================================
``_internal.control_listener.get_intent``  since 3.6.27: whether a SIGTERM is a cancel; without it the
                                           flow run's state on the server tells, at the cost of a request
``TaskRunner._cancel_events``              a submitted task learns that its flow is ending; without it only
                                           from the flow run's state
``_internal…cancellation.CancelledError``  a timeout, as it arrives in the code that runs too long
=========================================  ===========================================================
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import threading
import uuid
import weakref
from collections.abc import Callable
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

from prefect._internal.concurrency.cancellation import CancelledError as PrefectTimeout
from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext, RunContext, TaskRunContext
from prefect.exceptions import MissingContextError, TerminationSignal
from prefect.logging import get_run_logger
from prefect.settings import PREFECT_API_REQUEST_TIMEOUT, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun

__all__ = ["INTERRUPTIONS", "Caller", "RunTimeoutError", "emit"]

LOOK_EVERY_S = 2.0
"""How often the flow run's state is asked for; by all tasks of a process together."""
LOOK_AGAIN_S = 10.0
"""The same, after Prefect's server did not answer."""
REQUEST_TIMEOUT_S = 3.0
TIMEOUT_MARGIN_S = 1.0
"""How long Prefect may be late with a timeout of its own before we see to it."""
SIGNAL_MARGIN_S = 12.0
"""How long Prefect may take from a flow run's state to the signal that ends its process."""
LISTEN_EVERY_S = 0.1

logger = logging.getLogger(__name__)


class RunTimeoutError(TimeoutError):
    """A timeout that Prefect did not deliver; Prefect takes it for one of its own."""


INTERRUPTIONS: Final = (KeyboardInterrupt, TerminationSignal, asyncio.CancelledError, RunTimeoutError)
"""What ends a call from outside. Everything else that is raised says nothing about the app."""


def emit(level: int, text: str, time: float | None) -> None:
    """Write a record into the log of the run that this thread works for; outside of runs, into ours."""
    try:
        log = get_run_logger()
    except MissingContextError:
        log = logging.getLogger("prefect_torchx")
    if not log.isEnabledFor(level):
        return
    target, extra = (log, None) if isinstance(log, logging.Logger) else (log.logger, dict(log.extra or {}))
    record = target.makeRecord(target.name, level, __file__, 0, text, (), None, extra=extra)
    if time is not None:
        record.created, record.msecs = time, time % 1 * 1000
    target.handle(record)


@final
class Caller:
    """The flow run and task run that this thread works for, and how they are doing."""

    def __init__(self) -> None:
        """Look at Prefect's context once: user code may change it later."""
        self._flow = FlowRunContext.get()
        self._task = TaskRunContext.get()
        self._flow_run: FlowRun | None = self._flow.flow_run if self._flow else None
        self._state = _FlowRunState.of(self.flow_run_id) if self.flow_run_id else None
        self._asked_by_state = False

    @property
    def work(self) -> str:
        """What is the same when Prefect runs this task, or this flow, again.

        The task run's id only without a flow run: a flow run that is retried gives its tasks new ones.
        """
        if self.flow_run_id:
            return f"{self.flow_run_id}\n{self._task.task.task_key if self._task else ''}"
        return self.task_run_id or uuid.uuid4().hex

    @property
    def flow_run_id(self) -> str:
        """The flow run's id, or nothing."""
        if self._flow_run:
            return str(self._flow_run.id)
        return str(self._task.task_run.flow_run_id or "") if self._task else ""

    @property
    def flow_try(self) -> int:
        """How often the flow run has started."""
        return self._flow_run.run_count if self._flow_run else 0

    @property
    def task_run_id(self) -> str:
        """The task run's id, or nothing."""
        return str(self._task.task_run.id) if self._task else ""

    @property
    def task_try(self) -> int:
        """How often the task run has started."""
        return self._task.task_run.run_count if self._task else 0

    def check(self) -> None:
        """Raise what ends this run, where Prefect itself does not raise it; call it several times a second.

        Prefect interrupts the main thread only. A submitted task learns nothing from it: not of a cancelled
        flow run, not of Ctrl-C, not of its flow's timeout.

        Raises:
            TerminationSignal: The flow run is cancelled, or its process ends.
            KeyboardInterrupt: The flow was interrupted.
            RunTimeoutError: A timeout has passed.
        """
        if self._overdue():
            raise RunTimeoutError("the timeout_seconds of the Prefect run have passed")
        if self._state is not None and self._state.is_cancelled():
            self._asked_by_state = True
            raise TerminationSignal(signal=signal.SIGTERM)
        # The main thread is told by a signal; to act before it arrives would be interrupted by it.
        if threading.current_thread() is not threading.main_thread():
            self._check_main_thread()

    def why_cancel(self, interruption: BaseException) -> str:
        """Return why the interruption means the app's end; empty when the app is to go on.

        Args:
            interruption: One of `INTERRUPTIONS`.
        """
        if isinstance(interruption, KeyboardInterrupt):
            return "cancelled because the Prefect run was interrupted"
        if isinstance(interruption, PrefectTimeout | RunTimeoutError):
            return "cancelled because the timeout of the Prefect run has passed"
        if _process_is_cancelled() or (self._state is not None and self._state.is_cancelled(now=True)):
            return "cancelled because the Prefect flow run was cancelled"
        return ""

    def await_signal(self) -> None:
        """Give Prefect the time to end this process itself, once we saw a cancel before it did.

        If we ended the run first, Prefect would take it for crashed instead of cancelled. Does nothing where
        no such signal can come: in a task runner's child process.
        """
        if not self._asked_by_state or signal.getsignal(signal.SIGTERM) in (signal.SIG_DFL, None):
            return
        deadline = monotonic() + SIGNAL_MARGIN_S
        in_main_thread = threading.current_thread() is threading.main_thread()
        pause = threading.Event()
        while monotonic() < deadline and (in_main_thread or not self._process_ends()):
            pause.wait(LISTEN_EVERY_S)  # in the main thread, the signal's exception is raised here

    def _overdue(self) -> bool:
        flow = (self._flow, self._flow.flow.timeout_seconds if self._flow and self._flow.flow else None)
        task = (self._task, self._task.task.timeout_seconds if self._task else None)
        return any(_is_over(context, timeout_s) for context, timeout_s in (flow, task))

    def _check_main_thread(self) -> None:
        if _process_is_cancelled():
            raise TerminationSignal(signal=signal.SIGTERM)
        if not self._process_ends():
            return
        # Prefect sets the event however the flow ends, also when it merely returns before its tasks do, and
        # lets running tasks end in peace then. Which case it is shows in what unwinds the main thread.
        cause = _exception_in_main_thread()
        if isinstance(cause, TerminationSignal):
            raise TerminationSignal(signal=cause.signal)
        if isinstance(cause, KeyboardInterrupt):
            raise KeyboardInterrupt
        if isinstance(cause, PrefectTimeout):
            raise RunTimeoutError("the timeout_seconds of the Prefect flow run have passed")

    def _process_ends(self) -> bool:
        runner = self._flow.task_runner if self._flow else None
        events: dict[uuid.UUID, Any] = getattr(runner, "_cancel_events", {})
        event = events.get(self._task.task_run.id) if self._task else None
        return _process_is_cancelled() or (event is not None and event.is_set())


def _is_over(context: RunContext | None, timeout_s: float | None) -> bool:
    if context is None or timeout_s is None:
        return False
    return (datetime.now(UTC) - context.start_time).total_seconds() > timeout_s + TIMEOUT_MARGIN_S


def _process_is_cancelled() -> bool:
    """Return whether Prefect's runner has told this process that its flow run is cancelled."""
    try:
        from prefect._internal.control_listener import get_intent
    except ImportError:
        return False
    intent: Callable[[], str | None] = get_intent
    return intent() == "cancel"


def _exception_in_main_thread() -> BaseException | None:
    """Return what the main thread is handling; since Python 3.12 the exception, before that a triple."""
    ident = threading.main_thread().ident
    found: Any = sys._current_exceptions().get(ident or 0)  # noqa: SLF001  (no other way from outside)
    exception: BaseException | None = found[1] if isinstance(found, tuple) else found
    return exception


@final
class _FlowRunState:
    """Whether a flow run is cancelled, as Prefect's server has it; shared by all threads of this process."""

    _known: ClassVar[weakref.WeakValueDictionary[str, _FlowRunState]] = weakref.WeakValueDictionary()
    _known_lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, flow_run_id: str) -> None:
        self._flow_run_id = flow_run_id
        self._cancelled = False
        self._next_look = monotonic() + LOOK_EVERY_S
        self._looking = threading.Lock()

    @classmethod
    def of(cls, flow_run_id: str) -> _FlowRunState:
        """Return the one of that flow run."""
        with cls._known_lock:
            return cls._known.setdefault(flow_run_id, cls(flow_run_id))

    def is_cancelled(self, *, now: bool = False) -> bool:
        """Return whether the flow run was Cancelling or Cancelled when somebody last looked.

        Args:
            now: Look now, whoever looked before.
        """
        due = now or monotonic() >= self._next_look
        if not self._cancelled and due and self._looking.acquire(blocking=now):
            try:
                self._look()
            finally:
                self._looking.release()
        return self._cancelled

    def _look(self) -> None:
        """Ask the server, briefly: whoever follows an app waits meanwhile."""
        self._next_look = monotonic() + LOOK_AGAIN_S
        brief: dict[Any, Any] = {
            PREFECT_CLIENT_MAX_RETRIES: 0,
            PREFECT_API_REQUEST_TIMEOUT: REQUEST_TIMEOUT_S,
        }
        try:
            with temporary_settings(brief), get_client(sync_client=True) as client:
                state = client.read_flow_run(uuid.UUID(self._flow_run_id)).state
        except Exception as err:  # noqa: BLE001  (whatever it is, the app must not suffer from it)
            logger.warning("cannot read the state of flow run %s: %r", self._flow_run_id, err)
            return
        self._cancelled = state is not None and (state.is_cancelling() or state.is_cancelled())
        self._next_look = monotonic() + LOOK_EVERY_S
