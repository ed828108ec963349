"""What becomes of an app by what Slurm says of its job, or does not say; programs stand in for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from slurm_programs import AWAY, listing

from torchx_core.errors import SchedulerError, SubmitOutcomeUnknownError
from torchx_core.runner import Runner
from torchx_core.schedulers import StateChanged
from torchx_core.schedulers.slurm import create_scheduler, decide, queue
from torchx_core.specs import AppDef, AppState, Role, is_terminal, make_app_handle

APP = AppDef("app", [Role("w", "", entrypoint="true")])


def _runner(tmp_path: Path) -> Runner:
    return Runner("s", {"slurm": partial(create_scheduler, state_dir=str(tmp_path / "state"))})


def _app_dir(tmp_path: Path) -> Path:
    return tmp_path / "state" / "slurm" / "s" / "one"


@pytest.mark.parametrize(
    ("name", "comment", "expected"),
    [
        ("one", "somebody's own words", AppState.PENDING),
        ("two", "somebody's own words", AppState.FAILED),
        ("one", "torchx:another-session/one:123", AppState.FAILED),
    ],
    ids=["comment changed", "another's job", "another session's app"],
)
def test_a_job_of_the_apps_number_may_be_another_one(
    name: str,
    comment: str,
    expected: AppState,
    program: Callable[[str, str], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After the controller lost its state numbers come again; name and comment tell whose job it is."""
    monkeypatch.setattr(decide, "UNSEEN_S", 0.0)
    program("squeue", listing({"job_id": 7, "job_state": "PENDING", "name": name, "comment": comment}))
    with _runner(tmp_path) as runner:
        status = runner.status(runner.run(APP, "slurm", app_id="one"))
    assert status is not None
    assert status.state is expected


def test_a_submit_of_which_nobody_knows_the_outcome(
    program: Callable[[str, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is FAILED for whoever looks, until the next submit settles it: nothing is written down for good."""
    monkeypatch.setattr(decide, "UNSEEN_S", 0.0)
    program("sbatch", "echo 'Batch job submission failed: Transport endpoint is not connected' >&2; exit 1")
    with _runner(tmp_path) as runner:
        with pytest.raises(SubmitOutcomeUnknownError):
            runner.run(APP, "slurm", app_id="one")
        handle = make_app_handle("slurm", "s", "one")
        for _ in range(2):
            status = runner.status(handle)
            assert status is not None
            assert (status.state, status.msg.partition("; ")[2]) == (AppState.FAILED, "submit it again")
        program("sbatch", "echo 7")
        program("squeue", listing())
        runner.run(APP, "slurm", app_id="one")
        program("squeue", listing({"job_id": 7, "job_state": "PENDING", "name": "one"}))
        monkeypatch.setattr(decide, "UNSEEN_S", 60.0)
        status = runner.status(handle)
    assert status is not None
    assert status.state is AppState.PENDING


def test_accounting_is_not_asked_about_what_was_just_submitted(
    program: Callable[[str, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not know the job yet, and what it does not know is not asked again."""
    program("sacct", f"touch {tmp_path}/asked; exit 1")
    with _runner(tmp_path) as runner:
        runner.run(APP, "slurm", app_id="one")
        assert [app.state for app in runner.list("slurm")] == [AppState.PENDING]
        assert not (tmp_path / "asked").exists()
        monkeypatch.setattr(decide, "UNSEEN_S", 0.0)
        assert [app.state for app in runner.list("slurm")] == [AppState.FAILED]
        assert (tmp_path / "asked").exists()


def test_an_answer_that_is_older_than_the_job(
    program: Callable[[str, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Does not become news by the controller's being away since."""
    monkeypatch.setattr(decide, "UNSEEN_S", 1.5)
    monkeypatch.setattr(queue, "INTERVAL_S", 0.5)
    once, asked = tmp_path / "once", tmp_path / "asked"
    program("squeue", f"if mkdir {once} 2>/dev/null; then {listing()}\nexit; fi\necho >>{asked}\n{AWAY}")
    with _runner(tmp_path) as runner:
        handle = runner.run(APP, "slurm", app_id="one")
        for batch in runner.follow(handle, tick_s=0.2):
            changes = [event for event in batch.events if isinstance(event, StateChanged)]
            assert not any(is_terminal(event.state) for event in changes)
            if asked.exists() and len(asked.read_text()) > 2:
                break


def test_an_app_that_ends_well_while_slurm_is_asked(
    program: Callable[[str, str], None], tmp_path: Path
) -> None:
    """Has succeeded: that its job is over is newer than the files, which are read once more."""
    with _runner(tmp_path) as runner:
        handle = runner.run(APP, "slurm", app_id="one")
        directory = _app_dir(tmp_path)
        attempt = Path(json.loads((directory / "plan.json").read_text())["replicas"][0]["log_dir"]) / "0"
        files = {
            directory / "run.0.json": {"time": 1.0, "nodes": "n"},
            attempt / "start.json": {"time": 1.0, "host": "n", "run": 0, "orders": 0},
            attempt / "end.json": {"code": 0, "told": False, "time": 2.0},
            directory / "left" / "0.0": {},
        }
        writes = [
            f"mkdir -p {path.parent}\necho '{json.dumps(data)}' >{path}" for path, data in files.items()
        ]
        job = {"job_id": 7, "job_state": "COMPLETED", "name": "one", "comment": "somebody's own words"}
        program("squeue", "\n".join([*writes, listing(job)]))
        status = runner.status(handle)
    assert status is not None
    assert status.state is AppState.SUCCEEDED


def test_a_controller_that_is_away_has_no_word_on_what_may_be_deleted(
    program: Callable[[str, str], None], tmp_path: Path
) -> None:
    """A corrupt record stays, and so does what Slurm says of a job: that it does not answer."""
    with _runner(tmp_path) as runner:
        handle = runner.run(APP, "slurm", app_id="one")
        program("squeue", AWAY)
        with pytest.raises(SchedulerError, match="no answer") as caught:
            runner.describe_native(handle)
        assert caught.value.retryable
        (_app_dir(tmp_path) / "spec.json").write_text("torn")
        with pytest.raises(SchedulerError, match="no answer"):
            runner.delete(handle)
    assert _app_dir(tmp_path).exists()
