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
from prefect.logging.loggers import flow_run_logger

from prefect_torchx._engine.lineage import ancestors
from prefect_torchx._engine.shelf import apps_of_flow_run
from prefect_torchx.naming import FLOW_RUN, REAPED
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
        for handle in apps_of_flow_run(client, root, flow_run.id):
            try:
                if reaper.reap(handle, root, str(state.name)):
                    log.info("cancelled %s, because its flow run is %s", handle, state.name)
            except TorchXError as err:
                log.warning("cannot cancel %s: %s", handle, err)


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
class Verdict:
    """What is to become of one app."""

    app_handle: AppHandle
    flow_run_id: str
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
        runner = self._runner(session)
        for app in runner.list(scheduler):
            flow_run_id = "" if is_terminal(app.state) else self._flow_run_of(app.app_handle)
            if flow_run_id:
                yield _verdict(client, app.app_handle, flow_run_id, unknown=unknown)

    def reap(self, handle: AppHandle, flow_run_id: UUID, state: str) -> bool:
        """Cancel the app if it runs and belongs to that flow run; return whether it did."""
        runner = self._runner(parse_app_handle(handle).session_name)
        status = runner.status(handle)
        if status is None or status.is_terminal() or self._flow_run_of(handle) != str(flow_run_id):
            return False
        # The mark comes first: a run that is started again must not take it for a running one.
        runner.take_over(handle, REAPED, force=True)
        runner.cancel(handle, reason=f"cancelled because its Prefect flow run is {state}", if_owner=REAPED)
        return True

    def _flow_run_of(self, handle: AppHandle) -> str:
        app = self._runner(parse_app_handle(handle).session_name).describe(handle)
        return str(app.metadata.get(FLOW_RUN, "")) if app else ""

    def _runner(self, session: str) -> Runner:
        if session not in self._runners:
            self._runners[session] = self._open.enter_context(get_runner(session))
        return self._runners[session]


def _verdict(client: SyncPrefectClient, handle: AppHandle, flow_run_id: str, *, unknown: bool) -> Verdict:
    try:
        state = client.read_flow_run(UUID(flow_run_id)).state
    except ObjectNotFound:
        name, orphaned = "unknown", unknown
    else:
        name, orphaned = str(state.name if state else "unknown"), state is not None and state.is_final()
    return Verdict(app_handle=handle, flow_run_id=flow_run_id, flow_run_state=name, orphaned=orphaned)
