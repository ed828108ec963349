"""What is done about an app, from how it stands."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from torchx_core.schedulers.docker.content import UNDONE
from torchx_core.schedulers.docker.decide import End, Finish, Halt, Launch, Order, decide
from torchx_core.schedulers.docker.records import AppRecord, Planned, Records, Restart, Stop
from torchx_core.schedulers.docker.view import AppView, Phase, ReplicaView
from torchx_core.schedulers.docker.volume_state import Attempt, Over, VolumeState
from torchx_core.specs import AppDef, AppState, Role

NOW = 1000.0
GRACE_S = 10.0
STOP = Stop(outcome="CANCELLED", msg="why not", grace_s=GRACE_S, time=NOW)


def ended(number: int, code: int, at: float = NOW, *, told: bool = False) -> Attempt:
    """An attempt that is over."""
    return Attempt(number=number, started_at=at - 1, ended_at=at, code=code, told=told)


def running(number: int) -> Attempt:
    """An attempt that goes on."""
    return Attempt(number=number, started_at=NOW - 1)


def replica(
    index: int,
    phase: Phase,
    *attempts: Attempt,
    role: str = "r",
    policy: str = "APPLICATION",
    max_retries: int = 0,
    by_engine: bool = False,
) -> ReplicaView:
    """A replica, whose number in the app is that in its role."""
    planned = Planned(
        index=index,
        role=role,
        replica=index,
        container=f"c{index}",
        policy=policy,
        max_retries=max_retries,
        by_engine=by_engine,
    )
    return ReplicaView(planned=planned, phase=phase, container=f"id{index}", attempts=attempts)


def view(*replicas: ReplicaView, volume_state: VolumeState | None = None, **records: object) -> AppView:
    """An app that began a second ago."""
    app = AppDef("app", [Role(name, "image", entrypoint="x") for name in ("r", "s")])
    cfg = {"grace_s": GRACE_S, "shim": "sh", **cast("dict[str, object]", records.pop("cfg", {}))}
    record = AppRecord("s", "a", {"nonce": "n", "asked": {"app": app.to_dict(), "cfg": cfg}})
    given = Records(app=record, **{"begun_at": NOW - 1, **records})  # type: ignore[arg-type]  # a test's own
    return AppView(records=given, replicas=replicas, volume_state=volume_state or VolumeState())


def test_nothing_is_done_about_an_app_that_runs() -> None:
    """Replicas that run or have ended well are left alone."""
    assert decide(view(replica(0, Phase.UP, running(0)), replica(1, Phase.DOWN, ended(0, 0))), NOW) is None


def test_nothing_is_done_about_an_app_that_has_ended() -> None:
    """Whatever its replicas look like: the final record is the truth."""
    assert decide(view(replica(0, Phase.DOWN, ended(0, 1)), final={"status": {}}), NOW) is None


def test_nothing_is_done_about_an_app_that_has_not_begun() -> None:
    """Its submitter is at work, or will be followed by another."""
    assert decide(view(replica(0, Phase.CREATED), replica(1, Phase.ABSENT), begun_at=None), NOW) is None


def test_an_app_whose_replicas_ended_well_has_succeeded() -> None:
    """All of them have to."""
    assert decide(view(replica(0, Phase.DOWN, ended(0, 0))), NOW) == Finish("SUCCEEDED", "")


def test_a_failure_without_retries_ends_the_app() -> None:
    """Told by who failed first and how, with the app's own grace period."""
    first, second = replica(0, Phase.DOWN, ended(0, 3, NOW)), replica(1, Phase.DOWN, ended(0, 137, NOW - 5))
    assert decide(view(first, second), NOW) == End(
        Stop(outcome="FAILED", msg="r/1 failed: killed by SIGKILL", grace_s=GRACE_S, time=NOW, cause=1)
    )


@pytest.mark.parametrize(("policy", "scope"), [("APPLICATION", {0: 1, 1: 1, 2: 0}), ("ROLE", {0: 1, 1: 1})])
def test_a_failure_with_retries_restarts_its_scope(policy: str, scope: dict[int, int]) -> None:
    """Each replica of it as its next attempt; one that never ran has used up none."""
    replicas = (
        replica(0, Phase.DOWN, ended(0, 3), policy=policy, max_retries=1),
        replica(1, Phase.UP, running(0)),
        replica(2, Phase.CREATED, role="s"),
    )
    decision = decide(view(*replicas), NOW)
    assert isinstance(decision, Order)
    assert (decision.restart.number, dict(decision.restart.targets)) == (1, scope)
    assert decision.restart.cause == "r/0 failed: exit code 3"


