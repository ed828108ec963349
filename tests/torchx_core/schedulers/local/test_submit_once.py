"""A job is submitted once, whatever dies."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from local_apps import app_of, kill, lines_of, python, running

from torchx_core import AppState, Runner
from torchx_core.errors import AppIdConflictError, SubmitFailedError
from torchx_core.testing import wait_until

SUBMITTER = """
import sys
from torchx_core import AppDef, Role, get_runner
from torchx_core.specs import CfgVal
app = AppDef("app", [Role(name="r", image="", entrypoint="sh", args=["-c", sys.argv[2]])])
print("ready", flush=True)
sys.stdin.readline()
print(get_runner("s").run(app, "local_cwd", app_id=sys.argv[1]), flush=True)
sys.stdin.readline()
"""


DIES_BEFORE_THE_SUPERVISOR = """
import os, signal
from torchx_core import AppDef, Role, get_runner
from torchx_core.schedulers.local import launch
launch._spawn = lambda *args: os.kill(os.getpid(), signal.SIGKILL)
role = Role(name="r", image="", entrypoint="echo", args=["hi"])
get_runner("s").run(AppDef("app", [role]), "local_cwd", app_id="one")
"""


def test_hundred_concurrent_submits_are_one_app(runner: Runner, tmp_path: Path) -> None:
    """A hundred threads that submit one app id get one handle, and the program runs once."""
    mark = tmp_path / "ran"
    app = app_of("sh", "-c", f"echo once >> {mark}")
    barrier = threading.Barrier(100)
    handles: list[str] = []

    def submit() -> None:
        barrier.wait()
        handles.append(runner.run(app, "local_cwd", app_id="one"))

    threads = [threading.Thread(target=submit) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert handles == ["local_cwd://s/one"] * 100
    runner.wait(handles[0], timeout_s=240)
    assert mark.read_text() == "once\n"
    assert len(runner.list("local_cwd")) == 1


def test_a_different_request_for_a_taken_id_is_refused(runner: Runner) -> None:
    """The error names what differs, and the running app is left alone."""
    handle = runner.run(app_of("sleep", "30"), "local_cwd", app_id="one")
    with pytest.raises(AppIdConflictError, match=r"app.roles\[0\].args\[0\]: '30' -> '31'"):
        runner.run(app_of("sleep", "31"), "local_cwd", app_id="one")
    with pytest.raises(AppIdConflictError, match=r"cfg\.grace_s: 10\.0 -> 1\.0"):
        runner.run(app_of("sleep", "30"), "local_cwd", {"grace_s": 1.0}, app_id="one")
    assert runner.run(app_of("sleep", "30"), "local_cwd", app_id="one") == handle


def test_a_conflict_never_shows_a_secret(runner: Runner) -> None:
    """Values of variables that look secret are masked in the difference."""
    runner.run(app_of("true", env={"API_TOKEN": "hunter2"}), "local_cwd", app_id="one")
    with pytest.raises(AppIdConflictError) as caught:
        runner.run(app_of("true", env={"API_TOKEN": "hunter3"}), "local_cwd", app_id="one")
    assert "hunter" not in str(caught.value)


@pytest.mark.parametrize("moment", range(10))
def test_kill_of_the_submitter_at_any_moment(
    runner: Runner, state_dir: Path, tmp_path: Path, moment: int
) -> None:
    """SIGKILL during submit leaves no app or one; submitting again gives one run, its exit code and lines."""
    mark = tmp_path / "ran"
    script = f"echo $$ >> {mark}; seq 1 2000; exit 7"
    child = subprocess.Popen(
        [sys.executable, "-c", SUBMITTER, "one", script],
        env={**os.environ, "TORCHX_STATE_DIR": str(state_dir)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdin
    assert child.stdout
    assert child.stdout.readline() == "ready\n"
    child.stdin.write("go\n")
    child.stdin.flush()
    threading.Event().wait(random.Random(moment).uniform(0, 0.05))  # the moment to strike
    child.kill()
    child.communicate()

    handle = runner.run(app_of("sh", "-c", script), "local_cwd", app_id="one")
    lines = lines_of(runner.follow(handle))
    status = runner.status(handle)

    assert [line.text for line in lines] == [str(i) for i in range(1, 2001)]
    assert status
    assert status.roles[0].replicas[0].exit_code == 7
    assert len(mark.read_text().splitlines()) == 1


def test_submitter_killed_between_record_and_supervisor(runner: Runner, state_dir: Path) -> None:
    """An app whose submitter died before starting it is started by the next submit of its id."""
    python(state_dir, DIES_BEFORE_THE_SUPERVISOR).communicate()
    assert (state_dir / "local_cwd" / "s" / "one" / "spec.json").exists()

    handle = runner.run(app_of("echo", "hi"), "local_cwd", app_id="one")

    assert [line.text for line in lines_of(runner.follow(handle))] == ["hi"]
    status = runner.status(handle)
    assert status
    assert status.state == AppState.SUCCEEDED


def test_submitter_killed_and_nobody_submits_again(runner: Runner, state_dir: Path) -> None:
    """A reader that finds an app nobody ever started ends it as FAILED and says so."""
    python(state_dir, DIES_BEFORE_THE_SUPERVISOR).communicate()
    status = runner.wait("local_cwd://s/one", timeout_s=240)
    assert status
    assert status.state == AppState.FAILED
    assert "never started" in status.msg


CANNOT_START = pytest.mark.parametrize(
    ("shell", "told"),
    [(["/nonexistent/sh"], "nonexistent"), (["sh", "-c", "echo Cannot fork >&2; exit 2"], "Cannot fork")],
    ids=["no-shell", "no-process"],
)
"""What keeps a supervisor from being started, and what is said of it."""


@CANNOT_START
@pytest.mark.usefixtures("no_zygote")
def test_a_start_that_fails_leaves_nothing(
    runner: Runner, state_dir: Path, monkeypatch: pytest.MonkeyPatch, shell: list[str], told: str
) -> None:
    """When the supervisor cannot be started the record is taken back and the id is free again."""
    monkeypatch.setattr("torchx_core.schedulers.local.launch._SHELL", shell)
    with pytest.raises(SubmitFailedError, match=told) as caught:
        runner.run(app_of("true"), "local_cwd", app_id="one")
    assert caught.value.retryable
    assert list((state_dir / "local_cwd" / "s").iterdir()) == []

    monkeypatch.undo()
    handle = runner.run(app_of("true"), "local_cwd", app_id="one")
    status = runner.wait(handle, timeout_s=240)
    assert status
    assert status.state == AppState.SUCCEEDED


@CANNOT_START
@pytest.mark.usefixtures("no_zygote")
def test_a_start_in_place_of_a_dead_submitter_fails(
    runner: Runner, state_dir: Path, monkeypatch: pytest.MonkeyPatch, shell: list[str], told: str
) -> None:
    """Who finds an app that was never started, and cannot start it either, is told so at once."""
    python(state_dir, DIES_BEFORE_THE_SUPERVISOR).communicate()
    monkeypatch.setattr("torchx_core.schedulers.local.launch._SHELL", shell)
    with pytest.raises(SubmitFailedError, match=told) as caught:
        runner.run(app_of("echo", "hi"), "local_cwd", app_id="one")
    assert caught.value.retryable

    monkeypatch.undo()
    handle = runner.run(app_of("echo", "hi"), "local_cwd", app_id="one")
    assert [line.text for line in lines_of(runner.follow(handle))] == ["hi"]


def test_app_outlives_its_submitter(runner: Runner, state_dir: Path) -> None:
    """SIGKILL of the submitter does not touch the app; another process follows it to its end."""
    child = subprocess.Popen(
        [sys.executable, "-c", SUBMITTER, "one", "echo first; sleep 0.5; echo last; exit 3"],
        env={**os.environ, "TORCHX_STATE_DIR": str(state_dir)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdin
    assert child.stdout
    child.stdin.write("go\n")
    child.stdin.flush()
    assert child.stdout.readline() == "ready\n"
    handle = child.stdout.readline().strip()
    child.kill()
    child.communicate()
    assert [line.text for line in lines_of(runner.follow(handle))] == ["first", "last"]
    status = runner.status(handle)
    assert status
    assert status.roles[0].replicas[0].exit_code == 3


def test_kill_of_a_follower_loses_and_repeats_nothing(
    runner: Runner, state_dir: Path, tmp_path: Path
) -> None:
    """Followers that are killed one after the other, each from the last cursor saved, see every line once."""
    saved = tmp_path / "saved"
    saved.write_text("")
    follower = """
