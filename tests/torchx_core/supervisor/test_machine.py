"""The app's state machine."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchx_core.supervisor import machine as m
from torchx_core.supervisor.final import decode_final, encode_final
from torchx_core.supervisor.journal import decode_event, encode_event


def app(*replicas: tuple[str, int], policy: str = "APPLICATION") -> m.State:
    """Return an app with one replica per (role, max_retries)."""
    return m.State(tuple(m.Replica(role, i, policy, retries) for i, (role, retries) in enumerate(replicas)))


class World:
    """Carries out instructions at once and remembers what was asked."""

    def __init__(self, state: m.State) -> None:
        self.state = state
        self.journal: list[m.Event] = []
        self.asked: list[m.Instruction] = []
        self.time = 0.0

    def feed(self, event: m.Event) -> list[m.Instruction]:
        self.journal.append(event)
        self.state, instructions = m.step(self.state, event, 5.0)
        self.asked += instructions
        return instructions

    def tick(self) -> float:
        self.time += 1
        return self.time

    def begin(self) -> None:
        for instruction in self.feed(m.Began(self.tick(), 1)):
            self.start(instruction)

    def start(self, instruction: m.Instruction) -> None:
        assert isinstance(instruction, m.Start)
        self.feed(m.Started(self.tick(), instruction.replica, instruction.attempt, 100 + instruction.replica))

    def exit(self, replica: int, code: int | None, signal: str | None = None) -> list[m.Instruction]:
        attempt = self.state.replicas[replica].attempt
        return self.feed(m.Exited(self.tick(), replica, attempt, code, signal))


def begun(*replicas: tuple[str, int], policy: str = "APPLICATION") -> World:
    """Return a world whose replicas all run."""
    world = World(app(*replicas, policy=policy))
    world.begin()
    world.asked.clear()
    return world


def test_all_good_is_succeeded() -> None:
    """An app whose replicas all exit with 0 succeeds once nothing of it is left."""
    world = begun(("a", 0), ("a", 0))
    assert world.exit(0, 0) == []
    assert world.exit(1, 0) == [m.Sweep(kill=True)]
    assert world.feed(m.Swept(9)) == [m.Finish()]
    assert (world.state.phase, world.state.outcome) == (m.ENDED, m.SUCCEEDED)


def test_one_failed_for_good_stops_the_gang() -> None:
    """A replica without retries left takes the others down, and the app fails with its name."""
    world = begun(("a", 0), ("b", 0), ("b", 0))
    assert world.exit(1, 3) == [m.Terminate(0), m.Terminate(2), m.Alarm(5.0)]
    assert world.exit(0, None, "SIGTERM") == []
    assert world.exit(2, 0) == [m.Sweep(kill=False)]
    assert world.feed(m.Swept(9)) == [m.Finish()]
    assert world.state.outcome == m.FAILED
    assert world.state.msg == "b/1 failed: exit code 3"
    assert [r.phase for r in world.state.replicas] == [m.STOPPED, m.FAILED, m.STOPPED]


def test_replica_policy_restarts_only_the_failed_one() -> None:
    """REPLICA starts the failed replica again and leaves its siblings alone."""
    world = begun(("a", 1), ("a", 1), policy="REPLICA")
    assert world.exit(1, 7) == [m.Start(1, 1)]
    assert world.state.phase == m.RUNNING
    assert world.state.restarts == 1
    world.start(m.Start(1, 1))
    assert [r.attempt for r in world.state.replicas] == [0, 1]


def test_application_policy_restarts_all() -> None:
    """APPLICATION stops the others first and starts everything as the next attempt."""
    world = begun(("a", 1), ("b", 0))
    assert world.exit(0, 7) == [m.Terminate(1), m.Alarm(5.0)]
    assert world.exit(1, None, "SIGTERM") == [m.Sweep(kill=True)]
    assert world.feed(m.Swept(9)) == [m.Start(0, 1), m.Start(1, 1)]


def test_role_policy_restarts_its_role() -> None:
    """ROLE restarts the failed replica's role and nothing else."""
    world = begun(("a", 1), ("a", 1), ("b", 0), policy="ROLE")
    assert world.exit(0, 7) == [m.Terminate(1), m.Alarm(5.0)]
    assert world.exit(1, None, "SIGTERM") == [m.Start(0, 1), m.Start(1, 1)]


def test_restart_of_all_includes_those_that_had_finished() -> None:
    """An application restart runs replicas again that had succeeded already."""
    world = begun(("a", 1), ("a", 1))
    world.exit(0, 0)
    assert world.exit(1, 1) == [m.Sweep(kill=True)]
    assert world.feed(m.Swept(9)) == [m.Start(0, 1), m.Start(1, 1)]


