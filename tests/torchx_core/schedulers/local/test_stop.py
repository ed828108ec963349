"""Cancel, deadline, lease: how an app is made to end."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from local_apps import app_of, escapee, lines_of, python, running

from torchx_core import AppState, AppStatus, Runner
from torchx_core.schedulers import CancelOutcome, StateChanged
from torchx_core.testing import wait_until

PATIENCE_S = 240.0
"""How long a test waits for something that must happen."""

# Ignores SIGTERM and says when it is ready for it.
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('up', flush=True)
time.sleep(600)
"""


def ended(status: AppStatus | None) -> AppStatus:
    """Return the status of an app that must exist."""
    assert status is not None
    return status


def wait_for_line(runner: Runner, handle: str, text: str, times: int = 1) -> None:
    """Follow until that many replicas have printed the line."""
    seen = 0
    for batch in runner.follow(handle):
        seen += sum(line.text == text for line in batch.lines())
        if seen == times:
            return
    raise AssertionError(f"the app ended before {times} times {text!r}")


def test_cancel_reaches_an_escaped_grandchild(runner: Runner, state_dir: Path) -> None:
    """A grandchild that ignores SIGTERM and escaped is gone; the app is CANCELLED for every observer."""
    handle = runner.run(app_of(*escapee("esc-2")), "local_cwd")
    wait_until(lambda: len(running("esc-2")) >= 2, PATIENCE_S)
    assert runner.cancel(handle, grace_s=0.3, reason="no longer wanted") is CancelOutcome.REQUESTED
    status = ended(runner.wait(handle, PATIENCE_S))
    assert (status.state, status.msg) == (AppState.CANCELLED, "no longer wanted")
    assert running("esc-2") == []
    code = "import sys; from torchx_core import get_runner; print(get_runner('s').status(sys.argv[1]).state)"
    assert python(state_dir, code, handle).communicate()[0] == "CANCELLED\n"


def test_cancel_returns_at_once_and_kills_after_the_grace(runner: Runner) -> None:
    """The caller does not serve the grace period; programs that ignore SIGTERM are killed when it is over."""
    handle = runner.run(app_of("python3", "-c", STUBBORN, num_replicas=3), "local_cwd")
    wait_for_line(runner, handle, "up", times=3)
    asked = time.monotonic()
    runner.cancel(handle, grace_s=3)
    status = ended(runner.wait(handle, PATIENCE_S))
    assert time.monotonic() - asked >= 3
    assert [r.signal for r in status.roles[0].replicas] == ["SIGKILL"] * 3
    assert [r.state for r in status.roles[0].replicas] == [AppState.CANCELLED] * 3


def test_a_program_may_use_the_grace_period(runner: Runner) -> None:
    """A shell that dies of SIGTERM at once does not cut short the child that saves its work."""
    code = """
import signal, sys, time
def save(*_):
    time.sleep(0.3); print("saved", flush=True); sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("up", flush=True)
time.sleep(600)
"""
    handle = runner.run(app_of("sh", "-c", 'python3 -c "$0"; true', code), "local_cwd")
    wait_for_line(runner, handle, "up")
    runner.cancel(handle, grace_s=60)
    assert "saved" in [line.text for line in lines_of(runner.follow(handle))]
    assert ended(runner.status(handle)).state == AppState.CANCELLED


def test_a_stopped_program_is_ended_too(runner: Runner) -> None:
    """A replica in SIGSTOP gets its SIGTERM."""
    handle = runner.run(app_of("sh", "-c", "echo up; kill -STOP $$; sleep 600"), "local_cwd")
    wait_for_line(runner, handle, "up")
    runner.cancel(handle, grace_s=2 * PATIENCE_S)
    assert ended(runner.wait(handle, PATIENCE_S)).roles[0].replicas[0].signal == "SIGTERM"


def test_cancel_is_idempotent_and_says_what_it_came_to(runner: Runner) -> None:
    """A second cancel changes nothing, one of an ended app says so, one of no app too."""
    handle = runner.run(app_of("sleep", "600"), "local_cwd")
    runner.cancel(handle, reason="first")
    runner.cancel(handle, reason="second")
    assert ended(runner.wait(handle, PATIENCE_S)).msg == "first"
    assert runner.cancel(handle) is CancelOutcome.ALREADY_TERMINAL
    assert runner.cancel("local_cwd://s/nobody") is CancelOutcome.UNKNOWN_APP


def test_cancel_right_after_submit(runner: Runner) -> None:
    """A cancel that comes before the supervisor is up is not lost."""
    handle = runner.run(app_of("sleep", "600"), "local_cwd")
    assert runner.cancel(handle) is CancelOutcome.REQUESTED
    assert ended(runner.wait(handle, PATIENCE_S)).state == AppState.CANCELLED


