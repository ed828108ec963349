"""Passes on to the children of a process pool what ends their flow.

Ctrl-C in a terminal, and the SIGTERM of Prefect's process worker, reach a whole process group. A signal to
the flow's process alone, as `serve` sends it, does not: Prefect then waits for children that know of nothing,
as long as their apps run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial, wraps
from multiprocessing.process import BaseProcess
from pathlib import Path

from prefect.exceptions import TerminationSignal
from prefect.task_runners import ProcessPoolTaskRunner

from prefect_torchx import background

__all__ = ["children_of", "pass_on_signals", "signal_behind"]

AGAIN_S = 0.2
"""How often the children are looked at: one may only just begin with an app."""


def pass_on_signals() -> None:
    """Have every process pool of Prefect, once its flow is interrupted, interrupt its children, too.

    Prefect has no hook for that, so this puts a method of ours in the place of one of its public ones. Only
    children that follow an app get the signal; to repeat the call does no harm.
    """
    cancel_all = ProcessPoolTaskRunner.cancel_all
    if not hasattr(cancel_all, "__wrapped__"):
        ProcessPoolTaskRunner.cancel_all = _passing_on(cancel_all)  # type: ignore[assignment, method-assign]


def signal_behind(exception: BaseException | None) -> signal.Signals | None:
    """Return the signal that an exception comes from; None when it comes from none.

    In an async flow both are a CancelledError. A SIGTERM's has what the signal raised as its context; one
    without comes from Ctrl-C, or from code that cancels the flow, which means the same.
    """
    if isinstance(exception, KeyboardInterrupt) and not isinstance(exception, TerminationSignal):
        return signal.SIGINT
    seen = exception
    while seen is not None:
        if isinstance(seen, TerminationSignal):
            return signal.SIGTERM
        seen = seen.__context__ if isinstance(seen, asyncio.CancelledError) else None
    return signal.SIGINT if isinstance(exception, asyncio.CancelledError) else None


def children_of(runner: ProcessPoolTaskRunner) -> list[BaseProcess]:
    """Return the living processes of a pool that has been started."""
    processes: dict[int, BaseProcess] = getattr(getattr(runner, "_executor", None), "_processes", None) or {}
    return [process for process in tuple(processes.values()) if process.is_alive()]


def _passing_on(
    cancel_all: Callable[[ProcessPoolTaskRunner], None],
) -> Callable[[ProcessPoolTaskRunner], None]:
    @wraps(cancel_all)
    def passing_on(runner: ProcessPoolTaskRunner) -> None:
        signum = signal_behind(sys.exc_info()[1])
        if signum is None:
            return cancel_all(runner)
        over = threading.Event()
        background.start("torchx-pool", partial(_tell_children, runner, signum, over), over.set)
        try:
            return cancel_all(runner)
        finally:
            over.set()

    return passing_on


def _tell_children(runner: ProcessPoolTaskRunner, signum: signal.Signals, over: threading.Event) -> None:
    told: set[int] = set()
    while not over.is_set():
        for process in children_of(runner):
            pid = process.pid
            if pid is not None and pid not in told and _handles_sigterm(pid):
                told.add(pid)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signum)
        over.wait(AGAIN_S)


def _handles_sigterm(pid: int) -> bool:
    """Return whether it has a handler, as a child that follows an app has; also where that cannot be told."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True
    caught = next((line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)
