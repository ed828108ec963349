"""Inside: a command that runs where a replica runs."""

from __future__ import annotations

import pytest

from torchx_core.errors import (
    InvalidInputError,
    ReplicaNotRunningError,
    UnknownAppException,
    UnknownReplicaError,
)
from torchx_core.runner import Runner
from torchx_core.specs import AppDef, AppState
from torchx_core.testing.contract.base import UP, ContractBase, each_line, texts
from torchx_core.testing.steps import Exit, Hold, Print

__all__ = ["InsideContract"]

_WHO = 'echo "$TORCHX_JOB_ID $TORCHX_ATTEMPT"; echo complaint >&2; exit 7'


class InsideContract(ContractBase):
    """It has the replica's environment and our streams; its exit code is ours. It needs ``/bin/sh``."""

    __test__ = False

    def test_a_command_runs_inside_a_replica(
        self, runner: Runner, other: Runner, capfd: pytest.CaptureFixture[str]
    ) -> None:
        """Streams and exit code are its own, and the app does not notice."""
        self.needs(runner, "exec")
        handle = self.hold(runner)
        capfd.readouterr()
        assert other.exec(handle, "worker", 0, ["/bin/sh", "-c", _WHO]) == 7
        said = capfd.readouterr()
        assert said.out == f"{handle} 0\n"
        assert "complaint\n" in said.err
        assert self.state(runner, handle) == AppState.RUNNING
        assert texts(runner.follow(handle, until_now=True)) == [UP]

    def test_each_replica_has_its_own(self, runner: Runner, capfd: pytest.CaptureFixture[str]) -> None:
        """Of several roles and replicas the command runs in the one that is named."""
        self.needs(runner, "exec")
        roles = [self.role(name, Print(UP), Hold(), num_replicas=n) for name, n in (("a", 1), ("b", 2))]
        for role in roles:
            role.env["WHO"] = f"{role.name}/${{replica_id}}"
        handle = self.run(runner, AppDef("several", roles))
        lines = each_line(runner.follow(handle))
        for _ in range(3):
            next(line for line in lines if line.text == UP)
        capfd.readouterr()
        for name, k in (("b", 1), ("a", 0), ("b", 0)):
            assert runner.exec(handle, name, k, ["/bin/sh", "-c", "echo $WHO"]) == 0
            assert capfd.readouterr().out == f"{name}/{k}\n"

    @pytest.mark.parametrize(
        ("argv", "code"),
        [
            (["/bin/sh", "-c", "kill -9 $$"], 137),
            (["/bin/sh", "-c", "kill -PIPE $$"], 141),
            (["/no/such/program"], 127),
        ],
    )
    def test_the_end_of_a_command_is_told_as_by_a_shell(
        self, runner: Runner, argv: list[str], code: int
    ) -> None:
        """128 and the number of a signal, also of a pipe that nobody reads; 127 for what is not there."""
        self.needs(runner, "exec")
        handle = self.hold(runner)
        assert runner.exec(handle, "worker", 0, argv) == code
        assert self.state(runner, handle) == AppState.RUNNING

    def test_only_a_replica_that_runs_can_be_entered(self, runner: Runner) -> None:
        """What is not there, or has ended, is named; and there must be a command."""
        self.needs(runner, "exec")
        handle = self.hold(runner)
        with pytest.raises(UnknownReplicaError, match="worker"):
            runner.exec(handle, "wroker", 0, ["true"])
        with pytest.raises(UnknownReplicaError, match="7"):
            runner.exec(handle, "worker", 7, ["true"])
        with pytest.raises(UnknownAppException):
            runner.exec(f"{handle}x", "worker", 0, ["true"])
        with pytest.raises(InvalidInputError, match="no command"):
            runner.exec(handle, "worker", 0, [])
        ended = self.run(runner, self.app(Exit(0)))
        self.end(runner, ended)
        with pytest.raises(ReplicaNotRunningError, match="SUCCEEDED"):
            runner.exec(ended, "worker", 0, ["true"])

    def test_a_scheduler_that_cannot_says_so(self, runner: Runner) -> None:
        """Before it looks at anything."""
        if self.claims(runner, "exec"):
            pytest.skip(f"{self.backend} can")
        with pytest.raises(InvalidInputError, match=f"{self.backend} cannot"):
            runner.exec(f"{self.backend}://{runner.name}/nobody", "worker", 0, ["true"])
