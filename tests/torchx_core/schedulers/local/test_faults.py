"""Full disks, torn records, missing programs, directories that cannot be written."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest
from local_apps import app_of, fill, lines_of, running, supervisor_of

from torchx_core import AppState, Runner, get_runner
from torchx_core.components import dist
from torchx_core.errors import (
    CorruptRecordError,
    InvalidAppError,
    InvalidInputError,
    InvalidRunConfigException,
    NewerRecordError,
    RecordUnavailableError,
    SchedulerError,
    SubmitFailedError,
)
from torchx_core.schedulers import LogsLost
from torchx_core.specs import AppStatus
from torchx_core.supervisor import main
from torchx_core.testing import wait_until

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system: needs root")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte and few files."""
    point = tmp_path / "small"
    point.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=200", "none", str(point)], check=True)
    yield point
    subprocess.run(["umount", "-l", str(point)], check=True)


@needs_root
def test_submit_to_a_full_disk(small_disk: Path) -> None:
    """Nothing is submitted, nothing is left behind, and the error says why."""
    filler = fill(small_disk)
    with get_runner("s", state_dir=str(small_disk)) as runner:
        with pytest.raises(SubmitFailedError, match="No space left") as caught:
            runner.run(app_of("true"), "local_cwd", app_id="one")
        assert caught.value.retryable
        filler.unlink()
        assert runner.list("local_cwd") == []
        status = runner.wait(runner.run(app_of("true"), "local_cwd", app_id="one"), timeout_s=240)
        assert status
        assert status.state == AppState.SUCCEEDED


@needs_root
@pytest.mark.parametrize("verb", ["delete", "prune"])
def test_room_is_made_on_a_disk_that_has_no_file_left(small_disk: Path, verb: str) -> None:
    """Deleting needs no new file, so that it helps when no file can be made."""
    with get_runner("s", state_dir=str(small_disk)) as runner:
        handle = runner.run(app_of("true"), "local_cwd", app_id="one")
        runner.wait(handle)
        use_up_files(small_disk)
        with pytest.raises(OSError, match="No space left"):
            (small_disk / "another").touch()
        if verb == "delete":
            runner.delete(handle)
        else:
            assert runner.prune("local_cwd", max_count=0) == ["one"]
        assert runner.list("local_cwd") == []
        (small_disk / "room").touch()


@needs_root
def test_an_app_that_finds_no_file_left_fails_and_says_why(small_disk: Path) -> None:
    """Its submit fails, or its supervisor, its replica or who looks: each of them names the cause."""
    use_up_files(small_disk)
    with get_runner("s", state_dir=str(small_disk)) as runner:

        def end(left: int) -> str:
            try:
                handle = runner.run(app_of("true"), "local_cwd", app_id=f"app{left}")
                return wait_until(lambda: _end(runner.status(handle)), 240)
            except (SubmitFailedError, RecordUnavailableError) as err:
                return str(err)

        def remove_records() -> bool:
            shutil.rmtree(small_disk / "local_cwd", ignore_errors=True)  # a supervisor that ends does so, too
            return not (small_disk / "local_cwd").exists()

        ends: list[str] = []
        for left in range(30):
            (small_disk / f"file{left}").unlink()
            ends.append(end(left))
            wait_until(remove_records, 240)
            wait_until(lambda: not running(str(small_disk)), 240)  # what is open keeps its place when removed
    assert [words for words in ends if "No space left" not in words and words != "SUCCEEDED"] == []
    assert ends[0] != "SUCCEEDED" == ends[-1]


def test_the_error_that_ends_a_supervisor_is_named() -> None:
    """A user who sees the app's status need not look for the supervisor's log."""
    told = main.how_it_ended(100 + errno.ENOSPC << 8)  # as wait(2) tells an exit code
    assert told == "its supervisor failed: No space left on device; see supervisor.log beside its record"
    assert main.how_it_ended(1 << 8).startswith("its supervisor failed with exit code 1;")


def _end(status: AppStatus | None) -> str:
    assert status is not None
    failed = status.state is AppState.FAILED
    return f"{status.msg} {status.failure_summary()}" if failed else status.state.name * status.is_terminal()


def use_up_files(disk: Path) -> None:
    """Make files until the file system has no room for another."""
    for number in range(os.statvfs(disk).f_ffree):
        (disk / f"file{number}").touch()


