from __future__ import annotations

import subprocess
import sys

import pytest

from torchx_core.errors import InvalidInputError, InvalidRunConfigException, UnknownSchedulerException
from torchx_core.launch import Cfg, Target, check_target, target_options
from torchx_core.runner import get_runner


@pytest.mark.parametrize("cfg", [None, {}, {"grace_s": 5.0}, {"grace_s": "5"}, "grace_s=5"])
def test_options_that_fit_are_taken_in_any_form(cfg: Cfg) -> None:
    """By name, as text, and with texts for numbers, as forms have them."""
    check_target(Target(cfgs=(cfg,)))


def test_a_workspace_is_taken_where_one_can_be_built() -> None:
    """A scheduler that runs images builds them, too."""
    check_target(Target(scheduler="local_dir"), "./src")


def test_a_workspace_is_left_out_where_none_can_be_built() -> None:
    """With a warning when the app is submitted, unless the options say ``refuse``; so one file serves all."""
    check_target(Target(scheduler="local_cwd"), "./src")
    assert target_options("local_cwd", "./src") is not None
    with pytest.raises(InvalidInputError, match="torchx:slurm cannot build"):
        target_options("torchx:slurm", "./src")


@pytest.mark.parametrize(
    ("scheduler", "cfg", "workspace", "error", "message"),
    [
        ("local_cdw", None, None, UnknownSchedulerException, "did you mean 'local_cwd'"),
        ("local_cwd", {"grase_s": 5}, None, InvalidRunConfigException, "did you mean 'grace_s'"),
        ("local_cwd", "grace_s=soon", None, InvalidRunConfigException, "grace_s must be float"),
        ("local_cwd", "unsupported=refuse", "./src", InvalidInputError, "cannot build a workspace: './src'"),
        ("torchx:slurm", None, "./src", InvalidInputError, "torchx:slurm cannot build a workspace: './src'"),
    ],
)
def test_a_target_that_cannot_work_is_refused(
    scheduler: str, cfg: Cfg, workspace: str | None, error: type[Exception], message: str
) -> None:
    """With the name that was meant."""
    with pytest.raises(error, match=message):
        check_target(Target(scheduler=scheduler, cfgs=(cfg,)), workspace)


@pytest.mark.parametrize("scheduler", ["local_cwd", "local_dir", "local_docker", "slurm"])
def test_a_built_in_scheduler_is_checked_as_if_it_were_asked(scheduler: str) -> None:
    """Its options are known without it, and are the same that it tells itself."""
    options = target_options(scheduler)
    with get_runner() as runner:
        assert options is not None
        assert str(options) == str(runner.scheduler(scheduler).run_opts())


def test_a_built_in_scheduler_is_checked_without_loading_it() -> None:
    """A DAG file is parsed again and again, and loading a scheduler took longer than all else in it."""
    program = (
        "import sys; from torchx_core.launch import Target, check_target\n"
        "for name in ('local_cwd', 'local_dir', 'local_docker', 'slurm'):\n"
        "    check_target(Target(scheduler=name, cfgs=('grace_s=5',)))\n"
        "print(*sys.modules)"
    )
    loaded = subprocess.check_output([sys.executable, "-c", program], text=True).split()
    assert "torchx_core.launch.target" in loaded
    for kind in ("local", "docker", "slurm", "scheduler", "events"):
        assert f"torchx_core.schedulers.{kind}" not in loaded


def test_options_can_be_had_without_values() -> None:
    """For those whose values are known later."""
    options = target_options("local_cwd")
    assert options is not None
    assert options.get("grace_s") is not None
