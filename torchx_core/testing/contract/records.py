"""Records: what is known of an app, to whom, and until when."""

from __future__ import annotations

import pytest

from torchx_core.errors import (
    AppNotTerminalError,
    InvalidCursorError,
    UnknownAppException,
    UnknownReplicaError,
)
from torchx_core.runner import Runner
from torchx_core.specs import AppDef, AppState, macros
from torchx_core.testing.contract.base import ContractBase, NewRunner, texts
from torchx_core.testing.steps import Print

__all__ = ["RecordsContract"]


class RecordsContract(ContractBase):
    """A handle works for everybody until the app is deleted."""

    __test__ = False

    def test_what_was_never_submitted_is_unknown(self, runner: Runner) -> None:
        """Questions are answered with None, following is an error, deleting is none."""
        handle = f"{self.backend}://{runner.name}/nobody"
        assert runner.status(handle) is None
        assert runner.describe(handle) is None
        assert runner.wait(handle) is None
        runner.delete(handle)
        with pytest.raises(UnknownAppException, match="nobody"):
            runner.follow(handle)
        with pytest.raises(UnknownAppException, match="nobody"):
            runner.log_lines(handle, "worker")

    def test_describe_gives_the_app_back(self, runner: Runner, other: Runner) -> None:
        """All fields of all roles as they were submitted, macros not filled in."""
        app = self.app(Print("x"), num_replicas=2)
        app.metadata = {"team": "a 'quoted' name"}
        app.roles[0].env = {"WHO": f"{macros.replica_id} é"}
        app.roles[0].port_map = {"http": 8080}
        app.roles[0].metadata = {"nested": {"list": [f"{macros.app_id}", 1, None]}}
        app.roles[0].resource.tags = {"name": "small"}
        app.roles[0].resource.capabilities = {"zones": ["a", "b"]}
        info = runner.dryrun(app, self.backend, self.cfg)
        handle = runner.schedule(info)
        assert other.describe(handle) == info.app
        assert info.app is not None
        assert info.app.roles[0].args == app.roles[0].args
        assert info.app.metadata == app.metadata

    def test_macros_are_filled_in_for_each_replica(self, runner: Runner) -> None:
        """Arguments hold the replica's own number and the app's id."""
        app = self.app(Print("ID"), num_replicas=2)
        role = app.roles[0]
        role.args = [arg.replace("ID", f"{macros.app_id}-{macros.replica_id}") for arg in role.args]
        handle = self.run(runner, app, "one")
        assert sorted(texts(runner.follow(handle))) == ["one-0", "one-1"]

    def test_the_list_has_this_sessions_apps(self, runner: Runner, other: Runner) -> None:
        """Oldest first, each with handle, name and state; or those of them that are asked for."""
        first = self.run(runner, AppDef("first", [self.role("r", Print("x"))]))
        self.end(runner, first)
        second = self.hold(runner)
        rows = other.list(self.backend)
        assert [(row.app_handle, row.name, row.state) for row in rows] == [
            (first, "first", AppState.SUCCEEDED),
            (second, "contract", AppState.RUNNING),
        ]
        assert all(row.app_handle.endswith(f"/{row.app_id}") for row in rows)
        assert other.list(self.backend, newest=1) == rows[1:]
        assert other.list(self.backend, live=True) == rows[1:]
        assert other.list(self.backend, begins=rows[0].app_id) == rows[:1]

    def test_a_session_may_have_no_name(self, runner: Runner) -> None:
        """TorchX allows it; the app's handle has nothing between the slashes, and works as any other."""
        nameless = runner.scheduler(self.backend, "")
        app_id = nameless.submit(self.app(Print("x")), self.cfg)
        handle = f"{self.backend}:///{app_id}"
        assert texts(runner.follow(handle)) == ["x"]
        assert app_id in [app.app_id for app in nameless.list()]
        assert app_id not in [app.app_id for app in runner.list(self.backend)]
        runner.delete(handle)
        assert runner.status(handle) is None

    def test_a_session_with_an_app_is_one_of_the_sessions(self, runner: Runner, other: Runner) -> None:
        """Whoever asks; so all apps can be listed."""
        self.hold(runner)
        assert other.name in other.scheduler(self.backend).sessions()
        nobodys = other.scheduler(self.backend, "nobodys").sessions()
        assert runner.name in nobodys or nobodys == ["nobodys"]  # where the backend cannot tell

    def test_a_running_app_cannot_be_deleted(self, runner: Runner) -> None:
        """The error says so, and the app goes on."""
        handle = self.hold(runner)
        with pytest.raises(AppNotTerminalError, match="RUNNING"):
            runner.delete(handle)
        assert self.state(runner, handle) == AppState.RUNNING

    def test_a_deleted_app_is_forgotten(self, runner: Runner, other: Runner) -> None:
        """Nobody knows it, and its id can be used for something else; deleting it again is no error."""
        handle = self.run(runner, self.app(Print("old")), "one")
        self.end(runner, handle)
        runner.delete(handle)
        runner.delete(handle)
        assert other.status(handle) is None
        assert other.list(self.backend) == []
        assert self.run(other, self.app(Print("new")), "one") == handle
        assert texts(runner.follow(handle)) == ["new"]

    def test_the_cursor_of_a_deleted_app_is_refused(self, runner: Runner) -> None:
        """Also for a new app of the same id, whose stream is another one."""
        handle = self.run(runner, self.app(Print("old")), "one")
        *_, last = runner.follow(handle)
        runner.delete(handle)
        self.run(runner, self.app(Print("old")), "one")
        with pytest.raises(InvalidCursorError):
            runner.follow(handle, last.cursor)

    @pytest.mark.parametrize("cursor", ["", "0", "[]", "{}", "null", "not json"])
    def test_what_is_no_cursor_is_refused(self, runner: Runner, cursor: str) -> None:
        """The error quotes it."""
        handle = self.run(runner, self.app(Print("x")))
        with pytest.raises(InvalidCursorError) as caught:
            runner.follow(handle, cursor)
        assert caught.value.cursor == cursor

    def test_what_the_app_does_not_have_is_refused(self, runner: Runner) -> None:
        """An unknown role, or replica, is an error that lists the known ones."""
        handle = self.run(runner, self.app(Print("x")))
        with pytest.raises(UnknownReplicaError, match="worker"):
            runner.follow(handle, roles=["wroker"])
        with pytest.raises(UnknownReplicaError, match="worker"):
            runner.log_lines(handle, "wroker")
        with pytest.raises(UnknownReplicaError, match="replica 1"):
            runner.log_lines(handle, "worker", 1)

    def test_closing_a_runner_leaves_its_apps_alone(self, runner: Runner, new_runner: NewRunner) -> None:
        """They go on, and other runners find them."""
        with new_runner() as submitter:
            handle = self.hold(submitter)
        submitter.close()
        assert self.state(runner, handle) == AppState.RUNNING
