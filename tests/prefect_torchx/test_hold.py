from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable

import pytest

from prefect_torchx.hold import Hold, OvertakenError, Request
from prefect_torchx.logs import RunLog
from prefect_torchx.naming import Holder, Work
from torchx_core import AppDef, Role, Runner
from torchx_core.errors import AppIdConflictError
from torchx_core.specs import AppState
from torchx_core.testing import fake_runner


class Leave(BaseException):
    """Something ends the try."""


def leave() -> None:
    """End the try at the first look."""
    raise Leave


def stay() -> None:
    """Look at nothing."""


class Flow:
    """A flow run of one task, whose app does these steps."""

    def __init__(self, *steps: str, shared: bool = False) -> None:
        self.runner: Runner = fake_runner()
        self.said: list[str] = []
        role = Role(name="r", image="", entrypoint="fake", args=list(steps))
        self.request = Request(
            app=AppDef("app", [role]),
            scheduler="fake",
            cfg={},
            work=Work(name="app", identity=uuid.uuid4().hex),
            shared=shared,
        )

    def hold(
        self, *, task: str = "t", task_try: int = 1, flow_try: int = 1, check: Callable[[], None] = stay
    ) -> Hold:
        """Return one call's hold; its log shows every line at once."""
        me = Holder(flow_try=flow_try, task_run_id=task, task_try=task_try, call=uuid.uuid4().hex)
        ticks = itertools.count()
        log = RunLog(lambda _level, text, _time: self.said.append(text), str, lambda: next(ticks))
        return Hold(self.runner, self.request, me, log, check)

    @property
    def states(self) -> list[AppState]:
        """The states of all apps there are."""
        return [app.state for app in self.runner.list("fake")]


def test_a_try_submits_once_and_follows_to_the_end() -> None:
    """The normal case: one app, its output in the log, its result in the status."""
    flow = Flow("print:hello", 'result:{"a": 1}', "exit:0")
    hold = flow.hold()
    status = hold.run()
    assert (status.state, status.result) == (AppState.SUCCEEDED, {"a": 1})
    assert (hold.handle, flow.states) == (flow.runner.list("fake")[0].app_handle, [AppState.SUCCEEDED])


def test_a_retry_follows_the_running_app() -> None:
    """A try that ends for reasons of its own leaves the app, and the next one finds it."""
    flow = Flow("print:hello", "hold")
    first, second = flow.hold(check=leave), flow.hold(task_try=2, check=leave)
    for hold in (first, second):
        with pytest.raises(Leave):
            hold.run()
    assert first.handle == second.handle
    assert flow.states == [AppState.RUNNING]


def test_a_retried_flow_run_follows_the_running_app() -> None:
    """Prefect gives its tasks new ids then; the work is the same."""
    flow = Flow("hold")
    for flow_try, task in ((1, "t"), (2, "another")):
        with pytest.raises(Leave):
            flow.hold(flow_try=flow_try, task=task, check=leave).run()
    assert len(flow.states) == 1


def test_a_retry_returns_the_result_of_a_succeeded_app() -> None:
    """What is done is not done again, and its output is not shown twice by one process."""
    flow = Flow("print:hello", "result:5", "exit:0")
    flow.hold().run()
    flow.said.clear()
    assert flow.hold(task_try=2).run().result == 5
    assert len(flow.states) == 1
    assert not any("hello" in text for text in flow.said)


def test_a_retry_starts_a_failed_app_anew() -> None:
    """Each attempt is an app of its own, with its own record and logs."""
    flow = Flow("exit:3")
    first, second, third = (flow.hold(task_try=number) for number in (1, 2, 3))
    assert [hold.run().state for hold in (first, second, third)] == [AppState.FAILED] * 3
    assert [second.handle, third.handle] == [f"{first.handle}-2", f"{first.handle}-3"]