def test_retries_run_out() -> None:
    """max_retries=1 means two attempts."""
    world = begun(("a", 1))
    world.exit(0, 1)
    for start in world.feed(m.Swept(8)):
        world.start(start)
    assert world.exit(0, 1) == [m.Sweep(kill=True)]
    world.feed(m.Swept(9))
    assert (world.state.outcome, world.state.restarts) == (m.FAILED, 1)


def test_a_program_that_cannot_run_is_not_retried() -> None:
    """A fatal start failure ends the app whatever the retries."""
    world = World(app(("a", 5), ("a", 5)))
    world.feed(m.Began(1, 1))
    asked = world.feed(m.StartFailed(2, 0, 0, "cannot execute 'x': No such file or directory", fatal=True))
    assert asked == [m.Sweep(kill=True)]
    assert world.state.replicas[1].phase == m.STOPPED
    assert "cannot execute 'x'" in world.state.msg


def test_start_failure_that_may_pass_is_retried_without_losing_the_others() -> None:
    """A transient start failure under REPLICA keeps the replicas that were not started yet."""
    world = World(app(("a", 1), ("a", 1), policy="REPLICA"))
    world.feed(m.Began(1, 1))
    asked = world.feed(m.StartFailed(2, 0, 0, "no more processes", fatal=False))
    assert asked == [m.Start(0, 1), m.Start(1, 0)]
    assert world.state.phase == m.RUNNING
    assert world.state.replicas[1].phase == m.WAITING


def test_a_restart_does_not_forget_those_not_started_yet() -> None:
    """A replica whose start a restart overtook is started with the others, as its first attempt."""
    world = World(app(("a", 0), ("a", 1), ("b", 0), policy="ROLE"))
    first, _, third = world.feed(m.Began(1, 1))
    world.start(first)
    world.feed(m.StartFailed(2, 1, 0, "no more processes", fatal=False))
    assert isinstance(third, m.Start)
    assert not m.is_due(world.state, third)
    assert world.exit(0, None, "SIGTERM") == [m.Start(0, 1), m.Start(1, 1), m.Start(2, 0)]
    assert m.is_due(world.state, third)


def test_cancel_asks_everyone_and_kills_after_the_grace() -> None:
    """A cancel terminates all at once; what is left when the grace is over is killed."""
    world = begun(("a", 3), ("a", 3))
    asked = world.feed(m.StopAsked(5, m.CANCELLED, "by me", 2.0))
    assert asked == [m.Terminate(0), m.Terminate(1), m.Alarm(2.0)]
    assert world.feed(m.GraceOver(7)) == [m.Sweep(kill=True)]
    world.exit(0, None, "SIGKILL")
    world.exit(1, None, "SIGKILL")
    world.feed(m.Swept(9))
    assert (world.state.outcome, world.state.msg) == (m.CANCELLED, "by me")


def test_cancel_before_the_start() -> None:
    """An app cancelled before it began ends without having run."""
    world = World(app(("a", 0)))
    assert world.feed(m.StopAsked(1, m.CANCELLED, "early", 2.0)) == [m.Sweep(kill=True)]
    assert world.feed(m.Swept(2)) == [m.Finish()]
    assert world.state.outcome == m.CANCELLED


def test_cancel_during_a_restart_wins() -> None:
    """A cancel while the app restarts ends it; nothing is started any more."""
    world = begun(("a", 1), ("a", 1))
    world.exit(0, 1)
    world.feed(m.StopAsked(5, m.CANCELLED, "", 2.0))
    assert world.exit(1, None, "SIGTERM") == [m.Sweep(kill=False)]
    assert world.feed(m.Swept(9)) == [m.Finish()]


def test_cancel_after_the_last_success_is_too_late() -> None:
    """A cancel between the last good exit and the end does not turn success into failure."""
    world = begun(("a", 0))
    world.exit(0, 0)
    assert world.feed(m.StopAsked(5, m.CANCELLED, "", 2.0)) == []
    world.feed(m.Swept(9))
    assert world.state.outcome == m.SUCCEEDED


def test_grace_over_in_a_restart_kills_what_hangs() -> None:
    """A replica that does not end for a restart is killed, and only it."""
    world = begun(("a", 1), ("a", 1))
    world.exit(0, 1)
    assert world.feed(m.GraceOver(9)) == [m.Kill(1)]


