"""Ends apps whose flow run is over: what no process of the run is there to do.

Which flow run an app belongs to stands in the app itself, in its metadata: of subflows the root, which may
have them run again. Apps that runs share by an
``idempotency_key`` belong to none and are never reaped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from socket import gethostname
from typing import Any, Final, ParamSpec, TypeVar, final
from uuid import UUID

from prefect import Flow
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import FlowRun, State
from prefect.exceptions import ObjectNotFound
from prefect.logging.loggers import LoggingAdapter, flow_run_logger
from prefect.states import Cancelling

from prefect_torchx._engine import intent
from prefect_torchx._engine.caller import ancestors
from prefect_torchx._engine.position_store import apps_of_flow_run
from prefect_torchx._engine.server import ask_patiently, client_of_process
from prefect_torchx.naming import FLOW_RUN, REAPED, Holder, is_given_up
from prefect_torchx.position import NotedApp
from prefect_torchx.rest import END_S, show_rest
from torchx_core.display.text import whole_log
from torchx_core.errors import TorchXError, UnknownAppException
from torchx_core.runner import Runner, get_runner
from torchx_core.specs import AppHandle, parse_app_handle

__all__ = ["Assessment", "Reaper", "reap_apps", "reap_leftovers", "with_reaper"]

LEAVE_S: Final = 10.0
"""How long a process that is to end waits for an app's end, and then for Prefect's API to take the lines."""

logger = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")


def reap_apps(flow: Flow[..., Any], flow_run: FlowRun, state: State) -> None:
    """Cancel the apps of a flow run that has ended; for ``on_cancellation`` and ``on_crashed``.

    Prefect calls it in the process that supervises the flow run, after that one's process has gone: it ends
    what a killed process could not, and shows the rest of their output in the run's log. The apps are those
    that the run has written down on Prefect's server.
    """
    log = flow_run_logger(flow_run, flow)
    with client_of_process(), Reaper() as reaper:
        apps, noted = _own_apps(reaper, flow_run, log)
        if not _is_over(ask_patiently(lambda client: client.read_flow_run(flow_run.id)).state):
            return  # somebody was quick to start it again: its apps are for that try
        _end(reaper, apps, noted, state, log)


def reap_leftovers(flow_run_id: UUID) -> None:
    """Cancel what a cancelled flow run still has; for the end of the process that has the flow run.

    Its calls have dealt with their apps by then. Left may be those of an earlier start, to which this one has
    not come, those that nobody followed, and those of a pool's child, which was not told why it ends.

    Args:
        flow_run_id: The flow run that the process was started for.
    """
    flow_run = ask_patiently(lambda client: client.read_flow_run(flow_run_id))
    state = Cancelling() if intent.is_cancelled() else flow_run.state
    if state is None or not (state.is_cancelling() or state.is_cancelled()):
        return
    log = flow_run_logger(flow_run)
    with client_of_process(), Reaper() as reaper:
        apps, noted = _own_apps(reaper, flow_run, log)
        left = [app for app in apps if not app.is_given_up]
        for app in apps:
            if app.is_given_up and not app.has_ended:
                _cancel_again(reaper, app, state, log)
        _end(reaper, left, noted, state, log, limit_s=LEAVE_S)


def with_reaper(flow: Flow[P, R]) -> Flow[P, R]:
    """Return the flow with `reap_apps` among its hooks for cancelled and crashed runs.

    Args:
        flow: Is not changed.

    Example:
        >>> from prefect import flow
        >>> @with_reaper
        ... @flow
        ... def pipeline() -> None: ...
        >>> [hook.__name__ for hook in pipeline.on_crashed_hooks]
        ['reap_apps']
    """
    return flow.with_options(
        on_cancellation=[*flow.on_cancellation_hooks, reap_apps],
        on_crashed=[*flow.on_crashed_hooks, reap_apps],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundApp:
    """An app of a flow run, as it was before the flow run's state was asked for.

    A flow run that was over and has been started again has taken its app over, so that the app has another
    owner than here: it is not cancelled.
    """

    handle: AppHandle
    flow_run_id: str
    """Of the root, where a subflow has it."""
    owner: str | None
    has_ended: bool

    def is_attached_in(self, flow_run_id: UUID) -> bool:
        """Return whether a call in that flow run, or in a part of it, has the app; also when nobody has."""
        holder = Holder.parse(self.owner) if self.owner else None
        return holder is None or holder.is_of(str(flow_run_id))

    @property
    def is_given_up(self) -> bool:
        """Return whether a call that had it has cancelled it."""
        return self.owner is not None and is_given_up(self.owner)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """What is to become of one app."""

    app: FoundApp
    flow_run_state: str
    """``unknown`` when Prefect's server has no such flow run."""
    orphaned: bool
    """Nobody will come for it."""


