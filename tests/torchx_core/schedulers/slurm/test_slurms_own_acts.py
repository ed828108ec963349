"""What Slurm does to a job by itself, or because somebody told it to behind our back."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from slurm_apps import TO_THE_END, job_of, lines_of, reaches, shell_app, shell_role, status_of
from slurm_cluster import SlurmCluster

from torchx_core.runner import Runner
from torchx_core.schedulers.slurm import create_scheduler
from torchx_core.schedulers.slurm.job import state_of
from torchx_core.specs import AppDef, AppState
from torchx_core.testing import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ONCE_TO_THE_END = f'if test "$TORCHX_ATTEMPT" = 0; then {TO_THE_END}; fi; echo again'


@pytest.fixture
def runner(cluster: SlurmCluster, tmp_path: Path) -> Iterator[Runner]:
    """A runner on the cluster; ends what it started."""
    del cluster
    factory = partial(create_scheduler, state_dir=str(tmp_path / "state"))
    with Runner("acts", {"slurm": factory}) as runner:
        yield runner
        for app in runner.list("slurm"):
            runner.cancel(app.app_handle, grace_s=0)


def _everything() -> AppDef:
    """Return an app that needs all nodes."""
    return shell_app("true", replicas=4, cpu=8)


def test_a_preempted_app_starts_again(runner: Runner) -> None:
    """As attempt 1, although its programs call Slurm's signal success; each attempt's lines arrive once."""
    handle = runner.run(shell_app(ONCE_TO_THE_END, replicas=2), "slurm")
    reaches(runner, handle, 2)
    runner.run(_everything(), "slurm", {"partition": "urgent"})
    lines = lines_of(runner.follow(handle))
    status = status_of(runner, handle)
    assert (status.state, status.num_restarts) == (AppState.SUCCEEDED, 1), status.msg
    expected = [(k, n, word) for k in (0, 1) for n, word in ((0, "up"), (0, "told"), (1, "again"))]
    assert sorted(lines) == sorted(expected)
    assert {replica.attempt for replica in status.roles[0].replicas} == {1}


def test_a_preempted_app_that_may_not_start_again(runner: Runner) -> None:
    """Is FAILED, and says that it was preempted."""
    handle = runner.run(shell_app(TO_THE_END), "slurm", {"requeue": False})
    reaches(runner, handle)
    runner.run(_everything(), "slurm", {"partition": "urgent"})
    status = runner.wait(handle)
    assert status is not None
    assert (status.state, status.num_restarts) == (AppState.FAILED, 0)
    assert status.msg == "the job was preempted and not started again"


def test_requeued_and_suspended_by_hand(runner: Runner, cluster: SlurmCluster) -> None:
    """A requeue is a restart like any other; what is suspended runs, and says that it does not."""
    handle = runner.run(shell_app(TO_THE_END), "slurm")
    reaches(runner, handle)
    cluster.call("scontrol", "requeue", job_of(runner, handle))
    reaches(runner, handle, attempt=1)
    cluster.call("scontrol", "suspend", job_of(runner, handle))
    wait_until(lambda: status_of(runner, handle).msg == "suspended in Slurm", 240)
    status = status_of(runner, handle)
    assert (status.state, status.num_restarts) == (AppState.RUNNING, 1)
    cluster.call("scontrol", "resume", job_of(runner, handle))
    wait_until(lambda: not status_of(runner, handle).msg, 240)
    runner.cancel(handle)
    ended = runner.wait(handle)
    assert ended is not None
    assert (ended.state, ended.num_restarts) == (AppState.CANCELLED, 1)


def test_who_goes_on_after_a_requeue(runner: Runner, cluster: SlurmCluster) -> None:
    """From a cursor that is older than it: nothing is repeated, nothing is skipped."""
    handle = runner.run(shell_app(ONCE_TO_THE_END), "slurm")
    cursor = next(batch.cursor for batch in runner.follow(handle) if any(batch.lines()))
    cluster.call("scontrol", "requeue", job_of(runner, handle))
    reaches_the_end = runner.wait(handle)
    assert reaches_the_end is not None
    assert reaches_the_end.state is AppState.SUCCEEDED, reaches_the_end.msg
    lines = lines_of(runner.follow(handle, cursor))
    assert [line[:2] for line in lines] == [*[(0, 0)] * (len(lines) - 1), (0, 1)]
    assert {text for *_, text in lines[:-1]} == {"told"}
    assert lines[-1][2] == "again"


def test_an_app_that_waits_again_can_be_cancelled(runner: Runner, cluster: SlurmCluster) -> None:
    """After a requeue its job is taken from the queue as before its first run."""
    handle = runner.run(shell_app(TO_THE_END), "slurm")
    reaches(runner, handle)
    cluster.call("scontrol", "requeuehold", job_of(runner, handle))
    wait_until(lambda: status_of(runner, handle).state is AppState.PENDING, 240)
    status = status_of(runner, handle)
    assert status.msg == "waiting in Slurm's queue again: JobHeldUser"
    assert status.roles[0].replicas[0].state is AppState.PENDING
    runner.cancel(handle)
    assert cluster.call("squeue", f"--jobs={job_of(runner, handle)}", "--noheader").strip() == ""
    ended = runner.wait(handle)
    assert ended is not None
    assert ended.state is AppState.CANCELLED


def test_a_suspended_app_can_be_cancelled(runner: Runner, cluster: SlurmCluster) -> None:
    """Its programs cannot be told, nor what runs them; Slurm ends them."""
    handle = runner.run(shell_app(TO_THE_END), "slurm")
    reaches(runner, handle)
    cluster.call("scontrol", "suspend", job_of(runner, handle))
    runner.cancel(handle, reason="enough")
    ended = runner.wait(handle, timeout_s=240)
    assert ended is not None
    assert (ended.state, ended.msg) == (AppState.CANCELLED, "enough")


def test_a_part_of_a_job_that_is_cancelled_takes_the_rest_with_it(
    runner: Runner, cluster: SlurmCluster
) -> None:
    """A gang lives and ends together, also when somebody cancels one component by hand."""
    roles = [shell_role(TO_THE_END, name="whole"), shell_role(TO_THE_END, name="part")]
    handle = runner.run(AppDef("app", roles), "slurm")
    reaches(runner, handle, 2)
    cluster.call("scancel", f"{job_of(runner, handle)}+1")
    status = runner.wait(handle)
    assert status is not None
    assert (status.state, status.msg) == (AppState.CANCELLED, "Slurm ended part/0, and not the others")


def test_what_waits_says_what_for(runner: Runner, cluster: SlurmCluster) -> None:
    """In Slurm's words: nodes that are drained, a job that is held; it can be cancelled all the same."""
    cluster.call("scontrol", "update", "NodeName=n4", "State=DRAIN", "Reason=test")
    handle = runner.run(shell_app("true"), "slurm", {"nodelist": "n4"})

    def waits_for(reason: str) -> None:
        wait_until(lambda: status_of(runner, handle).msg == f"waiting in Slurm's queue: {reason}", 240)
        assert status_of(runner, handle).state is AppState.PENDING

    waits_for("ReqNodeNotAvail")
    cluster.call("scontrol", "hold", job_of(runner, handle))
    waits_for("JobHeldAdmin")
    runner.cancel(handle, reason="enough")
    status = runner.wait(handle)
    cluster.call("scontrol", "update", "NodeName=n4", "State=RESUME")
    assert status is not None
    assert (status.state, status.msg) == (AppState.CANCELLED, "enough")