import json, os, sys
from torchx_core import get_runner
handle, saved = sys.argv[1:]
rows = [json.loads(row) for row in open(saved)]
cursor = rows[-1]["cursor"] if rows else None
for batch in get_runner("s").follow(handle, cursor):
    row = json.dumps({"cursor": batch.cursor, "lines": [line.text for line in batch.lines()]})
    with open(saved, "a") as file:
        file.write(row + "\\n")
    print("batch", flush=True)
"""
    script = "i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo $i; sleep 0.005; done"
    handle = runner.run(app_of("sh", "-c", script), "local_cwd")
    for _ in range(8):
        child = python(state_dir, follower, handle, str(saved))
        assert child.stdout
        for _ in range(5):
            child.stdout.readline()
        child.kill()
        child.communicate()
        whole = saved.read_text()
        saved.write_text(whole[: whole.rfind("\n") + 1])  # the kill may have torn the last row
    python(state_dir, follower, handle, str(saved)).communicate()

    import json

    seen = [text for row in saved.read_text().splitlines() for text in json.loads(row)["lines"]]
    assert seen == [str(i) for i in range(1, 301)]


def test_deleted_and_submitted_again_is_another_app(runner: Runner) -> None:
    """After delete the id is free, and a cursor of the old app does not fit the new one."""
    handle = runner.run(app_of("echo", "old"), "local_cwd", app_id="one")
    runner.wait(handle)
    runner.delete(handle)
    assert runner.status(handle) is None
    runner.run(app_of("echo", "new"), "local_cwd", app_id="one")
    assert [line.text for line in lines_of(runner.follow(handle))] == ["new"]


def test_no_process_of_ours_is_a_child_of_the_submitter(runner: Runner) -> None:
    """Who walks or waits for the submitter's children meets neither supervisor nor replicas."""
    import psutil

    before = set(psutil.Process().children(recursive=True))  # servers of other tests
    handle = runner.run(app_of("sleep", "31.41592"), "local_cwd")
    wait_until(lambda: running("31.41592"), 240)
    assert set(psutil.Process().children(recursive=True)) <= before
    runner.cancel(handle, grace_s=0)
    runner.wait(handle)


