"""Stopping: by a person, by an owner, by a deadline, by a lease."""

from __future__ import annotations

import pytest

from torchx_core.errors import UnknownAppException
from torchx_core.runner import Runner
from torchx_core.schedulers import CancelOutcome, LogLine, StateChanged
from torchx_core.specs import AppState, is_terminal
from torchx_core.testing.contract.base import UP, ContractBase, each_event, each_line
from torchx_core.testing.steps import Hold, Print
from torchx_core.testing.wait import wait_until

__all__ = ["StopContract"]


class StopContract(ContractBase):
    """Cancelling is prompt, final and seen by everybody."""

    __test__ = False

    def test_a_cancelled_app_is_cancelled_for_everybody(self, runner: Runner, other: Runner) -> None:
        """Whoever follows, waits or asks sees CANCELLED and the reason."""
        self.needs(runner, "cancelled_state")
        handle = self.hold(runner)
        following = runner.follow(handle)
        next(following)
        assert other.cancel(handle, reason="because of the weather") == CancelOutcome.REQUESTED
        *_, last = each_event(following)
        assert isinstance(last, StateChanged)
        assert last.status is not None
        for status in (last.status, runner.status(handle), other.wait(handle)):
            assert status is not None
            assert status.state == AppState.CANCELLED
            assert "because of the weather" in status.msg

    def test_a_stream_says_why_an_app_is_ending_before_it_ends(self, runner: Runner) -> None:
        """Once, after what was printed before; whoever goes on after that does not hear it again."""
        self.needs(runner, "cancelled_state")
        handle = self.hold(runner, ignore_term=True)
        runner.cancel(handle, grace_s=self.short_s, reason="because of the weather")
        batches = list(runner.follow(handle))
        told = [batch for batch in batches for event in batch.events if _is_of_stopping(event)]
        assert len(told) == 1
        assert batches[-1].final_status is not None
        assert not any(map(_is_of_stopping, each_event(runner.follow(handle, told[0].cursor))))
        later = list(each_event(runner.follow(handle)))
        [place] = [i for i, event in enumerate(later) if _is_of_stopping(event)]
        if self.claims(runner, "tail"):  # else it may not have printed anything yet
            assert UP in [line.text for line in later[:place] if isinstance(line, LogLine)]

    def test_cancelling_twice_is_cancelling_once(self, runner: Runner, other: Runner) -> None:
        """The second request changes neither outcome nor reason."""
        handle = self.hold(runner)
        runner.cancel(handle, reason="first")
        assert other.cancel(handle, reason="second") in (
            CancelOutcome.REQUESTED,
            CancelOutcome.ALREADY_TERMINAL,
        )
        status = self.end(runner, handle)
        assert is_terminal(status.state)
        assert "second" not in status.msg

    def test_a_second_cancel_may_be_in_more_of_a_hurry(self, runner: Runner, other: Runner) -> None:
        """A shorter grace period holds, a longer one does not, and the reason stays the first one."""
        self.needs(runner, "grace_period")
        self.needs(runner, "cancelled_state")
        handle = self.hold(runner, ignore_term=True)
        runner.cancel(handle, grace_s=100 * self.patience_s, reason="first")
        assert other.cancel(handle, grace_s=self.short_s, reason="second") is CancelOutcome.REQUESTED
        runner.cancel(handle, grace_s=100 * self.patience_s, reason="third")
        status = self.end(runner, handle)
        assert status.state == AppState.CANCELLED
        assert "first" in status.msg
        assert "second" not in status.msg

    def test_an_app_that_has_ended_cannot_be_cancelled(self, runner: Runner) -> None:
        """The answer says so, and the app stays what it was."""
        handle = self.run(runner, self.app(Print("x")))
        self.end(runner, handle)
        assert runner.cancel(handle) == CancelOutcome.ALREADY_TERMINAL
        assert self.state(runner, handle) == AppState.SUCCEEDED

    def test_an_app_can_be_cancelled_right_after_it_was_submitted(self, runner: Runner) -> None:
        """It ends, however far its start had come."""
        handle = self.run(runner, self.app(Hold(), num_replicas=2))
        runner.cancel(handle, grace_s=0)
        assert self.end(runner, handle).state != AppState.SUCCEEDED

    def test_cancel_does_not_wait_for_the_grace_period(self, runner: Runner) -> None:
        """It returns while the app still ignores SIGTERM; the scheduler kills the app later."""
        self.needs(runner, "grace_period")
        handle = self.hold(runner, ignore_term=True)
        runner.cancel(handle, grace_s=2 * self.short_s)
        assert not is_terminal(self.state(runner, handle))
        status = self.end(runner, handle)
        if self.claims(runner, "exit_codes"):
            assert status.roles[0].replicas[0].signal == "SIGKILL"

    def test_every_replica_is_stopped(self, runner: Runner) -> None:
        """Those that end at once and those that have to be killed."""
        app = self.app(Hold(), num_replicas=2)
        app.roles.append(self.role("stubborn", Print(UP), Hold(ignore_term=True)))
        handle = self.run(runner, app)
        next(line for line in each_line(runner.follow(handle)) if line.text == UP)
        runner.cancel(handle, grace_s=self.short_s)
        status = self.end(runner, handle)
        assert {r.state for role in status.roles for r in role.replicas} == {AppState.CANCELLED}

    def test_only_the_owner_can_cancel_as_the_owner(self, runner: Runner, other: Runner) -> None:
        """A token that no longer owns the app does nothing and is told so."""
        handle = self.hold(runner)
        assert runner.take_over(handle, "old")
        assert other.take_over(handle, "new", expected="old")
        assert runner.cancel(handle, if_owner="old") == CancelOutcome.NOT_OWNER
        assert self.state(runner, handle) == AppState.RUNNING
        assert other.cancel(handle, if_owner="new", grace_s=0) == CancelOutcome.REQUESTED
        self.end(runner, handle)

    def test_taking_over_compares_and_sets(self, runner: Runner, other: Runner) -> None:
        """One of several wins, asking again is harmless, and force always wins."""
        handle = self.hold(runner)
        assert runner.owner(handle) is None
        assert runner.take_over(handle, "a")
        assert runner.take_over(handle, "a")
        assert not other.take_over(handle, "b")
        assert not other.take_over(handle, "b", expected="c")
        assert runner.owner(handle) == "a"
        assert other.take_over(handle, "b", force=True)
        assert runner.owner(handle) == "b"

    def test_what_does_not_exist_cannot_be_stopped(self, runner: Runner) -> None:
        """Cancelling it says so; owning it is an error."""
        handle = f"{self.backend}://{runner.name}/nobody"
        assert runner.cancel(handle) == CancelOutcome.UNKNOWN_APP
        with pytest.raises(UnknownAppException):
            runner.owner(handle)
        with pytest.raises(UnknownAppException):
            runner.take_over(handle, "a")

    def test_the_deadline_is_kept(self, runner: Runner) -> None:
        """An app that runs for longer than ``timeout_s`` is cancelled, and the reason says why."""
        self.needs(runner, "deadline")
        status = self.end(runner, self.run(runner, self.app(Hold()), cfg={"timeout_s": self.short_s}))
        assert status.state == AppState.CANCELLED
        assert status.msg == f"deadline passed: it ran for {self.short_s:g} s"

    def test_an_app_that_nobody_follows_loses_its_lease(self, runner: Runner) -> None:
        """It is cancelled, and the reason says why; asking for its status does not keep it alive."""
        self.needs(runner, "lease")
        handle = self.run(runner, self.app(Hold()), cfg={"lease_s": self.short_s})
        wait_until(lambda: is_terminal(self.state(runner, handle)), self.patience_s)
        status = self.end(runner, handle)
        assert status.state == AppState.CANCELLED
        assert "lease" in status.msg

    def test_an_app_that_somebody_only_looks_at_loses_its_lease(self, runner: Runner) -> None:
        """Following with ``renew=False`` shows how the app ends, and is no reason for it to go on."""
        self.needs(runner, "lease")
        handle = self.run(runner, self.app(Hold()), cfg={"lease_s": self.short_s})
        *_, last = runner.follow(handle, renew=False)
        status = last.final_status
        assert status is not None
        assert "lease" in status.msg

    def test_an_app_that_somebody_follows_keeps_its_lease(self, runner: Runner) -> None:
        """Following renews it, also while nothing happens."""
        self.needs(runner, "lease")
        handle = self.run(runner, self.app(Hold()), cfg={"lease_s": self.short_s})
        ticks = 0
        for batch in runner.follow(handle, tick_s=self.short_s / 4):
            ticks += not batch.events
            if ticks == 8:  # twice the lease
                break
        assert self.state(runner, handle) == AppState.RUNNING


def _is_of_stopping(event: object) -> bool:
    if not isinstance(event, StateChanged) or event.state is not AppState.RUNNING:
        return False
    return event.msg == "stopping: because of the weather"
