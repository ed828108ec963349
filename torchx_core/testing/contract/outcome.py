"""How apps end: statuses, exit codes, gangs and retries."""

from __future__ import annotations

from typing import TypeGuard

import pytest

from torchx_core.errors import AppStatusError, WaitTimeoutError
from torchx_core.runner import Runner
from torchx_core.schedulers import AppEvent, LogLine, ReplicaChanged
from torchx_core.specs import AppDef, AppState, RetryPolicy, is_terminal
from torchx_core.testing.contract.base import ContractBase, each_event, each_line, replicas_of
from torchx_core.testing.steps import Exit, FailUntil, Hold, Print, PrintAttempt, PrintMany, Raise

__all__ = ["OutcomeContract"]

_WHO = "@who@"
_OUT, _ERR = PrintAttempt(f"{_WHO} out", 20), PrintAttempt(f"{_WHO} err", 20, "stderr")


class OutcomeContract(ContractBase):
    """The status tells exactly what happened."""

    __test__ = False

    def test_an_app_that_exits_with_zero_has_succeeded(self, runner: Runner) -> None:
        """The status has every replica of every role with its exit code."""
        roles = [self.role("a", Print("x"), num_replicas=2), self.role("b", Exit(0))]
        status = self.end(runner, self.run(runner, AppDef("two-roles", roles)))
        assert status.state == AppState.SUCCEEDED
        zero = self.code(runner, 0)
        assert replicas_of(status) == [
            ("a", 0, AppState.SUCCEEDED, zero),
            ("a", 1, AppState.SUCCEEDED, zero),
            ("b", 0, AppState.SUCCEEDED, zero),
        ]
        status.raise_for_status()

    @pytest.mark.parametrize("code", [1, 3, 255])
    def test_the_exit_code_of_a_failure_is_exact(self, runner: Runner, code: int) -> None:
        """The app is FAILED with the replica's own exit code."""
        self.needs(runner, "exit_codes")
        status = self.end(runner, self.run(runner, self.app(Print("x"), Exit(code))))
        assert status.state == AppState.FAILED
        assert replicas_of(status) == [("worker", 0, AppState.FAILED, code)]
        with pytest.raises(AppStatusError, match=str(code)):
            status.raise_for_status()

    @pytest.mark.parametrize("name", ["SIGKILL", "SIGRTMIN+1"])
    def test_a_signal_is_told_by_name(self, runner: Runner, name: str) -> None:
        """What was killed has a signal instead of an exit code; a real-time signal has a name, too."""
        self.needs(runner, "exit_codes")
        handle = self.run(runner, self.app(Raise(name)))
        ends = [e for e in each_event(runner.follow(handle)) if isinstance(e, ReplicaChanged) and e.signal]
        status = self.end(runner, handle)
        assert status.state == AppState.FAILED
        replica = status.roles[0].replicas[0]
        assert (replica.exit_code, replica.signal) == (None, name)
        assert [(e.exit_code, e.signal) for e in ends] == [(None, name)]

    def test_a_failure_shows_what_was_printed_last(self, runner: Runner) -> None:
        """Of the replica that failed first, by its last attempt, whoever tells of it; and nothing else."""
        role = self.role("loud", PrintMany(3000), Print("last word"), Exit(3), num_replicas=1)
        handle = self.run(runner, AppDef("loud", [role]))
        for status in (self.end(runner, handle), runner.status(handle)):
            assert status is not None
            with pytest.raises(AppStatusError) as caught:
                status.raise_for_status()
            assert str(caught.value).split("  last lines of loud/0:\n")[1].split("\n") == [
                *(f"    {number}" for number in range(2991, 3000)),
                "    last word",
            ]

    def test_a_failure_leads_with_the_exception(self, runner: Runner) -> None:
        """The one that its program has printed, with the line that raised it, whatever else was printed."""
        trace = ["Traceback (most recent call last):", '  File "job.py", line 3, in load', "KeyError: 'x'"]
        told = [Print(line, "stderr") for line in trace]
        status = self.end(runner, self.run(runner, self.app(PrintMany(300), *told, PrintMany(300), Exit(1))))
        if self.claims(runner, "separate_streams"):
            assert "KeyError: 'x' (job.py:3, in load); app is FAILED" in status.failure_summary()
            assert "\n         KeyError: 'x'\n" in status.failure_summary()

    def test_what_an_earlier_attempt_printed_is_not_the_last_word(self, runner: Runner) -> None:
        """A retry that ends otherwise has lines of its own."""
        self.needs(runner, "retries")
        role = self.role("r", PrintAttempt("said in attempt"), FailUntil(1), Exit(5), max_retries=1)
        summary = self.end(runner, self.run(runner, AppDef("again", [role]))).failure_summary()
        assert summary.endswith("  last lines of r/0:\n    said in attempt 1 0")

    def test_times_are_told(self, runner: Runner) -> None:
        """A replica that has ended knows when it started and ended."""
        status = self.end(runner, self.run(runner, self.app(Print("x"))))
        replica = status.roles[0].replicas[0]
        assert replica.started_at is not None
        assert replica.ended_at is not None
        assert replica.started_at <= replica.ended_at

    def test_waiting_may_time_out(self, runner: Runner) -> None:
        """The error says so, and the app goes on."""
        handle = self.hold(runner)
        with pytest.raises(WaitTimeoutError, match="RUNNING") as caught:
            runner.wait(handle, timeout_s=0.05)
        assert caught.value.app_handle == handle
        assert self.state(runner, handle) == AppState.RUNNING

    def test_one_failure_stops_the_gang(self, runner: Runner) -> None:
        """The others are stopped, and the app is FAILED by the one that failed."""
        self.needs(runner, "gang")
        roles = [self.role("bad", Exit(7)), self.role("good", Hold(), num_replicas=2)]
        status = self.end(runner, self.run(runner, AppDef("gang", roles)))
        assert status.state == AppState.FAILED
        assert [row for row in replicas_of(status) if row[0] == "bad"] == [("bad", 0, AppState.FAILED, 7)]
        assert {r.state for r in status.roles[1].replicas} == {AppState.CANCELLED}
        assert "bad/0" in status.msg

    def test_one_success_does_not_stop_the_others(self, runner: Runner) -> None:
        """A role that is done early ends nothing."""
        self.needs(runner, "tail")
        roles = [self.role("short", Exit(0)), self.role("long", Print("x"), Hold())]
        handle = self.run(runner, AppDef("uneven", roles))
        next(
            event
            for event in each_event(runner.follow(handle))
            if isinstance(event, ReplicaChanged) and event.state == AppState.SUCCEEDED
        )
        assert self.state(runner, handle) == AppState.RUNNING

    @pytest.mark.parametrize("policy", [RetryPolicy.APPLICATION, RetryPolicy.REPLICA])
    def test_a_failed_replica_starts_again(self, runner: Runner, policy: RetryPolicy) -> None:
        """The app succeeds in the third attempt, and what each attempt printed is kept."""
        self._needs_policy(runner, policy)
        role = self.role("r", Print("try"), FailUntil(2), max_retries=2, retry_policy=policy)
        handle = self.run(runner, AppDef("again", [role]))
        status = self.end(runner, handle)
        assert status.state == AppState.SUCCEEDED
        assert status.num_restarts == 2
        assert status.roles[0].replicas[0].attempt == 2
        assert [line.attempt for line in each_line(runner.follow(handle))] == [0, 1, 2]

    def test_retries_run_out(self, runner: Runner) -> None:
        """One failure more than there are retries is final, with the last exit code."""
        self.needs(runner, "retries")
        role = self.role("r", FailUntil(1, exit_code=4), Exit(5), max_retries=1)
        status = self.end(runner, self.run(runner, AppDef("again", [role])))
        assert replicas_of(status) == [("r", 0, AppState.FAILED, 5)]
        assert status.num_restarts == 1

    def test_application_policy_starts_everything_again(self, runner: Runner) -> None:
        """A failure takes all replicas of all roles down, and all of them start again."""
        self._needs_policy(runner, RetryPolicy.APPLICATION)
        roles = [self.role("bad", FailUntil(1), max_retries=1), self.role("good", FailUntil(0), Print("x"))]
        status = self.end(runner, self.run(runner, AppDef("all-again", roles)))
        assert [(role.role, role.replicas[0].attempt) for role in status.roles] == [("bad", 1), ("good", 1)]
        assert status.state == AppState.SUCCEEDED

    def test_replica_policy_leaves_the_others_alone(self, runner: Runner) -> None:
        """Only the failed replica starts again."""
        self._needs_policy(runner, RetryPolicy.REPLICA)
        bad = self.role("bad", FailUntil(1), max_retries=1, retry_policy=RetryPolicy.REPLICA)
        status = self.end(runner, self.run(runner, AppDef("one-again", [bad, self.role("good", Print("x"))])))
        assert [(role.role, role.replicas[0].attempt) for role in status.roles] == [("bad", 1), ("good", 0)]
        assert status.state == AppState.SUCCEEDED

    @pytest.mark.parametrize("policy", list(RetryPolicy))
    def test_each_attempt_of_each_replica_has_its_own_lines(
        self, runner: Runner, policy: RetryPolicy
    ) -> None:
        """However replicas start again, every line is shown once, under who printed it in which attempt."""
        self._needs_policy(runner, policy)
        many = self.role("many", _OUT, _ERR, FailUntil(2), num_replicas=3, max_retries=5, retry_policy=policy)
        roles = [many, self.role("one", _OUT, _ERR)]
        for role in roles:  # replicas of a role share their arguments but for macros
            role.args = [arg.replace(_WHO, f"{role.name}/${{replica_id}}") for arg in role.args]
        handle = self.run(runner, AppDef("restarts", roles))
        events = list(each_event(runner.follow(handle)))
        status = self.end(runner, handle)
        assert status.state == AppState.SUCCEEDED, status.msg
        last = {(role.role, r.id): r.attempt for role in status.roles for r in role.replicas}
        assert all(last["many", k] >= 2 for k in range(3))
        lines = [event for event in events if isinstance(event, LogLine)]
        exits = {(e.role, e.replica, e.attempt) for e in events if _ended_by_itself(e)}
        told = [e for e in events if isinstance(e, ReplicaChanged) and (e.exit_code is not None or e.signal)]
        assert all(is_terminal(e.state) for e in told)  # of the attempt that has ended, not of the next one
        for (name, k), newest in last.items():
            for number in range(newest + 1):
                for step in (_OUT, _ERR):
                    mine = (name, k, number, step.stream)
                    shown = [x.text for x in lines if (x.role, x.replica, x.attempt, x.stream) == mine]
                    printed = _printed(step, name, k, number)
                    # What was told to end may have printed less.
                    assert shown == (printed if mine[:3] in exits else printed[: len(shown)]), mine
        assert {(x.role, x.replica) for x in lines} == set(last)
        assert all(x.attempt <= last[x.role, x.replica] for x in lines)

    def _needs_policy(self, runner: Runner, policy: RetryPolicy) -> None:
        self.needs(runner, "retries")
        if policy not in self.retry_policies:
            pytest.skip(f"{self.backend} does not support the retry policy {policy.value}")


def _printed(step: PrintAttempt, role: str, replica: int, attempt: int) -> list[str]:
    """Return what the step's program printed in one attempt, if it was let finish."""
    return [line.replace(_WHO, f"{role}/{replica}") for line in step.lines(attempt)]


def _ended_by_itself(event: AppEvent | LogLine) -> TypeGuard[ReplicaChanged]:
    return isinstance(event, ReplicaChanged) and event.exit_code in (0, 1)
