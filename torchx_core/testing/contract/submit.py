"""Submitting: once, whole, or not at all."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from torchx_core.errors import (
    AppIdConflictError,
    InvalidAppError,
    InvalidInputError,
    InvalidRunConfigException,
)
from torchx_core.runner import Runner
from torchx_core.specs import AppDef, AppState
from torchx_core.testing.contract.base import ContractBase, NewRunner, texts
from torchx_core.testing.steps import Hold, Print

__all__ = ["SubmitContract"]

_SUBMITTERS = 8


class SubmitContract(ContractBase):
    """A chosen app id is an idempotency key, and nothing is submitted by accident."""

    __test__ = False

    def test_each_run_without_an_id_is_an_app_of_its_own(self, runner: Runner) -> None:
        """Two runs of one AppDef have two handles."""
        app = self.app(Print("hello"))
        assert self.run(runner, app) != self.run(runner, app)
        assert len(runner.list(self.backend)) == 2

    def test_the_same_id_and_request_is_the_same_app(self, runner: Runner, other: Runner) -> None:
        """Submitting again, also from elsewhere and after the end, gives the same app and runs nothing."""
        self.needs(runner, "submit_once")
        app = self.app(Print("once"))
        handle = self.run(runner, app, "one")
        assert self.run(other, app, "one") == handle
        self.end(runner, handle)
        assert self.run(other, app, "one") == handle
        assert self.state(other, handle) == AppState.SUCCEEDED
        assert texts(other.follow(handle)) == ["once"]
        assert [row.app_id for row in runner.list(self.backend)] == ["one"]

    def test_concurrent_submits_of_one_id_are_one_app(self, runner: Runner, new_runner: NewRunner) -> None:
        """Eight submitters at once get one handle, and the program runs once."""
        self.needs(runner, "submit_once")
        app = self.app(Print("once"))

        def submit(_number: int) -> str:
            with new_runner() as mine:
                return self.run(mine, app, "one")

        with ThreadPoolExecutor(_SUBMITTERS) as pool:
            handles = set(pool.map(submit, range(_SUBMITTERS)))
        (handle,) = handles
        assert texts(runner.follow(handle)) == ["once"]
        assert [row.app_id for row in runner.list(self.backend)] == ["one"]

    def test_another_request_for_a_taken_id_is_refused(self, runner: Runner, other: Runner) -> None:
        """The error names the id and what differs; the app that has the id goes on untouched."""
        self.needs(runner, "submit_once")
        handle = self.run(runner, self.app(Hold()), "one")
        with pytest.raises(AppIdConflictError, match="num_replicas") as caught:
            self.run(other, self.app(Hold(), num_replicas=2), "one")
        assert caught.value.app_id == "one"
        assert self.run(other, self.app(Hold()), "one") == handle

    def test_a_dry_run_submits_nothing(self, runner: Runner) -> None:
        """It shows the request and leaves no app."""
        info = runner.dryrun(self.app(Print("hello")), self.backend, self.cfg, app_id="one")
        assert repr(info)
        assert runner.list(self.backend) == []

    def test_what_is_submitted_is_what_the_dry_run_shows(self, runner: Runner) -> None:
        """A change to the AppDef after the dry run reaches nobody."""
        app = self.app(Print("hello"))
        info = runner.dryrun(app, self.backend, self.cfg)
        app.name = app.roles[0].name = "changed"
        described = runner.describe(runner.schedule(info))
        assert described is not None
        assert described == info.app
        assert described.name == "contract"

    def test_an_invalid_app_submits_nothing(self, runner: Runner) -> None:
        """It is refused with the path of what is wrong."""
        app = self.app(Print("hello"))
        app.roles[0].num_replicas = 0
        with pytest.raises(InvalidAppError, match=r"roles\[0\].num_replicas"):
            self.run(runner, app)
        with pytest.raises(InvalidAppError, match="roles"):
            self.run(runner, AppDef("empty"))
        assert runner.list(self.backend) == []

    def test_an_unknown_option_submits_nothing(self, runner: Runner) -> None:
        """It is refused by name."""
        with pytest.raises(InvalidRunConfigException, match="no_such_option"):
            self.run(runner, self.app(Print("hello")), cfg={"no_such_option": 1})
        assert runner.list(self.backend) == []

    @pytest.mark.parametrize("app_id", ["", "a/b", "a b", "a\nb"])
    def test_an_id_that_no_handle_can_hold_submits_nothing(self, runner: Runner, app_id: str) -> None:
        """It is refused before anything runs, because nobody could ever name the app."""
        with pytest.raises(InvalidInputError):
            self.run(runner, self.app(Print("hello")), app_id)
        assert runner.list(self.backend) == []
