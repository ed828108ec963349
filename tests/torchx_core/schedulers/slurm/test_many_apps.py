"""Many apps at once, all followed by one process."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Coroutine
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from slurm_cluster import SlurmCluster

from torchx_core.runner import Runner
from torchx_core.schedulers import StateChanged
from torchx_core.schedulers.slurm import create_scheduler
from torchx_core.schedulers.slurm.queue import INTERVAL_S
from torchx_core.specs import AppDef, AppState, Resource, Role
from torchx_core.testing import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

APPS = 500 if os.environ.get("TORCHX_FULL_CROWDS") == "1" else 60


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[float]]:
    """Return a function that tells when squeue was called; the calls themselves are real."""
    real = shutil.which("squeue")
    noted, program = tmp_path / "asked", tmp_path / "bin" / "squeue"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\ndate +%s.%N >>{noted}\nexec {real} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return lambda: list(map(float, noted.read_text().split())) if noted.exists() else []


class Heard:
    """What a follower of one app has heard."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.ends: list[AppState] = []


def _app(number: int) -> AppDef:
    role = Role("w", "", entrypoint="echo", args=[f"app {number}"], resource=Resource(1, 0, 10))
    return AppDef("tiny", [role])


def test_a_crowd_is_followed_with_one_question_a_second(
    cluster: SlurmCluster, held: Callable[[], None], asked: Callable[[], list[float]], tmp_path: Path
) -> None:
    """Submitting asks nothing; each app's line and its end arrive once."""
    del cluster
    with Runner("crowd", {"slurm": partial(create_scheduler, state_dir=str(tmp_path / "state"))}) as runner:
        handles = [runner.run(_app(number), "slurm") for number in range(APPS)]
        assert asked() == []
        heard = [Heard() for _ in handles]

        async def hold() -> None:
            await asyncio.to_thread(wait_until, lambda: len(asked()) >= 3, 240)  # also while nothing happens
            held()

        asyncio.run(_follow_all(runner, handles, heard, hold()))
    assert [app.lines for app in heard] == [[f"app {number}"] for number in range(APPS)]
    assert [app.ends for app in heard] == [[AppState.SUCCEEDED]] * APPS
    gaps = [later - earlier for earlier, later in pairwise(asked())]
    assert min(gaps) > 0.7 * INTERVAL_S  # a question may be noted late, see `test_queue`


async def _follow_all(
    runner: Runner, handles: list[str], heard: list[Heard], meanwhile: Coroutine[None, None, None]
) -> None:
    async def follow(handle: str, app: Heard) -> None:
        async for batch in runner.afollow(handle):
            app.lines += [line.text for line in batch.lines()]
            changes = [event for event in batch.events if isinstance(event, StateChanged)]
            app.ends += [change.state for change in changes if change.status is not None]

    await asyncio.gather(meanwhile, *map(follow, handles, heard))
