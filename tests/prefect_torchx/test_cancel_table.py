"""What becomes of the app in every way in which Prefect, a user or the host can end its flow run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest
from prefect_jobs import FORMS, Form
from prefect_kills import TABLE, Kill
from prefect_outcomes import Outcome, conduct, expected
from prefect_site import Site, Way

pytestmark = [pytest.mark.engine, pytest.mark.deployment, pytest.mark.timeout(900)]

Experiment: TypeAlias = tuple[Kill, dict[Form, Outcome]]


@pytest.fixture(scope="module")
def experiment(site: Site, request: pytest.FixtureRequest) -> Experiment:
    """Return a row of the table, and what became of the app in each form; all forms run at the same time."""
    kill, way = request.param
    return kill, conduct(site, way, kill)


def _rows() -> list[object]:
    rows: list[tuple[Kill, Way]] = [(kill, way) for kill in TABLE for way in kill.ways]
    return [pytest.param((kill, way), id=f"{way}: {kill.what}") for kill, way in rows]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("experiment", _rows(), indirect=True, scope="module")
def test_the_app_ends_or_goes_on_as_the_table_says(
    experiment: Experiment, form: Form, record_property: Callable[[str, object], None]
) -> None:
    """One app, its state and message, when it ended, the flow run's state, every line once, nothing left."""
    kill, outcomes = experiment
    after_s = outcomes[form].after_s
    record_property("stopped_after_s", after_s)
    assert outcomes[form] == expected(kill, form)
    assert after_s is None or after_s <= kill.stopped_within_s
