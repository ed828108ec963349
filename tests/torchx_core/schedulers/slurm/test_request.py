from __future__ import annotations

import json
import re
from pathlib import Path
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torchx_core.errors import InvalidAppError
from torchx_core.runner import Runner
from torchx_core.schedulers.slurm import SlurmScheduler
from torchx_core.schedulers.slurm.request import SlurmRequest
from torchx_core.specs import AppDef, BindMount, CfgVal, InvalidRunConfigException, Resource, Role


@pytest.fixture
def scheduler(tmp_path: Path) -> SlurmScheduler:
    """A scheduler whose dry runs need no cluster."""
    return SlurmScheduler("slurm", "s", state_dir=str(tmp_path))


def _request(scheduler: SlurmScheduler, app: AppDef, **cfg: CfgVal) -> SlurmRequest:
    return scheduler.submit_dryrun(app, cfg, app_id="id").request


def _role(name: str = "w", **fields: object) -> Role:
    return Role(name, image="", entrypoint="echo", **fields)  # type: ignore[arg-type]  # the keys vary


def test_where_slurm_writes(tmp_path: Path) -> None:
    """Whatever the state directory is called: sbatch replaces what begins with ``%``."""
    scheduler = SlurmScheduler("slurm", "s", state_dir=str(tmp_path / "a%j"))
    request = _request(scheduler, AppDef("a", [_role()]))
    assert f"--output={tmp_path}/a%%j/slurm/s/id/slurm.log" in request.sbatch
    assert ">>" not in request.script


def test_the_job_itself_writes_where_slurm_cannot(tmp_path: Path) -> None:
    r"""Slurms have different ways to say a backslash, as there is in the home of ``DOMAIN\user``."""
    scheduler = SlurmScheduler("slurm", "s", state_dir=str(tmp_path / "a\\b%j"))
    request = _request(scheduler, AppDef("a", [_role()]))
    assert "--output=/dev/null" in request.sbatch
    assert request.script.endswith(f" >>'{tmp_path}/a\\b%j/slurm/s/id/slurm.log' 2>&1\n")


def test_each_role_is_a_component(scheduler: SlurmScheduler) -> None:
    """With the nodes, tasks and resources of its replicas."""
    roles = [
        _role("reader", num_replicas=2, resource=Resource(cpu=2, gpu=0, memMB=512)),
        _role("trainer", num_replicas=4, resource=Resource(cpu=4, gpu=1, memMB=1024)),
    ]
    words = _request(scheduler, AppDef("a", roles), partition="big").sbatch
    split = words.index(":")
    first, second = words[:split], words[split + 1 : -1]
    assert {"--nodes=2", "--ntasks=2", "--cpus-per-task=2", "--mem=512M", "--partition=big"} <= set(first)
    assert second == [
        "--nodes=4",
        "--ntasks=4",
        "--ntasks-per-node=1",
        "--cpus-per-task=4",
        "--mem=1024M",
        "--gres=gpu:1",
        "--partition=big",
    ]


def test_replicas_may_share_nodes(scheduler: SlurmScheduler) -> None:
    """A node then has the memory and the devices of all of them."""
    role = _role(num_replicas=5, resource=Resource(cpu=1, gpu=2, memMB=100))
    words = _request(scheduler, AppDef("a", [role]), replicas_per_node=2).sbatch
    assert {"--nodes=3", "--ntasks=5", "--ntasks-per-node=2", "--mem=200M", "--gres=gpu:4"} <= set(words)


def test_memory_is_left_out_where_nobody_tracks_it(scheduler: SlurmScheduler) -> None:
    """With ``nomem``."""
    role = _role(resource=Resource(cpu=1, gpu=0, memMB=100))
    assert not [
        w for w in _request(scheduler, AppDef("a", [role]), nomem=True).sbatch if w.startswith("--mem")
    ]


