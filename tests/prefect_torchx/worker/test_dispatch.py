"""What a flow run's states say of its dispatches, whoever came when."""

from __future__ import annotations

from uuid import uuid4

import pytest
from prefect.client.schemas.objects import State, StateDetails
from prefect.states import (
    AwaitingRetry,
    Cancelled,
    Cancelling,
    Completed,
    Crashed,
    Failed,
    Late,
    Pending,
    Running,
    Scheduled,
    Submitting,
    Suspended,
)

from prefect_torchx.worker.dispatch import Stage, latest_dispatch

States = list[State[None]]

BEGUN: States = [Scheduled(), Pending(), Submitting(), Running()]
RETRIED: States = [*BEGUN, AwaitingRetry()]
"""The server says so; a process that is told to go bears a transition id, as all that a client says."""
FINE: State[None] = Completed(message="fine")
BOOM: State[None] = Crashed(message="boom")


def _handed_back() -> State[None]:
    return AwaitingRetry(state_details=StateDetails(transition_id=uuid4()))


@pytest.mark.parametrize(
    ("states", "number", "stage"),
    [
        ([], 1, Stage.WAITING),
        ([Scheduled(), Late()], 1, Stage.WAITING),
        ([Scheduled(), Pending()], 1, Stage.TAKEN),
        ([Scheduled(), Pending(), Submitting()], 1, Stage.TAKEN),
        (BEGUN, 1, Stage.BEGUN),
        ([Scheduled(), Pending(), Cancelling()], 1, Stage.BEGUN),
        ([*BEGUN, Suspended()], 1, Stage.BEGUN),
        (RETRIED, 1, Stage.BEGUN),
        ([*RETRIED, Running()], 1, Stage.BEGUN),
        ([*BEGUN, FINE], 1, Stage.OVER),
        ([Scheduled(), Cancelled()], 1, Stage.OVER),
        # Handed out again.
        ([*BEGUN, BOOM, Scheduled()], 1, Stage.WAITING),
        ([*BEGUN, BOOM, AwaitingRetry(), Late(), Pending()], 2, Stage.TAKEN),
        ([*BEGUN, Suspended(), Scheduled(name="Resuming"), Pending()], 2, Stage.TAKEN),
        ([*BEGUN, _handed_back()], 1, Stage.WAITING),
        ([*BEGUN, _handed_back(), Pending()], 2, Stage.TAKEN),
        ([*BEGUN, FINE, *BEGUN], 2, Stage.BEGUN),
        ([*BEGUN, BOOM, Scheduled(), Submitting()], 2, Stage.TAKEN),
        # Taken by who came too late.
        ([*RETRIED, Pending(), Submitting()], 1, Stage.BEGUN),
        ([*RETRIED, Pending(), Submitting(), Running()], 1, Stage.BEGUN),
        ([*BEGUN, Pending(), AwaitingRetry(), Submitting()], 1, Stage.BEGUN),
        ([*BEGUN, BOOM, Pending()], 1, Stage.OVER),
        ([Scheduled(), Pending(), Pending(), FINE], 1, Stage.OVER),
        ([*BEGUN, BOOM, Pending(), BOOM, Scheduled(), Pending()], 2, Stage.TAKEN),
    ],
)
def test_a_dispatch_is_what_the_server_gives_to_one_worker(states: States, number: int, stage: Stage) -> None:
    """Being started, tried again in its process, or taken too late is none."""
    dispatch = latest_dispatch(states)
    assert (dispatch.number, dispatch.stage) == (number, stage)


@pytest.mark.parametrize(
    ("since", "due"),
    [
        ([Pending()], FINE),
        ([Pending(), Submitting()], FINE),
        ([Submitting()], FINE),
        ([Pending(), Cancelling()], FINE),
        ([Pending(), BOOM], FINE),
        ([Pending(), FINE, Submitting()], FINE),
        ([], None),
        ([Pending(), Completed(message="fine")], None),
        ([Pending(), Failed(message="its process says")], None),
        ([Pending(), Scheduled()], None),
        ([Pending(), Scheduled(), Pending()], None),
    ],
)
def test_an_end_that_was_taken_is_given_back(since: States, due: State[None] | None) -> None:
    """A crash that somebody saw afterwards is none; a retry that somebody asked for stands."""
    states = [*BEGUN, FINE, *since]
    assert latest_dispatch(states).due(states[-1]) is due


def test_what_the_flow_run_has_become_meanwhile_stands() -> None:
    """States are read first and the present one last."""
    dispatch = latest_dispatch([*BEGUN, FINE, Pending()])
    assert dispatch.due(Pending()) is FINE
    assert [dispatch.due(now) for now in (Scheduled(), Running(), Failed(), FINE)] == [None] * 4
    assert latest_dispatch([Scheduled(), Pending(), Pending(), FINE]).due(Pending()) is FINE


def test_a_crash_is_given_back_once() -> None:
    """Given back it has an id of its own."""
    states = [*BEGUN, BOOM, Pending(), Crashed(message="boom")]
    assert latest_dispatch(states).due(states[-1]) is None


def test_the_name_of_a_late_worker_is_not_believed() -> None:
    """It stands on the flow run until that is dispatched anew."""
    assert not latest_dispatch(RETRIED).late
    assert latest_dispatch([*RETRIED, Pending(), Running()]).late
    assert not latest_dispatch([*RETRIED, Pending(), Running(), BOOM, Scheduled(), Pending()]).late