def test_a_restart_waits_for_first_attempts_that_are_about_to_begin() -> None:
    """One that begins after the order would be the ordered one, and its being ended another failure."""
    failed = replica(0, Phase.DOWN, ended(0, 3), max_retries=1)
    assert decide(view(failed, replica(1, Phase.UP)), NOW + 4) is None
    late = decide(view(failed, replica(1, Phase.UP)), NOW + 6)
    assert isinstance(late, Order)
    assert dict(late.restart.targets) == {0: 1, 1: 0}


def test_retries_run_out() -> None:
    """The attempt after the last is not begun."""
    failed = replica(0, Phase.DOWN, ended(1, 3), max_retries=1)
    assert isinstance(decide(view(failed, replica(1, Phase.UP, running(1))), NOW), End)


def test_what_the_engine_restarts_and_leaves_down_has_failed() -> None:
    """It has tried as often as it may, or somebody stopped the container."""
    failed = replica(0, Phase.DOWN, ended(0, 3), max_retries=5, by_engine=True)
    assert isinstance(decide(view(failed), NOW), End)
    again = replica(0, Phase.AGAIN, ended(0, 3), max_retries=5, by_engine=True)
    assert decide(view(again), NOW) is None


@pytest.mark.parametrize("now", [NOW + 6, NOW - 60], ids=["it had its time", "its clock is ahead"])
def test_what_the_engine_forgets_to_restart_is_started(now: float) -> None:
    """Its journal says that it failed by itself, and the engine, which may have been away, had some time."""
    failed = replica(0, Phase.DOWN, ended(0, 3), max_retries=1, by_engine=True)
    noted = VolumeState(attempts={0: failed.attempts})
    assert decide(view(failed, volume_state=noted), NOW + 1) is None
    assert decide(view(failed, volume_state=noted), now) == Launch((failed,), {})


@pytest.mark.parametrize(
    ("ends", "max_retries"), [(ended(1, 3), 1), (ended(0, 143, told=True), 1), (running(0), 1)]
)
def test_what_the_engine_leaves_down_for_a_reason_is_not_started(ends: Attempt, max_retries: int) -> None:
    """It was its last attempt, or somebody has stopped it, or killed it with its journal's script."""
    seen = replica(0, Phase.DOWN, ends, max_retries=max_retries, by_engine=True)
    noted = VolumeState(attempts={0: seen.attempts})
    assert isinstance(decide(view(seen, volume_state=noted), NOW + 60), End)


class TestRestart:
    """A restart that was ordered is brought to its end by whoever looks."""

    restart = Restart(number=1, targets={0: 1, 1: 1}, cause="r/0 failed: exit code 3", time=NOW)

    def test_waits_for_what_is_stopping(self) -> None:
        """Nothing starts before everything that restarts together is down."""
        replicas = replica(0, Phase.DOWN, ended(0, 3)), replica(1, Phase.UP, running(0))
        assert decide(view(*replicas, restarts=(self.restart,)), NOW) is None

    def test_kills_what_does_not_stop(self) -> None:
        """When its time is over: whoever ordered the restart may be dead, or the engine was."""
        stubborn = replica(1, Phase.UP, running(0))
        late = NOW + GRACE_S + 6
        both = view(replica(0, Phase.DOWN, ended(0, 3)), stubborn, restarts=(self.restart,))
        assert decide(both, late) == Halt((stubborn,))

    def test_starts_what_is_down(self) -> None:
        """Each as the attempt that was ordered, also those that had succeeded."""
        replicas = replica(0, Phase.DOWN, ended(0, 3)), replica(1, Phase.DOWN, ended(0, 0))
        assert decide(view(*replicas, restarts=(self.restart,)), NOW) == Launch(replicas, {0: 1, 1: 1})

    def test_starts_the_rest_after_a_crash(self) -> None:
        """What runs its new attempt already is left alone."""
        rest = replica(1, Phase.DOWN, ended(0, 143, told=True))
        replicas = replica(0, Phase.UP, running(1)), rest
        assert decide(view(*replicas, restarts=(self.restart,)), NOW) == Launch((rest,), {0: 1, 1: 1})

    def test_is_over_when_all_have_begun(self) -> None:
        """The next failure is judged anew."""
        replicas = replica(0, Phase.UP, running(1)), replica(1, Phase.DOWN, ended(1, 4))
        assert isinstance(decide(view(*replicas, restarts=(self.restart,)), NOW), End)


