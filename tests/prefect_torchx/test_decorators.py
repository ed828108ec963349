from __future__ import annotations

import asyncio
import gc
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypedDict

import cloudpickle  # type: ignore[import-untyped]  # it has no types
import pytest
from function_files import FILE, load_function, unload
from prefect import flow, task, unmapped
from prefect.cache_policies import INPUTS, NO_CACHE
from prefect.client.schemas.objects import State
from prefect_timeouts import timed_out

from prefect_torchx import torchx_task
from torchx_core import AppState, Runner
from torchx_core.errors import (
    AppStatusError,
    FunctionArgumentError,
    FunctionRaisedError,
    InvalidFunctionError,
    InvalidInputError,
    InvalidRunConfigException,
    UnknownNamedResourceError,
    UnknownSchedulerException,
)

pytestmark = pytest.mark.engine
engine = pytest.mark.usefixtures("prefect_api", "runner")


class Trained(TypedDict):
    """What `train` returns."""

    lr: float
    epochs: int
    world: str


@torchx_task(replicas=2)
def train(lr: float, epochs: int = 3) -> Trained:
    """Train a little."""
    import os

    print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"])  # noqa: T201  (a program's output)
    return {"lr": lr, "epochs": epochs, "world": os.environ["WORLD_SIZE"]}


@torchx_task
def add(numbers: list[int], *more: int, factor: int = 1, **others: int) -> int:
    """Take arguments of every kind."""
    return factor * (sum(numbers) + sum(more) + sum(others.values()))


@torchx_task
async def add_later(a: int, b: int = 0) -> int:
    """Add."""
    import asyncio

    await asyncio.sleep(0)
    return a + b


@torchx_task
def fails(message: str) -> None:
    """Raise."""
    raise ValueError(message)


@torchx_task
def leaves(code: int) -> None:
    """Exit."""
    import sys

    sys.exit(code)


@torchx_task
def stays() -> None:
    """Outlive every timeout."""
    import threading

    threading.Event().wait(600)


def _apps(runner: Runner) -> list[AppState]:
    return [app.state for app in runner.list("local_cwd")]


# --- in flows


@engine
def test_a_function_runs_in_every_replica(caplog: pytest.LogCaptureFixture) -> None:
    """Its lines are in the log with their replicas, and rank 0's value is the task's result."""

    @flow
    def pipeline() -> list[Trained]:
        return [train(0.5, epochs=1), train.with_options(replicas=3)(0.1)]

    assert pipeline() == [
        {"lr": 0.5, "epochs": 1, "world": "2"},
        {"lr": 0.1, "epochs": 3, "world": "3"},
    ]
    assert [caplog.text.count(f"[train/{i}] rank {i} of 2") for i in range(2)] == [1, 1]


@engine
def test_arguments_are_the_results_of_other_tasks() -> None:
    """A task that was submitted before, called before, or is somewhere in a list."""

    @task
    def number(value: int) -> int:
        return value

    @flow
    def pipeline() -> int:
        submitted = number.submit(1)
        submit: Any = add.submit  # takes futures of what the function takes
        total: int = submit([submitted, number(2)], submitted, factor=number.submit(10), other=4).result()
        return total

    assert pipeline() == 10 * (1 + 2 + 1 + 4)


@engine
def test_a_function_is_mapped(runner: Runner) -> None:
    """Each value has an app of its own; a second function takes the results as a list."""

    @flow
    def pipeline() -> int:
        each: Any = add.map([[1], [2], [3]], factor=unmapped(10))
        return add.submit(each).result()

    assert pipeline() == 60
    assert _apps(runner) == [AppState.SUCCEEDED] * 4


