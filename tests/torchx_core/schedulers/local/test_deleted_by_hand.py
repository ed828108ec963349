"""An app whose directory somebody deletes: it ends, and its id can be used again."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest
from damage import raw_errors
from local_apps import app_of, running, supervisor_of

from torchx_core import AppState, Runner
from torchx_core.errors import CorruptRecordError, UnknownAppException
from torchx_core.testing import wait_until

Submit: TypeAlias = Callable[..., str]

PATIENCE_S = 240.0


def _ended(runner: Runner, handle: str) -> AppState:
    status = runner.wait(handle, timeout_s=PATIENCE_S)
    assert status
    return status.state


def test_debris_is_replaced_by_the_next_submit(runner: Runner, state_dir: Path) -> None:
    """A directory without a record, which nobody serves, does not keep its id from being used."""
    debris = state_dir / "local_cwd" / "s" / "one"
    (debris / "log" / "r" / "0").mkdir(parents=True)
    assert [(app.app_id, app.state) for app in runner.list("local_cwd")] == [("one", AppState.UNKNOWN)]
    with pytest.raises(CorruptRecordError, match=r"spec\.json: is missing.*delete --force local_cwd://s/one"):
        runner.status("local_cwd://s/one")
    assert _ended(runner, runner.run(app_of("true"), "local_cwd", app_id="one")) == AppState.SUCCEEDED


def test_debris_can_be_deleted(runner: Runner, state_dir: Path) -> None:
    """A directory without a record is removed by `delete`, and every other verb raises a named error."""
    debris = state_dir / "local_cwd" / "s" / "one"
    debris.mkdir(parents=True)
    assert raw_errors(runner, "local_cwd://s/one", "r") == []
    assert not debris.exists()
    assert runner.list("local_cwd") == []


def test_a_submit_ends_an_app_that_was_deleted_while_it_ran(
    runner: Runner, submit: Submit, state_dir: Path
) -> None:
    """The next submit of the id has the orphaned app end, in its own time, before it starts another."""
    script = "trap 'exit 0' TERM; while :; do sleep 0.02; done; : 641.7"
    handle = submit("sh", "-c", script, app_id="one")
    servants = supervisor_of(state_dir, "one")
    wait_until(lambda: running("641.7"), PATIENCE_S)
    app_dir = state_dir / "local_cwd" / "s" / "one"
    shutil.rmtree(app_dir)
    (app_dir / "log").mkdir(parents=True)  # as an attempt that began meanwhile would
    assert _ended(runner, submit("true", app_id="one")) == AppState.SUCCEEDED
    assert running("641.7") == []
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in servants), PATIENCE_S)
    assert runner.status(handle)


def test_an_app_whose_record_was_deleted_ends_by_itself(
    runner: Runner, submit: Submit, state_dir: Path
) -> None:
    """It ends soon though nobody asks, whether or not another app has been given its id meanwhile."""
    servants: list[int] = []
    for app_id, duration in (("one", "641.5"), ("two", "641.9")):
        submit("sleep", duration, app_id=app_id)
        wait_until(partial(running, duration), PATIENCE_S)
        servants += supervisor_of(state_dir, app_id)
        shutil.rmtree(state_dir / "local_cwd" / "s" / app_id)
    handle = submit("sleep", "641.6", app_id="one")
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in servants), PATIENCE_S)
    assert running("641.5") == running("641.9") == []
    assert len(running("641.6")) == 1
    status = runner.status(handle)
    assert status is not None
    assert status.state == AppState.RUNNING


def test_a_follower_is_told_nothing_of_the_next_app_of_that_id(runner: Runner, submit: Submit) -> None:
    """It gets neither lines nor end of the next app: the one that it follows is unknown by then."""
    handle = submit("sh", "-c", "echo one; echo two; echo three; exit 3", app_id="one")
    assert _ended(runner, handle) == AppState.FAILED
    batches = runner.follow(handle, batch_bytes=1)
    while not list(next(batches).lines()):  # it has begun with the output, and its end is still to come
        pass
    runner.delete(handle)
    submit("sh", "-c", "echo another; echo another", app_id="one")
    _ended(runner, handle)
    with pytest.raises(UnknownAppException):
        list(batches)


def test_a_deleted_app_makes_no_new_attempt(submit: Submit, state_dir: Path, tmp_path: Path) -> None:
    """An app that would start again finds that its record is gone, ends, and leaves no directory behind."""
    go = tmp_path / "go"
    script = f"while [ ! -e {go} ]; do sleep 0.02; done; : 641.8; exit 1"
    submit("sh", "-c", script, app_id="one", max_retries=1000, retry_policy="REPLICA")
    servants = supervisor_of(state_dir, "one")
    wait_until(lambda: running("641.8"), PATIENCE_S)
    app_dir = state_dir / "local_cwd" / "s" / "one"
    shutil.rmtree(app_dir)
    go.touch()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in servants), PATIENCE_S)
    assert running("641.8") == []
    assert not app_dir.exists()


def test_force_ends_an_app_whose_record_is_damaged(runner: Runner, submit: Submit, state_dir: Path) -> None:
    """An app that runs behind a damaged record is refused by `delete`, and ended by force."""
    handle = submit("sleep", "641.6", app_id="one")
    wait_until(lambda: running("641.6"), PATIENCE_S)
    (state_dir / "local_cwd" / "s" / "one" / "spec.json").write_text("{")
    with pytest.raises(CorruptRecordError, match="delete --force local_cwd://s/one"):
        runner.delete(handle)
    runner.delete(handle, force=True)
    assert running("641.6") == []
    assert runner.status(handle) is None
    assert _ended(runner, submit("true", app_id="one")) == AppState.SUCCEEDED


def test_the_command_line_names_a_damaged_app_and_deletes_it(
    runner: Runner, submit: Submit, state_dir: Path
) -> None:
    """`list` shows a damaged app with its error, and the command that the error names removes it."""
    assert _ended(runner, submit("true", app_id="one")) == AppState.SUCCEEDED
    (state_dir / "local_cwd" / "s" / "one" / "final.json").write_text("{")

    def cli(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "torchx_core", *words],
            env={"TORCHX_STATE_DIR": str(state_dir), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )

    listed = cli("list", "--session", "s", "-s", "local_cwd", "--json")
    (row,) = json.loads(listed.stdout)["apps"]
    assert row["state"] == "UNKNOWN"
    command = row["error"].rpartition("torchx-core ")[2].split()
    assert command == ["delete", "--force", "local_cwd://s/one"]
    assert "final.json: is not JSON" in cli("list", "--session", "s", "-s", "local_cwd").stderr
    assert cli(*command).returncode == 0
    assert runner.list("local_cwd") == []
