"""Ends apps whose flow run is over: what no process of the run is there to do.

Which flow run an app belongs to stands in the app itself, in its metadata: of subflows the root, which may
have them run again. Apps that runs share by an
``idempotency_key`` belong to none and are never reaped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final, ParamSpec, TypeVar, final
from uuid import UUID

from prefect import Flow
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import FlowRun, State
from prefect.exceptions import ObjectNotFound
from prefect.logging.loggers import LoggingAdapter, flow_run_logger

from prefect_torchx._engine.lineage import ancestors
from prefect_torchx._engine.shelf import apps_of_flow_run
from prefect_torchx.naming import FLOW_RUN, REAPED, Holder
from torchx_core.errors import TorchXError
from torchx_core.runner import Runner, get_runner
from torchx_core.specs import AppHandle, is_terminal, parse_app_handle

__all__ = ["Reaper", "Verdict", "reap_apps", "with_reaper"]

logger = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")


def reap_apps(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Cancel the apps of a flow run that has ended; for ``on_cancellation`` and ``on_crashed``.

    Prefect calls it in the process that supervises the flow run, after that one's process has gone: it ends
    what a killed process could not. The apps are those that the run has written down on Prefect's server.
    """
    log = flow_run_logger(flow_run, flow)
    with get_client(sync_client=True) as client, Reaper() as reaper:
        root = [flow_run, *ancestors(client, flow_run)][-1].id
        handles = apps_of_flow_run(client, root, flow_run.id)
        found = [app for handle in handles if (app := _look(reaper, handle, log))]
        apps = [app for app in found if app.flow_run_id == str(root) and app.is_held_in(flow_run.id)]
        if not _is_over(client.read_flow_run(flow_run.id).state):
            return  # somebody was quick to start it again: its apps are for that try
        for app in apps:
            try:
                if reaper.reap(app, str(state.name)):
                    log.info("cancelled %s, because its flow run is %s", app.handle, state.name)
            except TorchXError as err:
                log.warning("cannot cancel %s: %s", app.handle, err)


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
    """A running app of a flow run, as it was before the flow run's state was asked for.

    A flow run that was over and has been started again has taken its app over, so that the app has another
    owner than here: it is not cancelled.
    """

    handle: AppHandle
    flow_run_id: str
    """Of the root, where a subflow has it."""
    owner: str | None

    def is_held_in(self, flow_run_id: UUID) -> bool:
        """Return whether a call in that flow run, or in a part of it, has the app; also when nobody has."""
        holder = Holder.parse(self.owner) if self.owner else None
        return holder is None or holder.is_of(str(flow_run_id))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
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

    def judge(
        self, client: SyncPrefectClient, scheduler: str, session: str, *, unknown: bool
    ) -> Iterator[Verdict]:
        """Yield a verdict about every app of a session that runs and belongs to a flow run.

        Args:
            client: Of Prefect's server.
            scheduler: Where.
            session: Which session.
            unknown: Whether an app is orphaned whose flow run the server does not know.
        """
        for app in self._runner(session).list(scheduler):
            found = None if is_terminal(app.state) else self.look(app.app_handle)
            if found:
                yield _verdict(client, found, unknown=unknown)

    def look(self, handle: AppHandle) -> FoundApp | None:
        """Return the app as it is now; None unless it runs and belongs to a flow run.

        Ask about the flow run only afterwards.
        """
        runner = self._runner(parse_app_handle(handle).session_name)
        app, status = runner.describe(handle), runner.status(handle)
        flow_run_id = str(app.metadata.get(FLOW_RUN, "")) if app else ""
        if not flow_run_id or status is None or status.is_terminal():
            return None
        return FoundApp(handle=handle, flow_run_id=flow_run_id, owner=runner.owner(handle))

    def reap(self, app: FoundApp, state: str) -> bool:
        """Cancel the app unless it has ended, or somebody has taken it over, since `look`; return whether."""
        runner = self._runner(parse_app_handle(app.handle).session_name)
        status = runner.status(app.handle)
        if status is None or status.is_terminal():
            return False
        # The mark comes first: a run that is started again must not take it for a running one.
        if not runner.take_over(app.handle, REAPED, expected=app.owner):
            return False
        reason = f"cancelled because its Prefect flow run is {state}"
        runner.cancel(app.handle, reason=reason, if_owner=REAPED)
        return True

    def _runner(self, session: str) -> Runner:
        if session not in self._runners:
            self._runners[session] = self._open.enter_context(get_runner(session))
        return self._runners[session]


def _look(reaper: Reaper, handle: AppHandle, log: LoggingAdapter) -> FoundApp | None:
    try:
        return reaper.look(handle)
    except TorchXError as err:
        log.warning("cannot look at %s: %s", handle, err)
        return None


def _verdict(client: SyncPrefectClient, app: FoundApp, *, unknown: bool) -> Verdict:
    try:
        state = client.read_flow_run(UUID(app.flow_run_id)).state
    except ObjectNotFound:
        return Verdict(app=app, flow_run_state="unknown", orphaned=unknown)
    name = str(state.name if state else "unknown")
    return Verdict(app=app, flow_run_state=name, orphaned=state is not None and state.is_final())


def _is_over(state: State[Any] | None) -> bool:
    """Return whether nobody runs the flow any more; a cancel is only confirmed after its hooks."""
    return state is not None and (state.is_final() or state.is_cancelling())
