"""Corners in which an app once ran twice, ended for nothing, or could not be ended."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_apps import (
    app_of,
    cmdline,
    escapee,
    fill,
    lines_of,
    python,
    running,
    supervisor_of,
    wait_until_unserved,
)

from torchx_core import AppState, AppStatus, Runner, get_runner
from torchx_core.errors import InvalidAppError, InvalidInputError, SubmitFailedError
from torchx_core.schedulers import CancelOutcome, LogsLost
from torchx_core.schedulers.local import launch
from torchx_core.specs import RetryPolicy
from torchx_core.testing import wait_until

PATIENCE_S = 240.0
"""How long a test waits for something that must happen."""

STUBBORN = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"


def ended(runner: Runner, handle: str, timeout_s: float = PATIENCE_S) -> AppStatus:
    """Wait and return the status."""
    status = runner.wait(handle, timeout_s=timeout_s)
    assert status is not None
    return status


def wait_for_line(runner: Runner, handle: str, text: str) -> None:
    """Follow until the line was printed."""
    for batch in runner.follow(handle):
        if any(line.text == text for line in batch.lines()):
            return
    raise AssertionError(f"the app ended before {text!r}")


@pytest.mark.parametrize("number", range(8))
def test_a_short_app_submitted_by_many_at_once_runs_once(runner: Runner, tmp_path: Path, number: int) -> None:
    """A second submitter that comes while the app begins, and ends, does not start it again."""
    mark = tmp_path / "ran"
    app = app_of("sh", "-c", f"echo once >> {mark}")
    barrier = threading.Barrier(4)

    def submit() -> None:
        barrier.wait()
        runner.run(app, "local_cwd", app_id=f"short-{number}")

    threads = [threading.Thread(target=submit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ended(runner, f"local_cwd://s/short-{number}")
    assert mark.read_text() == "once\n"


@pytest.mark.parametrize("option", ["timeout_s", "lease_s", "grace_s"])
def test_very_long_times(runner: Runner, option: str) -> None:
    """A time of a hundred days is no shorter than it says."""
    handle = runner.run(app_of("echo", "hi"), "local_cwd", {option: 86_400.0 * 100})
    assert [line.text for line in lines_of(runner.follow(handle, tick_s=86_400.0 * 100))] == ["hi"]
    assert ended(runner, handle, timeout_s=86_400.0 * 100).state == AppState.SUCCEEDED


@pytest.mark.parametrize("grace_s", [-1.0, float("nan"), float("inf")])
def test_no_length_of_time(runner: Runner, grace_s: float) -> None:
    """A grace period that is no length of time is refused and harms nothing."""
    handle = runner.run(app_of("sleep", "600"), "local_cwd")
    with pytest.raises(InvalidInputError, match="grace_s must be"):
        runner.cancel(handle, grace_s=grace_s)
    status = runner.status(handle)
    assert status
    assert not status.is_terminal()


REPORTS = ["1" + "0" * 400, "NaN", "1e999", '"x"']


@pytest.mark.parametrize("value", [*REPORTS, "[" * 20_000])
def test_no_report_can_end_the_app(runner: Runner, value: str) -> None:
    """Numbers too large, endless nesting and the like are refused; the program goes on."""
    code = f"""
import os
with open(os.environ["TORCHX_REPORT_FILE"], "a") as file:
    file.write('{{"type":"metric","name":"m","value":' + {value!r} + '}}\\n')
with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
    file.write({value!r})
raise SystemExit(5)
"""
    status = ended(runner, runner.run(app_of(sys.executable, "-c", code), "local_cwd"))
    assert status.roles[0].replicas[0].exit_code == 5


def test_retries_hold_on_to_nothing(runner: Runner, state_dir: Path) -> None:
    """An attempt's pipes and files are let go of when the next one starts, whatever the policy."""
    script = "test $TORCHX_ATTEMPT = 40 && sleep 614.1; exit 1"
    runner.run(app_of("sh", "-c", script, max_retries=40), "local_cwd", app_id="one")
    last = ["sleep", "614.1"]  # the shell before it has the number among its words, too, in every attempt
    wait_until(lambda: any(cmdline(pid)[:2] == last for pid in running("614.1")), PATIENCE_S)
    _, supervisor = supervisor_of(state_dir, "one")
    assert len(list(Path(f"/proc/{supervisor}/fd").iterdir())) < 40
    assert len(list((state_dir / "local_cwd" / "s" / "one").glob("report-*"))) == 1


