"""Apps that an earlier try left on a host whose apps this one does not see: none is begun beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from socket import gethostname

import pytest
from flow_tries import Flow, Leave, Try, leave

from prefect_torchx import unseen
from prefect_torchx.attachment import OvertakenError
from prefect_torchx.driver import Pause
from prefect_torchx.naming import FlowTry, Holder
from prefect_torchx.position import End, NotedApp, Position
from prefect_torchx.unseen import LostAppError, outwait_unseen
from torchx_core.specs import AppState

OLD = Holder(flow_tries=(FlowTry("run", 1),), task_run_id="t", task_try=1, call="old")
FAILED = End(AppState.FAILED, None)
LEASE_S = 600.0


def _noted(
    *, changes: int = 0, end: End | None = None, host: str = "far", holder: str = OLD.token
) -> NotedApp:
    position = Position(cursor="c", shown_bytes=0, end=end)
    return NotedApp("run", position, changes, has_hidden=False, limit_bytes=None, host=host, holder=holder)


@pytest.fixture
def flow(monkeypatch: pytest.MonkeyPatch) -> Flow:
    """A flow whose app has a lease; what is known of apps of other hosts is asked for often."""
    monkeypatch.setattr(unseen, "LOOK_EVERY_S", 0.01)
    flow = Flow("hold")
    flow.request = replace(flow.request, app=replace(flow.request.app, cfg={"lease_s": LEASE_S}))
    return flow


def _left_elsewhere(flow: Flow, noted_now: Callable[[], NotedApp], *, attempts: int = 1) -> Try:
    """Return the run's second try, on another host than its first one, which wrote down so many attempts."""
    for attempt in range(attempts):
        app_id = flow.request.work.app_id(attempt=attempt)
        flow.position_store.elsewhere[f"fake://{flow.runner.name}/{app_id}"] = noted_now
    return flow.attachment(flow_try=2, check=lambda: leave() if flow.states else None)


@pytest.mark.parametrize("attempts", [1, 3])
@pytest.mark.parametrize("state", [AppState.FAILED, AppState.CANCELLED])
def test_an_app_whose_end_was_seen_is_followed_by_the_next_at_once(
    flow: Flow, state: AppState, attempts: int
) -> None:
    """Its id is of the next attempt, so that none of them has two apps."""
    second = _left_elsewhere(flow, lambda: _noted(end=End(state, None)), attempts=attempts)
    with pytest.raises(Leave):
        second.run()
    assert str(second.handle).endswith(f"/{flow.request.work.app_id(attempt=attempts)}")
    assert any(f"ended {state} on host far" in said for said in second.page.said)


def test_an_app_that_has_succeeded_is_not_run_again(flow: Flow) -> None:
    """Its result was kept; the app itself need not be seen."""
    second = _left_elsewhere(flow, lambda: _noted(end=End(AppState.SUCCEEDED, '{"loss": 1}')))
    status = second.run()
    assert (status.state, status.result, flow.states) == (AppState.SUCCEEDED, {"loss": 1}, [])
    assert str(second.handle).endswith(f"/{flow.request.work.app_id()}")
    assert any("ended SUCCEEDED on host far; its result is taken" in said for said in second.page.said)
    second.cancel()


def test_an_app_whose_result_was_not_kept_runs_again(flow: Flow) -> None:
    """It was too long, or it has a secret; the log says why."""
    second = _left_elsewhere(flow, lambda: _noted(end=End(AppState.SUCCEEDED, None)))
    with pytest.raises(Leave):
        second.run()
    assert any("its result was not kept, so it runs again" in said for said in second.page.said)


def test_an_app_that_may_still_run_is_waited_for(flow: Flow) -> None:
    """It is said where it is, and until when; nothing is submitted before its end is known."""
    states_before: list[list[AppState]] = []

    def noted_now() -> NotedApp:
        states_before.append(flow.states)
        return _noted(end=FAILED if len(states_before) > 3 else None)

    second = _left_elsewhere(flow, noted_now)
    with pytest.raises(Leave):
        second.run()
    assert (states_before, flow.states) == ([[]] * 4, [AppState.RUNNING])
    waiting = next(said for said in second.page.said if "waiting" in said)
    assert "on host far by an earlier try of this run" in waiting
    assert f"unknown on this one, {gethostname()}" in waiting


