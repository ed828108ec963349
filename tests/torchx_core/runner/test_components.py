"""The runner runs components by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchx_core import AppState, Runner, get_runner
from torchx_core.errors import (
    AppIdConflictError,
    ComponentArgumentError,
    ComponentHelpRequested,
    ComponentNotFoundException,
    InvalidRunConfigException,
)
from torchx_core.testing import FakeHost


@pytest.fixture
def host() -> FakeHost:
    """Where apps run that need not really run."""
    return FakeHost()


@pytest.fixture
def runner(host: FakeHost) -> Runner:
    """A runner with defaults for a component."""
    return Runner(
        "mine", {"fake": host.scheduler}, {"utils.echo": {"msg": "configured", "num_replicas": "2"}}
    )


def test_a_dry_run_submits_nothing(runner: Runner, host: FakeHost) -> None:
    """It shows the app that the component makes, with all that the runner adds."""
    info = runner.dryrun_component("utils.echo", ["--msg", "hi"], "fake", parent_run_id="up")
    assert info.app
    [role] = info.app.roles
    assert (role.args, role.env["TORCHX_PARENT_RUN_ID"]) == (["hi"], "up")
    assert host.apps == {}


@pytest.mark.parametrize("args", [["--msg", "hi"], {"msg": "hi"}])
def test_what_is_given_comes_before_the_runner_s_defaults(
    runner: Runner, args: list[str] | dict[str, object]
) -> None:
    """As words or as values."""
    info = runner.dryrun_component("utils.echo", args, "fake")
    assert info.app
    assert (info.app.roles[0].args, info.app.roles[0].num_replicas) == (["hi"], 2)


def test_defaults_are_for_the_component_they_name(runner: Runner) -> None:
    """Another one does not see them."""
    info = runner.dryrun_component("utils.touch", ["--file", "x"], "fake")
    assert info.app
    assert info.app.roles[0].num_replicas == 1


def test_the_app_id_makes_it_idempotent(runner: Runner, host: FakeHost) -> None:
    """Equal arguments give one app; others are refused."""
    words = ["--script", "train.py", "-j", "2x2"]
    first = runner.run_component("dist.torchrun", words, "fake", app_id="one")
    assert runner.run_component("dist.torchrun", words, "fake", app_id="one") == first == "fake://mine/one"
    assert len(host.apps) == 1
    with pytest.raises(AppIdConflictError):
        runner.run_component("dist.torchrun", [*words, "--", "--lr", "1"], "fake", app_id="one")


@pytest.mark.parametrize(
    ("component", "words", "error"),
    [
        ("utils.ecko", [], ComponentNotFoundException),
        ("utils.echo", ["--massage", "hi"], ComponentArgumentError),
        ("utils.echo", ["--help"], ComponentHelpRequested),
    ],
)
def test_what_cannot_be_built_is_not_submitted(
    runner: Runner, host: FakeHost, component: str, words: list[str], error: type[Exception]
) -> None:
    """The error says why."""
    with pytest.raises(error):
        runner.run_component(component, words, "fake")
    assert host.apps == {}


def test_defaults_come_with_the_runner(tmp_path: Path) -> None:
    """`get_runner` takes them as TorchX's does; the app runs for real."""
    defaults = {"utils.echo": {"msg": "from the defaults"}}
    with get_runner("s", defaults, state_dir=str(tmp_path)) as runner:
        handle = runner.run_component("utils.echo", [], "local_cwd")
        status = runner.wait(handle, timeout_s=30)
        assert status
        assert status.state == AppState.SUCCEEDED
        assert list(runner.log_lines(handle, "echo")) == ["from the defaults\n"]


def test_options_are_read_for_their_scheduler(tmp_path: Path) -> None:
    """Several texts make one cfg; the later one wins, and an unknown option is refused."""
    with get_runner(state_dir=str(tmp_path)) as runner:
        cfg = runner.cfg_from_str(
            "local_cwd", "log_dir=/tmp/x,prepend_cwd=True", "prepend_cwd=no", "grace_s=3"
        )
        assert cfg == {"log_dir": "/tmp/x", "prepend_cwd": False, "grace_s": 3.0}
        assert runner.cfg_from_str("local_cwd") == {}
        with pytest.raises(InvalidRunConfigException, match="prepend_cwd"):
            runner.cfg_from_str("local_cwd", "prepend_cvd=True")
