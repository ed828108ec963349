"""An app that waits in the queue."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from torchx_core.runner import Runner
from torchx_core.schedulers import StateChanged
from torchx_core.schedulers.slurm import create_scheduler
from torchx_core.specs import AppDef, AppState, Role

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_who_follows_hears_once_what_it_waits_for(held: Callable[[], None], tmp_path: Path) -> None:
    """In Slurm's own word; who goes on from there does not hear it again."""
    app = AppDef("app", [Role("w", "", entrypoint="echo", args=["hello"])])
    with Runner("waiting", {"slurm": partial(create_scheduler, state_dir=str(tmp_path))}) as runner:
        handle = runner.run(app, "slurm")
        first = next(iter(runner.follow(handle)))
        [event] = first.events
        assert isinstance(event, StateChanged)
        assert (event.state, event.msg) == (AppState.PENDING, "waiting in Slurm's queue: PartitionDown")
        held()
        rest = [event for batch in runner.follow(handle, first.cursor) for event in batch.events]
    states = [event.state for event in rest if isinstance(event, StateChanged)]
    assert states == [AppState.RUNNING, AppState.SUCCEEDED]
