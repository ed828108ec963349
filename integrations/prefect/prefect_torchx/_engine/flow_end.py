"""Sees to what is left of a cancelled flow run once its flow has ended.

Apps may be left, of an earlier start above all, to which this one has not come; they end. And where nobody
else does so, in a script, the flow run is called Cancelled.

From Cancelling Prefect's server accepts nothing but Cancelled, and how a script's flow ends is failed,
crashed or completed; so its run would stay Cancelling for five minutes. To say Cancelled before the flow
has ended does not help: from there the server accepts Failed. The flow's task runner is left after the
flow has proposed how it ended and after all its tasks have ended, and before Prefect deals with a
signal's exception.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import wraps
from typing import Any, Final
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.context import FlowRunContext
from prefect.states import Cancelled
from prefect.task_runners import ProcessPoolTaskRunner, TaskRunner

from prefect_torchx._engine import intent
from prefect_torchx._engine.server import ask_briefly

__all__ = ["finish_cancels", "see_to_end"]

_STARTED_FOR: Final = "PREFECT__FLOW_RUN_ID"
"""The variable that names the flow run which a process was started for; a script's has none."""

_FLOW_RUN: Final = "_torchx_flow_run_id"
"""What a task runner remembers: no context tells its flow run any more when it is left."""

_PARENT: Final = "_torchx_parent"
"""What a subflow's task runner remembers: the run of the flow that called it."""

logger = logging.getLogger(__name__)


def finish_cancels(end_leftovers: Callable[[UUID], None]) -> None:
    """Have task runners finish the cancel of their flow run; to repeat the call does no harm.

    Prefect has no hook for that, so this puts methods of ours in the place of public ones.

    Args:
        end_leftovers: Ends the apps that a cancelled flow run still has.
    """
    enter: Callable[..., Any] = TaskRunner.__enter__
    leave: Callable[..., None] = TaskRunner.__exit__
    submit: Callable[..., Any] = ProcessPoolTaskRunner.submit
    if hasattr(leave, "__wrapped__"):
        return

    @wraps(enter)
    def enter_below_parent(runner: TaskRunner[Any]) -> object:
        vars(runner)[_PARENT] = FlowRunContext.get()  # a flow's own context is entered after its task runner
        return enter(runner)

    @wraps(leave)
    def leave_and_finish(runner: TaskRunner[Any], *exception: object) -> None:
        leave(runner, *exception)
        is_root = vars(runner).pop(_PARENT, None) is None
        if is_root and (any(exception) or intent.is_cancelled()):
            _end_leftovers(end_leftovers)
        if flow_run_id := vars(runner).pop(_FLOW_RUN, None):
            _finish_cancel(flow_run_id)

    @wraps(submit)
    def submit_and_see_to_end(runner: object, *args: object, **kwargs: object) -> object:
        see_to_end(FlowRunContext.get())  # a pool's children run apps of which this process knows nothing
        return submit(runner, *args, **kwargs)

    TaskRunner.__enter__ = enter_below_parent  # type: ignore[method-assign, assignment]
    TaskRunner.__exit__ = leave_and_finish  # type: ignore[method-assign]
    ProcessPoolTaskRunner.submit = submit_and_see_to_end  # type: ignore[method-assign, assignment]


def see_to_end(context: FlowRunContext | None) -> None:
    """Have the task runner finish a cancel of its flow, and of each flow that called that as a subflow.

    Not of a flow that somebody outside started, who does so.
    """
    while context is not None and not context.detached:
        known = vars(context.task_runner)
        if context.flow_run is not None and context.flow_run.deployment_id is None:
            known[_FLOW_RUN] = context.flow_run.id
        context = known.get(_PARENT)


def _end_leftovers(end_leftovers: Callable[[UUID], None]) -> None:
    flow_run_id = os.environ.get(_STARTED_FOR)
    if not flow_run_id:  # a script's calls know of its cancel from the server, and no earlier start left apps
        return
    try:
        end_leftovers(UUID(flow_run_id))
    except Exception as err:  # noqa: BLE001  (their leases end them)
        logger.warning("cannot end what is left of flow run %s: %r", flow_run_id, err)


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
