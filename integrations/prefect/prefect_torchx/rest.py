"""Shows in a flow run's log what it lacks of an app, once no process of the run is there to do so."""

from __future__ import annotations

from time import monotonic
from typing import Final
from uuid import UUID

from prefect.logging.loggers import LoggingAdapter

from prefect_torchx._engine.position_store import ServerPositionStore
from prefect_torchx.driver import drive
from prefect_torchx.page import RunPage
from prefect_torchx.position import NotedApp
from prefect_torchx.reading import Reading, is_unfinished
from prefect_torchx.saved_position import SavedPosition
from prefect_torchx.sink import Sink
from torchx_core.display.text import whole_log
from torchx_core.runner import Runner
from torchx_core.schedulers.secrets import MASK
from torchx_core.specs import AppDef, AppHandle

__all__ = ["END_S", "show_rest"]

END_S: Final = 60.0
"""How long the end of an app that was cancelled is waited for, and how long the API may then take nothing."""


def show_rest(
    runner: Runner,
    handle: AppHandle,
    noted: NotedApp,
    root: UUID,
    log: LoggingAdapter,
    *,
    limit_s: float = END_S,
) -> None:
    """Show the app's output from the saved position to its end, and save the position.

    Where secrets of the app are unknown here, the log has nothing but the command that shows the whole log.

    Args:
        runner: Of the app's session.
        handle: The app; it has ended, or was cancelled.
        noted: What the run has written down about it.
        root: The flow run that the app belongs to.
        log: Of the flow run whose log had the app.
        limit_s: How long the app's end may take, and how long Prefect's API may then take nothing.

    Raises:
        SchedulerError: The scheduler is away.
    """
    saved_position = SavedPosition(ServerPositionStore(noted.run, "", str(root)))
    app, place = runner.describe(handle), saved_position.find(handle)
    if app is None or place is None or not is_unfinished(runner, handle, place):
        return
    if noted.has_hidden or _has_unknown_secrets(app):
        text = "not showing the rest of %s, some of whose secrets are unknown here; %s"
        log.warning(text, handle, whole_log(handle))
        return
    page = RunPage(app, limit_bytes=noted.limit_bytes, keeper=saved_position, sink=Sink(log), pictured=False)
    try:
        page.submitted(handle, place)
        drive(Reading(handle, page, place).until(monotonic() + limit_s), runner, lambda: None)
        status = runner.status(handle)
        if status is None or not status.is_terminal():
            page.say(f"{handle} has not ended yet; {whole_log(handle)}")
    except BaseException:
        page.close(None)
        raise
    page.close(status, limit_s=limit_s)


def _has_unknown_secrets(app: AppDef) -> bool:
    """Return whether the scheduler does not tell all values: they could not be masked."""
    return any(MASK in value for role in app.roles for value in role.env.values())