def test_kill_helper_is_real(runner: Runner) -> None:
    """A replica killed from outside ends with the signal's name."""
    handle = runner.run(app_of("sleep", "31.5"), "local_cwd")
    kill(*wait_until(lambda: running("31.5"), 240))
    status = runner.wait(handle)
    assert status
    assert status.roles[0].replicas[0].signal == "SIGKILL"
    assert status.state == AppState.FAILED


@pytest.mark.usefixtures("no_zygote")
def test_a_launcher_that_is_interrupted_late_removes_no_app_that_runs(
    runner: Runner, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal's exception may come when the supervisor is there: the next submit attaches to the app."""
    start = subprocess.run

    def interrupted(*args: Any, **options: Any) -> Any:
        start(*args, **options)
        wait_until(lambda: running("642.1"), 240)
        raise KeyboardInterrupt

    app = app_of("sleep", "642.1")
    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            runner.run(app, "local_cwd", app_id="one")
    assert [found.state for found in runner.list("local_cwd")] == [AppState.RUNNING]
    runner.run(app, "local_cwd", app_id="one")
    assert len(running("642.1")) == 1
    assert len(list((state_dir / "local_cwd" / "s").glob("[!.]*"))) == 1


def test_signals_that_the_launcher_has_blocked_reach_the_supervisor(runner: Runner) -> None:
    """As those of a service that takes its signals by sigwait: else nobody would hear that a program ends."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD, signal.SIGTERM])
    try:
        handle = runner.run(app_of("true"), "local_cwd")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    status = runner.wait(handle, timeout_s=240)
    assert status is not None
    assert status.state == AppState.SUCCEEDED
