"""Prefect's processes are killed while apps run: no line of their output is lost, and none comes twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest
from daemons import ends
from prefect_jobs import Job
from prefect_runs import ask_until
from prefect_site import Site

from torchx_core.specs import AppState

pytestmark = [pytest.mark.engine, pytest.mark.deployment, pytest.mark.timeout(900)]

LINES = 50_000
"""Written in four parts, each when the test lets it."""
SHOWN_S = 300.0


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):  # it may end with its worker
        os.kill(pid, signal.SIGKILL)
    assert ends(pid, SHOWN_S)


@pytest.fixture
def small_job(site: Site) -> Iterator[Job]:
    """Return a job that a worker runs, whose first line is in the log for good."""
    job = site.begin("direct", "worker")
    job.write(1)
    job.wait_for_lines(1)
    job.wait_for_saved_positions()
    yield job
    job.clean_up()


def test_an_app_outlives_all_of_prefect(site: Site, small_job: Job) -> None:
    """Worker, flow's process and server are killed; the run that is started again follows the one app."""
    pid = small_job.pid
    site.end("worker", signal.SIGKILL)
    _kill(pid)
    site.server.kill()
    small_job.write(3)
    site.server.start()
    site.run_again(small_job)
    small_job.starts(2)
    small_job.write(4)
    small_job.run.wait_for("Completed", timeout_s=SHOWN_S)
    assert [status.state for status in small_job.statuses()] == [AppState.SUCCEEDED]
    assert small_job.lines() == small_job.first_lines(4)


@pytest.fixture
def job(site: Site) -> Job:
    """Return a job whose app writes the lines."""
    return site.begin("body", "script", each=LINES // 4)


def _wait_for_end(job: Job) -> None:
    job.run.wait_for("Completed", timeout_s=SHOWN_S)
    ask_until(lambda: len(job.lines()) >= LINES, SHOWN_S)


def test_fifty_thousand_lines_are_in_the_log_once_each(job: Job) -> None:
    """None is lost, none comes twice, and none is cut."""
    job.write(4)
    _wait_for_end(job)
    assert job.lines() == job.first_lines(LINES)


def test_so_they_are_when_the_server_is_killed_in_between(site: Site, job: Job) -> None:
    """What the server has not acknowledged is sent again, once it is back."""
    job.write(2)
    ask_until(lambda: len(job.lines()) >= LINES // 4, SHOWN_S)
    job.write(3)
    site.server.kill()
    job.write(4)
    site.server.start()
    _wait_for_end(job)
    assert job.lines() == job.first_lines(LINES)