@pytest.mark.parametrize(
    ("option", "value", "word"),
    [
        ("account", "lab", "--account=lab"),
        ("qos", "low", "--qos=low"),
        ("time", "1-00:00:00", "--time=1-00:00:00"),
        ("constraint", "a100&nvlink", "--constraint=a100&nvlink"),
        ("nodelist", "n[1-2]", "--nodelist=n[1-2]"),
        ("exclude", "n3", "--exclude=n3"),
        ("mail-user", "me@example.org", "--mail-user=me@example.org"),
        ("mail-type", "END", "--mail-type=END"),
        ("requeue", False, "--no-requeue"),
        ("export", "NONE", "--export=NONE"),
    ],
)
def test_options_reach_sbatch(scheduler: SlurmScheduler, option: str, value: CfgVal, word: str) -> None:
    """Each as one word, whatever is in it."""
    assert word in _request(scheduler, AppDef("a", [_role()]), **{option: value}).sbatch


def test_a_comment_stands_behind_the_apps_own(scheduler: SlurmScheduler) -> None:
    """By which the app's job is found."""
    request = _request(scheduler, AppDef("a", [_role()]), comment="for the paper")
    assert f"--comment={request.comment} for the paper" in request.sbatch
    assert request.comment.startswith("torchx:s/id:")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(word=st.text(st.characters(exclude_characters="$", exclude_categories=["Cs"]), min_size=1))
def test_no_shell_sees_a_value_of_the_app(scheduler: SlurmScheduler, word: str) -> None:
    """Arguments and variables are data in a JSON file; the script is the same for every app."""
    plain = _request(scheduler, AppDef("a", [_role(args=["x"])]))
    request = _request(scheduler, AppDef("a", [_role(args=[word], env={"V": word})]))
    assert request.script == plain.script
    replica = json.loads(json.dumps(request.plan))["replicas"][0]
    assert (replica["argv"], replica["env"]["V"]) == (["echo", word], word)


def test_secrets_are_not_shown(scheduler: SlurmScheduler) -> None:
    """A dry run masks what looks secret; the job gets it."""
    request = _request(scheduler, AppDef("a", [_role(env={"WANDB_API_KEY": "hunter2"})]))
    assert "hunter2" not in str(request)
    assert (
        cast("list[dict[str, dict[str, str]]]", request.plan["replicas"])[0]["env"]["WANDB_API_KEY"]
        == "hunter2"
    )


def test_what_slurm_cannot_do_is_refused(scheduler: SlurmScheduler) -> None:
    """Mounts, and options that are no single line."""
    mounted = _role(mounts=[BindMount("/a", "/b")])
    with pytest.raises(InvalidAppError, match=r"roles\[0\].mounts: slurm cannot mount"):
        _request(scheduler, AppDef("a", [mounted]), unsupported="refuse")
    with pytest.raises(InvalidRunConfigException, match="partition must be one line"):
        _request(scheduler, AppDef("a", [_role()]), partition="a\nb")
    with pytest.raises(InvalidRunConfigException, match="replicas_per_node must be a positive number"):
        _request(scheduler, AppDef("a", [_role()]), replicas_per_node=0)


def test_logs_elsewhere_belong_to_one_app(scheduler: SlurmScheduler) -> None:
    """Neither equal ids of two sessions meet in a ``log_dir``, nor an app and one whose record is gone."""
    app = AppDef("a", [_role()])
    places = [_request(scheduler, app, log_dir="/logs").replicas[0].log_dir for _ in range(2)]
    assert places[0] != places[1]
    assert all(re.fullmatch(r"/logs/s/id\.[0-9a-f]{16}/w/0", place) for place in places)


def test_it_is_found_by_its_name(tmp_path: Path) -> None:
    """`slurm` is a built-in scheduler, whose dry run needs no Slurm."""
    from torchx_core.runner import get_runner

    with get_runner(state_dir=str(tmp_path)) as runner:
        assert isinstance(runner, Runner)
        assert "sbatch --parsable" in str(runner.dryrun(AppDef("a", [_role()]), "slurm"))
