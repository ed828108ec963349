from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from local_apps import app_of
from prefect import flow, task
from prefect.client.schemas import State

from prefect_torchx import run_app_task
from prefect_torchx.tasks import worth_a_retry
from torchx_core import AppState, Runner
from torchx_core.errors import AppStatusError, InvalidInputError, SchedulerError, UnknownSchedulerException
from torchx_core.specs import AppStatus
from torchx_core.testing import ReportResult, python_program

pytestmark = pytest.mark.engine

AWAY = SchedulerError("no answer", retryable=True)
FAILED = AppStatusError(AppStatus(AppState.FAILED), "exit code 3")


def _state_of(job: Any, *args: Any) -> State[Any]:
    @flow
    def pipeline() -> Any:
        return [job(*args, return_state=True)]

    return pipeline()[0]  # type: ignore[index,no-any-return]


@pytest.mark.usefixtures("prefect_api")
def test_the_same_task_runs_its_app_in_every_flow_run(runner: Runner) -> None:
    """No result of an earlier run is taken for this one's: a job never silently does not run."""
    program, args = python_program(ReportResult(7))
    for _ in range(2):
        assert _state_of(run_app_task, app_of(program, *args)).result() == 7
    assert len(runner.list("local_cwd")) == 2


@pytest.mark.usefixtures("prefect_api")
@pytest.mark.parametrize(("job", "apps"), [(run_app_task, 1), (run_app_task.with_options(retries=1), 2)])
def test_a_failed_app_is_run_anew_as_often_as_its_user_says(job: Any, apps: int, runner: Runner) -> None:
    """By default a failed app fails the task at once."""
    quick = job.with_options(retry_delay_seconds=0)
    assert _state_of(quick, app_of("sh", "-c", "exit 3")).is_failed()
    assert [app.state for app in runner.list("local_cwd")] == [AppState.FAILED] * apps


def _failing(error: Exception, options: Callable[[Any], Any], tmp_path: Path) -> int:
    """Return how often a task that fails so is tried."""
    tries = tmp_path / "tries"

    @task(retry_delay_seconds=0, retry_condition_fn=worth_a_retry)
    def job() -> None:
        with tries.open("a") as file:
            file.write("x")
        raise error

    _state_of(options(job))
    return len(tries.read_text())


@pytest.mark.usefixtures("prefect_api")
@pytest.mark.parametrize(
    ("error", "by_default", "when_asked"),
    [
        (AWAY, 4, 2),
        (SchedulerError("forbidden"), 1, 1),
        (FAILED, 1, 2),
        (InvalidInputError("wrong"), 1, 1),
        (UnknownSchedulerException("dokcer"), 1, 1),
        (ConnectionError("somewhere"), 1, 2),
    ],
    ids=["away", "forbidden", "app failed", "wrong request", "no such scheduler", "of the user's"],
)
def test_what_is_worth_a_retry(error: Exception, by_default: int, when_asked: int, tmp_path: Path) -> None:
    """A scheduler that is away always; an app that failed when asked for; what cannot work never."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    ours = run_app_task.retries
    assert _failing(error, lambda job: job.with_options(retries=ours), tmp_path / "a") == by_default
    assert _failing(error, lambda job: job.with_options(retries=1), tmp_path / "b") == when_asked
