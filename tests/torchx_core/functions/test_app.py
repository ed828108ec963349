"""Functions run for real on the local scheduler, by a Python that does not have this package."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torchx_core import AppState, AppStatus, Runner, get_runner
from torchx_core.errors import InvalidInputError, UnknownNamedResourceError
from torchx_core.functions import function_app
from torchx_core.schedulers import LogLines
from torchx_core.specs import BindMount, Resource

PYTHON = Path(sys.base_prefix, "bin", "python3")
"""The one that this environment was made of: it lacks whatever is installed here."""
ENVIRONMENT = str(Path(sys.executable).parent)

app_of = partial(function_app, python=str(PYTHON))


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    """A runner with a state directory of its own; apps run in an empty directory."""
    monkeypatch.setenv("PATH", os.pathsep.join([ENVIRONMENT, os.environ["PATH"]]))
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    with get_runner(state_dir=str(tmp_path / "state")) as runner:
        yield runner


def ended(runner: Runner, function: Callable[..., object], *args: object, **fields: object) -> AppStatus:
    """Run the function to the app's end."""
    app = function_app(function, args, **{"python": str(PYTHON), **fields})  # type: ignore[arg-type]  # a test's own
    status = runner.wait(runner.run(app, "local_cwd"), timeout_s=240)
    assert status
    return status


def result(runner: Runner, function: Callable[..., object], *args: object, **fields: object) -> object:
    """Run the function to a good end and return the app's result."""
    status = ended(runner, function, *args, **fields)
    assert status.state is AppState.SUCCEEDED, status.failure_summary()
    return status.result


def echo(*args: object, **kwargs: object) -> object:
    """Return the arguments."""
    return [args, kwargs]


texts = st.text(st.characters(codec="utf-8")) | st.sampled_from(["$", "$$", "${app_id}", "'\"\\", "\0", ""])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda x: st.lists(x, max_size=5) | st.dictionaries(texts, x, max_size=5),
    max_leaves=20,
)


@given(args=st.lists(values, max_size=5), kwargs=st.dictionaries(texts, values, max_size=5))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_json_value_goes_in_and_comes_out_equal(
    runner: Runner, args: list[object], kwargs: dict[str, object]
) -> None:
    """Types and the order of keys included; nothing in them is taken for a macro."""
    returned = result(runner, echo, *args, kwargs=kwargs)
    assert json.dumps(returned) == json.dumps([args, kwargs])


def test_a_large_argument_travels(runner: Runner) -> None:
    """An argument may be larger than any single word of a command line."""
    large = "0123456789abcde$" * 14_000
    assert result(runner, echo, large) == [[large], {}]


def test_every_process_knows_its_rank(runner: Runner, tmp_path: Path) -> None:
    """By torchrun's variables; what rank 0 returns is the result."""

    def work(folder: str) -> list[str]:
        import os
        from pathlib import Path

        names = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"]
        mine = [os.environ[name] for name in names]
        Path(folder, mine[0]).write_text(" ".join(mine))
        return mine

    (tmp_path / "ranks").mkdir()
    assert result(runner, work, str(tmp_path / "ranks"), replicas=3) == ["0", "3", "0", "1"]
    written = {path.read_text() for path in (tmp_path / "ranks").iterdir()}
    assert written == {f"{rank} 3 0 1" for rank in range(3)}


def test_a_function_has_what_it_defines_and_imports_inside(runner: Runner) -> None:
    """Defaults, annotations of what is not there, classes, recursion; no option of ours in `sys.argv`."""

    def tree(depth: int, leaf: Sequence[object] = (1, 2)) -> Sequence[object]:
        import sys
        from dataclasses import dataclass

        @dataclass
        class Node:
            children: Sequence[object]

        if depth == 0:
            return leaf
        return [Node([tree(depth - 1)]).children, sys.argv[1:]]

    assert result(runner, tree, 1) == [[[1, 2]], []]


def test_the_image_needs_nothing_of_ours(runner: Runner) -> None:
    """The function runs where this package cannot be imported."""

    def ours() -> bool:
        import importlib.util

        return importlib.util.find_spec("torchx_core") is not None

    assert result(runner, ours) is False


