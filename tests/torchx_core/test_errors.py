"""Errors are an interface: they cross processes whole, and their facts are attributes."""

from __future__ import annotations

import json
import pickle

import pytest

from torchx_core import AppState, AppStatus, errors
from torchx_core.errors import TorchXError
from torchx_core.specs import ReplicaStatus, RoleStatus

HANDLE = "local_cwd://s/app"
STATUS = AppStatus(
    state=AppState.FAILED,
    msg="r/0 failed: exit code 3",
    roles=[RoleStatus("r", [ReplicaStatus(0, AppState.FAILED, "r", "host", exit_code=3)])],
)
EXAMPLES: list[TorchXError] = [
    errors.TorchXError("anything"),
    errors.InvalidInputError("wrong"),
    errors.InvalidAppError("roles[0].name", "must not be empty"),
    errors.InvalidAppTypeError("roles[0].args", "must be a list: 1 (int)"),
    errors.InvalidMountError("mounts[0]", "'tpye=bind': unknown option 'tpye'"),
    errors.InvalidOptionTypeError("default of run option x must be int: 0.5 (float)"),
    errors.InvalidRunConfigException("unknown option", "gpu", {"gpu": 1, "list": ["a"], "none": None}),
    errors.InvalidConfigError("/x/.torchxconfig", 3, "unknown section [local_cdw]"),
    errors.InvalidCursorError("{}", "has no version"),
    errors.MalformedAppHandleException("x:/y", "there is no '://'"),
    errors.AppIdConflictError("one", ["app.name: 'a' -> 'b'"]),
    errors.AppNotTerminalError(HANDLE, "RUNNING", "delete"),
    errors.ReplicaNotRunningError(HANDLE, "trainer", 0, "SUCCEEDED"),
    errors.ComponentValidationException(
        "c.py:f",
        [{"file": "c.py", "line": 3, "argument": "n", "problem": "has no type", "advice": "write n: int"}],
    ),
    errors.ComponentArgumentError("dist.ddp", "--scirpt", "is unknown"),
    errors.ComponentHelpRequested("dist.ddp", "usage: dist.ddp"),
    errors.InvalidFunctionError("train", ["dag.py:3: it is a generator; return a list"]),
    errors.FunctionArgumentError("train", "argument 'a' must be plain data", "a"),
    errors.NotFoundError("nothing"),
    errors.UnknownSchedulerException("dokcer", iter(["docker", "local_cwd"])),
    errors.UnknownAppException(HANDLE),
    errors.UnknownNamedResourceError("gpu.smal", ["gpu.small"]),
    errors.UnknownReplicaError(HANDLE, "trianer", None, ["trainer"]),
    errors.ComponentNotFoundException("dist.dpd", "there is no module 'dist'", ["dist.ddp"]),
    errors.SchedulerError("disk on fire", retryable=True),
    errors.BackendAbsentError("no engine at its own address"),
    errors.RecordUnavailableError("/x/spec.json", "Input/output error"),
    errors.SubmitFailedError("no space left", retryable=True),
    errors.SubmitOutcomeUnknownError("one", "connection reset"),
    errors.WaitTimeoutError(HANDLE, 1.5, "RUNNING"),
    errors.AppStatusError(STATUS, "it failed"),
    errors.FunctionRaisedError(STATUS, "it raised", exception="ValueError: no", traceback="Traceback"),
    errors.StoredStateError("unusable"),
    errors.CorruptRecordError("/x/spec.json", "has no version"),
    errors.NewerRecordError("/x/spec.json", 2, 1),
]


def _name(error: TorchXError) -> str:
    return type(error).__name__


def test_every_error_has_an_example_here() -> None:
    """A new error is tested because this test asks for it."""
    assert sorted(_name(error) for error in EXAMPLES) == sorted(errors.__all__)


@pytest.mark.parametrize("error", EXAMPLES, ids=_name)
def test_an_error_survives_pickling(error: TorchXError) -> None:
    """Type, message and facts arrive in another process, however often they travel."""
    copy = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(error))))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert copy.to_json() == error.to_json()


@pytest.mark.parametrize("error", EXAMPLES, ids=_name)
def test_an_error_is_plain_json(error: TorchXError) -> None:
    """With its type and message, and values that a reader gets back as they were."""
    shown = error.to_json()
    assert json.loads(json.dumps(shown)) == shown
    assert (shown["type"], shown["message"]) == (_name(error), str(error))


@pytest.mark.parametrize("error", EXAMPLES, ids=_name)
def test_a_message_is_one_line_and_no_sentence(error: TorchXError) -> None:
    """It fits behind whatever a caller puts before it."""
    assert "\n" not in str(error)
    assert not str(error).endswith(".")


@pytest.mark.parametrize("error", EXAMPLES, ids=_name)
def test_facts_are_attributes(error: TorchXError) -> None:
    """Every fact in the JSON form can be asked for by name."""
    assert all(hasattr(error, fact) for fact in error.to_json().keys() - {"type", "message"})


def test_the_status_travels_with_the_error() -> None:
    """Whoever catches it elsewhere has the whole story."""
    copy = pickle.loads(pickle.dumps(errors.AppStatusError(STATUS, "it failed")))
    assert copy.status == STATUS


def test_the_closest_name_is_offered() -> None:
    """No name is offered when nothing is close."""
    assert "did you mean 'docker'?" in str(errors.UnknownSchedulerException("dokcer", ["docker"]))
    assert "did you mean" not in str(errors.UnknownSchedulerException("zzz", ["docker"]))


def test_what_may_have_happened_is_retryable() -> None:
    """With the same id, which settles it."""
    error = errors.SubmitOutcomeUnknownError("one", "connection reset")
    assert error.retryable
    assert "same app id" in str(error)


def test_a_failure_is_not_retryable_unless_it_says_so() -> None:
    """Trying again must be known to be safe."""
    assert not errors.SchedulerError("x").retryable
    assert not errors.SubmitFailedError("x").retryable
