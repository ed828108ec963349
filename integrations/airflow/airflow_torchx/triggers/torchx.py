"""The trigger that watches the app of a deferred task."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from typing_extensions import override

from airflow_torchx import _engine, _engine_triggers
from airflow_torchx._deferral import CURSOR_KEY, Deferral, Fired, cursor_noted, make_note
from airflow_torchx._engine_metrics import use_airflow_metrics
from airflow_torchx._engine_triggers import BaseTrigger, TaskSuccessEvent, TriggerEvent
from airflow_torchx._links import LinkRefresh
from airflow_torchx._log import AppLog
from airflow_torchx._options import hide_option_secrets
from airflow_torchx._outcome import status_xcoms
from airflow_torchx._plan import reason_of_user
from airflow_torchx._record import AirflowUnavailableError
from airflow_torchx._watch import PIECE_LINES, Pace, Paces, Watch, as_scheduler_error
from airflow_torchx.hooks import TorchXHook
from airflow_torchx.links.torchx import find_links
from torchx_core.errors import SchedulerError
from torchx_core.launch import Patience
from torchx_core.runner import Runner, get_runner
from torchx_core.schedulers import AppEvent
from torchx_core.specs import AppState

__all__ = ["TorchXTrigger"]

logger = logging.getLogger(__name__)

LINES_PER_S = 200.0
BURST_LINES = 2000.0
LONGEST_WAIT_S = 10.0
KEEP_KILLING_S = 600.0
"""How long to go on with a kill while Airflow's server or the scheduler is away."""

_ALL_LINES = Pace(4000.0, 8000.0)
"""All triggers of a triggerer share its loop, and the pipe through which Airflow reads their logs."""
_ALL_STANDSTILLS = Pace(0.1, 0.5)
"""The triggers' pipe is full when Airflow's database is slow: whoever writes to it then stops them all."""
_ALL_NOTES = Pace(10.0, 20.0)
"""They also share the pipe for what they ask: Airflow answers one after the other, some tens a second."""

_KILLS: set[asyncio.Task[None]] = set()
"""The kills under way; the event loop itself keeps no task alive."""