@engine
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Prefect's clients, left open
def test_an_async_function_is_an_async_task() -> None:
    """It is awaited, gathered and submitted as one."""

    @flow
    async def pipeline() -> list[int]:
        submitted: Any = add_later.submit(4)
        return [*await asyncio.gather(add_later(1), add_later(2, b=3)), submitted.result()]

    assert asyncio.run(pipeline()) == [1, 5, 4]
    gc.collect()  # here, where what Prefect's clients left open is not counted against a later test


@engine
def test_a_failure_is_the_function_s(runner: Runner) -> None:
    """The task's state leads with the replica, and has the exception with the lines of this file."""

    @flow
    def pipeline() -> None:
        fails.with_options(replicas=2)("no data")

    state: State[None] = pipeline(return_state=True)
    with pytest.raises(FunctionRaisedError) as caught:
        state.result()
    error = caught.value
    assert error.exception == "ValueError: no data"
    assert error.traceback.splitlines()[-2:] == ["    raise ValueError(message)", "ValueError: no data"]
    assert 'File "test_decorators.py"' in error.traceback
    assert str(error).startswith("replica fails/")
    assert "  error: ValueError: no data\n" in str(error)
    assert "FunctionRaisedError: replica fails/" in str(state.message)
    assert (str(pickle.loads(pickle.dumps(error))), _apps(runner)) == (str(error), [AppState.FAILED])


@engine
def test_a_failure_keeps_secrets(caplog: pytest.LogCaptureFixture) -> None:
    """Log and error, in all of its parts, hide what a secret variable holds."""

    @torchx_task(env={"API_TOKEN": "hunter2"})
    def tells() -> None:
        import os

        raise ValueError("bad " + os.environ["API_TOKEN"])

    @flow
    def pipeline() -> None:
        tells()

    with pytest.raises(FunctionRaisedError) as caught:
        pipeline()
    error = caught.value
    assert error.exception == "ValueError: bad ***"
    assert error.traceback.endswith("ValueError: bad ***\n")
    assert "hunter2" not in f"{error} {error.traceback} {error.status.to_json()} {caplog.text}"


@engine
def test_a_function_that_exits_raised_nothing() -> None:
    """What is known then is the exit code."""

    @flow
    def pipeline() -> None:
        leaves(3)

    with pytest.raises(AppStatusError, match="replica leaves/0 failed with exit code 3") as caught:
        pipeline()
    assert not isinstance(caught.value, FunctionRaisedError)


@engine
def test_a_failure_is_retried(runner: Runner, tmp_path: Path) -> None:
    """The scheduler starts the app again before the task fails, and then the task is retried."""

    @torchx_task(max_retries=1, retries=1)
    def third_time(folder: str) -> int:
        from pathlib import Path

        Path(folder).mkdir(exist_ok=True)
        starts = len([*Path(folder).iterdir()]) + 1
        Path(folder, str(starts)).touch()
        if starts < 3:
            raise OSError(f"start {starts}")
        return starts

    @flow
    def pipeline() -> int:
        return third_time(str(tmp_path / "starts"))

    assert pipeline() == 3
    assert sorted(_apps(runner)) == [AppState.SUCCEEDED, AppState.FAILED]


@engine
def test_a_mistake_is_not_retried(runner: Runner) -> None:
    """What cannot travel now cannot travel later; nothing is submitted."""
    tries: list[int] = []

    mistake: Any = [timedelta(1)]

    @flow
    def pipeline() -> None:
        add.with_options(retries=5, on_failure=[lambda _task, run, _state: tries.append(run.run_count)])(
            mistake
        )

    with pytest.raises(FunctionArgumentError, match=r"argument 'numbers'\[0\] must be plain data"):
        pipeline()
    assert (_apps(runner), tries) == ([], [1])


@engine
def test_it_runs_again_though_nothing_has_changed(runner: Runner) -> None:
    """Results are not cached, also where Prefect keeps them; with a policy of the user's they are."""

    @flow
    def pipeline() -> None:
        add.with_options(persist_result=True)([1])

    @flow
    def cached() -> None:
        add.with_options(cache_policy=INPUTS)([2])

    for each in (pipeline, pipeline, cached, cached):
        each()
    assert _apps(runner) == [AppState.SUCCEEDED] * 3


