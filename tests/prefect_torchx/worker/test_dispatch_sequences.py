"""Flow runs whose workers come at any time, and die at any time, in every order that hypothesis thinks of."""

from __future__ import annotations

import pytest
from prefect.client.schemas.objects import State
from prefect.states import AwaitingRetry, Completed, Crashed, Pending, Running, Scheduled, Submitting

from prefect_torchx.worker.dispatch import Dispatch, Stage, latest_dispatch
from prefect_torchx.worker.ending import Ending, judge

pytest.importorskip("hypothesis", reason="environments of other Prefect versions have none")

from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule


class FlowRunOfManyWorkers(RuleBasedStateMachine):
    """One flow run, and what the server lets everybody do to it."""

    def __init__(self) -> None:
        super().__init__()
        self.states: list[State[None]] = [Scheduled()]
        self.end: State[None] | None = None  # what is true of it, taken or not
        self.apps: set[int] = set()  # those that live
        self.begun: list[int] = []
        self.flowing = 0  # the app whose flow has begun, and not ended

    @property
    def now(self) -> State[None]:
        return self.states[-1]

    def _add(self, state: State[None]) -> None:
        self.states.append(state)
        self.end = state if state.is_final() else self.end

    @rule()
    def take(self) -> None:
        """A worker has been offered the flow run, at whatever time; see core_policy.py of Prefect."""
        if (
            self.now.is_scheduled()
            or self.now.is_completed()
            or self.now.is_failed()
            or self.now.is_crashed()
        ):
            self._add(Pending())

    @rule()
    def say_so(self) -> None:
        """Whoever took it writes Submitting, which the server takes after an end, too."""
        if not (self.now.is_running() or self.now.is_cancelled()):
            self._add(Submitting())

    @rule()
    def submit(self) -> None:
        """A worker that took it goes on; all earlier apps are seen off, and an id runs once."""
        dispatch = self._settle()
        if dispatch.stage is Stage.TAKEN and dispatch.number not in self.begun:
            assert self.end or self.flowing not in self.apps, "its flow was still at work"
            self.apps = {dispatch.number}
            self.begun.append(dispatch.number)

    @rule()
    def sweep(self) -> None:
        """Some worker looks at what is Pending."""
        self._settle()

    @precondition(lambda self: self.end and not self.now.is_final() and not self.end.is_crashed())
    @rule()
    def crash(self) -> None:
        """Somebody saw a process gone, and says so of what had ended before."""
        self.states.append(Crashed(message="its process is gone"))

    @precondition(lambda self: self.apps and not self.flowing)
    @rule()
    def begin(self) -> None:
        """A process starts its flow."""
        (app,) = self.apps
        if self.now.is_pending() and latest_dispatch(self.states).number == app and not self.end:
            self._add(Running())
            self.flowing = app

    @precondition(lambda self: self.flowing in self.apps and self.now.is_running())
    @rule()
    def fail_and_wait(self) -> None:
        """The server answers Failed with a retry in the process."""
        self._add(AwaitingRetry())

    @precondition(lambda self: self.flowing in self.apps and not self.end)
    @rule()
    def try_again(self) -> None:
        """No retry is swallowed: whoever came meanwhile, the process may go on."""
        assert latest_dispatch(self.states).stage is Stage.BEGUN
        assert self.now.is_scheduled() or self.now.is_pending() or self.now.is_running()
        self._add(Running())

    @precondition(lambda self: self.flowing in self.apps)
    @rule()
    def complete(self) -> None:
        """The flow ends well; its process takes a moment to exit."""
        self._add(Completed(message=f"{len(self.states)}"))
        self.flowing = 0

    @precondition(lambda self: self.apps)
    @rule()
    def die(self) -> None:
        """The process is gone, and its worker reports."""
        (app,) = self.apps
        self.apps, self.flowing = set(), 0
        dispatch = self._settle()
        if dispatch.number == app:
            ending = judge(self.now, retried_in_process=dispatch.stage is not Stage.WAITING)
            assert (ending is Ending.LEAVE) == (dispatch.stage in {Stage.OVER, Stage.WAITING})
            if ending is Ending.CRASHED:
                self._add(Crashed(message=f"app {app}"))

    @precondition(lambda self: self.now.is_final())
    @rule()
    def run_again(self) -> None:
        """A user has it run once more."""
        self._add(Scheduled())
        self.end = None
        self.flowing = 0

    def _settle(self) -> Dispatch:
        dispatch = latest_dispatch(self.states)
        if due := dispatch.due(self.now):
            assert due is self.end
            self.states.append(due)
        return dispatch

    @invariant()
    def runs_once_at_a_time(self) -> None:
        """At most one app lives, and no dispatch has two."""
        assert len(self.apps) <= 1
        assert len(set(self.begun)) == len(self.begun)

    def teardown(self) -> None:
        """Whatever happened, one sweep later the flow run has its end."""
        self._settle()
        if self.end:
            assert (self.now.type, self.now.message) == (self.end.type, self.end.message)


TestFlowRunOfManyWorkers = FlowRunOfManyWorkers.TestCase
TestFlowRunOfManyWorkers.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)
