"""Attempts on a real cluster: who begins the next one, who hears of it, and what a reader sees of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from slurm_apps import lines_of, shell_app, shell_role, status_of
from slurm_cluster import SlurmCluster

from torchx_core.runner import Runner
from torchx_core.schedulers.slurm import create_scheduler
from torchx_core.specs import AppDef, AppState, RetryPolicy, Role, macros
from torchx_core.testing import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

DIES_BEFORE_IT_BEGINS = """
import os, runpy, sys
link = os.link
def links_no_start(source, target):
    if target.endswith("start.json"):
        os.kill(os.getppid(), 9)
        os.kill(os.getpid(), 9)
    link(source, target)
os.link = links_no_start
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
COUNTS_SIGNALS = """
import os, signal, sys, time  # and no print: what two write shall not be mixed
if os.environ["TORCHX_ATTEMPT"] != "0":
    sys.exit()
child = os.fork()
if not child:
    os.setsid()
name, told = "parent" if child else "child", []
signal.signal(signal.SIGTERM, lambda *_: told.append(time.monotonic()))
os.write(1, f"{name} up\\n".encode())
while not told or time.monotonic() < told[0] + 1.5:
    time.sleep(0.05)
os.write(1, f"{name} {len(told)}\\n".encode())
if child:
    os.wait()
"""


@pytest.fixture
def runner(cluster: SlurmCluster, tmp_path: Path) -> Iterator[Runner]:
    """A runner on the cluster; ends what it started."""
    del cluster
    factory = partial(create_scheduler, state_dir=str(tmp_path / "state"))
    with Runner("attempts", {"slurm": factory}) as runner:
        yield runner
        for app in runner.list("slurm"):
            runner.cancel(app.app_handle, grace_s=0)


def _job(cluster: SlurmCluster) -> str:
    """Return the latest job, asking nobody who would write down how its app stands."""
    return cluster.call("squeue", "--noheader", "--states=all", "--format=%i", "--sort=-i").split()[0]


def _ends(cluster: SlurmCluster, job: str) -> str:
    """Wait until Slurm says that a job is over; return its state."""

    def over() -> str:
        state = cluster.call("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T").strip()
        return "" if state in {"PENDING", "RUNNING", "COMPLETING", "CONFIGURING"} else state

    return wait_until(over, 240)