@final
class Reaper:
    """Finds and ends apps that nobody will come for."""

    def __init__(self) -> None:
        """Look at nothing yet."""
        self._runners: dict[str, Runner] = {}
        self._open: Final = ExitStack()

    def __enter__(self) -> Reaper:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close what was opened."""
        self._open.close()

    def judge(self, scheduler: str, session: str, *, unknown: bool) -> Iterator[Assessment]:
        """Yield an assessment about every app of a session that runs and belongs to a flow run.

        Args:
            scheduler: Where.
            session: Which session.
            unknown: Whether an app is orphaned whose flow run the server does not know.
        """
        for app in self._runner(session).list(scheduler, live=True):
            found = self.look(app.app_handle)
            if found and not found.has_ended:
                yield _assess(found, unknown=unknown)

    def look(self, handle: AppHandle) -> FoundApp | None:
        """Return the app as it is now; None when it is unknown or belongs to no flow run.

        Ask about the flow run only afterwards.
        """
        runner = self._runner(parse_app_handle(handle).session_name)
        app, status = runner.describe(handle), runner.status(handle)
        flow_run_id = str(app.metadata.get(FLOW_RUN, "")) if app else ""
        if not flow_run_id or status is None:
            return None
        owner, has_ended = runner.owner(handle), status.is_terminal()
        return FoundApp(handle=handle, flow_run_id=flow_run_id, owner=owner, has_ended=has_ended)

    def knows(self, handle: AppHandle) -> bool:
        """Return whether the app's scheduler has a record of it, seen from here."""
        return self._runner(parse_app_handle(handle).session_name).status(handle) is not None

    def reap(self, app: FoundApp, state: str) -> bool:
        """Cancel the app unless it has ended, or somebody has taken it over, since `look`; return whether."""
        runner = self._runner(parse_app_handle(app.handle).session_name)
        status = runner.status(app.handle)
        if status is None or status.is_terminal():
            return False
        # The mark comes first: a run that is started again must not take it for a running one.
        if not runner.take_over(app.handle, REAPED, expected=app.owner):
            return False
        runner.cancel(app.handle, reason=_reason(state), if_owner=REAPED)
        return True

    def cancel_again(self, app: FoundApp, state: str) -> None:
        """Ask for the end of an app that a call has given up: its own request may not have got through."""
        runner = self._runner(parse_app_handle(app.handle).session_name)
        runner.cancel(app.handle, reason=_reason(state), if_owner=app.owner)

    def show_rest(self, app: FoundApp, noted: NotedApp | None = None, *, limit_s: float = END_S) -> None:
        """Show what the log of the app's run lacks of it, unless somebody has taken it over since `look`.

        Args:
            app: Has ended, or was cancelled.
            noted: What its run has written down about it; None to ask for that.
            limit_s: How long the app's end may take, and how long Prefect's API may then take nothing.
        """
        root = UUID(app.flow_run_id)
        if noted is None:
            noted = ask_patiently(lambda client: apps_of_flow_run(client, root, root)).get(app.handle)
        if noted is None:
            return
        run = UUID(noted.run)
        log = flow_run_logger(ask_patiently(lambda client: client.read_flow_run(run)))
        runner = self._runner(parse_app_handle(app.handle).session_name)
        try:
            if runner.owner(app.handle) in (app.owner, REAPED):
                show_rest(runner, app.handle, noted, root, log, limit_s=limit_s)
        except TorchXError as err:
            log.warning("cannot show the rest of %s: %s; %s", app.handle, err, whole_log(app.handle))

    def _runner(self, session: str) -> Runner:
        if session not in self._runners:
            self._runners[session] = self._open.enter_context(get_runner(session))
        return self._runners[session]


