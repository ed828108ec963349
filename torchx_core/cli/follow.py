"""Follows an app to its end, to a timeout, or until somebody leaves."""

from __future__ import annotations

import time
from typing import Final

from torchx_core import AppState, AppStatus, Runner
from torchx_core.cli.board import Board
from torchx_core.cli.cancel import human_reason
from torchx_core.cli.exit_codes import code_of_signal, code_of_status
from torchx_core.cli.interrupt import Interrupts, Phase
from torchx_core.cli.live_view import LiveView
from torchx_core.cli.output import Output
from torchx_core.cli.styles import BAD, BOLD, STATE_STYLES
from torchx_core.cli.views import PlainView, View
from torchx_core.errors import UnknownAppException, WaitTimeoutError
from torchx_core.quantities import format_duration
from torchx_core.schedulers import Batch
from torchx_core.specs import AppHandle, parse_app_handle

__all__ = ["ending_line", "exit_code", "follow_app", "human_view", "outlives_us", "tell_failure", "tell_left"]

_TICK_S: Final = 0.1
"""How soon a signal, a key or a timeout is noticed, and how often the board is redrawn."""
_CHOICES: Final = "  [c]ancel it   [d]etach, it runs on   another key: go on"
_LEAVING: Final = "  Ctrl-C again: leave before it has ended"
"""On lines of their own, so that no app's name pushes them off a narrow screen."""


def follow_app(
    runner: Runner,
    app_handle: AppHandle,
    view: View,
    interrupts: Interrupts,
    output: Output,
    *,
    timeout_s: float | None = None,
) -> AppStatus | None:
    """Show the app until it has ended and return its status; None when somebody left.

    Every line has been shown when this returns a status.

    Raises:
        UnknownAppException: There is no such app, or it was deleted meanwhile.
        WaitTimeoutError: The time is over; the app goes on.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    phase = Phase.FOLLOWING
    try:
        for batch in runner.follow(app_handle, logs=view.wants_lines, tick_s=_TICK_S):
            _show(view, batch, interrupts, output)
            status = batch.final_status
            if status is not None:
                return status
            phase, before = interrupts.look(), phase
            if phase is not before:
                _react(runner, app_handle, view, phase)
            if phase is Phase.LEAVING:
                break
            if deadline is not None and time.monotonic() >= deadline:
                raise WaitTimeoutError(app_handle, timeout_s or 0, _present_state(runner, app_handle))
    finally:
        view.close()
    tell_left(output, runner, app_handle, cancelled=interrupts.cancelled)
    return None


def _show(view: View, batch: Batch, interrupts: Interrupts, output: Output) -> None:
    """Show the batch; raise BrokenPipeError when nobody reads any more.

    Unless Ctrl-C was pressed: it also ended whoever read our pipe (``| tee log``), and its human wants an
    answer.
    """
    try:
        view.show(batch.events)
    except BrokenPipeError:
        if interrupts.look() is Phase.FOLLOWING:
            raise
        output.silence()


def _react(runner: Runner, app_handle: AppHandle, view: View, phase: Phase) -> None:
    app_id = parse_app_handle(app_handle).app_id
    match phase:
        case Phase.ASKING:
            view.ask(f"Ctrl-C: what shall become of {app_id}?\n{_CHOICES}")
        case Phase.CANCELLING:
            runner.cancel(app_handle, reason=human_reason())
            view.ask(f"cancelling {app_id}\n{_LEAVING}")
        case Phase.FOLLOWING | Phase.LEAVING:
            view.ask("")


def _present_state(runner: Runner, app_handle: AppHandle) -> str:
    status = runner.status(app_handle)
    return str(status.state if status else AppState.UNKNOWN)


def tell_left(output: Output, runner: Runner, app_handle: AppHandle, *, cancelled: bool = False) -> None:
    """Say on stderr what becomes of an app that nobody follows any more."""
    scheduler = parse_app_handle(app_handle).scheduler_backend
    if cancelled:
        output.remark(f"left {app_handle}, which is being cancelled")
    elif not outlives_us(runner, scheduler):
        output.remark(f"left {app_handle}, which may end now: {scheduler} does not promise that it goes on")
    else:
        output.remark(
            f"left {app_handle}, which goes on\n"
            f"  follow it: torchx-core log -t {app_handle}\n"
            f"  end it:    torchx-core cancel {app_handle}"
        )


def outlives_us(runner: Runner, scheduler: str) -> bool:
    """Return whether the scheduler promises that its apps go on when this process ends."""
    return runner.scheduler(scheduler).capabilities.survives_submitter


def human_view(
    output: Output, runner: Runner, app_handle: AppHandle, *, logs: bool, since: float = 0.0
) -> LiveView | PlainView:
    """Return a live board on a terminal, else plain lines.

    Args:
        output: Where to.
        runner: Asked for the app's present status.
        app_handle: The app.
        logs: Whether to show lines.
        since: Plain lines leave out what happened before; seconds since the epoch.

    Raises:
        UnknownAppException: There is no such app.
    """
    app_id = parse_app_handle(app_handle).app_id
    if not output.both_terminals:
        return PlainView(output, app_id, logs=logs, since=since)
    status = runner.status(app_handle)
    if status is None:
        raise UnknownAppException(app_handle)
    return LiveView(output, app_id, Board.of(status, time.time()), logs=logs)


def tell_failure(output: Output, status: AppStatus) -> None:
    """Say on stderr why the app did not succeed; nothing when it did."""
    if status.state is AppState.FAILED:
        for line in status.failure_summary().splitlines():
            output.remark(output.paint_remark(line, BAD))
    elif status.state is AppState.CANCELLED and status.msg:
        from torchx_core.specs.failure_summary import stops  # here: most programs need no such thing

        for line in [status.msg, *(f"  {stop}" for stop in stops(status))]:
            output.remark(line)


def ending_line(output: Output, app_handle: AppHandle, status: AppStatus, *, remark: bool) -> str:
    """Return the app's handle, its state, and how long it ran."""
    paint = output.paint_remark if remark else output.paint
    times = [r for role in status.roles for r in role.replicas]
    started = [r.started_at for r in times if r.started_at is not None]
    ended = [r.ended_at for r in times if r.ended_at is not None]
    duration = f" after {format_duration(max(ended) - min(started))}" if started and ended else ""
    state = paint(str(status.state), STATE_STYLES[status.state])
    return f"{paint(app_handle, BOLD)} {state}{duration}"


def exit_code(status: AppStatus | None, interrupts: Interrupts) -> int:
    """Return the exit code of following: the app's, or that of the signal which made us leave."""
    return code_of_signal(interrupts.signal) if status is None else code_of_status(status)
