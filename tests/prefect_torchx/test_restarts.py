"""All of a long output, through the API of a server that may be killed meanwhile."""

from __future__ import annotations

import pytest
from prefect_jobs import Job
from prefect_runs import ask_until
from prefect_site import Site

pytestmark = [pytest.mark.engine, pytest.mark.deployment, pytest.mark.timeout(900)]

LINES = 50_000
"""Written in four parts, each when the test lets it."""
SHOWN_S = 300.0


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
