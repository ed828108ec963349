"""Four replicas on four nodes, of which one fails."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from slurm_apps import shell_app
from slurm_cluster import SlurmCluster

from torchx_core.runner import Runner
from torchx_core.schedulers import LogLines, ReplicaChanged, StateChanged
from torchx_core.schedulers.events import AppEvent
from torchx_core.schedulers.slurm import create_scheduler
from torchx_core.specs import AppState

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

CULPRIT = 2
SCRIPT = """
exec 2>/dev/null
k=$SLURM_PROCID
trap 'echo "$k was told"; exit 0' TERM
i=0; while test $i -lt 100; do echo "$k says $i"; i=$((i + 1)); done
touch {here}/$k
until test -e {here}/0 -a -e {here}/1 -a -e {here}/2 -a -e {here}/3; do sleep 0.1; done
if test $k = 2; then exit 7; fi
while :; do sleep 0.1; done
"""
SAID = 100


@pytest.fixture
def runner(cluster: SlurmCluster, tmp_path: Path) -> Iterator[Runner]:
    """A runner on the cluster; ends what it started."""
    del cluster
    with Runner("gang", {"slurm": partial(create_scheduler, state_dir=str(tmp_path / "state"))}) as runner:
        yield runner
        for app in runner.list("slurm"):
            runner.cancel(app.app_handle, grace_s=0)


def _lines(events: list[AppEvent], replica: int) -> list[str]:
    runs = [event for event in events if isinstance(event, LogLines) and event.replica == replica]
    return [line for run in runs for line in run.lines]


def test_a_gang_of_which_one_fails(runner: Runner, tmp_path: Path) -> None:
    """Every line of each arrives, in order; the others are told to end, and the one that failed is named."""
    handle = runner.run(shell_app(SCRIPT.format(here=tmp_path), replicas=4), "slurm")
    events = [event for batch in runner.follow(handle) for event in batch.events]
    for k in range(4):
        rest = [] if k == CULPRIT else [f"{k} was told"]
        assert _lines(events, k) == [f"{k} says {i}" for i in range(SAID)] + rest
    ends = {
        event.replica: (event.state, event.exit_code)
        for event in events
        if isinstance(event, ReplicaChanged) and event.state is not AppState.RUNNING
    }
    told = (AppState.CANCELLED, 0)
    assert ends == {0: told, 1: told, CULPRIT: (AppState.FAILED, 7), 3: told}
    last = events[-1]
    assert isinstance(last, StateChanged)
    assert (last.state, last.msg) == (AppState.FAILED, "w/2 failed: exit code 7")
    assert last.status is not None
    assert len({replica.hostname for replica in last.status.roles[0].replicas}) == 4