@needs_root
def test_a_disk_that_fills_up_costs_log_lines_not_the_job(small_disk: Path) -> None:
    """The program goes on and its exit code is recorded; what could not be stored is counted, not hidden."""
    go = small_disk.parent / "go"
    script = f"echo first; while [ ! -e {go} ]; do sleep 0.01; done; seq 1 100000; exit 6"
    with get_runner("s", state_dir=str(small_disk)) as runner:
        handle = runner.run(app_of("sh", "-c", script), "local_cwd")
        follower = runner.follow(handle)
        seen: list[str] = []
        lost: list[LogsLost] = []
        filler = None
        for batch in follower:
            seen += [line.text for line in batch.lines()]
            lost += [e for e in batch.events if isinstance(e, LogsLost)]
            if seen and filler is None:
                filler = fill(small_disk, leave=65536)
                go.touch()
        assert filler is not None
        status = runner.status(handle)
        assert status
        assert (status.state, status.roles[0].replicas[0].exit_code) == (AppState.FAILED, 6)
        assert seen[0] == "first"
        assert len(seen) < 100_001
        assert lost
        kept = set(seen)
        assert seen == ["first", *[str(i) for i in range(1, 100_001) if str(i) in kept]]


@pytest.mark.parametrize("content", ["", "{", "[1]", "\0\0\0\0"])
def test_a_torn_record(runner: Runner, state_dir: Path, content: str) -> None:
    """A record that cannot be read raises an error that names it, and hides no other app."""
    good = runner.run(app_of("true"), "local_cwd", app_id="good")
    bad = runner.run(app_of("true"), "local_cwd", app_id="bad")
    runner.wait(bad)
    spec = state_dir / "local_cwd" / "s" / "bad" / "spec.json"
    spec.write_text(content)
    with pytest.raises(CorruptRecordError, match=r"bad/spec\.json"):
        runner.status(bad)
    assert {a.app_id: a.state for a in runner.list("local_cwd") if a.app_id == "bad"} == {
        "bad": AppState.UNKNOWN
    }
    status = runner.wait(good)
    assert status
    assert status.state == AppState.SUCCEEDED


def test_a_newer_record(runner: Runner, state_dir: Path) -> None:
    """A record of a newer version is refused by name and left alone."""
    handle = runner.run(app_of("true"), "local_cwd", app_id="new")
    runner.wait(handle)
    spec = state_dir / "local_cwd" / "s" / "new" / "spec.json"
    record = json.loads(spec.read_text())
    spec.write_text(json.dumps({**record, "version": 99}))
    with pytest.raises(NewerRecordError, match="format 99"):
        runner.status(handle)


@pytest.mark.parametrize(
    "tail", [b'{"event":"Exi', b"\0" * 100, b'{"event":"Nonsense","time":1}\n', b"\xff\n"]
)
def test_a_torn_journal_is_read_up_to_the_tear(runner: Runner, state_dir: Path, tail: bytes) -> None:
    """Whatever follows the last whole event of a journal is left out."""
    handle = runner.run(app_of("sleep", "613.2"), "local_cwd", app_id="one")
    wait_until(lambda: (s := runner.status(handle)) and s.state == AppState.RUNNING and running("613.2"), 240)
    with (state_dir / "local_cwd" / "s" / "one" / "journal.jsonl").open("ab") as file:
        file.write(tail)
    status = runner.status(handle)
    assert status
    assert status.state == AppState.RUNNING


def test_a_missing_program_is_an_error_before_submit(runner: Runner) -> None:
    """A program that this host does not have is named; nothing is submitted."""
    with pytest.raises(InvalidAppError, match="no such program on this host: 'no-such-program'"):
        runner.run(app_of("no-such-program"), "local_cwd")
    assert runner.list("local_cwd") == []


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_missing_script_is_an_error_before_submit(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nodes: int
) -> None:
    """Each rank would say it, and torchrun bury it; a module is looked up by Python alone."""
    torchrun = tmp_path / "torchrun"
    torchrun.write_text("#!/bin/sh\n")
    torchrun.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    app = dist.torchrun("--lr", "1", script="trian.py", j=f"{nodes}x1")
    missing = f"no such script on this host: 'trian.py'; looked in {tmp_path}"
    with chdir(tmp_path):
        with pytest.raises(InvalidAppError, match=missing):
            runner.run(app, "local_cwd")
        (tmp_path / "trian.py").touch()
        for fine in (app, dist.torchrun(m="nothing.of.that.name", j=f"{nodes}x1")):
            status = runner.wait(runner.run(fine, "local_cwd"), timeout_s=240)
            assert status
            assert status.state == AppState.SUCCEEDED


def test_a_program_that_vanishes_is_a_failure_with_its_reason(runner: Runner, tmp_path: Path) -> None:
    """A program gone between submit and start fails the app with the system's reason, and is not retried."""
    program = tmp_path / "program"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    handle = runner.run(app_of(str(program), max_retries=3), "local_cwd")
    status = runner.wait(handle, timeout_s=240)
    assert status
    assert status.state == AppState.FAILED
    assert status.num_restarts == 0
    assert "cannot execute" in status.failure_summary()
    assert "No such file" in status.failure_summary()


