"""What users do while the controller is away, and what is there when it is back."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from slurm_apps import TO_THE_END, reaches, shell_app, status_of
from slurm_cluster import SlurmCluster

from torchx_core.errors import SubmitOutcomeUnknownError
from torchx_core.runner import Runner
from torchx_core.schedulers import Batch, CancelOutcome, StateChanged
from torchx_core.schedulers.slurm import create_scheduler, decide
from torchx_core.specs import AppState
from torchx_core.testing import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def runner(cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    """A runner on the cluster, to which no job is new for long; ends what it started."""
    del cluster
    monkeypatch.setattr(decide, "UNSEEN_S", 1.0)
    factory = partial(create_scheduler, state_dir=str(tmp_path / "state"))
    with Runner("outages", {"slurm": factory}) as runner:
        yield runner
        for app in runner.list("slurm"):
            runner.cancel(app.app_handle, grace_s=0)


@contextmanager
def _outage(cluster: SlurmCluster) -> Generator[None]:
    cluster.stop_controller()
    try:
        yield
    finally:
        cluster.start_controller()


def _app_dir(tmp_path: Path, app_id: str) -> Path:
    return tmp_path / "state" / "slurm" / "outages" / app_id


def _jobs(cluster: SlurmCluster, app_id: str) -> int:
    listed = cluster.call("squeue", "--noheader", "--states=all", "--format=%k")
    return listed.count(f"torchx:outages/{app_id}:")


def test_an_app_outlives_an_outage(
    runner: Runner, cluster: SlurmCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """However long it has run already and whoever looks: it is RUNNING, and its program goes on."""
    go = tmp_path / "go"
    app = shell_app(f"echo up; until test -e {go}; do sleep 0.1; done; echo over")
    handle = runner.run(app, "slurm", app_id="outlives")
    reaches(runner, handle)
    texts: list[str] = []
    states: list[AppState] = []
    cursor: str | None = None

    def note(batch: Batch) -> str:
        texts.extend(line.text for line in batch.lines())
        states.extend(event.state for event in batch.events if isinstance(event, StateChanged))
        return batch.cursor

    with _outage(cluster):
        for batch in runner.follow(handle, tick_s=0.2):
            cursor = note(batch)
            if caplog.text.count("cannot ask Slurm") > 1:
                break
        assert status_of(runner, handle).state is AppState.RUNNING
        assert [listed.state for listed in runner.list("slurm")] == [AppState.RUNNING]
        assert (texts, states) == (["up"], [AppState.RUNNING])
    go.touch()
    for batch in runner.follow(handle, cursor):
        note(batch)
    assert (texts, states) == (["up", "over"], [AppState.RUNNING, AppState.SUCCEEDED])
    assert _jobs(cluster, "outlives") == 1


def test_a_submit_during_an_outage_is_settled_by_the_next(
    runner: Runner, cluster: SlurmCluster, tmp_path: Path
) -> None:
    """Whoever looks in between, and however often: there is one job, and the app runs once."""
    app = shell_app(f"echo once >>{tmp_path / 'ran'}")
    with _outage(cluster):
        for _ in range(2):
            with pytest.raises(SubmitOutcomeUnknownError):
                runner.run(app, "slurm", app_id="settled")
    wait_until(lambda: "submit it again" in status_of(runner, runner.list("slurm")[0].app_handle).msg, 240)
    assert not (_app_dir(tmp_path, "settled") / "final.json").exists()
    handle = runner.run(app, "slurm", app_id="settled")
    status = runner.wait(handle, timeout_s=240)
    assert status is not None
    assert status.state is AppState.SUCCEEDED, status.msg
    assert (tmp_path / "ran").read_text() == "once\n"
    assert _jobs(cluster, "settled") == 1


def test_an_app_is_cancelled_during_an_outage(runner: Runner, cluster: SlurmCluster) -> None:
    """A cancel gets through: the nodes need no controller for it."""
    handle = runner.run(shell_app(TO_THE_END), "slurm", app_id="cancelled")
    reaches(runner, handle)
    with _outage(cluster):
        assert runner.cancel(handle, reason="enough") is CancelOutcome.REQUESTED
        status = runner.wait(handle, timeout_s=240)
    assert status is not None
    assert (status.state, status.msg) == (AppState.CANCELLED, "enough")


def test_an_app_that_waits_is_cancelled_during_an_outage(
    runner: Runner, cluster: SlurmCluster, tmp_path: Path
) -> None:
    """Its job, once it begins, runs nothing."""
    ran = tmp_path / "ran"
    cluster.call("scontrol", "update", "PartitionName=main", "State=DOWN")
    handle = runner.run(shell_app(f"touch {ran}"), "slurm", app_id="waits")
    with _outage(cluster):
        assert runner.cancel(handle, reason="enough") is CancelOutcome.REQUESTED
    wait_until(lambda: cluster.call("sinfo", "--noheader"), 240)
    cluster.call("scontrol", "update", "PartitionName=main", "State=UP")
    status = runner.wait(handle, timeout_s=240)
    assert status is not None
    assert (status.state, status.msg) == (AppState.CANCELLED, "enough")
    assert not ran.exists()
