"""Cancelling an app when Slurm is slow, or knows more than is written down; programs stand in for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from slurm_programs import listing

from torchx_core.errors import SubmitOutcomeUnknownError
from torchx_core.runner import Runner
from torchx_core.schedulers import CancelOutcome
from torchx_core.schedulers.slurm import cancelling, create_scheduler
from torchx_core.specs import AppDef, AppState, Role, make_app_handle
from torchx_core.testing import wait_until

APP = AppDef("app", [Role("w", "", entrypoint="true")])
ONE = make_app_handle("slurm", "s", "one")


@pytest.fixture
def runner(program: Callable[[str, str], None], tmp_path: Path) -> Iterator[Runner]:
    """A runner."""
    del program
    with Runner("s", {"slurm": partial(create_scheduler, state_dir=str(tmp_path / "state"))}) as runner:
        yield runner


def _scancelled(tmp_path: Path) -> str:
    path = tmp_path / "scancelled"
    return path.read_text() if path.exists() else ""


def test_the_wish_is_written_before_slurm_is_asked(
    runner: Runner, program: Callable[[str, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever wants to own the app meanwhile is not kept waiting."""
    monkeypatch.setattr(cancelling, "PATIENCE_S", 600.0)
    runner.run(APP, "slurm", app_id="one")
    assert runner.take_over(ONE, "me", expected=None)
    for name in ("squeue", "scancel"):
        program(name, f"until test -e {tmp_path}/go; do sleep 0.1; done")
    with ThreadPoolExecutor(1) as pool:
        cancelled = pool.submit(runner.cancel, ONE, if_owner="me")
        try:
            wait_until((tmp_path / "state" / "slurm" / "s" / "one" / "stop.json").exists, 240)
            assert runner.take_over(ONE, "you", expected="me")
            assert not cancelled.done()
        finally:
            (tmp_path / "go").touch()
        assert cancelled.result(60) is CancelOutcome.REQUESTED


def test_a_slurm_that_does_not_answer_is_not_waited_for(
    runner: Runner, program: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By whoever cancels: longer than for seconds."""
    monkeypatch.setattr(cancelling, "PATIENCE_S", 0.1)
    runner.run(APP, "slurm", app_id="one")
    for name in ("squeue", "scancel"):
        program(name, "exec sleep 6000")  # longer than a test may take
    assert runner.cancel(ONE) is CancelOutcome.REQUESTED


def test_a_job_whose_id_nobody_has_written_down(
    runner: Runner, program: Callable[[str, str], None], tmp_path: Path
) -> None:
    """Is found by its comment, and taken from the queue."""
    program("sbatch", "echo Socket timed out >&2; exit 1")
    with pytest.raises(SubmitOutcomeUnknownError):
        runner.run(APP, "slurm", app_id="one")
    spec = json.loads((tmp_path / "state" / "slurm" / "s" / "one" / "spec.json").read_text())
    row = {"job_id": 8, "job_state": "PENDING", "name": "one", "comment": spec["comment"]}
    program("squeue", listing(row))
    assert runner.cancel(ONE) is CancelOutcome.REQUESTED
    assert _scancelled(tmp_path) == "--state=PENDING 8\n"


def test_an_app_that_is_cancelled_while_it_is_submitted(
    runner: Runner, program: Callable[[str, str], None], tmp_path: Path
) -> None:
    """Whoever submits it sees the request once there is a job, and has the job taken from the queue."""
    program("sbatch", f"touch {tmp_path}/begun; until test -e {tmp_path}/go; do sleep 0.1; done; echo 9")
    with ThreadPoolExecutor(1) as pool:
        submitted = pool.submit(runner.run, APP, "slurm", app_id="one")
        try:
            wait_until((tmp_path / "begun").exists, 240)
            assert runner.cancel(ONE) is CancelOutcome.REQUESTED
            assert _scancelled(tmp_path) == ""
        finally:
            (tmp_path / "go").touch()
        assert submitted.result(60) == ONE
    assert _scancelled(tmp_path) == "--state=PENDING 9\n"


@pytest.fixture
def lost(runner: Runner, program: Callable[[str, str], None], tmp_path: Path) -> Runner:
    """A runner whose app's job has ended by itself long ago."""
    runner.run(APP, "slurm", app_id="one")
    spec = json.loads((tmp_path / "state" / "slurm" / "s" / "one" / "spec.json").read_text())
    row = {"job_id": 7, "job_state": "NODE_FAIL", "nodes": "n1", "end_time": 1000, "comment": spec["comment"]}
    program("squeue", listing(row))
    return runner


def test_an_app_that_has_ended_and_nobody_has_looked(lost: Runner) -> None:
    """Stays what it was: the request came too late."""
    assert lost.cancel(ONE) is CancelOutcome.REQUESTED
    status = lost.status(ONE)
    assert status is not None
    assert (status.state, status.msg) == (AppState.FAILED, "node n1 failed")


def test_an_app_whose_end_is_written_down(
    lost: Runner, program: Callable[[str, str], None], tmp_path: Path
) -> None:
    """Has ended, also when Slurm is away; it is not asked."""
    assert lost.wait(ONE) is not None
    program("squeue", f"touch {tmp_path}/asked; exit 1")
    assert lost.cancel(ONE) is CancelOutcome.ALREADY_TERMINAL
    assert not (tmp_path / "asked").exists()
    assert _scancelled(tmp_path) == ""
