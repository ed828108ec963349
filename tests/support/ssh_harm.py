"""What may go wrong between this host and another one, and what a follower must see all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from ssh_server import SshServer

from torchx_core import AppDef, AppState, Runner
from torchx_core.schedulers import Batch, StateChanged

__all__ = ["HARMS", "Harm", "check_no_line_is_lost"]

Harm = Callable[[SshServer], None]
_LINES = 2000
# Prints many lines slowly, and the last one when a file is there.
_SCRIPT = (
    f"i=0; while [ $i -lt {_LINES} ]; do echo $i; i=$((i+1)); [ $((i % 50)) = 0 ] && sleep 0.1; done;"
    " until test -e {go}; do sleep 0.1; done; echo over"
)


def _restart(server: SshServer) -> None:
    server.go_away()
    server.start()


HARMS = [
    pytest.param(SshServer.cut, id="_cut"),
    pytest.param(SshServer.kill_agents, id="_kill_the_agent"),
    pytest.param(_restart, id="_restart"),
]
"""The connection breaks, the agent dies, the server restarts."""


def check_no_line_is_lost(
    way: Literal["follow", "afollow"],
    harm: Harm,
    server: SshServer,
    runner: Runner,
    scheduler: str,
    app: Callable[[str], AppDef],
    go: Path,
) -> None:
    """Follow an app while harm is done three times; every line and every state arrives once.

    Args:
        way: The runner's method that follows.
        harm: Done to the server.
        server: Through which the scheduler is reached.
        runner: Of the one who follows.
        scheduler: The name of the scheduler.
        app: Makes an app that runs a shell's script.
        go: A file that is not there, at a path that the app sees.
    """
    handle = runner.run(app(_SCRIPT.replace("{go}", str(go))), scheduler)
    seen: list[str] = []
    states: list[AppState] = []
    harms = 0

    def take(batch: Batch) -> None:
        nonlocal harms
        seen.extend(line.text for line in batch.lines())
        states.extend(event.state for event in batch.events if isinstance(event, StateChanged))
        if harms < 3 and len(seen) > harms * _LINES / 4:
            harms += 1
            harm(server)
        if harms == 3 and len(seen) == _LINES:
            go.touch()

    async def follow() -> None:
        async for batch in runner.afollow(handle, tick_s=0.2):
            take(batch)

    if way == "afollow":
        asyncio.run(follow())
    else:
        for batch in runner.follow(handle, tick_s=0.2):
            take(batch)
    assert seen == [*map(str, range(_LINES)), "over"]
    assert states == [AppState.RUNNING, AppState.SUCCEEDED]
    assert harms == 3