def test_a_former_owner_cannot_cancel(runner: Runner) -> None:
    """if_owner of somebody who was superseded does nothing and says so."""
    handle = runner.run(app_of("sleep", "600"), "local_cwd")
    assert runner.take_over(handle, "try-1")
    assert not runner.take_over(handle, "try-2")
    assert runner.take_over(handle, "try-2", expected="try-1")
    assert runner.cancel(handle, if_owner="try-1") is CancelOutcome.NOT_OWNER
    assert ended(runner.status(handle)).state in (AppState.SUBMITTED, AppState.RUNNING)
    assert runner.cancel(handle, if_owner="try-2") is CancelOutcome.REQUESTED


@pytest.mark.parametrize("option", ["timeout_s", "deadline"])
def test_deadline(runner: Runner, option: str) -> None:
    """The app ends itself when its time is over, though nobody watches."""
    value = 0.5 if option == "timeout_s" else time.time() + 0.5
    handle = runner.run(app_of("sleep", "600"), "local_cwd", {option: value})
    status = ended(runner.wait(handle, PATIENCE_S))
    assert status.state == AppState.CANCELLED
    assert "deadline passed" in status.msg


def test_lease_expires_when_nobody_follows(runner: Runner) -> None:
    """An app that nobody follows any more cancels itself and gives the reason."""
    handle = runner.run(app_of("sleep", "600"), "local_cwd", {"lease_s": 0.4})
    wait_until(lambda: ended(runner.status(handle)).is_terminal(), PATIENCE_S)  # status is no following
    status = ended(runner.status(handle))
    assert status.state == AppState.CANCELLED
    assert "lease expired" in status.msg


def test_following_renews_the_lease(runner: Runner) -> None:
    """An app lives longer than its lease as long as somebody follows it; a busy host may follow late."""
    handle = runner.run(app_of("sh", "-c", "sleep 6; echo end"), "local_cwd", {"lease_s": 2.5})
    assert [line.text for line in lines_of(runner.follow(handle))] == ["end"]
    assert ended(runner.status(handle)).state == AppState.SUCCEEDED


def test_everyone_sees_cancelled(runner: Runner) -> None:
    """Followers that were there before the cancel see it too, with the reason."""
    handle = runner.run(app_of("sleep", "600"), "local_cwd")
    states: list[tuple[AppState, str]] = []
    for batch in runner.follow(handle):
        states += [(e.state, e.msg) for e in batch.events if isinstance(e, StateChanged)]
        if len(states) == 1:
            runner.cancel(handle, reason="enough")
    assert states == [
        (AppState.RUNNING, ""),
        (AppState.RUNNING, "stopping: enough"),
        (AppState.CANCELLED, "enough"),
    ]


@pytest.mark.parametrize(("later", "counts"), [(None, 300.0), (600.0, 300.0), (200.0, 200.0)])
def test_only_a_shorter_grace_period_that_is_named_cuts_the_first_short(
    runner: Runner, state_dir: Path, later: float | None, counts: float
) -> None:
    """An engine cancels without naming one, and a user's long grace period stays."""
    deaf = app_of("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done")
    handle = runner.run(deaf, "local_cwd", {"grace_s": 0.5}, app_id="one")
    next(line for batch in runner.follow(handle) for line in batch.lines())
    runner.cancel(handle, grace_s=300.0)
    runner.cancel(handle, grace_s=later)
    cancel_request = json.loads((state_dir / "local_cwd" / "s" / "one" / "cancel.json").read_text())
    assert cancel_request["grace_s"] == counts


def test_a_lease_does_not_cut_a_grace_period_short(runner: Runner, tmp_path: Path) -> None:
    """Who was given time to write a checkpoint has it, also when nobody follows any more."""
    done = tmp_path / "done"
    checkpoint = f"trap 'sleep 6; echo saved >{done}; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    app = app_of("sh", "-c", checkpoint)
    handle = runner.run(app, "local_cwd", {"grace_s": 0.1, "lease_s": 4.0}, app_id="one")
    next(line for batch in runner.follow(handle) for line in batch.lines())
    runner.cancel(handle, grace_s=300.0)
    wait_until(lambda: _is_over(runner, handle), 240)
    assert done.read_text() == "saved\n"


def _is_over(runner: Runner, handle: str) -> bool:
    """Return whether the app is over; asking does not renew its lease."""
    status = runner.status(handle)
    return status is not None and status.is_terminal()
