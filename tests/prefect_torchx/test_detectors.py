"""A cut through the table of `test_cancel_table`: each way of noticing that the app is to end, once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from prefect_jobs import Form
from prefect_kills import (
    CANCEL,
    CANCEL_SCRIPT,
    INTERRUPT,
    INTERRUPT_SCRIPT,
    KILL_PROCESS,
    TERMINATE_PROCESS,
    TIMEOUT,
    Kill,
)
from prefect_outcomes import conduct, expected
from prefect_site import Site, Way

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    ("kill", "way", "form"),
    [
        pytest.param(CANCEL, "serve", "direct", id="a signal's exception"),
        pytest.param(CANCEL, "serve", "async_direct", id="a coroutine's cancellation"),
        pytest.param(CANCEL, "serve", "submitted", id="the task runner's event"),
        pytest.param(CANCEL, "worker", "pooled", id="a signal in a child of the task runner"),
        pytest.param(INTERRUPT, "serve", "pooled", id="a signal that the flow's process passes on"),
        pytest.param(CANCEL_SCRIPT, "script", "pooled", id="the flow run's state"),
        pytest.param(TIMEOUT, "serve", "submitted", id="our own clock"),
        pytest.param(INTERRUPT_SCRIPT, "script", "submitted", id="what ends the main thread"),
        pytest.param(KILL_PROCESS, "serve", "direct", id="nothing at all"),
    ],
)
def test_the_app_ends_however_that_is_noticed(
    site: Site, kill: Kill, way: Way, form: Form, record_property: Callable[[str, object], None]
) -> None:
    """An app without a lease that nobody is left to end is followed by the flow run's next process."""
    outcome = conduct(site, way, kill, [form])[form]
    record_property("stopped_after_s", outcome.after_s)
    assert outcome == expected(kill, form)


@pytest.mark.parametrize(
    ("kill", "way"),
    [
        pytest.param(KILL_PROCESS, "serve", id="killed under serve"),
        pytest.param(KILL_PROCESS, "worker", id="killed under a worker", marks=pytest.mark.deployment),
        pytest.param(TERMINATE_PROCESS, "serve", id="terminated", marks=pytest.mark.deployment),
        pytest.param(CANCEL_SCRIPT, "script", id="cancelled, which is the parent's state"),
    ],
)
def test_an_app_of_a_subflow_fares_no_worse(site: Site, kill: Kill, way: Way) -> None:
    """There is one, though Prefect may make a new run of the subflow when its parent is run again."""
    outcome = conduct(site, way, kill, ["nested"])["nested"]
    wanted = expected(kill, "nested")
    assert (outcome.apps, outcome.run, outcome.left) == (wanted.apps, wanted.run, 0)
