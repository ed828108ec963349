"""Why a call ends before its app: what is raised, and whether that means the app's end."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import uuid
from contextlib import ExitStack
from time import monotonic
from types import TracebackType
from typing import Any, Final, NoReturn, Self, final

from prefect._internal.concurrency.cancellation import CancelledError as PrefectTimeout
from prefect.exceptions import TerminationSignal

from prefect_torchx._engine import intent
from prefect_torchx._engine.caller import Caller
from prefect_torchx._engine.flow_end import see_to_end
from prefect_torchx._engine.flow_state import FlowRunWatch, watches
from prefect_torchx._engine.pool import signal_behind
from prefect_torchx._engine.sigterm import Sigterm, parent_has_died, sigterm_watch
from prefect_torchx.off_loop import outlast
from prefect_torchx.order import OnWorkerShutdown

__all__ = ["INTERRUPTIONS", "Causes", "RunTimeoutError", "behind"]

TIMEOUT_MARGIN_S = 1.0
"""How long Prefect may be late with a timeout of its own before we see to it."""
STATE_S = 8.0
"""How long Prefect's server may take to say why the process ends; until it does, no log arrives either."""
STATE_AGAIN_S = 0.5
SIGNAL_MARGIN_S = 12.0
"""How long Prefect may take from a flow run's state to the signal that ends its process."""

INTERRUPTED = "cancelled because the Prefect run was interrupted"
TIMED_OUT = "cancelled because the timeout of the Prefect run has passed"
CANCELLED = "cancelled because the Prefect flow run was cancelled"
SHUT_DOWN = "cancelled because the Prefect worker shut down"


class RunTimeoutError(TimeoutError):
    """A timeout that Prefect did not deliver; Prefect takes it for one of its own."""


INTERRUPTIONS: Final = (KeyboardInterrupt, TerminationSignal, asyncio.CancelledError, RunTimeoutError)
"""What ends a call from outside. Everything else that is raised says nothing about the app."""


