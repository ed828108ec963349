"""Whatever a program leaves in the place of its error file or its reports, its exit code is told."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from local_apps import app_of, kill, lines_of, running, supervisor_of, wait_until_unserved

from torchx_core import AppState, Runner
from torchx_core.errors import CorruptRecordError
from torchx_core.specs import NONE
from torchx_core.testing import wait_until


@pytest.mark.parametrize(
    "make",
    [
        "mkfifo $F",
        "ln -s /dev/zero $F",
        "ln -s /dev/ptmx $F",
        "mkdir $F",
        "ln -s $F $F",
        "truncate -s 1T $F",
        "mkfifo $F.pipe; ln -s $F.pipe $F",
    ],
)
def test_an_error_file_that_is_no_file_of_a_sane_size(runner: Runner, make: str) -> None:
    """A pipe, a device, a directory or an endless file hangs nobody."""
    script = f"F=$TORCHELASTIC_ERROR_FILE; {make}; exit 5"
    status = runner.wait(runner.run(app_of("sh", "-c", script), "local_cwd"), timeout_s=30)
    assert status
    assert status.roles[0].replicas[0].exit_code == 5
    assert status.structured_error_msg == NONE


def test_reports_without_an_end(runner: Runner) -> None:
    """Who goes on reporting after the program has ended does not delay its end."""
    script = "setsid yes >>$TORCHX_REPORT_FILE & echo up; exit 5"
    status = runner.wait(runner.run(app_of("sh", "-c", script), "local_cwd"), timeout_s=30)
    assert status
    assert status.roles[0].replicas[0].exit_code == 5


@pytest.mark.parametrize("make", ["echo '{}' >$R", "ln -s /dev/zero $R", "mkfifo $R"])
def test_a_file_in_the_place_of_the_next_reports(runner: Runner, make: str) -> None:
    """What an attempt put where the next one reports is out of the way, and the report arrives."""
    script = f"""
if test $TORCHX_ATTEMPT = 0; then R=${{TORCHX_REPORT_FILE%-0}}-1; {make}; exit 5; fi
echo '{{"type": "result", "value": 7}}' >>$TORCHX_REPORT_FILE; echo told
"""
    handle = runner.run(app_of("sh", "-c", script.replace("${", "$${"), max_retries=1), "local_cwd")
    assert [line.text for line in lines_of(runner.follow(handle))] == ["told"]
    status = runner.status(handle)
    assert status
    assert (status.state, status.result) == (AppState.SUCCEEDED, 7)


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_something_else_in_the_place_of_the_space_for_the_end(
    runner: Runner, state_dir: Path, tmp_path: Path, kind: str
) -> None:
    """Who looks at a lost app, perhaps as root, waits for no pipe's reader and writes through no link."""
    handle = runner.run(app_of("sleep", "641.3"), "local_cwd", app_id="one")
    wait_until(lambda: running("641.3"), 240)
    kill(*supervisor_of(state_dir, "one"), *running("641.3"))
    wait_until_unserved(state_dir, "one")
    place, target = state_dir / "local_cwd" / "s" / "one" / ".final.reserved", tmp_path / "mine"
    target.write_text("mine")
    place.unlink()
    if kind == "link":
        place.symlink_to(target)
    else:
        os.mkfifo(place)
    with pytest.raises(CorruptRecordError, match=r"\.final\.reserved: is (a symbolic link|no regular file)"):
        runner.status(handle)
    assert target.read_text() == "mine"
    runner.delete(handle, force=True)
    assert runner.list("local_cwd") == []


def test_readers_that_find_no_room_for_the_end_keep_nothing_open(
    runner: Runner, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that asks again and again, on a disk that is full, does not run out of descriptors."""
    handle = runner.run(app_of("sleep", "641.2"), "local_cwd", app_id="one")
    wait_until(lambda: running("641.2"), 240)
    kill(*supervisor_of(state_dir, "one"), *running("641.2"))
    wait_until_unserved(state_dir, "one")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("torchx_core.supervisor.final.os.pwrite", full)
        runner.status(handle)
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(10):
            runner.status(handle)
        assert len(list(Path("/proc/self/fd").iterdir())) == before
    status = runner.status(handle)
    assert status
    assert status.state == AppState.FAILED
