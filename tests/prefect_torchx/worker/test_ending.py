"""What the end of an app means for its flow run."""

from __future__ import annotations

import pytest
from prefect.client.schemas.objects import State
from prefect.states import (
    AwaitingRetry,
    Cancelled,
    Cancelling,
    Completed,
    Crashed,
    Failed,
    Paused,
    Pending,
    Running,
    Scheduled,
    Suspended,
)

from prefect_torchx.worker.ending import Ending, end_message, exit_code, judge
from torchx_core.specs import AppState, AppStatus, ReplicaStatus, RoleStatus

HANDLE = "local_cwd://s/a"


def _failed(**fields: int | str) -> AppStatus:
    replica = ReplicaStatus(id=0, state=AppState.FAILED, role="flow", hostname="h", **fields)  # type: ignore[arg-type]  # a test's table
    return AppStatus(AppState.FAILED, roles=[RoleStatus("flow", [replica])])


@pytest.mark.parametrize("state", [Completed(), Failed(), Crashed(), Cancelled(), Scheduled(), Suspended()])
def test_a_flow_run_that_is_over_or_runs_again_is_left(state: State[None]) -> None:
    """Its process told the server itself; or another will come."""
    assert judge(state, retried_in_process=False) is Ending.LEAVE


@pytest.mark.parametrize("state", [Pending(), Running(), Paused(), None])
def test_a_flow_run_that_nobody_ends_has_crashed(state: State[None] | None) -> None:
    """It cannot go on: a pause that is no suspension waits in the process that is gone."""
    assert judge(state, retried_in_process=False) is Ending.CRASHED


def test_a_retry_within_a_process_that_is_gone_has_crashed() -> None:
    """No worker is ever given such a flow run."""
    assert judge(AwaitingRetry(), retried_in_process=True) is Ending.CRASHED
    assert judge(AwaitingRetry(), retried_in_process=False) is Ending.LEAVE


def test_a_flow_run_that_was_to_be_cancelled_is() -> None:
    """However its app ended."""
    assert judge(Cancelling(), retried_in_process=False) is Ending.CANCELLED


def test_the_message_leads_with_what_failed() -> None:
    """It is that of any failed app, with the app's handle."""
    text = end_message(_failed(signal="SIGKILL"), HANDLE, str)
    assert text.startswith("replica flow/0 was killed by SIGKILL")
    assert text.endswith(HANDLE)


def test_the_message_says_what_nobody_would_guess() -> None:
    """An app that is gone, and one that ended well without its flow run, are told apart."""
    assert "is gone" in end_message(None, HANDLE, None)
    assert "left its flow run unfinished" in end_message(AppStatus(AppState.SUCCEEDED), HANDLE, str)


def test_only_success_has_exit_code_zero() -> None:
    """A replica's own code where it has one."""
    assert exit_code(AppStatus(AppState.SUCCEEDED)) == 0
    assert exit_code(_failed(exit_code=3)) == 3
    assert exit_code(_failed(signal="SIGKILL")) == 1
    assert exit_code(AppStatus(AppState.CANCELLED)) == 1
    assert exit_code(None) == 1