@pytest.mark.parametrize("task", ["t", "another"])
def test_equal_calls_of_one_run_have_an_app_each(task: str) -> None:
    """A second call, of the same task or of another one, does not take the first one's app for its own."""
    flow = Flow("exit:0")
    first, second = flow.hold(), flow.hold(task=task)
    first.run()
    second.run()
    assert first.handle != second.handle
    assert len(flow.states) == 2


def test_a_retry_finds_the_app_of_each_of_its_calls() -> None:
    """Two equal calls of a retried task run nothing again."""
    flow = Flow("exit:0")
    before = [flow.hold(), flow.hold()]
    after = [flow.hold(task_try=2), flow.hold(task_try=2)]
    for hold in before + after:
        hold.run()
    assert [hold.handle for hold in before] == [hold.handle for hold in after]


def test_cancelling_ends_the_app_with_the_reason() -> None:
    """The reason is in the app's status, for everybody to see."""
    flow = Flow("hold")
    hold = flow.hold(check=leave)
    with pytest.raises(Leave):
        hold.run()
    hold.cancel("because")
    hold.show_last_lines()
    assert hold.handle
    status = flow.runner.status(hold.handle)
    assert status
    assert (status.state, status.msg) == (AppState.CANCELLED, "because")


def test_cancelling_before_anything_was_submitted_does_nothing() -> None:
    """An interruption may come at any point."""
    flow = Flow("hold")
    flow.hold().cancel("because")
    assert flow.states == []


def test_an_older_try_cannot_cancel_the_app_of_a_newer_one() -> None:
    """A try that was frozen while another took its place does no harm when it thaws."""
    flow = Flow("hold")
    old, new = flow.hold(check=leave), flow.hold(flow_try=2, check=leave)
    for hold in (old, new):
        with pytest.raises(Leave):
            hold.run()
    old.cancel("because")
    assert flow.states == [AppState.RUNNING]


def test_an_older_try_does_not_take_the_app_back() -> None:
    """It neither follows nor duplicates what a newer try has."""
    flow = Flow("hold")
    with pytest.raises(Leave):
        flow.hold(flow_try=2, check=leave).run()
    with pytest.raises(OvertakenError, match="belongs to a later try"):
        flow.hold(flow_try=1).run()
    assert len(flow.states) == 1


def test_a_retry_waits_for_the_end_of_a_cancelled_app_and_starts_anew() -> None:
    """It does not take an app that is being stopped for a running one."""
    flow = Flow("hold")
    first = flow.hold(check=leave)
    with pytest.raises(Leave):
        first.run()
    assert first.handle
    first.cancel("timeout")
    second = flow.hold(task_try=2, check=lambda: leave() if len(flow.states) > 1 else None)
    with pytest.raises(Leave):
        second.run()
    assert second.handle == f"{first.handle}-2"
    assert flow.states == [AppState.CANCELLED, AppState.RUNNING]


def test_a_shared_app_is_the_same_for_every_run() -> None:
    """With a key of the user's, runs that know nothing of each other are after one app."""
    flow = Flow("exit:0", shared=True)
    for task in ("a", "b"):
        flow.hold(task=task).run()
    assert len(flow.states) == 1


def test_a_shared_app_with_another_request_is_refused() -> None:
    """A key names one request; another one under the same key is a mistake, and the app goes on."""
    flow = Flow("hold", shared=True)
    with pytest.raises(Leave):
        flow.hold(check=leave).run()
    flow.request.app.roles[0].args = ["exit:0"]
    with pytest.raises(AppIdConflictError, match=r"hold.*exit:0"):
        flow.hold().run()
    assert flow.states == [AppState.RUNNING]


def test_a_deleted_app_runs_anew_with_all_its_output() -> None:
    """What this process has shown of the deleted app says nothing about the new one of that name."""
    flow = Flow("print:hello", "exit:0", shared=True)
    flow.hold().run()
    flow.runner.delete(flow.runner.list("fake")[0].app_handle)
    flow.said.clear()
    flow.hold().run()
    assert "hello" in "".join(flow.said)