def test_an_async_function_is_awaited(runner: Runner) -> None:
    """In an event loop of its own."""

    async def later(value: int) -> int:
        import asyncio

        await asyncio.sleep(0)
        return value + 1

    assert result(runner, later, 1) == 2


def test_none_leaves_the_result_to_the_function(runner: Runner) -> None:
    """What it reports by itself stays, and an app without either has none."""

    def reports() -> None:
        from torchx_core.runtime import report_result

        report_result("own")

    assert result(runner, reports, python=sys.executable) == "own"
    assert result(runner, nothing) is None


def nothing() -> None:
    """Return nothing."""


def test_what_a_function_prints_is_seen_at_once(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not when a buffer is full: the function goes on when its line has been seen."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)

    def waits(path: str) -> bool:
        import time
        from pathlib import Path

        print("ready")  # noqa: T201  (that is the point)
        for _ in range(6000):
            if Path(path).exists():
                return True
            time.sleep(0.01)  # noqa: TID251  (runs in the app)
        return False

    seen = tmp_path / "seen"
    handle = runner.run(app_of(waits, [str(seen)]), "local_cwd")
    for batch in runner.follow(handle):
        if any(isinstance(event, LogLines) and "ready" in event.lines for event in batch.events):
            seen.touch()
    status = runner.status(handle)
    assert status
    assert status.result is True


def test_a_failure_leads_with_the_exception_and_shows_where(runner: Runner) -> None:
    """File and line are those of this file, and texts of many lines in between do not move them."""

    def fails(value: str) -> None:
        """Fail.

        not indented
        """
        raise ValueError(value)

    status = ended(runner, fails, "no \udc80 such\nvalue")
    lines = status.failure_summary().splitlines()
    assert lines[0].startswith("replica fails/0 failed with exit code 1 (")
    assert lines[1:5] == [
        r"  error: ValueError: no \udc80 such",
        "         value",
        "         Traceback (most recent call last):",
        f'           File "test_app.py", line {fails.__code__.co_firstlineno + 5}, in fails',
    ]
    assert lines[5] == "             raise ValueError(value)"


def test_what_led_to_a_failure_is_shown_too(runner: Runner) -> None:
    """The whole chain of exceptions; a very long one is cut where it begins."""

    def fails(length: int) -> None:
        try:
            raise KeyError("x" * length)  # noqa: TRY301  (what a program does)
        except KeyError as err:
            raise RuntimeError("cannot go on") from err

    short, long = (ended(runner, fails, length).failure_summary() for length in (1, 50_000))
    for summary in (short, long):
        assert "): RuntimeError: cannot go on (test_app.py:" in summary.splitlines()[0]
    assert "KeyError: 'x'" in short
    assert "RuntimeError: cannot go on" in long[-2000:]
    assert len(long) < 20_000


def test_a_function_may_choose_its_exit_code(runner: Runner) -> None:
    """As any program does."""

    def leaves(code: int) -> None:
        import sys

        sys.exit(code)

    assert ended(runner, leaves, 3).roles[0].replicas[0].exit_code == 3
    assert ended(runner, leaves, 0).state is AppState.SUCCEEDED


def returns_a_set() -> object:
    """Return what JSON cannot hold."""
    return {"a": {1}}


def returns_much() -> object:
    """Return more than a report may hold."""
    return "x" * (1 << 20)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (returns_a_set, "TypeError: returns_a_set must return what JSON can hold: Object of type set is not"),
        (
            returns_much,
            r"ValueError: returns_much returned 10486\d\d bytes; return at most 1048576, or a path",
        ),
    ],
)
def test_a_result_that_cannot_be_reported_is_a_failure(
    runner: Runner, function: Callable[..., object], message: str
) -> None:
    """It says so, instead of a task that gets nothing; no line of ours is in the way."""
    [_, first, *others] = ended(runner, function).failure_summary().splitlines()
    assert re.search(message, first)
    assert "Traceback" not in "".join(others)