def _reason(state: str) -> str:
    return f"cancelled because its Prefect flow run is {state}"


def _cancel_again(reaper: Reaper, app: FoundApp, state: State, log: LoggingAdapter) -> None:
    try:
        reaper.cancel_again(app, str(state.name))
    except UnknownAppException:
        return
    except TorchXError as err:
        log.warning("cannot cancel %s: %s", app.handle, err)


def _own_apps(
    reaper: Reaper, flow_run: FlowRun, log: LoggingAdapter
) -> tuple[list[FoundApp], dict[AppHandle, NotedApp]]:
    """Return the apps that the flow run has, as they are now, and what it has written down of any app."""
    root, noted = ask_patiently(lambda client: _noted_apps(client, flow_run))
    found = [app for handle in noted if (app := _look(reaper, handle, log))]
    return [app for app in found if app.flow_run_id == str(root) and app.is_attached_in(flow_run.id)], noted


def _noted_apps(client: SyncPrefectClient, flow_run: FlowRun) -> tuple[UUID, dict[AppHandle, NotedApp]]:
    """Return the root of the flow run, and the flow run's apps."""
    root = [flow_run, *ancestors(client, flow_run)][-1].id
    return root, apps_of_flow_run(client, root, flow_run.id)


def _end(
    reaper: Reaper,
    apps: Iterable[FoundApp],
    noted: Mapping[AppHandle, NotedApp],
    state: State,
    log: LoggingAdapter,
    *,
    limit_s: float = END_S,
) -> None:
    """Cancel the apps, and show what the log lacks of them and of those that have ended by themselves."""
    ending: list[FoundApp] = []
    for app in apps:
        try:
            if reaper.reap(app, str(state.name)):
                log.info("cancelled %s, because its flow run is %s", app.handle, state.name)
            ending.append(app)
        except TorchXError as err:
            log.warning("cannot cancel %s: %s", app.handle, err)
    for app in ending:  # not before: the end of one may be waited for
        reaper.show_rest(app, noted[app.handle], limit_s=limit_s)


def _look(reaper: Reaper, handle: AppHandle, log: LoggingAdapter) -> FoundApp | None:
    try:
        found = reaper.look(handle)
        is_known = found is not None or reaper.knows(handle)
    except TorchXError as err:
        log.warning("cannot look at %s: %s", handle, err)
        return None
    if not is_known:  # deleted, never submitted, or of another host
        log.info(
            "%s is unknown on this host, %s: if it runs on another, its lease ends it", handle, gethostname()
        )
    return found


def _assess(app: FoundApp, *, unknown: bool) -> Assessment:
    try:
        state = ask_patiently(lambda client: client.read_flow_run(UUID(app.flow_run_id))).state
    except ObjectNotFound:
        return Assessment(app=app, flow_run_state="unknown", orphaned=unknown)
    name = str(state.name if state else "unknown")
    return Assessment(app=app, flow_run_state=name, orphaned=state is not None and state.is_final())


def _is_over(state: State | None) -> bool:
    """Return whether nobody runs the flow any more; a cancel is only confirmed after its hooks."""
    return state is not None and (state.is_final() or state.is_cancelling())
