"""`run_app` as a Prefect task, and which failures of it are worth a retry."""

from __future__ import annotations

from typing import Any, Final, final

from prefect import Task, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun

from prefect_torchx.attachment import OvertakenError
from prefect_torchx.run import run_app
from torchx_core.errors import InvalidInputError, NotFoundError, SchedulerError

__all__ = ["run_app_task", "worth_a_retry"]


@final
class _OfOurs(int):
    """A number of retries that no user has asked for."""


def worth_a_retry(
    task: Task[..., Any],
    task_run: TaskRun,  # noqa: ARG001  (Prefect passes it)
    state: State,
) -> bool:
    """Return whether running the task again may help; a ``retry_condition_fn``.

    A scheduler that is away may come back, and another try finds the app that this one left. What is wrong
    with the request stays wrong. An app that failed is run anew as often as the user's ``retries`` says.
    """
    error = getattr(state.data, "result", state.data)
    if isinstance(error, SchedulerError):
        return error.retryable
    if isinstance(task.retries, _OfOurs):
        return False
    return not isinstance(error, InvalidInputError | NotFoundError | OvertakenError)


run_app_task: Final = task(
    name="run-app",
    description="Run an app and return the result that it reported.",
    # Nothing but the app itself says that it ran: a result that Prefect found elsewhere would hide that an
    # app was not run, and one that it stored would be found again.
    cache_policy=NO_CACHE,
    persist_result=False,
    retries=_OfOurs(3),
    retry_delay_seconds=[10.0, 60.0, 300.0],
    retry_condition_fn=worth_a_retry,
)(run_app)
"""`run_app` as a task: ``run_app_task.submit(app, "local_docker")``.

It is tried again when the scheduler was away. An app that failed fails it; ``.with_options(retries=2)`` has
the app run up to twice more.
"""
