"""A process that no signal reaches is named, rather than killed for ever."""

from __future__ import annotations

from pathlib import Path

import pytest
from damage import apply
from local_apps import app_of

from torchx_core import AppState, Runner
from torchx_core.errors import SchedulerError
from torchx_core.schedulers.local import liveness
from torchx_core.supervisor.tree import marked
from torchx_core.testing import wait_until


def _send_nothing(_pid: int, _number: int) -> None:
    """Do what the kernel does with a signal for a process in state D."""


def test_a_delete_by_force_names_what_does_not_end(
    runner: Runner, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The app stays, the error may pass, and the same delete works once the process can be killed."""
    handle = runner.run(app_of("sleep", "1000"), "local_cwd", app_id="bad")
    app_dir = state_dir / "local_cwd" / "s" / "bad"
    wait_until(lambda: marked(str(app_dir)), 240)
    (pid,) = marked(str(app_dir))
    apply(app_dir / "spec.json", "cut in the middle")
    monkeypatch.setattr(liveness, "KILL_PATIENCE_S", 0.0)
    monkeypatch.setattr(liveness, "kill", _send_nothing)
    with pytest.raises(SchedulerError, match=f"do not end though they were killed: .*{pid}") as caught:
        runner.delete(handle, force=True)
    assert caught.value.retryable
    (row,) = runner.list("local_cwd")
    assert row.state == AppState.UNKNOWN
    monkeypatch.undo()
    runner.delete(handle, force=True)
    assert runner.list("local_cwd") == []
