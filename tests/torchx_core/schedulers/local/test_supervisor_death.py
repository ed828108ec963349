"""What happens when the processes that serve an app die or hang."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from local_apps import app_of, escapee, kill, running, supervisor_of, wait_until_unserved

from torchx_core import AppState, Runner
from torchx_core.errors import UnknownAppException
from torchx_core.schedulers import AppEvent, LogsLost, StateChanged
from torchx_core.schedulers.local import feed
from torchx_core.schedulers.local.liveness import end_by_force, reconcile
from torchx_core.schedulers.local.record import AppRecord
from torchx_core.supervisor import tree
from torchx_core.supervisor.journal import encode_event
from torchx_core.supervisor.machine import Exited, State
from torchx_core.supervisor.records import JOURNAL
from torchx_core.testing import wait_until

PATIENCE_S = 240.0
"""How long a test waits for something that must happen."""


def test_kill_of_the_supervisor(runner: Runner, state_dir: Path) -> None:
    """The app is FAILED with that reason, and not even an escaped grandchild lives."""
    handle = runner.run(app_of(*escapee("esc-1")), "local_cwd", app_id="one")
    wait_until(lambda: len(running("esc-1")) >= 2, PATIENCE_S)
    _, supervisor = supervisor_of(state_dir, "one")
    kill(supervisor)
    status = runner.wait(handle, PATIENCE_S)
    assert status
    assert status.state == AppState.FAILED
    assert "supervisor was killed by SIGKILL" in status.msg
    assert running("esc-1") == []


def test_kill_of_the_guardian_changes_nothing(runner: Runner, state_dir: Path) -> None:
    """The supervisor goes on alone."""
    go = state_dir.parent / "go"
    handle = runner.run(
        app_of("sh", "-c", f"until [ -e '{go}' ]; do sleep 0.05; done; exit 4"), "local_cwd", app_id="one"
    )
    guardian, _ = supervisor_of(state_dir, "one")
    kill(guardian)
    go.touch()
    status = runner.wait(handle, PATIENCE_S)
    assert status
    assert status.roles[0].replicas[0].exit_code == 4


def test_kill_of_both(runner: Runner, state_dir: Path) -> None:
    """The next reader kills what carries the app's mark, and ends the app."""
    handle = runner.run(app_of("sh", "-c", "sleep 600.1 & sleep 600.1"), "local_cwd", app_id="one")
    wait_until(lambda: len(running("600.1")) >= 2, PATIENCE_S)
    kill(*supervisor_of(state_dir, "one"))
    status = runner.wait(handle, PATIENCE_S)
    assert status
    assert status.state == AppState.FAILED
    assert "both killed" in status.msg
    wait_until(lambda: running("600.1") == [], PATIENCE_S)


