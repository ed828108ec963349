"""What becomes of an app on another host, over ssh, when its flow run is ended: the table's usual rows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pytest
from prefect_jobs import Form
from prefect_kills import (
    CANCEL,
    INTERRUPT_SCRIPT,
    KILL_PROCESS,
    RESTART_SERVER,
    STOP_SUPERVISOR,
    TERMINATE_PROCESS,
    TIMEOUT,
    Kill,
)
from prefect_outcomes import conduct, expected
from prefect_site import Site, Way, running_site
from ssh_host import SshHost, far_host

pytestmark = [pytest.mark.engine, pytest.mark.deployment, pytest.mark.timeout(900)]

FORMS: Final[tuple[Form, ...]] = ("direct", "async_direct")
ROWS: Final[tuple[tuple[Way, Kill], ...]] = (
    ("serve", CANCEL),
    ("serve", TIMEOUT),
    ("script", INTERRUPT_SCRIPT),
    ("worker", TERMINATE_PROCESS),
    ("script", KILL_PROCESS),
    ("worker", STOP_SUPERVISOR),
    ("serve", RESTART_SERVER),
)


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshHost]:
    """The host, which shares files with this one, but no process and no state directory."""
    with far_host(tmp_path_factory.mktemp("far")) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(server.clients), prepend=os.pathsep)
        yield server


@pytest.fixture(scope="module")
def site(box: SshHost, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A Prefect whose processes find the host by its name."""
    assert str(box.clients) in os.environ["PATH"]
    with running_site(tmp_path_factory.mktemp("prefect")) as site:
        yield site


@pytest.mark.parametrize(
    ("way", "kill"), [pytest.param(way, kill, id=f"{way}: {kill.what}") for way, kill in ROWS]
)
def test_a_kill_leaves_what_the_table_says(site: Site, way: Way, kill: Kill) -> None:
    """As of an app on the flow run's own host."""
    far = replace(kill, options={**kill.options, "scheduler": "local_cwd@box"})
    assert conduct(site, way, far, FORMS) == {form: expected(far, form) for form in FORMS}