def test_a_try_that_is_cancelled_while_it_waits_submits_nothing(flow: Flow) -> None:
    """Its user need not wait for the end of the wait."""
    looks: list[None] = []

    def noted_now() -> NotedApp:
        looks.append(None)
        return _noted()

    _left_elsewhere(flow, noted_now)
    with pytest.raises(Leave):
        flow.attachment(flow_try=2, check=lambda: leave() if len(looks) > 2 else None).run()
    assert flow.states == []


def test_without_a_lease_the_try_fails_and_says_where_the_app_is(flow: Flow) -> None:
    """Nobody can tell when it is over; what is known to have ended is no obstacle."""
    flow.request = replace(flow.request, app=replace(flow.request.app, cfg={}))
    with pytest.raises(
        LostAppError, match=r"on host far .*\(torchx-core cancel 'fake://.*'\) and start a new"
    ):
        _left_elsewhere(flow, _noted).run()
    assert flow.states == []
    with pytest.raises(Leave):
        _left_elsewhere(flow, lambda: _noted(end=FAILED)).run()
    assert flow.states == [AppState.RUNNING]


@pytest.mark.parametrize("host", ["", gethostname()], ids=["of an older release", "this host"])
def test_what_was_written_down_here_and_is_unknown_was_never_submitted(flow: Flow, host: str) -> None:
    """An app that was deleted is unknown as well, and nobody deletes one that runs: either way none does."""
    second = _left_elsewhere(flow, lambda: _noted(host=host))
    with pytest.raises(Leave):
        second.run()
    assert str(second.handle).endswith(f"/{flow.request.work.app_id()}")


def test_a_first_try_asks_nobody(flow: Flow) -> None:
    """It has no earlier try, and the server is spared the question."""

    def noted_now() -> NotedApp:
        raise AssertionError("asked")

    _left_elsewhere(flow, noted_now)
    with pytest.raises(Leave):
        flow.attachment(check=leave).run()


def test_an_older_try_begins_nothing_beside_a_newer_one_of_another_host(flow: Flow) -> None:
    """Its process was taken for dead and is not."""
    newer = replace(OLD, flow_tries=(FlowTry("run", 3),))
    with pytest.raises(OvertakenError, match="belongs to a later try"):
        _left_elsewhere(flow, lambda: _noted(holder=newer.token)).run()
    assert flow.states == []


def test_the_app_of_an_equal_call_on_another_host_is_no_matter_of_ours(flow: Flow) -> None:
    """Each of them has an app, under a name of its own."""
    peer = Holder(flow_tries=(FlowTry("run", 2),), task_run_id="another", task_try=1, call="peer")
    second = _left_elsewhere(flow, lambda: _noted(holder=peer.token))
    with pytest.raises(Leave):
        second.run()
    assert str(second.handle).endswith(f"/{flow.request.work.app_id(slot=1)}")


# --- how long


class _Clock:
    """Time that passes while a procedure pauses."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def run(self, procedure: Iterator[object]) -> float:
        """Return how long the procedure has paused, in seconds."""
        began = self.now
        for effect in procedure:
            assert isinstance(effect, Pause)
            self.now += effect.seconds
        return self.now - began


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    """The clock by which is waited."""
    clock = _Clock()
    monkeypatch.setattr(unseen, "monotonic", clock)
    return clock


def _outwait(clock: _Clock, noted_now: Callable[[], NotedApp | None], lease_s: float) -> float:
    say: list[str] = []
    return clock.run(outwait_unseen("h", _noted(), lambda _: noted_now(), lease_s, say.append, clock.now))


def test_an_app_without_a_follower_is_waited_for_until_its_lease_is_over(clock: _Clock) -> None:
    """An app that died with its host cannot be told from one that lives, and is not waited for any longer."""
    assert _outwait(clock, _noted, LEASE_S) == LEASE_S


def test_a_server_that_does_not_answer_does_not_end_the_wait(clock: _Clock) -> None:
    """It may not hide that the app still runs."""
    assert _outwait(clock, lambda: None, LEASE_S) == LEASE_S


def test_a_short_lease_is_over_only_when_a_follower_would_have_given_a_sign(clock: _Clock) -> None:
    """One gives a sign every 20 s, and renews the lease more often."""
    assert _outwait(clock, _noted, 1.0) == 60.0


def test_the_lease_begins_anew_with_each_sign_of_a_follower(clock: _Clock) -> None:
    """A process that was taken for dead may follow the app to its end."""

    def noted_now() -> NotedApp:
        return _noted(changes=min(int(clock.now - 1000) // 20, 100))

    assert _outwait(clock, noted_now, LEASE_S) == 100 * 20 + LEASE_S