def test_a_new_attempt_does_not_run_beside_what_the_last_left(runner: Runner) -> None:
    """A background child that ignores SIGTERM is gone before its replica starts again."""
    script = """
test $TORCHX_ATTEMPT = 1 && exit 0
python3 -c "$1" esc-3 & sleep 0.3
test $0 = 1 && exit 9; sleep 600
"""
    app = app_of(
        "sh",
        "-c",
        script,
        "${replica_id}",
        STUBBORN,
        num_replicas=2,
        max_retries=1,
        retry_policy=RetryPolicy.ROLE,
    )
    app.roles += app_of("sleep", "615.1", name="other").roles
    handle = runner.run(app, "local_cwd", {"grace_s": 0.5})
    wait_until(lambda: (s := runner.status(handle)) and s.num_restarts == 1, PATIENCE_S)
    wait_until(
        lambda: (
            (s := runner.status(handle))
            and [r.state for r in s.roles[0].replicas] == [AppState.SUCCEEDED] * 2
        ),
        PATIENCE_S,
    )
    assert running("esc-3") == []


def test_a_process_in_its_own_session_gets_its_sigterm(runner: Runner) -> None:
    """A child that left the replica's session may save its work; the cancel does not use up the grace."""
    code = """
import os, signal, subprocess, sys, time
child = "import signal, sys, time; signal.signal(15, lambda *a: (print('saved', flush=True), sys.exit(0)));"
child += "print('up', flush=True); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
time.sleep(600)
"""
    handle = runner.run(app_of(sys.executable, "-c", code), "local_cwd")
    wait_for_line(runner, handle, "up")
    runner.cancel(handle, grace_s=60)
    assert "saved" in [line.text for line in lines_of(runner.follow(handle))]
    assert ended(runner, handle).state == AppState.CANCELLED


