"""What every scheduler tells of an app whose replicas it knows."""

from __future__ import annotations

import pytest

from torchx_core.schedulers.snapshot import app_status, replica_changed
from torchx_core.specs import NONE, AppState, ReplicaStatus


def _replica(
    role: str, number: int, state: AppState, error: str = NONE, ended_at: float | None = None
) -> ReplicaStatus:
    return ReplicaStatus(
        id=number, state=state, role=role, hostname="h", structured_error_msg=error, ended_at=ended_at
    )


def test_replicas_are_told_role_by_role() -> None:
    """In the order in which they come."""
    replicas = [
        _replica("b", 0, AppState.RUNNING),
        _replica("b", 1, AppState.RUNNING),
        _replica("a", 0, AppState.PENDING),
    ]
    status = app_status(AppState.RUNNING, replicas, num_restarts=2, msg="m", result=[1])
    assert [(role.role, [r.id for r in role.replicas]) for role in status.roles] == [
        ("b", [0, 1]),
        ("a", [0]),
    ]
    assert (status.state, status.num_restarts, status.msg, status.result) == (AppState.RUNNING, 2, "m", [1])


def test_the_error_is_that_of_the_replica_that_failed_first() -> None:
    """The app has no error of a replica that was told to end, nor of one that got over its error."""
    replicas = [
        _replica("w", 0, AppState.CANCELLED, "told to end", 1.0),
        _replica("w", 1, AppState.FAILED, "follows from the first", 3.0),
        _replica("w", 2, AppState.FAILED, "the first", 2.0),
        _replica("w", 3, AppState.FAILED, NONE, 1.0),
        _replica("w", 4, AppState.SUCCEEDED, "got over it", 1.0),
    ]
    assert app_status(AppState.FAILED, replicas, num_restarts=0).structured_error_msg == "the first"
    assert app_status(AppState.CANCELLED, replicas[:1], num_restarts=0).structured_error_msg == NONE


def test_a_peer_s_loss_is_not_the_app_s_error() -> None:
    """Nor is it where the one that caused it was told to end before its own end was seen."""
    lost = '{"message": "Connection closed by peer"}'
    cause = '{"message": {"message": "bad batch", "extraInfo": {"time": 0.5, "rank": 3}}}'
    peer = _replica("w", 0, AppState.FAILED, lost, 1.0)
    for state in (AppState.FAILED, AppState.CANCELLED):
        replicas = [peer, _replica("w", 1, state, cause, 2.0)]
        assert app_status(AppState.FAILED, replicas, num_restarts=0).structured_error_msg == cause


@pytest.mark.parametrize(
    ("code", "exit_code", "signal"), [(None, None, None), (3, 3, None), (137, None, "SIGKILL")]
)
def test_an_end_has_an_exit_code_or_a_signal(
    code: int | None, exit_code: int | None, signal: str | None
) -> None:
    """Of which a shell and a container make one number."""
    event = replica_changed("w", 1, 2, AppState.FAILED, 5.0, code)
    assert (event.role, event.replica, event.attempt, event.state, event.time) == (
        "w",
        1,
        2,
        AppState.FAILED,
        5.0,
    )
    assert (event.exit_code, event.signal) == (exit_code, signal)