def test_a_node_that_is_lost_while_the_job_starts(
    runner: Runner, cluster: SlurmCluster, tmp_path: Path
) -> None:
    """The job goes on elsewhere: no replica has failed, one has only not begun."""
    begun, go = tmp_path / "begun", tmp_path / "go"
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\n"
        f'if test "$4" = lead && mkdir {begun}; then until test -e {go}; do sleep 0.1; done; fi\n'
        'exec python3 "$@"\n'
    )
    python.chmod(0o755)
    handle = runner.run(shell_app("echo up", replicas=2), "slurm", {"python": str(python)})
    wait_until(begun.exists, 240)
    nodes = cluster.call("squeue", f"--jobs={job_of(runner, handle)}", "--noheader", "--format=%N")
    lost = cluster.call("scontrol", "show", "hostnames", nodes.strip()).split()[1]
    cluster.kill_node(lost)
    go.touch()
    status = runner.wait(handle)
    cluster.start_node(lost)
    assert status is not None
    assert status.state is AppState.SUCCEEDED, status.msg


def test_replicas_that_share_a_node_share_out_its_gpus(runner: Runner) -> None:
    """Each sees one device, and not the other's; a replica alone on its node sees all that it asked for."""
    script = 'echo "$SLURMD_NODENAME $CUDA_VISIBLE_DEVICES"'
    roles = [
        shell_role(script, name="together", replicas=2, gpu=1),
        shell_role(script, name="alone", gpu=2),
    ]
    handle = runner.run(AppDef("app", roles), "slurm", {"replicas_per_node": 2})
    seen = [(line.role, line.text) for batch in runner.follow(handle) for line in batch.lines()]
    nodes = {role: text.split()[0] for role, text in seen}
    assert sorted(seen) == [
        ("alone", f"{nodes['alone']} 0,1"),
        ("together", f"{nodes['together']} 0"),
        ("together", f"{nodes['together']} 1"),
    ]


def test_an_app_that_is_submitted_from_inside_a_job(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Slurm told the submitter of its own job does not pass for what it tells the new one."""
    surrounding = {"JOB_ID": "55", "HET_JOB_ID": "54", "RESTART_COUNT": "3", "JOB_NODELIST_HET_GROUP_0": "x"}
    for name, value in surrounding.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    handle = runner.run(shell_app('echo "$SLURM_HET_JOB_ID/$SLURM_RESTART_COUNT"'), "slurm")
    assert lines_of(runner.follow(handle)) == [(0, 0, "/")]
    assert status_of(runner, handle).num_restarts == 0


def test_the_job_gets_the_variables_that_it_shall(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of the submitter's, as with sbatch, or none; those of the app in any case."""
    monkeypatch.setenv("OF_THE_SUBMITTER", "here")
    role = shell_role('echo "${OF_THE_SUBMITTER:-away} $OF_THE_APP ${TORCHX_RANK0_HOST:+rank0}"')
    role.env["OF_THE_APP"] = "there"
    for export, expected in (("ALL", "here there rank0"), ("NONE", "away there rank0")):
        handle = runner.run(AppDef("app", [role]), "slurm", {"export": export})
        assert lines_of(runner.follow(handle)) == [(0, 0, expected)]


def test_what_slurm_itself_says(runner: Runner) -> None:
    """`describe_native` has the command and each component of the job, as squeue has them."""
    roles = [shell_role(TO_THE_END), shell_role(TO_THE_END, name="v")]
    roles[0].env["WANDB_API_KEY"] = "hunter2"
    handle = runner.run(AppDef("app", roles), "slurm")
    reaches(runner, handle, 2)
    native = cast("dict[str, Any]", runner.describe_native(handle))
    assert native["sbatch"][0] == "sbatch"
    assert [state_of(row["job_state"]) for row in native["squeue"]] == ["RUNNING", "RUNNING"]
    assert "hunter2" not in str(native)
    assert runner.describe_native(handle + "x") is None
