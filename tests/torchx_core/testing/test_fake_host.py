"""The fake scheduler in a user's tests."""

from __future__ import annotations

import pytest

from torchx_core import AppDef, AppState, Role, Runner
from torchx_core.errors import InvalidAppError
from torchx_core.schedulers import Batch
from torchx_core.testing import FakeClock, FakeHost, fake_runner


def demo(*steps: str, entrypoint: str = "fake", num_replicas: int = 1) -> AppDef:
    """Return an app with one role, ``worker``."""
    role = Role("worker", "", entrypoint=entrypoint, args=list(steps), num_replicas=num_replicas)
    return AppDef("demo", [role])


def state(runner: Runner, handle: str) -> AppState:
    """Return the app's state."""
    status = runner.status(handle)
    assert status is not None
    return status.state


def test_looking_at_an_app_moves_it_on() -> None:
    """One step per look, so that a poller sees every state."""
    runner = fake_runner()
    handle = runner.run(demo("print:x"), "fake")
    assert [state(runner, handle) for _ in range(5)] == [
        AppState.SUBMITTED,
        AppState.RUNNING,
        AppState.RUNNING,
        AppState.SUCCEEDED,
        AppState.SUCCEEDED,
    ]


def test_replicas_take_turns() -> None:
    """The order of their lines is the same in every run."""
    runner = fake_runner()
    handle = runner.run(demo("print:a${replica_id}", "print:b${replica_id}", num_replicas=2), "fake")
    lines = [line.text for batch in runner.follow(handle) for line in batch.lines()]
    assert lines == ["a0", "a1", "b0", "b1"]


def test_an_ordinary_program_succeeds() -> None:
    """An app that names a real program runs nothing and prints nothing."""
    runner = fake_runner()
    handle = runner.run(demo("-m", "train", entrypoint="python3"), "fake")
    status = runner.wait(handle)
    assert status is not None
    assert status.state == AppState.SUCCEEDED
    assert list(runner.log_lines(handle, "worker")) == []


def test_a_script_replaces_a_roles_program() -> None:
    """A test of a DAG decides how its jobs end, and leaves the DAG as it is."""
    runner = fake_runner(backend="local_cwd", scripts={"worker": ["print:epoch 1", "exit:137"]})
    handle = runner.run(demo("-m", "train", entrypoint="python3"), "local_cwd")
    assert list(runner.log_lines(handle, "worker", should_tail=True)) == ["epoch 1\n"]
    status = runner.status(handle)
    assert status is not None
    assert status.roles[0].replicas[0].exit_code == 137


@pytest.mark.parametrize("step", ["prnt:x", "exit:soon", "hold:on", "result:{", "metric:loss"])
def test_what_is_no_step_submits_nothing(step: str) -> None:
    """The error names the role and the step."""
    runner = fake_runner()
    with pytest.raises(InvalidAppError, match=r"roles\['worker'\].args.*" + step.replace("{", r"\{")):
        runner.run(demo(step), "fake")
    assert runner.list("fake") == []


def test_the_clock_decides_about_deadlines() -> None:
    """An hour passes in no time."""
    clock = FakeClock(1000.0)
    runner = fake_runner(clock=clock)
    handle = runner.run(demo("hold"), "fake", {"timeout_s": 3600.0})
    runner.status(handle)
    clock.advance(3599)
    assert state(runner, handle) == AppState.RUNNING
    clock.advance(1)
    status = runner.wait(handle)
    assert status is not None
    assert (status.state, status.msg) == (AppState.CANCELLED, "deadline passed: it ran for 3600 s")
    assert status.roles[0].replicas[0].ended_at == 4600.0


def test_the_clock_decides_about_grace() -> None:
    """A program that ignores SIGTERM is killed when the grace period is over, not before."""
    clock = FakeClock()
    runner = fake_runner(clock=clock)
    handle = runner.run(demo("hold:ignore-term"), "fake")
    runner.status(handle)
    runner.cancel(handle, grace_s=10)
    clock.advance(9.9)
    assert state(runner, handle) == AppState.RUNNING
    clock.advance(0.1)
    status = runner.wait(handle)
    assert status is not None
    assert status.roles[0].replicas[0].signal == "SIGKILL"


def test_moving_the_clock_wakes_a_follower() -> None:
    """Whoever waits on an app learns of its end without looking again by himself."""
    clock = FakeClock()
    runner = fake_runner(clock=clock)
    handle = runner.run(demo("hold"), "fake", {"timeout_s": 5.0})
    batches: list[Batch] = []
    for batch in runner.follow(handle, tick_s=0.01):
        batches.append(batch)
        if not batch.events:
            clock.advance(5.0)
    assert batches[-1].events


def test_whoever_waits_for_an_app_without_limits_waits_without_one() -> None:
    """Infinity is no time that a thread can wait for: it would fail with an error that nobody expects."""
    host = FakeHost()
    Runner("s", {"fake": host.scheduler}).run(demo("hold"), "fake")
    (app,) = host.apps.values()
    assert app.patience() is None


def test_apps_live_as_long_as_their_host() -> None:
    """A second runner of the same host has them, one of another host has not."""
    host = FakeHost()
    handle = Runner("s", {"fake": host.scheduler}).run(demo("hold"), "fake")
    assert Runner("s", {"fake": host.scheduler}).status(handle) is not None
    assert fake_runner("s").status(handle) is None
