"""A log with a limit on a cluster: what stays is shown, what went is counted, the failure shows its lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from torchx_core import AppDef, Role, Runner
from torchx_core.errors import InvalidRunConfigException
from torchx_core.schedulers import LogLines, LogsLost
from torchx_core.schedulers.removing import tree_size
from torchx_core.schedulers.slurm import create_scheduler
from torchx_core.specs import AppState, RetryPolicy
from torchx_core.specs.failure_summary import failure_summary

LIMIT = 1 << 20
LINES = 60_000
CHATTER = f"""
import os, sys
attempt = os.environ["TORCHX_ATTEMPT"]
for start in range(0, {LINES}, 100):
    text = "".join(f"{{attempt}}:{{i:06d}} {{'x' * 80}}\\n" for i in range(start, start + 100))
    os.write(1, text.encode())
sys.exit(3)
"""


def _printed(attempt: int) -> list[str]:
    return [f"{attempt}:{i:06d} {'x' * 80}" for i in range(LINES)]


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_a_chatty_replica_takes_no_more_than_the_limit(tmp_path: Path) -> None:
    """Of two attempts first and last lines are there, the rest is counted to the byte."""
    chatty = Role(
        "w",
        "",
        entrypoint=sys.executable,
        args=["-c", CHATTER],
        max_retries=1,
        retry_policy=RetryPolicy.REPLICA,
    )
    with Runner("s", {"slurm": partial(create_scheduler, state_dir=str(tmp_path / "state"))}) as runner:
        handle = runner.run(AppDef("app", [chatty]), "slurm", {"log_max_mb": 1}, app_id="chatty")
        status = runner.wait(handle, timeout_s=240)
        assert status is not None
        assert status.state is AppState.FAILED
        shown: dict[int, list[str]] = {0: [], 1: []}
        lost = {0: 0, 1: 0}
        for event in (event for batch in runner.follow(handle) for event in batch.events):
            if isinstance(event, LogLines):
                shown[event.attempt] += event.lines
            elif isinstance(event, LogsLost):
                lost[event.attempt] += event.size_bytes or 0
        failure = failure_summary(status)
    assert shown[0] == _printed(0)[: len(shown[0])]
    assert len(shown[0]) > 1000
    assert shown[1] == _printed(1)[-len(shown[1]) :]
    assert len(shown[1]) > 2000
    for attempt, lines in shown.items():
        whole = sum(len(line) + 1 for line in _printed(attempt))
        assert sum(len(line) + 1 for line in lines) + lost[attempt] == whole
    assert f"1:{LINES - 1:06d}" in failure
    (logs,) = tmp_path.rglob("chatty/log")
    assert tree_size(str(logs)) < 1.1 * LIMIT


def test_only_an_app_with_a_limit_is_closed_to_earlier_releases(
    program: Callable[[str, str], None], tmp_path: Path
) -> None:
    """They do not know of parts, and the version says so; others they read as before."""
    program("sbatch", "echo 7")
    with Runner("s", {"slurm": partial(create_scheduler, state_dir=str(tmp_path / "state"))}) as runner:
        app = AppDef("app", [Role("w", "", entrypoint="true")])
        runner.run(app, "slurm", {"log_max_mb": 1}, app_id="limited")
        runner.run(app, "slurm", app_id="plain")
        with pytest.raises(InvalidRunConfigException, match="log_max_mb must be a positive number"):
            runner.run(app, "slurm", {"log_max_mb": 0})
    found = {path.parent.name: json.loads(path.read_text()) for path in tmp_path.rglob("spec.json")}
    plans = {path.parent.name: json.loads(path.read_text()) for path in tmp_path.rglob("plan.json")}
    assert (found["limited"]["version"], plans["limited"]["log_max_mb"]) == (2, 1)
    assert found["plain"]["version"] == 1
    assert "log_max_mb" not in plans["plain"]
