"""What the cluster does to an app: nodes die, the controller is away, submitters are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from slurm_cluster import SlurmCluster

from torchx_core.runner import Runner
from torchx_core.schedulers import CancelOutcome, LogLines, StateChanged
from torchx_core.schedulers.slurm import create_scheduler
from torchx_core.specs import AppDef, AppState, CfgVal, Resource, Role, make_app_handle
from torchx_core.testing import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def runner(cluster: SlurmCluster, tmp_path: Path) -> Iterator[Runner]:
    """A runner on the cluster; ends what it started."""
    del cluster
    factory = partial(create_scheduler, state_dir=str(tmp_path / "state"))
    with Runner("faults", {"slurm": factory}) as runner:
        yield runner
        for app in runner.list("slurm"):
            runner.cancel(app.app_handle, grace_s=0)


def _app(script: str, *, replicas: int = 1) -> AppDef:
    role = Role(
        "w", "", entrypoint="sh", args=["-c", script], num_replicas=replicas, resource=Resource(1, 0, 100)
    )
    return AppDef("app", [role])


def _lines(batches: list[LogLines]) -> list[tuple[int, int, str]]:
    return [(run.replica, run.attempt, line) for run in batches for line in run.lines]


def _host_of(runner: Runner, handle: str, replica: int) -> str:
    status = runner.status(handle)
    return status.roles[0].replicas[replica].hostname if status and status.roles else ""


def test_a_lost_node_is_replaced(runner: Runner, cluster: SlurmCluster, tmp_path: Path) -> None:
    """The job goes on elsewhere as attempt 1, and each attempt's lines arrive once."""
    go = tmp_path / "go"
    handle = runner.run(
        _app(f"exec 2>/dev/null; echo up; until test -e {go}; do sleep 0.1; done; echo over", replicas=2),
        "slurm",
    )
    seen: list[LogLines] = []
    last: StateChanged | None = None
    lost = ""
    for batch in runner.follow(handle, tick_s=0.2):
        seen += [event for event in batch.events if isinstance(event, LogLines)]
        last = next((event for event in batch.events if isinstance(event, StateChanged)), last)
        if len(_lines(seen)) == 2 and not lost:
            lost = _host_of(runner, handle, 1)
            cluster.kill_node(lost)
        if len([row for row in _lines(seen) if row[1] == 1]) == 2:
            go.touch()
    cluster.start_node(lost)
    assert last is not None
    assert last.status is not None
    assert last.state is AppState.SUCCEEDED, last.msg
    assert last.status.num_restarts == 1
    assert {(r.attempt, r.hostname == lost) for r in last.status.roles[0].replicas} == {(1, False)}
    assert sorted(_lines(seen)) == sorted(
        [(k, n, word) for k in (0, 1) for n, word in ((0, "up"), (1, "up"), (1, "over"))]
    )


def test_a_lost_node_that_is_not_replaced_is_named(runner: Runner, cluster: SlurmCluster) -> None:
    """Without requeue the app is FAILED, and says which node failed."""
    handle = runner.run(_app("echo up; exec sleep 600", replicas=2), "slurm", {"requeue": False})
    next(batch for batch in runner.follow(handle) if any(batch.lines()))
    lost = wait_until(lambda: _host_of(runner, handle, 1), 240)
    cluster.kill_node(lost)
    status = runner.wait(handle)
    cluster.start_node(lost)
    assert status is not None
    assert status.state is AppState.FAILED
    assert f"node {lost} failed" in status.msg


def test_a_controller_that_is_away_changes_nothing(
    runner: Runner, cluster: SlurmCluster, tmp_path: Path
) -> None:
    """The follower loses no line and hears no false state; a second submit waits for the controller."""
    go = tmp_path / "go"
    app = _app(f"echo one; until test -e {go}; do sleep 0.1; done; echo two")
    handle = runner.run(app, "slurm", app_id="away")
    texts: list[str] = []
    states: list[AppState] = []
    for batch in runner.follow(handle, tick_s=0.2):
        texts += [line.text for line in batch.lines()]
        states += [event.state for event in batch.events if isinstance(event, StateChanged)]
        if texts == ["one"] and not go.exists():
            cluster.stop_controller()
            assert runner.run(app, "slurm", app_id="away") == handle
            status = runner.status(handle)
            assert status is not None
            assert status.state is AppState.RUNNING
            go.touch()
        elif texts == ["one", "two"] and not cluster.controller_runs:
            cluster.start_controller()
    if not cluster.controller_runs:
        cluster.start_controller()
    assert (texts, states) == (["one", "two"], [AppState.RUNNING, AppState.SUCCEEDED])