def test_kill_of_both_while_a_process_hands_over(
    runner: Runner, state_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader also ends a process that was not listed, and whose parent had ended when it was looked at."""
    go = tmp_path / "go"
    os.mkfifo(go)
    program = f"(read word < '{go}'; setsid sleep 605.1 > /dev/null 2>&1 &) & wait"
    handle = runner.run(app_of("sh", "-c", program), "local_cwd", app_id="one")
    wait_until(lambda: len(running(str(go))) == 2, PATIENCE_S)
    kill(*supervisor_of(state_dir, "one"))
    listings: list[list[str]] = []

    def list_and_hand_over(path: str) -> list[str]:
        names: list[str] = []
        with suppress(OSError):
            names = [entry.name for entry in Path(path).iterdir()]
        if path == "/proc" and not listings:
            go.write_text("now")
            wait_until(lambda: running("605.1") and not running(str(go)), PATIENCE_S)
        listings.append(names)
        return names

    monkeypatch.setattr(tree, "_listdir", list_and_hand_over)
    status = runner.wait(handle, PATIENCE_S)
    assert status
    assert status.state == AppState.FAILED
    assert listings
    assert running("605.1") == []


def test_kill_of_both_leaves_no_process_whose_first_thread_has_ended(
    runner: Runner, state_dir: Path, tmp_path: Path
) -> None:
    """Such a process is a zombie by its first thread, shows no environment as one, and runs all the same."""
    told = tmp_path / "told"
    lines = [
        "import ctypes, os, pathlib, threading, time",
        "threading.Thread(target=time.sleep, args=[600]).start()",
        f"pathlib.Path({str(told)!r}).write_text(f'{{os.getpid()}}.')",
        "ctypes.CDLL(None).syscall({'x86_64': 60, 'aarch64': 93}[os.uname().machine], 0)  # exit(2)",
    ]
    program = f"{shlex.quote(sys.executable)} -c {shlex.quote('; '.join(lines))} & wait"
    handle = runner.run(app_of("sh", "-c", program), "local_cwd", app_id="one")
    wait_until(lambda: told.exists() and told.read_text().endswith("."), PATIENCE_S)
    pid = int(told.read_text()[:-1])
    wait_until(lambda: tree.is_zombie(pid), PATIENCE_S)
    threads = Path(f"/proc/{pid}/task")
    assert len(list(threads.iterdir())) == 2
    kill(*supervisor_of(state_dir, "one"))
    status = runner.wait(handle, PATIENCE_S)
    assert status
    assert status.state == AppState.FAILED
    wait_until(lambda: not threads.exists() or len(list(threads.iterdir())) < 2, PATIENCE_S)


def test_a_follower_learns_of_the_loss(runner: Runner, state_dir: Path) -> None:
    """Following a killed supervisor's app ends with what was written, a LogsLost and the terminal state."""
    handle = runner.run(app_of("sh", "-c", "echo before; sleep 600.2"), "local_cwd", app_id="one")
    events: list[AppEvent] = []
    for batch in runner.follow(handle):
        events += batch.events
        if any(line.text == "before" for line in batch.lines()):
            kill(supervisor_of(state_dir, "one")[1])
    assert isinstance(events[-2], LogsLost)
    last = events[-1]
    assert isinstance(last, StateChanged)
    assert last.state == AppState.FAILED


@pytest.mark.parametrize("journal", ["does not have the start yet", "has the end already"])
def test_a_loss_that_the_journal_does_not_show_is_told(runner: Runner, state_dir: Path, journal: str) -> None:
    """A supervisor dies before it writes that it started an attempt, or before it takes the last lines."""
    app = app_of("sh", "-c", "[ $TORCHX_ATTEMPT = 1 ] || exit 3; exec sleep 600.8", max_retries=1)
    handle = runner.run(app, "local_cwd", app_id="one")
    path = state_dir / "local_cwd" / "s" / "one" / JOURNAL
    wait_until(lambda: path.exists() and path.read_bytes().count(b'"Started"') > 1, PATIENCE_S)
    kill(*supervisor_of(state_dir, "one"))
    lines = path.read_bytes().splitlines(keepends=True)
    if journal == "has the end already":
        lines.append(encode_event(Exited(time.time(), 0, 1, 0, None)))
    else:
        lines.pop()
    path.write_bytes(b"".join(lines))
    lost = [e for batch in runner.follow(handle) for e in batch.events if isinstance(e, LogsLost)]
    assert [(e.role, e.replica, e.attempt) for e in lost] == [("r", 0, 1)]


def test_cancel_of_an_app_whose_supervisor_died_says_cancelled(runner: Runner, state_dir: Path) -> None:
    """A cancel that the supervisor took but did not finish ends as CANCELLED."""
    app = app_of("sh", "-c", "trap '' TERM; echo up; sleep 600.3 & wait; wait; sleep 600.3")
    handle = runner.run(app, "local_cwd", app_id="one")
    for batch in runner.follow(handle):
        if any(line.text == "up" for line in batch.lines()):
            break
    runner.cancel(handle, grace_s=60, reason="because")
    wait_until(lambda: (s := runner.status(handle)) and "stopping" in s.msg, PATIENCE_S)
    kill(supervisor_of(state_dir, "one")[1])
    status = runner.wait(handle, PATIENCE_S)
    assert status
    assert status.state == AppState.CANCELLED
    assert status.msg.startswith("because; ")


def test_a_stopped_supervisor_does_not_stop_a_cancel(
    runner: Runner, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A supervisor that does not act on a cancel is killed by a reader once its time is over."""
    monkeypatch.setattr("torchx_core.schedulers.local.liveness.PATIENCE_S", 0.2)
    handle = runner.run(app_of("sleep", "600.4"), "local_cwd", app_id="one")
    wait_until(lambda: running("600.4"), PATIENCE_S)
    os.kill(supervisor_of(state_dir, "one")[1], signal.SIGSTOP)
    runner.cancel(handle, grace_s=0.1)
    status = wait_until(lambda: (s := runner.status(handle)) and s.is_terminal() and s, PATIENCE_S)
    assert status.state == AppState.CANCELLED
    assert running("600.4") == []


@pytest.mark.parametrize("to_the_supervisor", [signal.SIGSTOP, signal.SIGKILL])
def test_a_stopped_guardian_does_not_stop_a_cancel(
    runner: Runner, state_dir: Path, monkeypatch: pytest.MonkeyPatch, to_the_supervisor: signal.Signals
) -> None:
    """It is woken by a reader, and ends what its supervisor no longer can."""
    monkeypatch.setattr("torchx_core.schedulers.local.liveness.PATIENCE_S", 0.2)
    handle = runner.run(app_of(*escapee("esc-6")), "local_cwd", app_id="one")
    wait_until(lambda: len(running("esc-6")) >= 2, PATIENCE_S)
    guardian, supervisor = supervisor_of(state_dir, "one")
    os.kill(guardian, signal.SIGSTOP)
    os.kill(supervisor, to_the_supervisor)
    runner.cancel(handle, grace_s=0.1)
    status = runner.wait(handle, PATIENCE_S)
    assert status
    assert status.state == AppState.CANCELLED
    assert running("esc-6") == []


def test_a_supervisor_told_to_end_stops_its_app(runner: Runner, state_dir: Path) -> None:
    """SIGTERM (a host that shuts down) ends the app in order and says why."""
    handle = runner.run(app_of("sleep", "600.5"), "local_cwd", app_id="one")
    wait_until(lambda: running("600.5"), PATIENCE_S)
    os.kill(supervisor_of(state_dir, "one")[1], signal.SIGTERM)
    status = runner.wait(handle, PATIENCE_S)
    assert status
    assert status.state == AppState.FAILED
    assert "SIGTERM" in status.msg


def test_a_recycled_process_id_is_never_signalled(runner: Runner, state_dir: Path) -> None:
    """Of a record from another boot nothing is signalled, whatever its process ids say now."""
    import json

    handle = runner.run(app_of("true"), "local_cwd", app_id="one")
    runner.wait(handle)
    wait_until_unserved(state_dir, "one")
    app_dir = state_dir / "local_cwd" / "s" / "one"
    spec = json.loads((app_dir / "spec.json").read_text())
    spec["boot_id"] = "another"
    (app_dir / "spec.json").write_text(json.dumps(spec))
    (app_dir / "final.json").unlink()
    journal = (app_dir / "journal.jsonl").read_text().splitlines()
    (app_dir / "journal.jsonl").write_text("\n".join(journal[:2]) + "\n")
    status = runner.status(handle)
    assert status
    assert status.state == AppState.FAILED
    assert "rebooted" in status.msg


def test_racing_readers_agree(runner: Runner, state_dir: Path) -> None:
    """Sixteen readers that find a lost app together all tell the same end."""
    from concurrent.futures import ThreadPoolExecutor

    handle = runner.run(app_of("sleep", "600.6"), "local_cwd", app_id="one")
    wait_until(lambda: running("600.6"), PATIENCE_S)
    kill(*supervisor_of(state_dir, "one"))
    with ThreadPoolExecutor(16) as pool:
        waits = [pool.submit(runner.wait, handle, PATIENCE_S) for _ in range(16)]
    ends = [wait.result() for wait in waits]
    assert len({repr(end) for end in ends}) == 1
    assert [end.state for end in ends if end] == [AppState.FAILED] * 16


def test_time_until_truth(runner: Runner, state_dir: Path) -> None:
    """Status, without waiting, tells the truth soon after the supervisor's death."""
    handle = runner.run(app_of("sleep", "600.7"), "local_cwd", app_id="one")
    wait_until(partial(running, "600.7"), PATIENCE_S)
    kill(supervisor_of(state_dir, "one")[1])
    wait_until(partial(_has_ended, runner, handle), PATIENCE_S)


def _has_ended(runner: Runner, handle: str) -> bool:
    status = runner.status(handle)
    return status is not None and status.is_terminal()


def test_an_app_that_is_deleted_while_a_follower_ends_it_is_unknown(
    runner: Runner, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look for its directory and the lock in it somebody has deleted the app."""
    handle = runner.run(app_of("sleep", "600.9"), "local_cwd", app_id="one")
    wait_until(partial(running, "600.9"), PATIENCE_S)
    kill(*supervisor_of(state_dir, "one"))

    def delete_first(record: AppRecord) -> State:
        end_by_force(record.directory)
        shutil.rmtree(record.directory)
        return reconcile(record)

    monkeypatch.setattr(feed, "reconcile", delete_first)
    with pytest.raises(UnknownAppException):
        list(runner.follow(handle))
