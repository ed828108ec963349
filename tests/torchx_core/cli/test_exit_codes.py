"""What the exit code says."""

from __future__ import annotations

import pytest

from torchx_core import AppState, AppStatus, errors
from torchx_core.cli.exit_codes import ExitCode, code_of_error, code_of_signal, code_of_status
from torchx_core.specs import ReplicaStatus, RoleStatus


def failed(*replicas: tuple[float, int | None, str | None]) -> AppStatus:
    """Return the status of a failed app; replicas as (ended_at, exit_code, signal)."""
    rows = [
        ReplicaStatus(i, AppState.FAILED, "r", "h", ended_at=at, exit_code=code, signal=signal)
        for i, (at, code, signal) in enumerate(replicas)
    ]
    return AppStatus(AppState.FAILED, roles=[RoleStatus("r", rows)])


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (AppStatus(AppState.SUCCEEDED), 0),
        (AppStatus(AppState.CANCELLED), 125),
        (AppStatus(AppState.FAILED), 1),
        (failed((2, 4, None), (1, 3, None)), 3),
        (failed((1, None, "SIGKILL")), 137),
        (failed((1, None, "SIGRTMIN+1")), 163),
        (failed((1, None, "another")), 1),
        (failed((1, 256, None)), 1),
        (failed((1, None, None)), 1),
    ],
)
def test_an_app_passes_its_exit_code_on(status: AppStatus, code: int) -> None:
    """The code is that of the replica which failed first, as a shell has it."""
    assert code_of_status(status) == code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InvalidInputError("x"), 2),
        (errors.MalformedAppHandleException("x"), 2),
        (errors.UnknownAppException("x"), 3),
        (errors.UnknownSchedulerException("x"), 3),
        (errors.SchedulerError("x"), 4),
        (errors.SubmitOutcomeUnknownError("x", "y"), 4),
        (errors.CorruptRecordError("x", "y"), 5),
        (errors.WaitTimeoutError("x", 1, "RUNNING"), 124),
    ],
)
def test_each_kind_of_error_has_its_code(error: errors.TorchXError, code: int) -> None:
    """The class says whose move it is, and so does the code."""
    assert code_of_error(error) == code


def test_every_error_has_a_code() -> None:
    """No class of errors is without one, but those that no command raises."""
    without = {
        name
        for name in errors.__all__
        if code_of_error(getattr(errors, name).__new__(getattr(errors, name))) == ExitCode.FAILURE
    }
    assert without == {"AppStatusError", "FunctionRaisedError", "TorchXError"}


def test_a_signal_is_counted_from_128() -> None:
    """As shells do."""
    assert code_of_signal(15) == 143