_SUBMIT = """
import os, signal, sys
from torchx_core.runner import Runner
from torchx_core.schedulers.slurm import create_scheduler, submit
from torchx_core.specs import AppDef, Role
state, when, app_id = sys.argv[1:]

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

real = submit.call
def call(command, env=None):
    if command[0] == "sbatch" and when == "before":
        die()
    said = real(command, env)
    if command[0] == "sbatch" and when == "after":
        die()
    return said
submit.call = call
app = AppDef("app", [Role("w", "", entrypoint="echo", args=["once"])])
with Runner("faults", {"slurm": lambda session, **_: create_scheduler(session, state_dir=state)}) as runner:
    print(runner.run(app, "slurm", app_id=app_id))
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_submitter_that_is_killed_leaves_one_job(
    when: str, runner: Runner, cluster: SlurmCluster, tmp_path: Path
) -> None:
    """Right before and right after sbatch: the next submit of the id completes it; there is one job."""
    first, second = (
        subprocess.run(
            [sys.executable, "-c", _SUBMIT, str(tmp_path / "state"), moment, when],
            stdout=subprocess.PIPE,
            text=True,
            env=dict(os.environ),
            check=False,
        )
        for moment in (when, "never")
    )
    assert (first.returncode, second.returncode) == (-signal.SIGKILL, 0)
    handle = second.stdout.strip()
    assert [line.text for batch in runner.follow(handle) for line in batch.lines()] == ["once"]
    jobs = cluster.call("squeue", "--noheader", "--states=all", "--format=%k")
    assert jobs.count(f"torchx:faults/{when}:") == 1


def test_an_app_whose_submitter_was_killed_can_be_cancelled(
    runner: Runner, cluster: SlurmCluster, held: Callable[[], None], tmp_path: Path
) -> None:
    """Right after sbatch: its job, whose id nobody has written down, is taken from the queue."""
    del held
    command = [sys.executable, "-c", _SUBMIT, str(tmp_path / "state"), "after", "cancelled"]
    assert subprocess.run(command, env=dict(os.environ), check=False).returncode == -signal.SIGKILL
    handle = make_app_handle("slurm", "faults", "cancelled")
    assert runner.cancel(handle, reason="enough") is CancelOutcome.REQUESTED
    assert "torchx:faults/cancelled:" not in cluster.call("squeue", "--noheader", "--format=%k")
    status = runner.wait(handle, timeout_s=240)
    assert status is not None
    assert (status.state, status.msg) == (AppState.CANCELLED, "enough")


def test_a_directory_whose_name_means_something_to_sbatch(cluster: SlurmCluster, tmp_path: Path) -> None:
    """Is taken as it is: the app runs, and Slurm's log of it lies beside its record."""
    del cluster
    state = tmp_path / "a\\b%j"
    with Runner("faults", {"slurm": partial(create_scheduler, state_dir=str(state))}) as runner:
        status = runner.wait(runner.run(_app("true"), "slurm", app_id="one"))
    assert status is not None
    assert status.state is AppState.SUCCEEDED, status.msg
    assert (state / "slurm" / "faults" / "one" / "slurm.log").exists()


def test_a_refused_job_leaves_nothing(runner: Runner, tmp_path: Path) -> None:
    """Slurm's own words say what is wrong, and the id is free."""
    cfg: dict[str, CfgVal] = {"partition": "nowhere"}
    with pytest.raises(Exception, match="invalid partition specified: nowhere; Batch job submission failed"):
        runner.run(_app("true"), "slurm", cfg, app_id="one")
    assert runner.list("slurm") == []
    assert list((tmp_path / "state" / "slurm" / "faults").iterdir()) == []


def test_one_id_in_two_sessions_is_two_apps(runner: Runner, tmp_path: Path) -> None:
    """Each has its job, its logs and its end."""
    factory = partial(create_scheduler, state_dir=str(tmp_path / "state"))
    cfg: dict[str, CfgVal] = {"log_dir": str(tmp_path / "logs")}
    with Runner("others", {"slurm": factory}) as others:
        mine = runner.run(_app("echo mine; exec sleep 600"), "slurm", cfg, app_id="one")
        theirs = others.run(_app("echo theirs"), "slurm", cfg, app_id="one")
        assert [line.text for batch in others.follow(theirs) for line in batch.lines()] == ["theirs"]
        done = others.wait(theirs)
        assert done is not None
        assert done.state is AppState.SUCCEEDED
        next(batch for batch in runner.follow(mine) if any(batch.lines()))
        runner.cancel(mine)
        ended = runner.wait(mine)
        assert ended is not None
        assert ended.state is AppState.CANCELLED


@pytest.mark.parametrize("roles", [1, 2])
def test_a_node_without_python_ends_the_app(runner: Runner, tmp_path: Path, roles: int) -> None:
    """Its task cannot say that it has ended; the other one would wait for it until Slurm's time limit."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\ntest "$SLURM_PROCID" = 1 && exit 127\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    app = _app("exec sleep 600", replicas=2 // roles)
    app.roles = [*app.roles, *(_app("exec sleep 600").roles if roles == 2 else ())]
    app.roles[-1].name = "last"
    status = runner.wait(runner.run(app, "slurm", {"python": str(python)}), timeout_s=240)
    assert status is not None
    assert status.state is AppState.FAILED
    assert "a task ended on its node without a word: srun: error: " in status.msg
    assert "Exited with exit code 127" in status.msg
