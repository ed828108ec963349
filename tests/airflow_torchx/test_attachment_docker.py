"""A submit that dies while the Docker engine pulls the image, and the retry of its task."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker_apps import new_runner
from docker_engine import why_no_engine
from docker_images import PYTHON_IMAGE, stocked_engine
from local_apps import app_of
from task_bench import Crash, DictMemory, Request, Screen
from task_tries import make_try

from airflow_torchx import _attachment
from airflow_torchx._attachment import Attachment
from torchx_core.launch import AppRequest, Target
from torchx_core.runner import Runner
from torchx_core.specs import AppDef, AppState, Role

pytestmark = [
    pytest.mark.engine,  # the SDK's sockets stay open until they are collected
    pytest.mark.slow,  # it starts an engine
    pytest.mark.timeout(900),
]

HOUR_S = 3600.0
FOLLOW_S = 120.0

DIES = """
import os, signal, sys
from docker_apps import make_runner
from docker_images import PYTHON_IMAGE
from torchx_core.schedulers.docker import submit
from torchx_core.specs import AppDef, Role
submit._provide_images = lambda *args: os.kill(os.getpid(), signal.SIGKILL)
role = Role(name="r", image=PYTHON_IMAGE, entrypoint="echo", args=["a"])
cfg = {"lease_s": 600.0, "deadline": float(sys.argv[3])}
make_runner(sys.argv[1]).run(AppDef("app", [role]), "local_docker", cfg, app_id=sys.argv[2])
"""


@pytest.fixture(scope="module")
def url(private_home: Path) -> Iterator[str]:
    """Start an engine for this module, with the images of the tests."""
    if reason := why_no_engine():
        pytest.skip(reason)
    with stocked_engine(private_home / "airflow") as engine:
        yield engine.url


@pytest.fixture
def runner(url: str) -> Iterator[Runner]:
    """Return a runner on the engine whose apps are gone when the test is over."""
    with new_runner(url) as runner:
        yield runner


def _die_half_way(url: str, runner: Runner, memory: DictMemory, deadline: float) -> None:
    """Have a first try begin to submit ``echo a``, and die before it has any container."""
    request = Request(app_of("none"), scheduler="local_docker", lease_s=600.0, crash_before=Crash())
    first = Attachment(runner, memory, make_try(), request.with_deadline, Screen(), lambda _: None, deadline)
    with pytest.raises(Crash):
        first.attach()
    app_id = memory.record.handle.rpartition("/")[2]
    died = subprocess.run(
        [sys.executable, "-c", DIES, url, app_id, repr(deadline)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False,
    )
    assert died.returncode == -signal.SIGKILL


def _retry(runner: Runner, memory: DictMemory, deadline: float, *words: str) -> tuple[AppState, Screen]:
    """Run a second try, whose DAG asks for an app that echoes these words."""
    app = AppDef("app", [Role(name="r", image=PYTHON_IMAGE, entrypoint="echo", args=list(words))])

    def request(deadline: float | None) -> AppRequest:
        return AppRequest.make(
            runner, app, Target(scheduler="local_docker"), lease_s=600.0, deadline=deadline
        )

    screen = Screen()
    attachment = Attachment(runner, memory, make_try(number=2), request, screen, lambda _: None, deadline)
    attachment.attach()
    status = attachment.follow_for(FOLLOW_S)
    assert status is not None
    return status.state, screen


def test_a_retry_finishes_the_submit(url: str, runner: Runner) -> None:
    """The app that the first try asked for runs, although a deadline of the retry's is another."""
    memory, deadline = DictMemory(), time.time() + HOUR_S
    _die_half_way(url, runner, memory, deadline)
    state, screen = _retry(runner, memory, deadline + HOUR_S, "a")
    assert (state, screen.lines) == (AppState.SUCCEEDED, ["a"])
    assert [app.state for app in runner.list("local_docker")] == [AppState.SUCCEEDED]


def test_a_submit_that_nobody_can_finish_is_taken_back(
    url: str, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The DAG asks for another app by now: that one runs, and nothing waits for the deadline."""
    monkeypatch.setattr(_attachment, "START_S", 1.0)
    memory, deadline = DictMemory(), time.time() + HOUR_S
    _die_half_way(url, runner, memory, deadline)
    state, screen = _retry(runner, memory, deadline + HOUR_S, "b")
    assert (state, screen.lines) == (AppState.SUCCEEDED, ["b"])
    assert [app.state for app in runner.list("local_docker")] == [AppState.CANCELLED, AppState.SUCCEEDED]
