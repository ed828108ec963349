"""One damaged file of one app: only our own errors, no hang, and the other apps unharmed."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import pytest
from damage import DAMAGES, apply, copy, files_of, raw_errors, remove
from slurm_programs import listing
from unreachable import refusals, unreachable

from torchx_core.errors import AppNotTerminalError, CorruptRecordError
from torchx_core.runner import Runner
from torchx_core.schedulers import AppEvent
from torchx_core.schedulers.slurm import create_scheduler
from torchx_core.schedulers.slurm.node.parts import RECORD
from torchx_core.specs import AppDef, AppState, Role, is_terminal
from torchx_core.testing import wait_until

pytestmark = pytest.mark.slow

HANDLE = "slurm://s/bad"
WRITTEN = {
    "run.0.json": {"time": 1.0, "nodes": "n1"},
    "restart.0.json": {"indices": [0], "run": 0, "time": 2.0},
    "stop.json": {"outcome": "FAILED", "msg": "enough", "index": 0, "time": 4.0},
    "left/0.0": {"time": 5.0},
    "log/w/0/0/start.json": {"time": 1.0, "host": "n1", "run": 0, "orders": 0},
    "log/w/0/0/end.json": {"code": 3, "told": False, "time": 3.0},
    "log/w/0/0/error.json": {"message": "why"},
    "log/w/0/0/reports.jsonl": {"type": "result", "value": {"loss": 0.5}},
}
FILES = (
    *WRITTEN,
    "final.json",
    "job.json",
    "job.sh",
    "lease",
    "log/w/0/0/combined.log",
    "log/w/0/0/index",
    "owner.json",
    "owner.lock",
    "plan.json",
    "shim.pyz",
    "spec.json",
    "submit.lock",
)
SOME = (
    "gone",
    "empty",
    "cut in the middle",
    "nested deeply",
    "other keys missing",
    "texts instead",
    "newer",
    "huge",
    "directory",
    "link in a circle",
    "FIFO",
)
RUNNING_LACKS = ("final.json", "left/0.0", "log/w/0/0/end.json", "stop.json")


def end(directory: Path) -> None:
    """Write what the nodes of an app write whose only replica prints two lines and fails."""
    for name, content in WRITTEN.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(json.dumps(content) + "\n")
    (directory / "log/w/0/0/combined.log").write_bytes(b"one\ntwo\n")
    (directory / "log/w/0/0/index").write_bytes(RECORD.pack(2.0, 8, 1, 1))


def job(tmp_path: Path, state: str) -> str:
    """Return a script that lists the job of the app to be damaged, and two that only share its name."""
    comment = json.loads((tmp_path / "kept" / "spec.json").read_text())["comment"]
    mine = {"job_id": 8, "job_state": state, "name": "bad", "comment": comment, "end_time": 1000}
    others = [
        {"job_id": number, "job_state": "RUNNING", "name": "bad", "comment": other}
        for number, other in ((9, "torchx:another/bad:0"), (10, ""))
    ]
    return listing(mine, *others)


@pytest.fixture
def runner(program: Callable[[str, str], None], tmp_path: Path) -> Runner:
    """A runner with a good app and one to be damaged, which have ended; Slurm lists the job of that one."""
    runner = Runner("s", {"slurm": partial(create_scheduler, state_dir=str(tmp_path / "state"))})
    for app_id, job_id in (("good", 7), ("bad", 8)):
        program("sbatch", f"echo {job_id}")
        one = AppDef("app", [Role("w", "", entrypoint="true")])
        handle = runner.run(one, "slurm", app_id=app_id, cfg={"lease_s": 1000})
        end(directory_of(tmp_path, app_id))
        status = runner.status(handle)
        assert status
        assert (status.state, status.result) == (AppState.FAILED, {"loss": 0.5})
        runner.take_over(handle, "somebody")
    copy(directory_of(tmp_path), tmp_path / "kept")
    program("squeue", job(tmp_path, "FAILED"))
    return runner


def directory_of(tmp_path: Path, app_id: str = "bad") -> Path:
    """The directory of an app."""
    return tmp_path / "state" / "slurm" / "s" / app_id


def check_good(runner: Runner) -> None:
    """See that the other app is as it was."""
    lines = [line.text for batch in runner.follow("slurm://s/good") for line in batch.lines()]
    assert lines == ["one", "two"]


def wrong(runner: Runner, bad: Path, name: str, damages: Iterable[str], without: Iterable[str]) -> object:
    """Damage the app's file in each of the ways, and return what is not as it should be.

    Args:
        runner: Its session has the good app as well.
        bad: Where the app lies; a copy is in ``kept``.
        name: The file.
        damages: How.
        without: What the app has not written at all.
    """
    found: dict[str, object] = {}
    for damage in damages:
        copy(bad.parents[3] / "kept", bad)
        for file in without:
            remove(bad / file)
        apply(bad / name, damage)
        rows = {row.app_id: row for row in runner.list("slurm")}
        assert rows["good"].state == AppState.FAILED
        if rows["bad"].state == AppState.UNKNOWN and str(bad) not in rows["bad"].error:
            found[f"{damage}: error"] = rows["bad"]
        if raw := raw_errors(runner, HANDLE, "w"):
            found[damage] = raw
        if bad.exists() and ((status := runner.status(HANDLE)) is None or is_terminal(status.state)):
            found[f"{damage}: deleted"] = status
    return found


def test_every_file_of_an_app_is_damaged_below(runner: Runner, tmp_path: Path) -> None:
    """A file that an app's directory gains is damaged by these tests as well."""
    assert len(runner.list("slurm")) == 2
    assert set(files_of(tmp_path / "kept")) == set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_of_an_ended_app(runner: Runner, name: str, tmp_path: Path) -> None:
    """Whatever happens to a file, each verb works or raises a named error, and the id can be freed."""
    bad = directory_of(tmp_path)
    assert wrong(runner, bad, name, SOME, ()) == {}
    assert not bad.exists()
    check_good(runner)


