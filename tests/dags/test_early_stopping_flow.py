"""A sweep that cancels its losers by what they report."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from gallery_places import GALLERY_PLACES, gallery_place

from torchx_core import AppState, get_runner

FLOW = Path(__file__).parents[2] / "dags" / "early_stopping_flow.py"

pytestmark = [pytest.mark.slow, pytest.mark.engine, pytest.mark.timeout(900)]


@pytest.fixture(params=GALLERY_PLACES)
def place(request: pytest.FixtureRequest) -> Iterator[Mapping[str, str]]:
    """Where the apps run, as the flow finds it in its environment."""
    with gallery_place(request.param) as place:
        yield place


def test_the_losers_are_cancelled_and_the_best_one_ends(
    place: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What each has done, by its own log, is what its place in the race allows."""
    for name, value in place.items():
        monkeypatch.setenv(name, value)
    state = tmp_path / "state"
    done = subprocess.run(
        [sys.executable, str(FLOW)],
        env={
            **os.environ,
            "TORCHX_STATE_DIR": str(state),
            "PREFECT_HOME": str(tmp_path / "prefect"),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "best learning rate: 0.1 with loss" in done.stdout
    with get_runner(state_dir=str(state)) as runner:
        trials = {}
        for row in runner.list(place["SCHEDULER"]):
            app, status = runner.describe(row.app_handle), runner.status(row.app_handle)
            assert app is not None
            assert status is not None
            lines = list(runner.log_lines(row.app_handle, "trainer"))
            steps = [int(step) for step in re.findall(r"step (\d+):", "".join(lines))]
            assert steps == list(range(1, len(steps) + 1))
            trials[float(app.roles[0].args[2])] = (status.state, len(steps), status.msg)
    assert len(trials) == 4
    assert trials[0.1][:2] == (AppState.SUCCEEDED, 12)
    losers = [trial for rate, trial in trials.items() if rate != 0.1]
    early = [(end, msg) for end, reached, msg in losers if reached < 12]
    assert early  # on a slow machine one may have come to its end before it was out
    assert all(end is AppState.CANCELLED and "at step" in msg for end, msg in early)
    assert done.stdout.count(" is out: ") == 3
    assert done.stdout.count(" at step 3") == 2
