from __future__ import annotations

import json
from typing import cast

import pytest

from torchx_core.errors import InvalidAppError, InvalidInputError
from torchx_core.runner import get_runner
from torchx_core.schedulers.options.slurm import slurm_run_opts
from torchx_core.schedulers.remote.wire import dump, load
from torchx_core.schedulers.slurm.remote.requests import name_directories, render_there
from torchx_core.schedulers.slurm.request import SlurmRequest
from torchx_core.specs import AppDef, BindMount, CfgVal, Role, macros
from torchx_core.supervisor.records import Json

APP = AppDef("a", [Role("w", image="", entrypoint="echo", args=["hi", macros.img_root], env={"A": "1"})])


def _arrived(state_dir: str | None = None, *, home: str = "/home/me", **cfg: CfgVal) -> SlurmRequest:
    options = slurm_run_opts().resolve(cfg)
    request = render_there(APP, options, app_id="id", session="s", state_dir=state_dir)
    arrived = cast("SlurmRequest", load(json.loads(json.dumps(dump(request)))))
    return name_directories(arrived, home=home, state="/scratch/state")


def _row(request: SlurmRequest) -> Json:
    return cast("list[Json]", request.plan["replicas"])[0]


def test_directories_are_those_of_the_login_node() -> None:
    """The record lies in its state directory, the program runs in its home."""
    request = _arrived()
    assert request.app_dir == "/scratch/state/slurm/s/id"
    assert request.sbatch[-1] == "/scratch/state/slurm/s/id/job.sh"
    assert "--output=/scratch/state/slurm/s/id/slurm.log" in request.sbatch
    assert "/scratch/state/slurm/s/id/shim.pyz lead /scratch/state/slurm/s/id\n" in request.script
    assert (_row(request)["cwd"], _row(request)["argv"]) == ("/home/me", ["echo", "hi", "/home/me"])
    assert request.replicas[0].log_dir == "/scratch/state/slurm/s/id/log/w/0"


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/data/x", "/data/x"), ("~/x", "/home/me/x"), ("x/../y", "/home/me/y"), ("~", "/home/me")],
)
def test_paths_begin_at_home(path: str, expected: str) -> None:
    """As they do for ssh: those of options, and that of the records."""
    request = _arrived(path, job_dir=path, log_dir=path)
    assert request.app_dir == f"{expected}/slurm/s/id"
    assert _row(request)["cwd"] == expected
    assert _row(request)["log_dir"] == f"{expected}/s/id.{request.incarnation}/w/0"


def test_what_makes_two_requests_equal_is_not_touched() -> None:
    """The app and the options are recorded as they were given."""
    request = _arrived(job_dir="~/x")
    assert (request.app, request.cfg["job_dir"]) == (APP, "~/x")


@pytest.mark.parametrize("home", ["/home/a b", "/home/$x", "/home/100%", "/home/o'neil", "/home/\N{SNOWMAN}"])
def test_a_directory_that_would_be_misread_is_refused(home: str) -> None:
    """By a shell, or by Slurm, which takes a percent sign for a pattern."""
    with pytest.raises(InvalidInputError, match=r"cannot use the directory .* on the login node"):
        _arrived(home=home)


def test_a_directory_that_is_not_used_may_be_called_anything() -> None:
    """What the request does not name cannot be misread in it."""
    request = _arrived("/data", home="/home/a b", job_dir="/work")
    assert _row(request)["cwd"] == "/work"


def test_the_home_of_somebody_else_is_refused() -> None:
    """Only the login node could tell where it is."""
    with pytest.raises(InvalidInputError, match="'~bob/x'; name it in full"):
        _arrived(job_dir="~bob/x")


def test_a_dry_run_shows_what_is_known() -> None:
    """It connects to nothing, and what it may be changed to is what arrives."""
    with get_runner(slurm_ssh="nobody@nowhere.invalid") as runner:
        info = runner.dryrun(APP, "slurm", {"partition": "gpu"}, app_id="id")
    request = cast("SlurmRequest", info.request)
    assert "--partition=gpu" in repr(info)
    assert "@login-state@/slurm/torchx/id/job.sh" in repr(info)
    request.sbatch.insert(1, "--exclusive")
    assert "--exclusive" in name_directories(request, home="/h", state="/s").sbatch


def test_what_slurm_cannot_run_is_refused_here() -> None:
    """Without a connection."""
    app = AppDef("a", [Role("w", image="", entrypoint="x", mounts=[BindMount("/a", "/b")])])
    with (
        get_runner(slurm_ssh="nobody@nowhere.invalid") as runner,
        pytest.raises(InvalidAppError, match="cannot mount"),
    ):
        runner.dryrun(app, "slurm", {"unsupported": "refuse"})