@final
class Causes:
    """Looks out for what ends one call, while it is entered."""

    def __init__(self, caller: Caller, on_worker_shutdown: OnWorkerShutdown) -> None:
        """Look out for nothing yet."""
        self._caller = caller
        self._on_worker_shutdown: OnWorkerShutdown = on_worker_shutdown
        self._watch: FlowRunWatch | None = None
        self._asked_by_state_at: float | None = None
        self._in_main_thread = False
        self._cancellations = 0
        self._sigterm: Sigterm | None = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        """Look out, for what happens to this thread."""
        self._in_main_thread = threading.current_thread() is threading.main_thread()
        self._cancellations = _cancellations()
        see_to_end(self._caller.flow)
        if self._caller.flow_run_id:
            self._watch = self._open.enter_context(watches.use(self._caller.flow_run_id))
        if self._caller.flow_run_id or self._caller.task_run_id:
            self._sigterm = self._open.enter_context(sigterm_watch())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Look out no more."""
        self._open.__exit__(kind, value, trace)

    def check(self) -> None:
        """Raise what ends this run, where Prefect itself does not raise it; call it several times a second.

        Prefect interrupts the main thread only. A submitted task learns nothing from it: not of a cancelled
        flow run, not of Ctrl-C, not of its flow's timeout. Nor does anybody learn of a signal whose exception
        got lost on its way.

        Raises:
            TerminationSignal: The flow run is cancelled, or its process ends.
            KeyboardInterrupt: The flow was interrupted.
            RunTimeoutError: A timeout has passed.
        """
        if self._sigterm is not None and self._sigterm.came():
            raise TerminationSignal(signal=signal.SIGTERM)
        if self._caller.is_overdue(TIMEOUT_MARGIN_S):
            raise RunTimeoutError("the timeout_seconds of the Prefect run have passed")
        if self._watch is not None and self._watch.is_cancelled:
            self._asked_by_state_at = monotonic()
            self._terminate()
        if self._is_bridged and parent_has_died():
            self._terminate()
        # The main thread is told by a signal; to act before it arrives would be interrupted by it.
        if not self._in_main_thread:
            self._check_main_thread()
        elif _cancellations() > self._cancellations:
            raise KeyboardInterrupt

    def why_cancel(self, interruption: BaseException) -> str:
        """Return why the interruption means the app's end; empty when the app is to go on.

        Args:
            interruption: One of `INTERRUPTIONS`.
        """
        if isinstance(interruption, KeyboardInterrupt) and not isinstance(interruption, TerminationSignal):
            return INTERRUPTED
        if isinstance(interruption, PrefectTimeout | RunTimeoutError):
            return TIMED_OUT
        if self._is_cancelled():
            return CANCELLED
        if isinstance(interruption, TerminationSignal):
            return SHUT_DOWN if self._on_worker_shutdown == "cancel" and not self._will_run_again() else ""
        # On an event loop Ctrl-C, a timeout, and code that cancels what it awaits, all look the same.
        return TIMED_OUT if self._caller.is_overdue(0) else INTERRUPTED

    def signal_may_come(self) -> bool:
        """Return whether to give Prefect more time to end this process itself.

        We may see a cancel before it has done so. If we ended the run first, Prefect would take it for
        crashed instead of cancelled. No such signal comes to a task runner's child, nor to a script.
        """
        if self._watch is None or not self._watch.is_supervised:
            return False
        if self._asked_by_state_at is None or monotonic() > self._asked_by_state_at + SIGNAL_MARGIN_S:
            return False
        if signal.getsignal(signal.SIGTERM) in (signal.SIG_DFL, None) or self._is_bridged:
            return False
        return self._in_main_thread or not self._process_ends()

    def _terminate(self) -> NoReturn:
        """Raise what a SIGTERM raises; a process pool's child ends of it as of a SIGTERM.

        The exception alone would come to the pool as the task's result. What Prefect does there with a task
        that is done raises it again, in the thread that manages the pool: that ends, and the flow hangs.
        """
        if self._is_bridged and self._sigterm is not None:
            self._sigterm.pretend()
        raise TerminationSignal(signal=signal.SIGTERM)

    @property
    def _is_bridged(self) -> bool:
        """Whether this process, a pool's child, has no handler but ours."""
        return self._sigterm is not None and self._sigterm.is_ours

    def _is_cancelled(self) -> bool:
        if intent.is_cancelled():
            return True
        if self._watch is None:
            return False
        pause, until = threading.Event(), monotonic() + STATE_S
        while not (self._watch.is_cancelled or self._watch.look()) and monotonic() < until:
            pause.wait(STATE_AGAIN_S)
        return self._watch.is_cancelled

    def _will_run_again(self) -> bool:
        """Say so also of a state that `_is_cancelled` has just asked for."""
        return intent.will_run_again() or (self._watch is not None and self._watch.will_run_again)

    def _check_main_thread(self) -> None:
        if intent.is_cancelled():
            raise TerminationSignal(signal=signal.SIGTERM)
        if not self._process_ends():
            return
        # Prefect sets the event however the flow ends, also when it merely returns before its tasks do, and
        # lets running tasks end in peace then. Which case it is shows in what unwinds the main thread.
        cause = _exception_in_main_thread()
        if isinstance(cause, PrefectTimeout):
            raise RunTimeoutError("the timeout_seconds of the Prefect flow run have passed")
        match signal_behind(cause):
            case signal.SIGTERM:
                raise TerminationSignal(signal=signal.SIGTERM)
            case signal.SIGINT:
                raise KeyboardInterrupt
            case _:
                pass

    def _process_ends(self) -> bool:
        runner = self._caller.flow.task_runner if self._caller.flow else None
        events: dict[uuid.UUID, Any] = getattr(runner, "_cancel_events", {})
        event = events.get(self._caller.task.task_run.id) if self._caller.task else None
        return intent.is_cancelled() or (event is not None and event.is_set())


async def behind(cancellation: asyncio.CancelledError) -> BaseException:
    """Return what made the event loop cancel its tasks: the exception that ends it, or the cancellation.

    A signal's exception leaves the loop, not the task that happens to wait. Whoever runs the loop then
    cancels every task while it handles the exception, which is where a callback finds it.
    """
    loop = asyncio.get_running_loop()
    found: asyncio.Future[BaseException | None] = loop.create_future()
    loop.call_soon(lambda: found.set_result(sys.exc_info()[1]))
    await outlast(found, 1.0)
    return found.result() or cancellation


def _cancellations() -> int:
    """Return how often the present asyncio task was asked to end; 0 where no event loop runs.

    Code that blocks its loop is told by nobody else: the first Ctrl-C does no more than to cancel the task.
    """
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return 0
    return task.cancelling() if task else 0


def _exception_in_main_thread() -> BaseException | None:
    """Return what the main thread is handling; since Python 3.12 the exception, before that a triple."""
    ident = threading.main_thread().ident
    found: Any = sys._current_exceptions().get(ident or 0)  # noqa: SLF001  (no other way from outside)
    exception: BaseException | None = found[1] if isinstance(found, tuple) else found
    return exception
