"""An app that was submitted by an app is one like any other: it outlives the app that submitted it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from local_apps import app_of, kill, lines_of, running, supervisor_of

from torchx_core import AppDef, AppState, Resource, Runner
from torchx_core.testing import wait_until

PATIENCE_S = 240.0

SUBMIT = """
import os, sys
from torchx_core import AppDef, Role, get_runner
words = sys.argv[1].split()
app = AppDef("inner", [Role("r", image="", entrypoint=words[0], args=words[1:])])
with get_runner("s", state_dir=sys.argv[2]) as runner:
    runner.run(app, "local_cwd", app_id="inner")
os.execv("/bin/sh", ["sh", "-c", sys.argv[3]])
"""

End = Callable[[Runner, Path], None]


def outer(inner: str, state_dir: Path, then: str, **role: object) -> AppDef:
    """Return an app that submits one that runs a command, and goes on as a shell."""
    return app_of(sys.executable, "-c", SUBMIT, inner, str(state_dir), then, **role)


def _cancel(runner: Runner, _: Path) -> None:
    runner.cancel("local_cwd://s/outer")


def _kill_supervisor(_: Runner, state_dir: Path) -> None:
    kill(supervisor_of(state_dir, "outer")[1])


def _kill_both(_: Runner, state_dir: Path) -> None:
    kill(*supervisor_of(state_dir, "outer"))


@pytest.mark.parametrize(
    ("then", "end", "state"),
    [
        ("exit 0", None, AppState.SUCCEEDED),
        ("exit 3", None, AppState.FAILED),
        ("sleep {left}", _cancel, AppState.CANCELLED),
        ("sleep {left}", _kill_supervisor, AppState.FAILED),
        ("sleep {left}", _kill_both, AppState.FAILED),
    ],
    ids=["succeeds", "fails", "is-cancelled", "supervisor-killed", "guardian-killed-too"],
)
def test_it_goes_on_when_the_outer_app_ends(
    runner: Runner, state_dir: Path, then: str, end: End | None, state: AppState
) -> None:
    """What else the outer app left behind is gone; the inner one can still be cancelled."""
    inner, left = f"600.{os.getpid()}1", f"600.{os.getpid()}2"
    program = f"setsid sleep {left} & " + then.format(left=left)
    handle = runner.run(
        outer(f"sleep {inner}", state_dir, program), "local_cwd", {"grace_s": 1.0}, app_id="outer"
    )
    inner_handle = "local_cwd://s/inner"
    if end:
        wait_until(lambda: len(running(left)) >= 2, PATIENCE_S)
        wait_until(
            lambda: (s := runner.status(inner_handle)) and s.state is AppState.RUNNING, PATIENCE_S
        )  # one whose submitter is killed before that may never be started
        end(runner, state_dir)
    status = runner.wait(handle, PATIENCE_S)
    assert status
    assert status.state is state
    wait_until(lambda: not running(left), PATIENCE_S)
    wait_until(lambda: len(running(inner)) == 1, PATIENCE_S)
    assert runner.status(inner_handle).state is AppState.RUNNING  # type: ignore[union-attr]
    runner.cancel(inner_handle, grace_s=0)
    ended = runner.wait(inner_handle, PATIENCE_S)
    assert ended
    assert ended.state is AppState.CANCELLED
    assert running(inner) == []


def test_it_is_not_held_to_the_limits_of_the_outer_app(runner: Runner, state_dir: Path) -> None:
    """It has left the outer app's control groups, where this host lets us make any."""
    app = outer("cat /proc/self/cgroup", state_dir, "exit", resource=Resource(cpu=1, gpu=0, memMB=512))
    runner.wait(runner.run(app, "local_cwd"), timeout_s=PATIENCE_S)
    lines = [line.text for line in lines_of(runner.follow("local_cwd://s/inner"))]
    assert lines
    assert not [line for line in lines if "torchx-" in line]
