"""What a stream says of an app: it only ever gets longer, so that live and later are the same."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from torchx_core.schedulers.docker.history import app_history, replica_history
from torchx_core.schedulers.docker.records import AppRecord, Planned, Records, Restart, Stop, dump_stop
from torchx_core.schedulers.docker.view import AppView, Phase, ReplicaView
from torchx_core.schedulers.docker.volume_state import Attempt, VolumeState
from torchx_core.specs import AppState

PLANNED = Planned(
    index=0, role="r", replica=0, container="c", policy="APPLICATION", max_retries=1, by_engine=False
)
CANCEL = Stop(outcome="CANCELLED", msg="enough", grace_s=1.0, time=5.0)
FAILED = Stop(outcome="FAILED", msg="r/0 failed: exit code 3", grace_s=1.0, time=5.0, cause=0)
OTHER_FAILED = replace(FAILED, msg="r/1 failed: exit code 3", cause=1)
BEGUN = Attempt(number=0, started_at=1.0)
TOLD = replace(BEGUN, ended_at=4.0, code=143, told=True)
BROKEN = replace(BEGUN, ended_at=4.0, code=3)
AGAIN = Attempt(number=1, started_at=6.0)


def view(
    *attempts: Attempt,
    phase: Phase = Phase.UP,
    stop: Stop | None = None,
    restarts: tuple[Restart, ...] = (),
    over: bool = False,
    shim: str = "sh",
) -> AppView:
    """An app of one replica that has begun, as somebody sees it."""
    record = AppRecord("s", "one", {"nonce": "n", "asked": {"cfg": {"shim": shim, "grace_s": 1.0}}})
    final = {"stop": dump_stop(stop) if stop else None, "ended_at": 9.0} if over else None
    return AppView(
        records=Records(app=record, begun_at=0.5, stop=stop, restarts=restarts, final=final),
        replicas=(ReplicaView(planned=PLANNED, phase=phase, attempts=attempts),),
        volume_state=VolumeState(attempts={0: attempts}),
    )


def told(view: AppView) -> list[tuple[int, AppState]]:
    """Return attempt and state of each change of the replica."""
    return [(change.attempt, change.state) for change in replica_history(view, view.replicas[0])]


ORDERED = (Restart(number=1, targets={0: 1}, cause="r/1 failed", time=4.5),)
LIVES = {
    "succeeds": [view(BEGUN), view(replace(BEGUN, ended_at=4.0, code=0), over=True)],
    "fails": [view(BEGUN), view(BROKEN), view(BROKEN, stop=FAILED), view(BROKEN, stop=FAILED, over=True)],
    "is cancelled": [
        view(BEGUN),
        view(BEGUN, stop=CANCEL),
        view(TOLD, stop=CANCEL),
        view(TOLD, stop=CANCEL, over=True),
    ],
    "is stopped with its engine": [view(BEGUN), view(TOLD), view(TOLD, stop=FAILED, over=True)],
    "is stopped because another failed": [view(BEGUN), view(TOLD), view(TOLD, stop=OTHER_FAILED, over=True)],
    "is started again with another": [
        view(TOLD),
        view(TOLD, restarts=ORDERED),
        view(TOLD, AGAIN, restarts=ORDERED),
        view(TOLD, replace(AGAIN, ended_at=7.0, code=0), restarts=ORDERED, over=True),
    ],
    "has no journal": [view(shim="none"), view(replace(BEGUN, ended_at=4.0, code=3), shim="none", over=True)],
}


@pytest.mark.parametrize("life", LIVES.values(), ids=LIVES.keys())
def test_what_was_told_stays_told(life: list[AppView]) -> None:
    """Each look at an app gives the history of the look before, or a longer one."""
    for before, after in pairwise(life):
        history = replica_history(before, before.replicas[0])
        assert replica_history(after, after.replicas[0])[: len(history)] == history
        assert app_history(after)[: len(app_history(before))] == app_history(before)


@pytest.mark.parametrize(
    ("life", "end"),
    [
        ("succeeds", AppState.SUCCEEDED),
        ("fails", AppState.FAILED),
        ("is cancelled", AppState.CANCELLED),
        ("is stopped with its engine", AppState.FAILED),
        ("is stopped because another failed", AppState.CANCELLED),
        ("has no journal", AppState.FAILED),
    ],
)
def test_how_a_replica_ended_is_told(life: str, end: AppState) -> None:
    """CANCELLED only when something else was the cause."""
    assert told(LIVES[life][-1]) == [(0, AppState.RUNNING), (0, end)]


def test_attempts_are_told_one_after_the_other() -> None:
    """The first ends before the second begins."""
    expected = [
        (0, AppState.RUNNING),
        (0, AppState.CANCELLED),
        (1, AppState.RUNNING),
        (1, AppState.SUCCEEDED),
    ]
    assert told(LIVES["is started again with another"][-1]) == expected


def test_an_app_that_never_began_tells_nothing() -> None:
    """Its end will say all there is to say."""
    created = view(phase=Phase.CREATED, stop=CANCEL)
    assert app_history(created) == []
    assert told(created) == []
