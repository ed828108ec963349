"""Apps that nobody looked at until Slurm had forgotten their jobs: accounting still knows how they ended."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from slurm_apps import TO_THE_END, job_of, reaches, shell_app, status_of
from slurm_cluster import SlurmCluster

from torchx_core.runner import Runner
from torchx_core.schedulers import StateChanged
from torchx_core.schedulers.slurm import create_scheduler, decide
from torchx_core.specs import AppState
from torchx_core.testing import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

HEEDLESS = "trap '' TERM; echo up; while :; do sleep 0.1; done"
_STOPPED_S = 3


@pytest.fixture
def runner(
    forgetful_cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Runner]:
    """A runner on the cluster; ends what it started."""
    del forgetful_cluster
    monkeypatch.setattr(decide, "UNSEEN_S", 1.0)  # or all these jobs would be too young to be forgotten
    factory = partial(create_scheduler, state_dir=str(tmp_path / "state"))
    with Runner("forgotten", {"slurm": factory}) as runner:
        yield runner
        for app in runner.list("slurm"):
            runner.cancel(app.app_handle, grace_s=0)


def _is_forgotten(cluster: SlurmCluster) -> bool:
    return not cluster.call("squeue", "--noheader", "--states=all").strip()


def test_accounting_remembers_how_a_job_ended(runner: Runner, forgetful_cluster: SlurmCluster) -> None:
    """Its state counts before what its files say: cancelled, and by whom; a lost node, a limit of Slurm's."""
    first, second = forgetful_cluster.nodes
    lost = runner.run(shell_app(HEEDLESS), "slurm", {"requeue": False, "nodelist": first})
    by_hand, heeding, heedless = (
        runner.run(shell_app(script), "slurm", {"time": "1-00:00:00", "nodelist": second})
        for script in (TO_THE_END, TO_THE_END, HEEDLESS)
    )
    waiting = runner.run(shell_app("true", cpu=8, replicas=2), "slurm")
    for handle in (lost, by_hand, heeding, heedless):
        reaches(runner, handle)
    for handle in (by_hand, waiting):
        forgetful_cluster.call("scancel", job_of(runner, handle))
    for handle in (heeding, heedless):
        forgetful_cluster.call("scontrol", "update", f"JobId={job_of(runner, handle)}", "EndTime=now+1")
    forgetful_cluster.kill_node(first)
    wait_until(lambda: _is_forgotten(forgetful_cluster), 240)
    forgetful_cluster.start_node(first)

    states = {app.app_handle: app.state for app in runner.list("slurm")}
    cancelled, failed = (by_hand, waiting), (lost, heeding, heedless)
    assert states == dict.fromkeys(cancelled, AppState.CANCELLED) | dict.fromkeys(failed, AppState.FAILED)
    for handle in cancelled:
        assert status_of(runner, handle).msg.endswith("was cancelled in Slurm by root")
    assert status_of(runner, lost).msg == f"node {first} failed"
    for handle, code in ((heeding, 0), (heedless, None)):  # told first, and killed after Slurm's KillWait
        status = status_of(runner, handle)
        assert status.msg == "the job ran into Slurm's time limit"
        assert status.roles[0].replicas[0].exit_code == code


def test_the_last_run_of_a_requeued_job_counts(runner: Runner, forgetful_cluster: SlurmCluster) -> None:
    """Accounting has a row for each run, and says of all but the last that the job waits again."""
    handle = runner.run(shell_app(TO_THE_END), "slurm")
    reaches(runner, handle)
    number = job_of(runner, handle)
    forgetful_cluster.call("scontrol", "requeue", number)
    wait_until(lambda: "PENDING" in forgetful_cluster.call("squeue", "--noheader", "--format=%T"), 240)
    forgetful_cluster.call("scancel", number)
    wait_until(lambda: _is_forgotten(forgetful_cluster), 240)
    status = status_of(runner, handle)
    assert status.state is AppState.CANCELLED
    assert status.msg == f"job {number} was cancelled in Slurm by root"


def test_an_accounting_that_is_away_ends_nothing(runner: Runner, forgetful_cluster: SlurmCluster) -> None:
    """The app is not over before it is known how it ended; then its followers hear it."""
    handle = runner.run(shell_app(TO_THE_END), "slurm")
    reaches(runner, handle)
    forgetful_cluster.stop_accounting()
    forgetful_cluster.call("scancel", job_of(runner, handle))
    wait_until(lambda: _is_forgotten(forgetful_cluster), 240)
    assert status_of(runner, handle).state is AppState.RUNNING
    assert forgetful_cluster.accounts is not None
    forgetful_cluster.accounts.start_slurmdbd()
    last = [event for batch in runner.follow(handle) for event in batch.events][-1]
    assert isinstance(last, StateChanged)
    assert (last.state, last.msg.partition(" was ")[2]) == (AppState.CANCELLED, "cancelled in Slurm by root")


def test_a_controller_that_has_lost_its_jobs(
    runner: Runner, forgetful_cluster: SlurmCluster, tmp_path: Path
) -> None:
    """The app is over and its programs are stopped; a job that gets its number is not taken for it.

    Once slurmdbd hears of the loss it calls the lost jobs cancelled, by nobody; before that it knows of none.
    """
    alive = tmp_path / "alive"
    handle = runner.run(
        shell_app(f"trap '' TERM; echo up; while :; do touch {alive}; sleep 0.1; done"), "slurm"
    )
    reaches(runner, handle)
    number = job_of(runner, handle)
    forgetful_cluster.lose_state()
    jobs = [
        forgetful_cluster.call("sbatch", "--hold", "--wrap=true", f"--chdir={tmp_path}", "--parsable").strip()
        for _ in range(int(number))
    ]
    assert number in jobs
    status = runner.wait(handle)
    forgetful_cluster.call("scancel", *jobs)
    assert status is not None
    told_by_accounting = (AppState.CANCELLED, f"job {number} was cancelled in Slurm")
    if (status.state, status.msg) != told_by_accounting:
        assert status.state is AppState.FAILED
        assert "nobody saw its end; Slurm no longer lists its job" in status.msg
    wait_until(lambda: time.time() - alive.stat().st_mtime > _STOPPED_S, 240)