def test_a_task_that_dies_before_its_attempt_begins(
    runner: Runner, cluster: SlurmCluster, tmp_path: Path
) -> None:
    """Has claimed nothing: what the job does when it runs again is seen, by followers and in the status."""
    died, python, program = tmp_path / "died", tmp_path / "python", tmp_path / "dies.py"
    program.write_text(DIES_BEFORE_IT_BEGINS)
    python.write_text(
        "#!/bin/sh\n"
        f'if test "$4" = replica && mkdir {died}; then shift 2; exec {sys.executable} {program} "$@"; fi\n'
        f'exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    handle = runner.run(shell_app("echo hello"), "slurm", {"python": str(python)})
    job = _job(cluster)
    assert _ends(cluster, job) == "FAILED"
    assert died.exists()
    cluster.call("scontrol", "requeue", job)
    assert _ends(cluster, job) == "COMPLETED"
    assert lines_of(runner.follow(handle)) == [(0, 0, "hello")]
    status = status_of(runner, handle)
    assert (status.state, status.num_restarts) == (AppState.SUCCEEDED, 1), status.msg


def _fails_first(tmp_path: Path, name: str) -> Role:
    """Return a role of two, the first of which fails when ``go`` is there; all must meet in attempt 1."""
    go = tmp_path / "go"
    again = 'if test "$TORCHX_ATTEMPT" = 1; then echo again; exit 0; fi; echo up; '
    first = f'if test "$1" = 0; then until test -e {go}; do sleep 0.01; done; exit 3; fi; '
    role = shell_role(f"{again}{first}exec sleep 600", name=name, replicas=2)
    role.args += ["sh", macros.replica_id]
    role.max_retries, role.retry_policy = 1, RetryPolicy.ROLE
    return role


def test_two_roles_that_start_again_in_the_same_moment(runner: Runner, tmp_path: Path) -> None:
    """Each with all its replicas: neither order is lost, although both would be the first."""
    app = AppDef("app", [_fails_first(tmp_path, "a"), _fails_first(tmp_path, "b")])
    handle = runner.run(app, "slurm")
    lines: list[tuple[str, int, int, str]] = []
    for batch in runner.follow(handle):
        lines += [(line.role, line.replica, line.attempt, line.text) for line in batch.lines()]
        if len(lines) == 4:
            (tmp_path / "go").touch()
    status = status_of(runner, handle)
    assert status.state is AppState.SUCCEEDED, status.msg
    expected = [(r, k, n, word) for r in "ab" for k in (0, 1) for n, word in enumerate(("up", "again"))]
    assert sorted(lines) == sorted(expected)
    assert status.num_restarts == 2


def test_a_requeue_tells_every_process_once(runner: Runner, cluster: SlurmCluster) -> None:
    """Slurm signals each process of a job, whatever its session; we add nothing to that."""
    role = shell_role("", replicas=2)
    role.entrypoint, role.args = sys.executable, ["-c", COUNTS_SIGNALS]
    handle = runner.run(AppDef("app", [role]), "slurm")
    lines: list[tuple[int, int, str]] = []
    for batch in runner.follow(handle):
        lines += lines_of([batch])
        if len(lines) == 4:
            cluster.call("scontrol", "requeue", _job(cluster))
    assert sorted(lines) == [
        (k, 0, f"{name} {said}") for k in (0, 1) for name in ("child", "parent") for said in (1, "up")
    ]
    assert status_of(runner, handle).state is AppState.SUCCEEDED


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_follower_that_comes_back_after_a_requeue(
    runner: Runner, cluster: SlurmCluster, tmp_path: Path, replicas: int
) -> None:
    """Goes on from its cursor, in the middle of an attempt that ended meanwhile: each line arrives once."""
    go = tmp_path / "go"
    last = f"until test -e {go}; do sleep 0.05; done; echo over"
    said = 'n=$((n+1)); echo "$n"; sleep 0.05'
    script = f'exec 2>/dev/null; if test "$TORCHX_ATTEMPT" = 1; then echo again; {last}; exit; fi; '
    script += f"trap 'echo told; exit 1' TERM; n=0; while :; do {said}; done"
    handle = runner.run(shell_app(script, replicas=replicas), "slurm")
    before: list[tuple[int, int, str]] = []
    cursor = ""
    for batch in runner.follow(handle, batch_bytes=64):
        before += lines_of([batch])
        cursor = batch.cursor
        if len(before) >= 5 * replicas:
            break
    cluster.call("scontrol", "requeue", _job(cluster))
    wait_until(lambda: all(r.attempt == 1 for r in status_of(runner, handle).roles[0].replicas), 240)
    go.touch()
    lines = before + lines_of(runner.follow(handle, cursor=cursor))
    assert sorted(lines) == sorted(lines_of(runner.follow(handle)))
    for k in range(replicas):
        counted = [int(text) for replica, n, text in lines if (replica, n) == (k, 0) and text != "told"]
        assert counted == list(range(1, len(counted) + 1))
        assert [text for replica, n, text in lines if (replica, n) == (k, 1)] == ["again", "over"]
    assert status_of(runner, handle).state is AppState.SUCCEEDED


def test_a_job_that_is_run_again_although_all_has_succeeded(
    runner: Runner, cluster: SlurmCluster, held: Callable[[], None]
) -> None:
    """Does nothing: nobody had looked before somebody requeued it, and the programs run once."""
    handle = runner.run(shell_app("echo once", replicas=2), "slurm")
    held()
    job = _job(cluster)
    assert _ends(cluster, job) == "COMPLETED"
    cluster.call("scontrol", "requeue", job)
    assert _ends(cluster, job) == "COMPLETED"
    assert sorted(lines_of(runner.follow(handle))) == [(0, 0, "once"), (1, 0, "once")]
    status = status_of(runner, handle)
    assert (status.state, status.num_restarts) == (AppState.SUCCEEDED, 0)