def test_waiting_is_enough_to_end_a_stuck_cancel(
    runner: Runner, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who only waits carries out a cancel that a stopped supervisor does not serve."""
    monkeypatch.setattr("torchx_core.schedulers.local.liveness.PATIENCE_S", 0.2)
    handle = runner.run(app_of("sleep", "616.1"), "local_cwd", app_id="one")
    wait_until(lambda: running("616.1"), PATIENCE_S)
    os.kill(supervisor_of(state_dir, "one")[1], signal.SIGSTOP)
    runner.cancel(handle, grace_s=0.1)
    assert ended(runner, handle).state == AppState.CANCELLED


def test_a_busy_cleanup_leaves_nobody(runner: Runner, state_dir: Path) -> None:
    """The guardian ends an app of a few hundred escaped processes before it says so."""
    script = "for i in $(seq 300); do setsid sleep 617.1 & done; echo up; sleep 617.1"
    handle = runner.run(app_of("sh", "-c", script), "local_cwd", app_id="one")
    wait_for_line(runner, handle, "up")
    os.kill(supervisor_of(state_dir, "one")[1], signal.SIGKILL)
    assert ended(runner, handle).state == AppState.FAILED
    assert running("617.1") == []


def test_a_journal_that_makes_no_sense_hides_nobody(runner: Runner, state_dir: Path) -> None:
    """An event that does not fit is skipped: status, list and cancel work."""
    handle = runner.run(app_of("sleep", "618.1"), "local_cwd", app_id="one")
    wait_until(
        lambda: (s := runner.status(handle)) and s.state == AppState.RUNNING and running("618.1"), PATIENCE_S
    )
    with (state_dir / "local_cwd" / "s" / "one" / "journal.jsonl").open("ab") as file:
        file.write(b'{"event":"Swept","time":1}\n')
    assert [app.state for app in runner.list("local_cwd")] == [AppState.RUNNING]
    assert runner.cancel(handle) is CancelOutcome.REQUESTED
    assert ended(runner, handle).state == AppState.CANCELLED


def test_a_corrupt_record_can_be_deleted(runner: Runner, state_dir: Path) -> None:
    """Its id is free again afterwards."""
    handle = runner.run(app_of("true"), "local_cwd", app_id="one")
    ended(runner, handle)
    wait_until_unserved(state_dir, "one")
    (state_dir / "local_cwd" / "s" / "one" / "spec.json").write_text("{")
    runner.delete(handle)
    assert ended(runner, runner.run(app_of("true"), "local_cwd", app_id="one")).state == AppState.SUCCEEDED


def test_deleted_logs_are_lost_aloud(runner: Runner) -> None:
    """Text whose file somebody removed is reported as lost, not made up."""
    handle = runner.run(app_of("seq", "100"), "local_cwd")
    log_dir = Path(ended(runner, handle).roles[0].replicas[0].log_dir)
    (log_dir / "combined.log").unlink()
    events = [event for batch in runner.follow(handle) for event in batch.events]
    assert [e.size_bytes for e in events if isinstance(e, LogsLost)] == [292]
    assert lines_of(runner.follow(handle)) == []


def test_a_python_that_cannot_run(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an interpreter for the supervisor nothing is submitted."""
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(SubmitFailedError, match="no Python to run the supervisor"):
        runner.run(app_of("true"), "local_cwd")
    assert runner.list("local_cwd") == []


def test_a_failed_start_while_another_submits(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who attaches to an app that its launcher then takes back submits it himself."""
    spawn = launch._spawn  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # where it fails
    inside, go_on = threading.Event(), threading.Event()

    def fail_once(app_dir: str, held: list[int]) -> None:
        if inside.is_set():
            return spawn(app_dir, held)
        inside.set()
        go_on.wait(PATIENCE_S)
        raise OSError("no more processes")

    monkeypatch.setattr(launch, "_spawn", fail_once)
    failures: list[BaseException] = []

    def first() -> None:
        try:
            runner.run(app_of("echo", "hi"), "local_cwd", app_id="one")
        except SubmitFailedError as err:
            failures.append(err)

    loser = threading.Thread(target=first)
    loser.start()
    inside.wait(PATIENCE_S)
    timer = threading.Timer(0.2, go_on.set)
    timer.start()
    handle = runner.run(app_of("echo", "hi"), "local_cwd", app_id="one")
    loser.join()
    timer.join()
    assert len(failures) == 1
    assert [line.text for line in lines_of(runner.follow(handle))] == ["hi"]


def test_more_replicas_than_open_files(runner: Runner) -> None:
    """An app that would run out of descriptors is refused with the limit's name."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    code = """
import resource, sys
from torchx_core import AppDef, Role, get_runner
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
get_runner("s").run(AppDef("a", [Role(name="r", image="", entrypoint="true", num_replicas=50)]), "local_cwd")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "50 replicas need 432 open files; the hard limit is 100" in done.stderr
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, hard)
    with pytest.raises(InvalidAppError, match="at most 65535"):
        runner.run(app_of("true", max_retries=10**6), "local_cwd")


def test_verbs_race_with_delete(state_dir: Path) -> None:
    """Submit, cancel, status and delete of one id at once end in answers or in our own errors only."""
    code = """
import sys, time
from torchx_core import AppDef, Role, get_runner
from torchx_core.errors import TorchXError
runner, end = get_runner("s"), time.monotonic() + 3
app = AppDef("a", [Role(name="r", image="", entrypoint="true")])
while time.monotonic() < end:
    for verb in (lambda: runner.run(app, "local_cwd", app_id="one"), lambda: runner.cancel(h),
                 lambda: runner.status(h), lambda: runner.delete(h), lambda: runner.take_over(h, "me"),
                 lambda: runner.list("local_cwd"), lambda: runner.prune("local_cwd", max_count=0)):
        h = "local_cwd://s/one"
        try:
            verb()
        except TorchXError:
            pass
print("fine")
"""
    children = [python(state_dir, code) for _ in range(3)]
    assert [child.communicate()[0] for child in children] == ["fine\n"] * 3
    with get_runner("s", state_dir=str(state_dir)) as runner:
        runner.cancel("local_cwd://s/one")
        runner.wait("local_cwd://s/one", PATIENCE_S)


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    point = tmp_path / "disk"
    point.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(point)], check=True)
    yield point
    subprocess.run(["umount", "-l", str(point)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system: needs root")
def test_cancel_on_a_full_disk(full_disk: Path) -> None:
    """A full disk does not make an app immortal, and the grace period is the one that was asked for."""
    with get_runner("s", state_dir=str(full_disk)) as runner:
        handle = runner.run(app_of(*escapee("esc-4")), "local_cwd", {"grace_s": 1000.0})
        wait_until(lambda: len(running("esc-4")) >= 2, PATIENCE_S)
        fill(full_disk)
        assert runner.cancel(handle, grace_s=1.0) is CancelOutcome.REQUESTED
        assert ended(runner, handle).state == AppState.CANCELLED
    assert running("esc-4") == []