@pytest.mark.parametrize(
    ("asked", "outcome"), [(False, m.FAILED), (True, m.CANCELLED)], ids=["unasked", "cancel asked"]
)
def test_lost_supervisor(asked: bool, outcome: str) -> None:
    """An app that loses its supervisor fails with that reason, or is cancelled if that was asked."""
    world = begun(("a", 0), ("a", 0))
    world.exit(0, 0)
    if asked:
        world.feed(m.StopAsked(5, m.CANCELLED, "by me", 2.0))
    world.feed(m.Lost(9, "killed"))
    assert (world.state.phase, world.state.outcome) == (m.ENDED, outcome)
    assert [r.phase for r in world.state.replicas] == [m.SUCCEEDED, m.FAILED]
    assert "killed" in world.state.msg


def test_a_missing_transition_is_a_bug() -> None:
    """An event that the table does not know raises and names both."""
    with pytest.raises(m.UnexpectedEvent, match="Exited in phase submitted"):
        m.step(app(("a", 0)), m.Exited(1, 0, 0, 0, None))


def test_every_transition_of_the_table_starts_from_a_known_phase() -> None:
    """The table speaks only of phases that exist, and nothing leaves ENDED."""
    phases = {phase for phase, _ in m.TRANSITIONS}
    assert phases == {m.SUBMITTED, m.RUNNING, m.RESTARTING, m.STOPPING, m.SWEEPING}


POLICIES = st.sampled_from(["REPLICA", "ROLE", "APPLICATION"])
REPLICAS = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), POLICIES, st.integers(0, 2)), min_size=1, max_size=5
)


class Play(World):
    """A driver that, like the real one, carries out instructions in order between happenings."""

    def __init__(self, state: m.State) -> None:
        super().__init__(state)
        self.todo: list[m.Instruction] = []
        self.sweeping = False
        self.alarm = False

    def feed(self, event: m.Event) -> list[m.Instruction]:
        instructions = super().feed(event)
        self.todo += instructions
        if self.state.phase not in (m.RESTARTING, m.STOPPING):
            self.alarm = False
        return instructions

    def settle(self, data: st.DataObject) -> None:
        while self.todo:
            instruction = self.todo.pop(0)
            if isinstance(instruction, m.Start):
                self._start(instruction, data)
            elif isinstance(instruction, m.Sweep):
                self.sweeping = True
            elif isinstance(instruction, m.Alarm):
                self.alarm = True
        if self.sweeping and not self.up():
            self.sweeping = False
            self.feed(m.Swept(self.tick()))
            self.settle(data)

    def _start(self, instruction: m.Start, data: st.DataObject) -> None:
        if not m.is_due(self.state, instruction):
            return
        how = data.draw(st.sampled_from(["ok", "ok", "ok", "transient", "fatal"]))
        if how == "ok":
            self.start(instruction)
        else:
            fatal = how == "fatal"
            self.feed(m.StartFailed(self.tick(), *instruction, "no", fatal=fatal))

    def up(self) -> list[int]:
        return [i for i, r in enumerate(self.state.replicas) if r.phase == m.UP]


@settings(max_examples=300, deadline=None)
@given(REPLICAS, st.data())
def test_any_history_ends_and_replays(replicas: list[tuple[str, str, int]], data: st.DataObject) -> None:
    """Whatever happens in whatever order, the app ends, and the journal tells the same story."""
    fresh = m.State(tuple(m.Replica(r, i, p, n) for i, (r, p, n) in enumerate(replicas)))
    play = Play(fresh)
    play.feed(m.Began(play.tick(), 1))
    play.settle(data)
    while play.state.phase != m.ENDED:
        choices = [("exit", i) for i in play.up()]
        assert choices, f"nothing is up and nothing happens any more: {play.state}"
        choices += [("grace", 0)] if play.alarm else []
        choices += [("cancel", 0)] if data.draw(st.integers(0, 9)) == 0 else []
        what, index = data.draw(st.sampled_from(choices))
        if what == "exit":
            play.exit(index, data.draw(st.sampled_from([0, 0, 1])))
        elif what == "grace":
            play.alarm = False
            play.feed(m.GraceOver(play.tick()))
        else:
            play.feed(m.StopAsked(play.tick(), m.CANCELLED, "", 1.0))
        play.settle(data)

    assert not play.up()
    for replica in play.state.replicas:
        assert replica.attempt <= sum(r.max_retries for r in play.state.replicas)
    events = [decode_event(encode_event(event).rstrip()) for event in play.journal]
    assert m.replay(fresh, events) == play.state  # type: ignore[arg-type]  # none of them is None
    assert decode_final(encode_final(play.state)) == play.state
