from __future__ import annotations

import pytest
from task_tries import make_record, make_try

from airflow_torchx._arguments import OnWorkerShutdown
from airflow_torchx._plan import (
    Finding,
    OnKill,
    Standing,
    find,
    judge_kill,
    reason_of_user,
    reason_of_worker,
    stand,
)
from airflow_torchx._record import Record
from torchx_core.specs import AppState


@pytest.mark.parametrize(
    ("found", "number", "standing"),
    [
        (None, 1, Standing.FIRST),
        (make_record(try_number=1), 1, Standing.RETRY),
        (make_record(try_number=1), 2, Standing.RETRY),
        (make_record(generation=1), 2, Standing.CLEARED),
        (make_record(generation=9), 2, Standing.CLEARED),
        (make_record(try_number=3), 2, Standing.OVERTAKEN),
        (make_record(generation=9, try_number=3), 2, Standing.OVERTAKEN),
    ],
)
def test_a_try_knows_where_it_stands(found: Record | None, number: int, standing: Standing) -> None:
    """Retry, clear and a frozen old try that wakes up are told apart by what was recorded."""
    assert stand(found, make_try(number=number)) is standing


@pytest.mark.parametrize(
    ("state", "submitted", "finding"),
    [
        (None, False, Finding.FREE),
        (None, True, Finding.GONE),
        *((state, True, Finding.LIVE) for state in (AppState.SUBMITTED, AppState.PENDING, AppState.RUNNING)),
        (AppState.RUNNING, False, Finding.LIVE),
        (AppState.UNKNOWN, True, Finding.LIVE),
        (AppState.SUCCEEDED, True, Finding.LIVE),
        (AppState.FAILED, True, Finding.OVER),
        (AppState.CANCELLED, True, Finding.OVER),
    ],
)
def test_the_recorded_app_is_judged_by_its_state(
    state: AppState | None, finding: Finding, *, submitted: bool
) -> None:
    """An app is submitted only where none can exist, and started anew only where one has failed."""
    assert find(state, make_record(submitted=submitted), elsewhere=False) is finding


@pytest.mark.parametrize("submitted", [False, True])
def test_an_app_that_another_host_may_know_is_looked_for(*, submitted: bool) -> None:
    """An app whose submit was never confirmed is looked for as well."""
    assert find(None, make_record(submitted=submitted), elsewhere=True) is Finding.LOST


@pytest.mark.parametrize("state", ["failed", "success", "restarting", "skipped", "removed", None])
@pytest.mark.parametrize("policy", ["detach", "cancel"])
def test_what_a_user_does_cancels(state: str | None, policy: OnWorkerShutdown) -> None:
    """Marking, clearing and deleting end the app, whatever should happen when a worker shuts down."""
    assert judge_kill(state, policy, is_last_try=False) is OnKill.CANCEL


@pytest.mark.parametrize(
    ("policy", "is_last_try", "on_kill"),
    [
        ("detach", False, OnKill.DETACH),
        ("detach", True, OnKill.CANCEL),
        ("cancel", False, OnKill.CANCEL),
        ("cancel", True, OnKill.CANCEL),
    ],
)
def test_infrastructure_detaches_while_a_retry_remains(
    policy: OnWorkerShutdown, on_kill: OnKill, *, is_last_try: bool
) -> None:
    """A worker that shuts down leaves the app to the next try, if there is one and the user wants it so."""
    assert judge_kill("running", policy, is_last_try=is_last_try) is on_kill


@pytest.mark.parametrize("state", ["no_status", "up_for_retry", "scheduled", "queued", "deferred"])
@pytest.mark.parametrize(("policy", "on_kill"), [("detach", OnKill.DETACH), ("cancel", OnKill.CANCEL)])
def test_a_try_that_airflow_gave_up_leaves_the_app_to_the_next(
    state: str, policy: OnWorkerShutdown, on_kill: OnKill
) -> None:
    """A scheduler that was restarted resets even a task without retries: another try comes in any case."""
    assert judge_kill(state, policy, is_last_try=True) is on_kill


@pytest.mark.parametrize(
    ("state", "worker", "user"),
    [
        ("running", "the Airflow worker shut down", "the Airflow task was cleared"),
        ("no_status", "the Airflow worker shut down", "the Airflow task was cleared"),
        ("restarting", "the Airflow task was cleared", "the Airflow task was cleared"),
        ("failed", "the task instance is failed", "the task instance is failed"),
        (None, "the task instance is deleted", "the task instance is deleted"),
    ],
)
def test_the_reason_says_who_wanted_it(state: str | None, worker: str, user: str) -> None:
    """What stands in a cancelled app's status is what happened to the task."""
    assert reason_of_worker(state).endswith(worker)
    assert reason_of_user(state).endswith(user)