def test_a_failed_app_starts_again(runner: Runner, tmp_path: Path) -> None:
    """As often as was asked for."""

    def second_time(folder: str) -> str:
        from pathlib import Path

        try:
            Path(folder).mkdir()
        except FileExistsError:
            return "second time"
        raise OSError("first time")

    assert result(runner, second_time, str(tmp_path / "made"), max_retries=1) == "second time"


def test_the_role_is_what_was_asked_for() -> None:
    """Every field; a variable that is given wins."""
    mount = BindMount("/data", "/data", read_only=True)
    app = function_app(
        nothing,
        name="named",
        replicas=2,
        image="python:3",
        env={"WORLD_SIZE": "9", "A": "b"},
        resource=Resource(cpu=1, gpu=2, memMB=3),
        mounts=[mount],
        max_retries=4,
    )
    [role] = app.roles
    assert (app.name, role.name, role.entrypoint, role.args[0]) == (
        "named",
        "nothing",
        "python3",
        "-c",
    )
    assert (role.image, role.num_replicas, role.max_retries, role.mounts) == ("python:3", 2, 4, [mount])
    assert (role.env["WORLD_SIZE"], role.env["A"], role.resource.gpu) == ("9", "b", 2)
    assert function_app(nothing, resource="aws_p4d.24xlarge").roles[0].resource.gpu == 8


def test_torchrun_starts_several_processes() -> None:
    """It starts a single one when asked, which gets a plain replica's words, and sets the ranks."""
    plain = function_app(nothing, replicas=2).roles[0]
    several, one = (
        function_app(nothing, replicas=2, nproc=3),
        function_app(nothing, replicas=2, torchrun=True),
    )
    for role in (several.roles[0], one.roles[0]):
        words = ["--no-python", plain.entrypoint, *plain.args]
        assert role.args[-len(words) :] == words
        assert (role.num_replicas, "RANK" in role.env, role.port_map) == (2, False, {"c10d": 29500})
    assert function_app(nothing, nproc=3).roles[0].entrypoint == "torchrun"


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"replicas": 0}, InvalidInputError, "replicas must be at least 1: 0"),
        ({"nproc": -1}, InvalidInputError, "nproc must be at least 1: -1"),
        ({"resource": "aws_p4d"}, UnknownNamedResourceError, "unknown named resource 'aws_p4d'"),
    ],
)
def test_wrong_fields(fields: dict[str, object], error: type[Exception], message: str) -> None:
    """Each is refused by its name."""
    with pytest.raises(error, match=message):
        function_app(nothing, **fields)  # type: ignore[arg-type]  # the keys vary


@pytest.mark.torch
@pytest.mark.parametrize("fields", [{"nproc": 2}, {"replicas": 2, "torchrun": True}], ids=str)
def test_processes_of_a_function_meet(runner: Runner, fields: dict[str, object]) -> None:
    """In one replica and across replicas, with `torch.distributed`; the value of rank 0 is the result."""

    def add(mine: float) -> list[float]:
        from importlib import import_module

        # By name: where types are checked there is no PyTorch.
        torch, distributed = import_module("torch"), import_module("torch.distributed")
        distributed.init_process_group("gloo")
        total = torch.tensor([mine])
        distributed.all_reduce(total)
        rank, size = distributed.get_rank(), distributed.get_world_size()
        distributed.destroy_process_group()
        return [rank, size, total.item()]

    assert result(runner, add, 1.5, python=sys.executable, **fields) == [0, 2, 3.0]


@pytest.mark.torch
def test_a_failure_in_one_of_several_processes(runner: Runner) -> None:
    """Torchrun hands on what the process left behind."""

    def fails() -> None:
        import os

        if os.environ["LOCAL_RANK"] == "1":
            raise ValueError("no data for rank 1")

    lines = ended(runner, fails, python=sys.executable, nproc=2).failure_summary().splitlines()
    assert lines[1] == "  error: ValueError: no data for rank 1"
    assert any('File "test_app.py"' in line for line in lines)