@engine
def test_a_retried_flow_run_does_nothing_again(runner: Runner) -> None:
    """It finds what its task has done, and returns that."""
    results: list[int] = []

    @flow(retries=1)
    def pipeline() -> None:
        results.append(add([1, 2]))
        if len(results) == 1:
            raise ConnectionError

    pipeline()
    assert (results, _apps(runner)) == ([3, 3], [AppState.SUCCEEDED])


@engine
@pytest.mark.parametrize("how", ["called", "submitted"])
def test_a_timeout_stops_the_function(how: str, runner: Runner) -> None:
    """Prefect's ``timeout_seconds`` cancels the app."""

    @flow
    def pipeline(limit_s: int) -> None:
        timed = stays.with_options(timeout_seconds=limit_s)
        timed() if how == "called" else timed.submit().result()

    def run(limit_s: int) -> None:
        with pytest.raises(TimeoutError):
            pipeline(limit_s)

    _, status = timed_out(run, runner)
    assert status.state is AppState.CANCELLED


@engine
def test_the_run_s_name_may_hold_arguments() -> None:
    """As that of any task; the app has the function's name."""
    names: list[str] = []

    @flow
    def pipeline() -> None:
        named = add.with_options(
            task_run_name="times {factor}",
            on_completion=[lambda _task, run, _state: names.append(run.name)],
        )
        named([1], factor=7)

    pipeline()
    assert names == ["times 7"]


POOL = """
from prefect import flow
from prefect.task_runners import ProcessPoolTaskRunner
from prefect_torchx import torchx_task
from torchx_core.errors import FunctionRaisedError

@torchx_task(replicas=2)
def half(number):
    return 1 / number

@flow(task_runner=ProcessPoolTaskRunner(max_workers=1))
def pipeline():
    good, bad = half.submit(2), half.submit(0)
    try:
        bad.result()
    except FunctionRaisedError as err:
        print(good.result(), err.exception)

if __name__ == "__main__":
    pipeline()
"""


@pytest.mark.slow
@pytest.mark.usefixtures("runner")
def test_a_task_runs_in_a_process_of_a_pool(prefect_api: str, tmp_path: Path) -> None:
    """It travels there with its function, and what that raises travels back."""
    program = tmp_path / "pool.py"
    program.write_text(POOL)
    env = {**os.environ, "PREFECT_API_URL": prefect_api}
    done = subprocess.run([sys.executable, program], env=env, capture_output=True, text=True, check=False)
    assert done.stdout == "0.5 ZeroDivisionError: division by zero\n", done.stderr


def test_outside_of_prefect_s_runs_the_function_is_at_hand() -> None:
    """As with any task: what is decorated can be called by itself."""
    assert train.fn.__name__ == "train"
    assert (train.name, train.description, train.isasync, add_later.isasync) == (
        "train",
        "Train a little.",
        False,
        True,
    )


# --- options


def test_the_app_of_a_call_can_be_looked_at() -> None:
    """Without running it, as it would be run."""
    app = train.app(0.5, epochs=1)
    assert (app.name, app.roles[0].num_replicas, app.roles[0].env["WORLD_SIZE"]) == ("train", 2, "2")
    assert '"kwargs": {}' in app.roles[0].args[-1]
    with pytest.raises(FunctionArgumentError, match="missing a required argument: 'lr'"):
        train.app()  # type: ignore[call-arg]  # the mistake