@pytest.mark.parametrize("name", sorted({*FILES} - {"final.json"}))
def test_a_damaged_file_of_an_app_whose_end_nobody_saw(runner: Runner, name: str, tmp_path: Path) -> None:
    """Where its end was not written down, the same is true: what the files do not say, Slurm does."""
    bad = directory_of(tmp_path)
    assert wrong(runner, bad, name, DAMAGES, ["final.json"]) == {}
    assert not bad.exists()
    check_good(runner)


@pytest.mark.parametrize("name", sorted({*FILES, "cancel.lock"} - set(RUNNING_LACKS)))
def test_a_damaged_file_of_a_running_app(
    runner: Runner, program: Callable[[str, str], None], name: str, tmp_path: Path
) -> None:
    """It may be deleted, by force, only while its record is damaged."""
    program("squeue", job(tmp_path, "RUNNING"))
    assert wrong(runner, directory_of(tmp_path), name, SOME, RUNNING_LACKS) == {}
    check_good(runner)


@pytest.mark.parametrize("name", ["left/0.0", "run.0.json", "stop.json"])
def test_an_app_that_lacks_a_file_is_not_deleted_while_its_job_runs(
    runner: Runner, program: Callable[[str, str], None], name: str, tmp_path: Path
) -> None:
    """Its files do not say any more that it is over, so Slurm is asked; a delete is refused until then."""
    program("squeue", job(tmp_path, "RUNNING"))
    bad = directory_of(tmp_path)
    for file in ("final.json", name):
        (bad / file).unlink()
    for force in (False, True):
        with pytest.raises(AppNotTerminalError):
            runner.delete(HANDLE, force=force)
    program("squeue", job(tmp_path, "FAILED"))
    wait_until(lambda: (status := runner.status(HANDLE)) and is_terminal(status.state), 240)
    runner.delete(HANDLE)
    assert not bad.exists()


def test_a_running_app_with_a_damaged_record_is_ended_by_force(
    runner: Runner, program: Callable[[str, str], None], tmp_path: Path
) -> None:
    """A delete without force is refused and says what to do; with force Slurm ends the job."""
    program("squeue", job(tmp_path, "RUNNING"))
    bad = directory_of(tmp_path)
    apply(bad / "spec.json", "cut in the middle")
    with pytest.raises(CorruptRecordError, match=f"torchx-core delete --force {HANDLE}"):
        runner.delete(HANDLE)
    assert not (tmp_path / "scancelled").exists()
    runner.delete(HANDLE, force=True)
    assert (tmp_path / "scancelled").read_text() == "8\n"
    assert not bad.exists()
    check_good(runner)


PASSING = (errno.EIO, errno.ETIMEDOUT, errno.ESTALE)


@pytest.mark.parametrize("number", PASSING)
@pytest.mark.parametrize("name", ["", "spec.json", "final.json", "log/w/0/0/error.json", "owner.lock"])
def test_a_file_that_is_away_is_not_damaged(runner: Runner, name: str, number: int, tmp_path: Path) -> None:
    """Each verb works or says that the same call may work later; nothing advises to delete the app."""
    bad = directory_of(tmp_path)
    with unreachable(bad / name if name else bad, number):
        refused = refusals(runner, HANDLE, "w")
        rows = {row.app_id: row for row in runner.list("slurm")}
    assert refused
    assert all(err.retryable and "delete" not in str(err) for err in refused)
    assert rows["good"].state == AppState.FAILED
    if rows["bad"].state == AppState.UNKNOWN:
        assert str(bad / name) in rows["bad"].error
    check_good(runner)
    status = runner.status(HANDLE)
    assert status
    assert status.state == AppState.FAILED


@pytest.mark.parametrize("name", ["", "final.json", "log/w/0/0/combined.log", "log/w/0/0/reports.jsonl"])
def test_a_follower_waits_for_files_that_are_away(runner: Runner, name: str, tmp_path: Path) -> None:
    """Whatever cannot be opened for a while, every line and every event comes once, and the end with it."""
    bad = directory_of(tmp_path)
    expected = [event for batch in runner.follow(HANDLE) for event in batch.events]
    batches = runner.follow(HANDLE, tick_s=0.05)
    seen: list[AppEvent] = []
    with unreachable(bad / name if name else bad, errno.EIO):
        for _ in range(30):  # some that say nothing: it was tried again meanwhile
            seen += next(batches).events
    seen += [event for batch in batches for event in batch.events]
    assert seen == expected