class TestStop:
    """An app that is to end."""

    def test_waits_for_what_runs(self) -> None:
        """The engine serves the grace period."""
        assert decide(view(replica(0, Phase.UP, running(0)), stop=STOP), NOW + GRACE_S) is None

    def test_kills_what_outlived_its_time(self) -> None:
        """The engine was restarted, or the canceller died before it asked."""
        stubborn = replica(0, Phase.UP, running(0))
        assert decide(view(stubborn, stop=STOP), NOW + GRACE_S + 6) == Halt((stubborn,))

    def test_ends_when_nothing_runs(self) -> None:
        """As the request says, whatever the exit codes are, and though a replica could be restarted."""
        down = replica(0, Phase.DOWN, ended(0, 143, told=True), max_retries=3)
        for volume_state in (VolumeState(), VolumeState(over=Over(why="failed", index=0))):
            stopped = view(down, replica(1, Phase.CREATED), stop=STOP, volume_state=volume_state)
            assert decide(stopped, NOW) == Finish("CANCELLED", "why not")

    def test_a_submit_taken_back_has_no_end(self) -> None:
        """Whoever submits the id next removes what is left."""
        assert decide(view(replica(0, Phase.CREATED), stop=replace(STOP, outcome=UNDONE)), NOW) is None


@pytest.mark.parametrize(
    ("over", "outcome", "msg"),
    [
        (Over(why="lease"), AppState.CANCELLED, "lease expired: nobody renewed it for 15 s"),
        (Over(why="deadline"), AppState.CANCELLED, "deadline passed"),
        (Over(why="failed", index=0), AppState.FAILED, "r/0 failed: exit code 7"),
    ],
)
def test_what_the_replicas_ended_by_themselves(over: Over, outcome: AppState, msg: str) -> None:
    """Is taken down in their words, before any exit code is judged."""
    replicas = replica(0, Phase.DOWN, ended(0, 7)), replica(1, Phase.DOWN, ended(0, 1, NOW - 9))
    stop = Stop(
        outcome=outcome.name,
        msg=msg,
        grace_s=GRACE_S,
        time=NOW,
        cause=over.index if over.index >= 0 else None,
    )
    assert decide(view(*replicas, volume_state=VolumeState(over=over), cfg={"lease_s": 15.0}), NOW) == End(
        stop
    )


def test_the_deadline_is_kept_by_whoever_looks() -> None:
    """A little later than the replicas keep it themselves; at once where they keep no watch."""
    up = replica(0, Phase.UP, running(0))
    assert decide(view(up, cfg={"deadline": NOW}), NOW + 4) is None
    for cfg in ({"deadline": NOW}, {"timeout_s": 1.0}):
        assert isinstance(decide(view(up, cfg=cfg), NOW + 6), End)
        assert isinstance(decide(view(up, cfg={**cfg, "shim": "none"}), NOW + 1), End)
    assert isinstance(decide(view(up, cfg={"deadline": NOW}, begun_at=None), NOW + 1), End)


def test_a_removed_container_is_a_failure() -> None:
    """An app that has begun gets no new one."""
    decision = decide(view(replica(0, Phase.ABSENT), replica(1, Phase.UP, running(0))), NOW)
    assert isinstance(decision, End)
    assert decision.stop.msg == "r/0 failed: its container was removed"


def test_what_nobody_started_is_started() -> None:
    """When its submitter had time enough."""
    idle = replica(1, Phase.CREATED)
    half = view(replica(0, Phase.UP, running(0)), idle)
    assert decide(half, NOW) is None
    assert decide(half, NOW + 20) == Launch((idle,), {})