def test_other_options_make_another_task() -> None:
    """Options of the app and of the task, together; the first task stays what it was."""
    again = train.with_options(replicas=3, torchrun=True, name="big", retries=4).with_options(
        image="i", tags=["t"]
    )
    role = again.app(0.5).roles[0]
    assert (role.num_replicas, role.image, "--no-python" in str(role.args)) == (3, "i", True)
    assert (again.name, again.retries, again.tags, again.cache_policy) == ("big", 4, {"t"}, NO_CACHE)
    assert (train.name, train.retries, train.app(0.5).roles[0].num_replicas) == ("train", 0, 2)
    assert again.task_key == train.task_key
    assert isinstance(again, type(train))


def test_hooks_stay_with_other_options() -> None:
    """Those that were added to the task, too."""
    hooked = torchx_task(plain)

    @hooked.on_completion
    def hook(*_: object) -> None:
        """Do nothing."""

    assert hooked.with_options(replicas=2).on_completion_hooks == [hook]


def test_a_task_travels_by_pickle(tmp_path: Path) -> None:
    """The function's text was read when it was decorated, so its file is not needed where the task runs."""
    file_text = """
        from prefect_torchx import torchx_task

        @torchx_task(replicas=2)
        def double(number):
            return 2 * number

        def last():
            return double
        """
    carried = cloudpickle.dumps(load_function(tmp_path, file_text)())
    unload()
    (tmp_path / FILE).unlink()
    again = pickle.loads(carried)
    assert again.app(1).roles[0].num_replicas == 2
    assert again.with_options(replicas=4).app(1).roles[0].num_replicas == 4


OUTSIDE = 3


def uses_a_global() -> int:
    """Need what is outside."""
    return OUTSIDE


def generates() -> object:
    """Yield."""
    yield 1


def plain(a: int, /, b: int, *, c: int, d: int = 0) -> int:
    """Take arguments of every kind."""
    return a + b + c + d


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            uses_a_global,
            r"test_decorators.py:\d+: it uses 'OUTSIDE', which is defined outside it; pass it as",
        ),
        (generates, "it is a generator; return a list"),
        (lambda: 1, "it is a lambda; write a `def`"),
        (Path, "it is a class; write a plain `def`"),
    ],
)
def test_a_function_that_cannot_travel_is_refused_at_once(
    function: Callable[..., object], message: str
) -> None:
    """When it is decorated, not when its flow runs."""
    with pytest.raises(InvalidFunctionError, match=message):
        torchx_task(replicas=2)(function)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"replica": 2}, InvalidInputError, "@torchx_task has no option 'replica'; did you mean 'replicas'?"),
        ({"retry": 2}, InvalidInputError, "no option 'retry'; did you mean 'retries'?"),
        ({"replicas": 0}, InvalidInputError, "replicas must be at least 1: 0"),
        ({"nproc": 0}, InvalidInputError, "nproc must be at least 1: 0"),
        ({"env": {"A": 1}}, InvalidInputError, r"roles\[0\].env\['A'\]"),
        ({"max_retries": -1}, InvalidInputError, "max_retries"),
        ({"resource": "gpu_smal"}, UnknownNamedResourceError, "gpu_smal"),
        ({"scheduler": "local_cdw"}, UnknownSchedulerException, "did you mean 'local_cwd'"),
        ({"cfg": {"grase_s": 5}}, InvalidRunConfigException, "did you mean 'grace_s'"),
        ({"cfg": "grace_s=soon"}, InvalidRunConfigException, "grace_s must be float"),
        (
            {"workspace": "./src", "cfg": "unsupported=refuse"},
            InvalidInputError,
            "local_cwd cannot build a workspace: './src'",
        ),
        ({"on_worker_shutdown": "stop"}, InvalidInputError, "must be 'detach' or 'cancel': 'stop'"),
        ({"retry_delay_seconds": "soon"}, TypeError, "retry_delay_seconds"),
    ],
)
def test_a_wrong_option_is_refused_at_once(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    """When it is given: at the import of the flow's file, or by ``with_options``."""
    with pytest.raises(error, match=message):
        torchx_task(**options)(plain)
    with pytest.raises(error, match=message):
        torchx_task(plain).with_options(**options)