def test_one_missing_interpreter_stops_all(runner: Runner, tmp_path: Path) -> None:
    """When one of many replicas cannot start, none goes on."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nsleep 612.1\n")
    program.chmod(0o755)
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    app = app_of(str(program), num_replicas=4)
    app.roles += app_of(str(broken), name="b").roles
    status = runner.wait(runner.run(app, "local_cwd"), timeout_s=240)
    assert status
    assert status.state == AppState.FAILED
    assert running("612.1") == []


def test_an_unwritable_log_dir(runner: Runner, tmp_path: Path) -> None:
    """A log directory that cannot be is refused before submit."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match="log_dir is not writable"):
        runner.run(app_of("true"), "local_cwd", {"log_dir": str(tmp_path / "file" / "logs")})
    assert runner.list("local_cwd") == []


def test_an_unwritable_state_dir(tmp_path: Path) -> None:
    """A submit fails, and says that the directory cannot be written."""
    (tmp_path / "file").write_text("")
    runner = get_runner("s", state_dir=str(tmp_path / "file" / "x"))
    with pytest.raises(SchedulerError, match="cannot write to the state directory"):
        runner.run(app_of("true"), "local_cwd")


def test_log_dir_is_used_and_deleted(runner: Runner, tmp_path: Path) -> None:
    """log_dir holds session, app, role, replica and attempt; delete removes the app's part and no more."""
    logs = tmp_path / "logs"
    handle = runner.run(app_of("echo", "hi"), "local_cwd", {"log_dir": str(logs)}, app_id="one")
    runner.wait(handle)
    assert (logs / "s" / "one" / "r" / "0" / "0" / "stdout.log").read_text() == "hi\n"
    assert [x.text for x in lines_of(runner.follow(handle))] == ["hi"]
    runner.delete(handle)
    assert list((logs / "s").iterdir()) == []


def test_records_are_private(runner: Runner, state_dir: Path) -> None:
    """Nobody but the user can read a record: it holds the role's environment."""
    runner.wait(runner.run(app_of("true"), "local_cwd", app_id="one"))
    mode = (state_dir / "local_cwd" / "s" / "one").stat().st_mode
    assert stat.S_IMODE(mode) == 0o700


def test_the_submitters_environment_is_not_written_down(
    runner: Runner, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replicas inherit it, the disk does not."""
    monkeypatch.setenv("MY_TOKEN", "hunter2-unique")
    handle = runner.run(app_of("sh", "-c", "echo ${#MY_TOKEN}"), "local_cwd", app_id="one")
    assert [x.text for x in lines_of(runner.follow(handle))] == ["14"]
    written = [p for p in (state_dir / "local_cwd").rglob("*") if p.is_file()]
    assert not any(b"hunter2-unique" in p.read_bytes() for p in written)


@pytest.mark.parametrize(
    ("cfg", "problem"),
    [
        ({"grace_s": -1.0}, "grace_s must be a positive number"),
        ({"lease_s": 0.0}, "lease_s must be a positive number"),
        ({"log_mode": "loud"}, "log_mode must be one of exact, pipe"),
        ({"limits": "some"}, "limits must be one of auto, require, off"),
        ({"gace_s": 1.0}, "did you mean 'grace_s'"),
    ],
)
def test_bad_options(runner: Runner, cfg: dict[str, object], problem: str) -> None:
    """An option that means nothing is refused, with what is allowed; nothing is submitted."""
    with pytest.raises(InvalidRunConfigException, match=problem):
        runner.run(app_of("true"), "local_cwd", cfg)  # type: ignore[arg-type]
    assert runner.list("local_cwd") == []


def test_a_session_name_may_be_anything_a_handle_allows(state_dir: Path) -> None:
    """A session called .. stays inside the state directory."""
    with get_runner("..", state_dir=str(state_dir)) as runner:
        handle = runner.run(app_of("true"), "local_cwd", app_id=".hidden")
        status = runner.wait(handle, timeout_s=240)
        assert status
        assert status.state == AppState.SUCCEEDED
        assert [a.app_handle for a in runner.list("local_cwd")] == [handle]
    assert {p.name for p in state_dir.iterdir()} == {"local_cwd"}


def test_supervisor_is_found_by_the_test_helper(runner: Runner, state_dir: Path) -> None:
    """The helper that other tests strike with finds guardian and supervisor, in this order."""
    runner.run(app_of("sleep", "600"), "local_cwd", app_id="one")
    guardian, supervisor = supervisor_of(state_dir, "one")
    assert guardian != supervisor
    assert sys.executable.split("/")[-1][:6] == "python"
