from __future__ import annotations

import json
import linecache
import pickle
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from function_files import Load

from torchx_core import AppState, AppStatus, get_runner
from torchx_core.errors import AppStatusError, FunctionRaisedError, InvalidFunctionError
from torchx_core.functions import find_raised, function_app, read_function
from torchx_core.specs import ReplicaStatus, RoleStatus
from torchx_core.specs.sentinels import NONE


def fails(value: str) -> None:
    """Raise."""
    raise ValueError(value)


def leaves(code: int) -> None:
    """Exit."""
    import sys

    sys.exit(code)


def _failure(folder: Path, function: Callable[..., object], *args: object, **fields: int) -> AppStatusError:
    with get_runner(state_dir=str(folder)) as runner:
        app = function_app(function, args, python=sys.executable, **fields)  # type: ignore[arg-type]  # counts
        status = runner.wait(runner.run(app, "local_cwd"), timeout_s=240)
    assert status
    return AppStatusError(status, "in words")


def _failed(*error_files: str) -> AppStatusError:
    """Return the failure of an app whose replicas failed in this order."""
    failed = partial(ReplicaStatus, state=AppState.FAILED, role="r", hostname="h")
    replicas = [
        failed(id=i, ended_at=float(i), structured_error_msg=text) for i, text in enumerate(error_files)
    ]
    return AppStatusError(AppStatus(AppState.FAILED, roles=[RoleStatus("r", replicas)]), "in words")


def _error_file(exception: str) -> str:
    trace = f"Traceback …\n{exception}\n"
    body = {"message": f"{exception}\n{trace}", "extraInfo": {"timestamp": "1", "py_callstack": trace}}
    return json.dumps({"message": body})


def test_what_a_function_raised_is_found(tmp_path: Path) -> None:
    """In words: the exception, and its traceback with the lines of its file."""
    raised = find_raised(_failure(tmp_path, fails, "no data"))
    assert raised
    assert (str(raised), raised.exception) == ("in words", "ValueError: no data")
    assert raised.traceback.startswith("Traceback (most recent call last):\n")
    assert raised.traceback.endswith("    raise ValueError(value)\nValueError: no data\n")
    assert "replica.py" not in raised.traceback


@pytest.mark.torch
def test_what_a_function_raised_below_torchrun_is_found(tmp_path: Path) -> None:
    """Torchrun hands on what its process left behind."""
    raised = find_raised(_failure(tmp_path, fails, "no data", nproc=2))
    assert raised
    assert raised.exception == "ValueError: no data"


def test_a_function_that_exits_has_raised_nothing(tmp_path: Path) -> None:
    """As any program that says no more than its exit code."""
    assert find_raised(_failure(tmp_path, leaves, 3)) is None


def test_the_replica_that_failed_first_counts() -> None:
    """The others fail for want of it."""
    raised = find_raised(_failed(_error_file("KeyError: 'a'"), _error_file("ConnectionError: peer is gone")))
    assert raised
    assert raised.exception == "KeyError: 'a'"


@pytest.mark.parametrize(
    "text",
    [
        NONE, "", "{", "[" * 10_000, "[]", "7", '"text"', '{"message": "out of memory"}', '{"message": {}}',
        '{"message": {"message": 1, "extraInfo": {"py_callstack": "x"}}}', '{"message": {"message": "a"}}',
        '{"message": {"message": "a", "extraInfo": []}}', '{"message": {"message": "a", "extraInfo": {}}}',
    ],
)  # fmt: skip
@pytest.mark.usefixtures("no_collection")
def test_other_error_files_are_no_function_s(text: str) -> None:
    """A program may leave behind what it likes."""
    assert find_raised(_failed(text)) is None


def test_an_app_without_failed_replicas_has_raised_nothing() -> None:
    """It was cancelled, or never started."""
    assert find_raised(_failed()) is None


def test_the_error_travels() -> None:
    """Between the processes of a workflow engine, with all that it says."""
    raised = find_raised(_failed(_error_file("KeyError: 'a'")))
    again = pickle.loads(pickle.dumps(raised))
    assert isinstance(again, FunctionRaisedError)
    assert vars(again) == vars(raised)
    assert str(again) == "in words"


def test_a_function_that_was_read_needs_its_file_no_more(load: Load, tmp_path: Path) -> None:
    """Where a process has got the function from another one, its file may not be there."""
    function = load("def double(number):\n    return 2 * number\n")
    source = pickle.loads(pickle.dumps(read_function(function)))
    Path(function.__code__.co_filename).unlink()
    linecache.clearcache()
    with pytest.raises(InvalidFunctionError, match="cannot be read"):
        function_app(function, [2])
    with get_runner(state_dir=str(tmp_path / "state")) as runner:
        status = runner.wait(runner.run(function_app(source, [2], python=sys.executable), "local_cwd"))
    assert status
    assert status.result == 4
