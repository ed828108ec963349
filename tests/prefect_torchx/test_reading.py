"""When the scheduler is asked where an app's replicas are, for links to them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flow_tries import Page

from prefect_torchx.driver import Effect, Follow
from prefect_torchx.position import Position
from prefect_torchx.reading import Reading
from torchx_core.schedulers import AppEvent, Batch, ReplicaChanged, StateChanged
from torchx_core.specs import AppState

APP_RUNS = StateChanged(state=AppState.RUNNING, time=0.0)
REPLICA_RUNS = ReplicaChanged(role="r", replica=0, attempt=0, state=AppState.RUNNING, time=0.0)


class _Scheduler:
    """Knows where the replicas are from the nth question on."""

    def __init__(self, known_from: int) -> None:
        self.asked = 0
        self._known_from = known_from

    def locate(self) -> bool:
        self.asked += 1
        return self.asked >= self._known_from


@pytest.fixture
def page() -> Page:
    """A page that keeps nothing."""
    return Page(lambda _handle, _position: None)


def _happens(reading: Iterator[Effect], *events: AppEvent) -> bool:
    """Give the reading a batch; return whether it goes on with the same stream."""
    effect = next(reading)
    assert isinstance(effect, Follow)
    return effect.take(Batch(events=events, cursor="x"))


def test_replicas_are_located_until_all_have_a_host(page: Page) -> None:
    """An app may run before its replicas do: on Slurm its nodes come first."""
    scheduler = _Scheduler(known_from=2)
    reading = Reading("fake://s/a", page, None, scheduler.locate).until()
    assert not _happens(reading, APP_RUNS)
    assert not _happens(reading, REPLICA_RUNS)
    assert _happens(reading, REPLICA_RUNS)
    assert scheduler.asked == 2


def test_replicas_that_ran_before_are_located_at_once(page: Page) -> None:
    """A retry goes on behind the event that said so."""
    scheduler = _Scheduler(known_from=1)
    reading = Reading("fake://s/a", page, Position(cursor="x", shown_bytes=0), scheduler.locate).until()
    assert not _happens(reading)
    assert _happens(reading)
    assert scheduler.asked == 1


def test_a_follower_of_a_quiet_app_gives_a_sign_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """A try on another host, which does not see the app, learns that somebody renews its lease."""
    clock = [0.0]
    monkeypatch.setattr("prefect_torchx.reading.monotonic", lambda: clock[0])
    signs: list[float] = []
    page = Page(lambda _handle, _position: signs.append(clock[0]))
    reading = Reading("fake://s/a", page, None).until()
    effect = next(reading)
    assert isinstance(effect, Follow)
    for clock[0] in range(0, 61, 5):
        assert effect.take(Batch(events=(), cursor="x"))
    assert signs == [20, 40, 60]
