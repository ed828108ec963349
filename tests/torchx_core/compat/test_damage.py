"""One damaged file of one app of TorchX's: only our own errors, no hang, and the other apps unharmed."""

from __future__ import annotations

from pathlib import Path

import pytest
from damage import DAMAGES, apply, copy, files_of, raw_errors

from torchx_core import AppDef, AppState, Role, Runner, get_runner
from torchx_core.compat.backend import LogsUnavailableError
from torchx_core.compat.processes import read_lines

BACKEND = "torchx:shelf"
HANDLE = f"{BACKEND}://s/bad"
FACTS = ("asked", "attempt.1", "cancel", "ended.r.0", "final", "owner", "running", "submitted")
FILES = (*(f"{fact}.json" for fact in FACTS), "owner.lock", "submit.lock")


@pytest.fixture
def runner(shelf: Path, tmp_path: Path) -> Runner:
    """A runner on the shelf, where a good app and one to be damaged have ended."""
    del shelf
    runner = get_runner("s", state_dir=str(tmp_path / "state"))
    for app_id in ("good", "bad"):
        one = AppDef("a", [Role("r", "", entrypoint="sh", args=["-c", "echo one; echo two"])])
        handle = runner.run(one, BACKEND, app_id=app_id)
        status = runner.wait(handle, timeout_s=240)
        assert status
        assert status.state == AppState.SUCCEEDED
        runner.take_over(handle, "somebody")
    (directory_of(tmp_path) / "cancel.json").write_text('{"version": 1, "reason": "why", "at": 1.0}')
    copy(directory_of(tmp_path), tmp_path / "kept")
    return runner


def directory_of(tmp_path: Path) -> Path:
    """The directory of the app to be damaged."""
    return tmp_path / "state" / BACKEND / "s" / "bad"


def test_every_file_of_an_app_is_damaged_below(runner: Runner, tmp_path: Path) -> None:
    """A file that an app's directory gains is damaged by these tests as well."""
    assert len(runner.list(BACKEND)) == 2
    assert set(files_of(tmp_path / "kept")) == set(FILES)


@pytest.mark.parametrize("over", [True, False], ids=["over", "end not written down"])
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_of_an_app(runner: Runner, name: str, over: object, tmp_path: Path) -> None:
    """Whatever happens to a file, each verb works or raises a named error, and the id can be freed."""
    bad = directory_of(tmp_path)
    for damage in DAMAGES:
        copy(tmp_path / "kept", bad)
        if not over:
            (bad / "final.json").unlink()
        apply(bad / name, damage)
        rows = {row.app_id: row for row in runner.list(BACKEND)}
        assert rows["good"].state == AppState.SUCCEEDED
        if rows["bad"].state == AppState.UNKNOWN and name != "submitted.json":  # TorchX may not know its id
            assert str(bad) in rows["bad"].error, damage
        assert raw_errors(runner, HANDLE, "r") == [], damage
        assert not bad.exists(), damage
    lines = [line.text for batch in runner.follow(f"{BACKEND}://s/good") for line in batch.lines()]
    assert lines == ["one", "two"]


@pytest.mark.parametrize("damage", ["directory", "FIFO", "link in a circle", "link to a device"])
def test_what_is_no_log_is_not_read(tmp_path: Path, damage: str) -> None:
    """Nobody waits for a FIFO's writer, and an endless device does not fill the memory."""
    apply(tmp_path / "log", damage)
    with pytest.raises(LogsUnavailableError, match="log"):
        read_lines(str(tmp_path / "log"), 0, ended=True)
