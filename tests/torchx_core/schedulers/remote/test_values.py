"""What crosses the connection arrives as it was."""

from __future__ import annotations

import json
from typing import cast

import pytest

from torchx_core import errors
from torchx_core.errors import (
    AppIdConflictError,
    AppNotTerminalError,
    CorruptRecordError,
    InvalidAppError,
    InvalidCursorError,
    InvalidRunConfigException,
    NewerRecordError,
    SchedulerError,
    SubmitFailedError,
    SubmitOutcomeUnknownError,
    TorchXError,
    UnknownAppException,
)
from torchx_core.schedulers import (
    AppEvent,
    Batch,
    DescribeAppResponse,
    Finding,
    FollowOptions,
    ListAppResponse,
    LogLines,
    LogsLost,
    Metric,
    Progress,
    ReplicaChanged,
    Result,
    StateChanged,
    Stream,
    Verdict,
)
from torchx_core.schedulers.remote.wire import dump, dump_error, load, load_error
from torchx_core.schedulers.slurm.commands import CommandFailed, NoAnswer
from torchx_core.specs import AppDef, AppState, AppStatus, ReplicaStatus, Role, RoleStatus
from torchx_core.supervisor.records import Json

HOSTILE = 'a\'; echo "b" \r\t\x00 \N{SNOWMAN} \ud800'
REPLICA = ReplicaStatus(
    3, AppState.FAILED, "w", "n1", exit_code=7, started_at=1.5, ended_at=2.5, log_dir="/l"
)
STATUS = AppStatus(AppState.FAILED, 2, HOSTILE, roles=[RoleStatus("w", [REPLICA])], result={"a": [1, None]})


def _sent(value: object) -> Json:
    return cast("Json", json.loads(json.dumps(value)))


@pytest.mark.parametrize(
    "event",
    [
        LogLines("w", 1, 2, "stderr", ("", HOSTILE), 1.25, eol=False),
        ReplicaChanged(
            role="w", replica=1, attempt=2, state=AppState.FAILED, time=1.5, signal="SIGKILL", msg="x"
        ),
        StateChanged(state=AppState.RUNNING, time=1.5, msg=HOSTILE),
        StateChanged(state=AppState.FAILED, time=1.5, status=STATUS),
        Progress(role="w", replica=1, attempt=2, fraction=0.5, message=HOSTILE, time=1.5),
        Metric(role="w", replica=1, attempt=2, name="loss", value=1e-4, step=None, time=1.5),
        Metric(role="w", replica=1, attempt=2, name="loss", value=float("inf"), step=3, time=1.5),
        Result(role="w", replica=1, attempt=2, value={"a": [HOSTILE, None, True]}, time=1.5),
        LogsLost(role="w", replica=1, attempt=2, size_bytes=None, reason="full", time=1.5),
    ],
    ids=["lines", "replica", "state", "end", "progress", "metric", "infinite", "result", "lost"],
)
def test_events(event: AppEvent) -> None:
    """Each of them, in its batch."""
    batch = Batch(events=(event, event), cursor="c")
    assert load(_sent(dump(batch))) == batch


@pytest.mark.parametrize(
    "error",
    [
        AppIdConflictError("one", ["a: 1 -> 2"]),
        AppNotTerminalError("slurm://s/a", "RUNNING", "delete"),
        CorruptRecordError("/x/spec.json", "torn"),
        InvalidAppError("roles[0]", HOSTILE),
        InvalidCursorError("{}", "not one"),
        InvalidRunConfigException("bad", "time", {"time": 1, "x": [None]}),
        NewerRecordError("/x/spec.json", 2, 1),
        SchedulerError("x", retryable=True),
        SubmitFailedError("x"),
        SubmitOutcomeUnknownError("one", "no answer"),
        UnknownAppException("slurm://s/a"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors(error: TorchXError) -> None:
    """Class, message and facts."""
    arrived = load_error(_sent(dump_error(error)))
    assert type(arrived) is type(error)
    assert (str(arrived), vars(arrived)) == (str(error), vars(error))


@pytest.mark.parametrize("error", [NoAnswer("sbatch", "away"), CommandFailed("sbatch", "no such partition")])
def test_errors_of_a_schedulers_own(error: SchedulerError) -> None:
    """Arrive as the public class that they are."""
    arrived = load_error(_sent(dump_error(error)))
    assert type(arrived) is SchedulerError
    assert (str(arrived), arrived.retryable) == (str(error), error.retryable)


def test_what_nobody_raised_on_purpose() -> None:
    """Arrives as an error of the scheduler's that names it."""
    arrived = load_error(_sent(dump_error(PermissionError(13, "Permission denied", "/x"))))
    assert type(arrived) is SchedulerError
    assert str(arrived) == "on the other host: PermissionError: [Errno 13] Permission denied: '/x'"


def test_only_our_own_errors_are_built() -> None:
    """Whatever the other side calls one."""
    with pytest.raises(ValueError, match="annotations"):
        load_error({"type": "annotations", "message": "x"})
    assert hasattr(errors, "annotations")


def test_answers() -> None:
    """Descriptions, lists and findings."""
    told = DescribeAppResponse(
        "a",
        AppState.FAILED,
        2,
        HOSTILE,
        metadata={"k": "v"},
        roles_statuses=STATUS.roles,
        roles=[Role("w", image="", entrypoint="x", env={"A": "ü"})],
        name="app",
        result=[1],
    )
    assert load(_sent(dump(told))) == told
    rows = [ListAppResponse("a", AppState.RUNNING, name="app", submitted_at=1.5)]
    assert load(_sent(dump(rows))) == rows
    findings = [Finding(subject="slurm", verdict=Verdict.OK, text="22.05", advice="x")]
    assert load(_sent(dump(findings))) == findings


@pytest.mark.parametrize(
    "options",
    [
        FollowOptions(),
        FollowOptions(logs=False, roles=frozenset(["a", "b"]), streams=Stream.STDERR, batch_bytes=7),
    ],
)
def test_options_of_following(options: FollowOptions) -> None:
    """All of them."""
    assert load(_sent(dump(options))) == options


def test_an_app_without_roles_or_name() -> None:
    """Is no reason to fail."""
    empty = DescribeAppResponse("a", AppState.UNKNOWN, 0, name="")
    assert load(_sent(dump(empty))) == empty
    assert AppDef("").to_dict()["roles"] == []
