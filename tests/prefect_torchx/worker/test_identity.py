"""The app ids of flow runs."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from prefect.client.schemas.objects import State
from prefect.states import AwaitingRetry, Completed, Crashed, Late, Pending, Running, Scheduled, Submitting

from prefect_torchx.worker.identity import app_id, is_app, is_app_of, latest_handout
from torchx_core.specs import make_app_handle

RUN = UUID("00000000-0000-0000-0000-000000000007")


def test_the_id_names_flow_run_and_handout() -> None:
    """It can be found from a flow run's id, and tells hand-outs apart."""
    assert app_id(RUN, 1) == f"flow-run-{RUN}"
    assert app_id(RUN, 2) == f"flow-run-{RUN}-2"


@pytest.mark.parametrize(
    ("states", "count"),
    [
        ([], 1),
        ([Scheduled(), Pending(), Submitting(), Running()], 1),
        ([Scheduled(), Pending(), Running(), AwaitingRetry(), Running()], 1),
        ([Scheduled(), Pending(), Submitting(), Crashed(), Scheduled(), Pending()], 2),
        ([Scheduled(), Pending(), Crashed(), AwaitingRetry(), Late(), Pending()], 2),
        ([Scheduled(), Pending(), Running(), Crashed(), Pending()], 1),
        ([Scheduled(), Pending(), Pending(), Completed()], 1),
    ],
)
def test_a_handout_is_what_the_server_gives_to_one_worker(states: list[State[None]], count: int) -> None:
    """Being started, or tried again in its process, is none; nor is being taken by who came too late."""
    assert latest_handout(states).number == count


def test_a_handout_that_is_over_is_told_from_one_that_begins() -> None:
    """However late a second worker takes the flow run, and in whatever order the server wrote that down."""
    completed: State[None] = Completed()
    once: list[State[None]] = [Scheduled(), Pending(), Running()]
    assert latest_handout(once).end is None
    assert latest_handout([*once, completed, Pending()]).end is completed
    assert latest_handout([Scheduled(), Pending(), Pending(), completed]).end is completed
    assert latest_handout([*once, completed, *once]).end is None


def test_handles_are_told_from_whatever_else_stands_in_their_place() -> None:
    """A process id of another worker type, nothing, and another flow run's app are not this flow run's."""
    first, second = (make_app_handle("local_cwd", "s", app_id(RUN, number)) for number in (1, 2))
    other = make_app_handle("local_cwd", "s", app_id(uuid4(), 1))
    assert [is_app_of(RUN, handle) for handle in (first, second, other, "host:17", "", None)] == [
        *(True, True),
        *(False, False, False, False),
    ]
    assert is_app(second, app_id(RUN, 2))
    assert not is_app(first, app_id(RUN, 2))
    assert not is_app(None, app_id(RUN, 1))
