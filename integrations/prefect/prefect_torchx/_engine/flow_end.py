"""Calls a cancelled flow run Cancelled once its flow has ended, where nobody else does so: in a script.

From Cancelling Prefect's server accepts nothing but Cancelled, and how a script's flow ends is failed,
crashed or completed; so its run would stay Cancelling for five minutes. To say Cancelled before the flow
has ended does not help: from there the server accepts Failed. The flow's task runner is left after the
flow has proposed how it ended and after all its tasks have ended, and before Prefect deals with a
signal's exception.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any, Final
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.context import FlowRunContext
from prefect.states import Cancelled
from prefect.task_runners import ProcessPoolTaskRunner, TaskRunner

from prefect_torchx._engine.server import ask_briefly

__all__ = ["finish_cancels", "see_to_end"]

_FLOW_RUN: Final = "_torchx_flow_run_id"
"""What a task runner remembers: no context tells its flow run any more when it is left."""

logger = logging.getLogger(__name__)


def finish_cancels() -> None:
    """Have task runners finish the cancel of their flow run; to repeat the call does no harm.

    Prefect has no hook for that, so this puts methods of ours in the place of public ones.
    """
    leave: Callable[..., None] = TaskRunner.__exit__
    submit: Callable[..., Any] = ProcessPoolTaskRunner.submit
    if hasattr(leave, "__wrapped__"):
        return

    @wraps(leave)
    def leave_and_finish(runner: TaskRunner[Any], *exception: object) -> None:
        leave(runner, *exception)
        if flow_run_id := vars(runner).pop(_FLOW_RUN, None):
            _finish_cancel(flow_run_id)

    @wraps(submit)
    def submit_and_see_to_end(runner: object, *args: object, **kwargs: object) -> object:
        see_to_end(FlowRunContext.get())  # a pool's children run apps of which this process knows nothing
        return submit(runner, *args, **kwargs)

    TaskRunner.__exit__ = leave_and_finish  # type: ignore[method-assign]
    ProcessPoolTaskRunner.submit = submit_and_see_to_end  # type: ignore[method-assign, assignment]


def see_to_end(context: FlowRunContext | None) -> None:
    """Have the flow's task runner finish a cancel, unless somebody outside started the flow and does so."""
    flow_run = context.flow_run if context and not context.detached else None
    if context is not None and flow_run is not None and flow_run.deployment_id is None:
        vars(context.task_runner)[_FLOW_RUN] = flow_run.id


def _finish_cancel(flow_run_id: UUID) -> None:
    def finish(client: SyncPrefectClient) -> None:
        flow_run = client.read_flow_run(flow_run_id)
        if flow_run.work_queue_id or flow_run.infrastructure_pid:
            return
        if flow_run.state is not None and flow_run.state.is_cancelling():
            client.set_flow_run_state(flow_run_id, Cancelled(message="the Prefect flow run was cancelled"))

    try:
        ask_briefly(finish)
    except Exception as err:  # noqa: BLE001  (the server does it later)
        logger.warning("cannot set the state of flow run %s: %r", flow_run_id, err)
