"""One damaged file of one app: only our own errors, no hang, and the other apps unharmed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from damage import DAMAGES, apply, copy, files_of, raw_errors, remove
from local_apps import app_of, lines_of, wait_until_unserved

from torchx_core import AppState, Runner, get_runner
from torchx_core.errors import CorruptRecordError

PROGRAM = """
import json, os, sys
with open(os.environ["TORCHX_REPORT_FILE"], "a") as file:
    file.write(json.dumps({"type": "progress", "fraction": 0.5, "message": "half"}) + "\\n")
    file.write(json.dumps({"type": "metric", "name": "loss", "value": 0.5}) + "\\n")
    file.write(json.dumps({"type": "result", "value": {"loss": 0.5}}) + "\\n")
print("out", flush=True)
print("err", file=sys.stderr, flush=True)
if os.environ["TORCHX_ATTEMPT"] == "0":
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
        json.dump({"message": "first attempt"}, file)
    sys.exit(3)
"""
FILES = (
    "alive",
    "cancel.json",
    "ctl",
    "final.json",
    "journal.jsonl",
    "lock",
    "log/r/0/0/combined.log",
    "log/r/0/0/error.json",
    "owner.json",
    "owner.lock",
    "reap.lock",
    "reports.jsonl",
    "spec.json",
    "supervisor.log",
    "timeline.bin",
)


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state directory in which a good app and one to be damaged have ended."""
    return tmp_path_factory.mktemp("damage") / "state"


@pytest.fixture(scope="module")
def ended(state: Path) -> Iterator[Runner]:
    """A runner of it; the app to be damaged is kept as it was in ``bad.kept``."""
    with get_runner("s", state_dir=str(state)) as runner:
        for app_id in ("good", "bad"):
            app = app_of("python3", "-c", PROGRAM, max_retries=1)
            handle = runner.run(app, "local_cwd", app_id=app_id)
            status = runner.wait(handle, timeout_s=240)
            assert status
            assert status.state == AppState.SUCCEEDED
            runner.take_over(handle, "somebody")
            wait_until_unserved(state, app_id)
        bad = state / "local_cwd" / "s" / "bad"
        for name in ("cancel.json", "reap.lock"):
            (bad / name).write_text('{"outcome": "cancelled", "msg": "m", "grace_s": 1.0, "monotonic": 1.0}')
        copy(bad, state.parent / "bad.kept")
        yield runner


def test_every_file_of_an_app_is_damaged_below(ended: Runner, state: Path) -> None:
    """A file that an app's directory gains is damaged by these tests as well."""
    assert len(ended.list("local_cwd")) > 0
    kept = {name for name in files_of(state.parent / "bad.kept") if not name.startswith("log/")}
    assert kept == {name for name in FILES if not name.startswith("log/")}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_of_an_ended_app(ended: Runner, state: Path, name: str, damage: str) -> None:
    """Whatever happens to a file, each verb works or raises a named error, and the id can be freed."""
    bad = state / "local_cwd" / "s" / "bad"
    copy(state.parent / "bad.kept", bad)
    apply(bad / name, damage)
    rows = {app.app_id: app for app in ended.list("local_cwd")}
    assert rows["good"].state == AppState.SUCCEEDED
    if rows["bad"].state == AppState.UNKNOWN:
        assert str(bad) in rows["bad"].error
    assert raw_errors(ended, "local_cwd://s/bad", "r") == []
    assert not bad.exists()
    lines = lines_of(ended.follow("local_cwd://s/good"))
    assert [line.text for line in lines] == ["out", "err"] * 2


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Runner, Path]]:
    """An app that runs, and its directory."""
    state = tmp_path_factory.mktemp("running") / "state"
    with get_runner("s", state_dir=str(state)) as runner:
        handle = runner.run(app_of("sh", "-c", "echo up; exec sleep 1000"), "local_cwd", app_id="bad")
        assert any(line.text == "up" for batch in runner.follow(handle) for line in batch.lines())
        yield runner, state / "local_cwd" / "s" / "bad"
        runner.cancel(handle, grace_s=0)
        assert runner.wait(handle, timeout_s=240)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    "name", ["alive", "ctl", "final.json", "journal.jsonl", "owner.json", "spec.json", "timeline.bin"]
)
def test_a_damaged_file_of_a_running_app(running: tuple[Runner, Path], name: str, damage: str) -> None:
    """An app that runs goes on running while a file of it is damaged, and is itself again afterwards."""
    runner, bad = running
    aside = bad.parent.parent / "aside"
    if (bad / name).exists():
        copy(bad / name, bad / f".{name}.copy")
        (bad / name).rename(aside)
        (bad / f".{name}.copy").rename(bad / name)
    apply(bad / name, damage)
    ending = ("cancel", "delete", "delete by force")
    raw = raw_errors(runner, "local_cwd://s/bad", "r", without=ending)
    remove(bad / name)
    if aside.exists():
        aside.rename(bad / name)
    assert raw == []
    status = runner.status("local_cwd://s/bad")
    assert status
    assert status.state == AppState.RUNNING


@pytest.mark.parametrize("damage", ["directory", "FIFO", "link in a circle"])
def test_a_damaged_lock_of_a_second_cancel_is_named(state_dir: Path, damage: str) -> None:
    """A cancel that would shorten the first one's grace period says what is in its way, and works without."""
    with get_runner("s", state_dir=str(state_dir)) as runner:
        stubborn = app_of("sh", "-c", "trap '' TERM; echo up; while :; do sleep 1000; done")
        handle = runner.run(stubborn, "local_cwd")
        assert any(line.text == "up" for batch in runner.follow(handle) for line in batch.lines())
        runner.cancel(handle, grace_s=1000)
        lock = state_dir / "local_cwd" / "s" / handle.rpartition("/")[2] / "cancel.lock"
        apply(lock, damage)
        with pytest.raises(CorruptRecordError, match=str(lock)):
            runner.cancel(handle, grace_s=0)
        remove(lock)
        runner.cancel(handle, grace_s=0)
        status = runner.wait(handle, timeout_s=240)
        assert status
        assert status.state == AppState.CANCELLED