class TorchXTrigger(BaseTrigger):
    """Watches an app, shows its log lines live, and fires when it is terminal.

    Runs in the triggerer's event loop without a thread of its own. A triggerer that restarts, or hands the
    trigger on to another one, leaves the app alone; so does everything but a user's act on the task.

    Args:
        deferral: The fields of a `Deferral`, as JSON values.
    """

    def __init__(self, **deferral: Any) -> None:  # noqa: ANN401  (what `serialize` returns)
        super().__init__()  # type: ignore[no-untyped-call]
        self._deferral = Deferral(**deferral)
        conn_id = self._deferral.conn_id
        self._hook = None if conn_id is None else TorchXHook(conn_id)
        self._fired = False
        self._killing: asyncio.Task[None] | None = None

    @override
    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what makes this trigger again in another process."""
        return f"{__name__}.{type(self).__qualname__}", self._deferral.to_json()

    @override
    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Watch, then fire once and return: a trigger that lingers after its event may be killed for it."""
        watching = asyncio.create_task(self._watch())
        try:
            # Nothing with a timeout is waited for here: one that passes at the moment of a cancellation takes
            # its message away, by which alone a user's act is known.
            await asyncio.wait([watching])
        except asyncio.CancelledError as err:
            if _engine_triggers.is_users_act(err):
                self._begin_kill()
            raise
        finally:
            watching.cancel()
        self._fired = True
        yield watching.result()

    async def _watch(self) -> TriggerEvent:
        log = AppLog(
            _engine.emit,
            lines_per_record=PIECE_LINES,
            limit_bytes=self._deferral.limit_bytes,
            shown_bytes=self._deferral.shown_bytes,
            left_out=self._deferral.left_out,
        )
        cursor = await self._noted_cursor()
        with await _engine_triggers.ask_airflow(self._runner) as runner:
            watch = Watch(
                runner,
                self._deferral,
                log,
                self._note,
                Paces(
                    lines=[Pace(LINES_PER_S, BURST_LINES), _ALL_LINES],
                    standstills=_ALL_STANDSTILLS,
                    saved_positions=_ALL_NOTES,
                ),
                _engine_triggers.hide_secrets,
                cursor,
                _engine_triggers.unread_log,
                heed=partial(self._show_links, runner, LinkRefresh(awaited=self._deferral.links_awaited)),
            )
            over = await watch.until_over()
            log.flush()
            fired = replace(over, shown_bytes=log.shown_bytes, left_out=log.left_out)
            event = self._event(runner, fired, drained=watch.drained)
        await asyncio.sleep(min(max(0.0, self._deferral.not_before - time.time()), LONGEST_WAIT_S))
        return event

    @override
    async def on_kill(self) -> None:
        """Cancel the app because a user has ended the task; the same as `run` begins when it is cancelled."""
        if not self._fired:
            await asyncio.shield(self._begin_kill())

    @override
    async def cleanup(self) -> None:
        """Do the same where Airflow has no `on_kill`: below 3.3 whatever ends a trigger comes here alone."""
        if not _engine_triggers.KILLS_REACH_TRIGGERS:
            await self.on_kill()

    def _begin_kill(self) -> asyncio.Task[None]:
        """Have a task of its own cancel the app, for Airflow leaves this one a second at best.

        It cancels a trigger again every second until that has ended, and with it an `on_kill` that is under
        way; where it kills dozens at once, many never come to their `on_kill` at all.
        """
        if self._killing is None:
            self._killing = asyncio.create_task(self._kill())
            _KILLS.add(self._killing)
            self._killing.add_done_callback(_KILLS.discard)
        return self._killing

    async def _kill(self) -> None:
        """Cancel the app; where somebody who is asked does not answer, go on asking.

        Unless this may be no kill: a triggerer that stops waits for the cleanup of its triggers.
        """
        patience = Patience(KEEP_KILLING_S if _engine_triggers.KILLS_REACH_TRIGGERS else 0.0)
        while self._deferral.token:
            try:
                return await self._cancel()
            except (SchedulerError, OSError) as err:
                try:
                    delay_s = patience.delay_after(as_scheduler_error(err))
                except SchedulerError:
                    logger.warning("not cancelling %s, its lease will end it: %s", self._deferral.handle, err)
                    return None
                logger.warning("cannot cancel %s just now: %s", self._deferral.handle, err)
                await asyncio.sleep(delay_s)
        return None

    async def _cancel(self) -> None:
        """Cancel the app if its task is not deferred any more, and nobody has taken it over.

        Airflow speaks of a user's act also where there was none: to a trigger that has fired and lingers,
        and in a triggerer that was frozen while another one took its triggers over. The first is known here;
        in the second the task is still deferred, or was resumed. Then, and after a clear, somebody else has
        the app, as the owner's token shows.

        Raises:
            SchedulerError: The state of the task is unknown, or the scheduler is away.
        """
        try:
            state = await _engine_triggers.present_state_of(self)
        except AirflowUnavailableError as err:
            raise SchedulerError(f"its task's state is unknown: {err}", retryable=True) from err
        if state == "deferred":
            logger.info("not cancelling %s: its task is still deferred", self._deferral.handle)
            return
        with await _engine_triggers.ask_airflow(self._runner) as runner:
            await self._deferral.cancel(runner, reason_of_user(state))

    def _runner(self) -> Runner:
        """Return a runner; asks Airflow for the connection."""
        use_airflow_metrics()
        if self._hook is None:
            return get_runner()
        hide_option_secrets(self._hook.target)
        return self._hook.get_conn()

    async def _show_links(self, runner: Runner, refresh: LinkRefresh, events: Sequence[AppEvent]) -> None:
        """Make the links work that the worker could not: replicas had no host when the task deferred."""
        refresh.heed(events)
        if not refresh.is_due:
            return
        handle = self._deferral.handle
        try:
            app = await asyncio.to_thread(runner.describe, handle)
            status = await asyncio.to_thread(runner.status, handle)
            if app is None or status is None:  # deleted: whoever follows it is told so
                return
            for key, url in find_links(app, status).items():
                await _engine_triggers.save_note(self, key, url)
        except (SchedulerError, AirflowUnavailableError, OSError) as err:
            logger.warning("no links to %s just now: %s", handle, err)
            refresh.failed()
        else:
            refresh.looked(app, status)

    def _event(self, runner: Runner, fired: Fired, *, drained: bool) -> TriggerEvent:
        """End the task from here where nothing is left to do for a worker; otherwise have it resumed."""
        done = drained and not fired.left_out and self._deferral.end_task and self.task_instance is not None
        status = runner.status(self._deferral.handle) if done and not fired.timed_out else None
        if status is None or status.state is not AppState.SUCCEEDED:
            return _engine_triggers.make_event(fired.to_json())
        xcoms = status_xcoms(self._deferral.handle, status)
        if status.result is not None:
            xcoms["return_value"] = status.result
        return TaskSuccessEvent(xcoms=xcoms)

    async def _noted_cursor(self) -> str | None:
        try:
            note = await _engine_triggers.load_note(self, CURSOR_KEY)
        except AirflowUnavailableError as err:
            logger.warning("showing lines of %s again: %s", self._deferral.handle, err)
            return None
        return cursor_noted(note, self._deferral.token)

    async def _note(self, cursor: str) -> None:
        note = make_note(self._deferral.token, cursor)
        try:
            await _engine_triggers.save_note(self, CURSOR_KEY, note)
        except AirflowUnavailableError as err:
            logger.warning("cannot save the log position of %s: %s", self._deferral.handle, err)
