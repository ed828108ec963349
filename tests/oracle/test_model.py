"""The supervisor's machine, explored: every order of events that can happen, for every small app."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import pytest
from reachable import ahead_of

from torchx_core.supervisor import machine
from torchx_core.supervisor.machine import (
    Alarm,
    Began,
    Event,
    Exited,
    Finish,
    GraceOver,
    Kill,
    Lost,
    Replica,
    Start,
    Started,
    StartFailed,
    State,
    StopAsked,
    Sweep,
    Swept,
    Terminate,
    fold,
    is_due,
    step,
)

POLICIES = ("REPLICA", "ROLE", "APPLICATION")
ROLES = (("a",), ("a", "a"), ("a", "b"))


class World(NamedTuple):
    """What the driver and the kernel hold: everything that decides which events can come next."""

    state: State
    starts: tuple[Start, ...] = ()
    """Ordered and not carried out yet."""
    up: frozenset[int] = frozenset()
    """Replicas whose process lives."""
    alarm: bool = False
    sweep: bool = False
    asked: bool = False
    """Whether somebody has asked for the app's end; the model lets that happen once."""
    fatal: bool = False
    """Whether a program could not be run at all."""
    lost: bool = False


def apps() -> list[State]:
    """Every app of one or two replicas, each policy, up to two retries each."""
    return [
        State(
            tuple(
                Replica(role, i, policy, most)
                for i, (role, most) in enumerate(zip(roles, retries, strict=True))
            )
        )
        for roles in ROLES
        for policy in POLICIES
        for retries in product((0, 1, 2) if len(roles) == 1 else (0, 1), repeat=len(roles))
    ]


def after(world: World, event: Event) -> World:
    """Return the world after the event, and assert what must hold in every one of them."""
    state, orders = step(world.state, event)
    assert fold(world.state, event) == state, "a reader comes to another state than the supervisor"
    world = world._replace(state=_timeless(state))
    for order in orders:
        match order:
            case Start():
                world = world._replace(starts=(*world.starts, order))
            case Terminate(i):
                assert i in world.up, f"{i} is told to end and does not run"
            case Kill(i):
                assert i in world.up, f"{i} is killed and does not run"
            case Alarm():
                world = world._replace(alarm=True)
            case Sweep():
                world = world._replace(sweep=True)
            case Finish():
                assert state.phase == machine.ENDED
    return _carry_out(world)


def _carry_out(world: World) -> World:
    """Drop the starts that have been overtaken, as the driver does, and check what must always hold."""
    due = (start for start in world.starts if is_due(world.state, start))
    world = world._replace(starts=tuple(dict.fromkeys(due)))  # ordered twice is carried out once
    for start in world.starts:
        assert start.replica not in world.up, f"{start.replica} is started while it runs"
    for i, replica in enumerate(world.state.replicas):
        assert (i in world.up) == (replica.phase == machine.UP), f"{i} is {replica.phase}, up: {world.up}"
    return world


def _timeless(state: State) -> State:
    return state._replace(restarts=0)


def events(world: World) -> list[tuple[Event, World]]:
    """Return what can happen next, and what of it the world remembers."""
    if world.state.phase == machine.ENDED:
        return []
    found: list[tuple[Event, World]] = [(Lost(0.0, "gone"), world._replace(lost=True, up=frozenset()))]
    if world.state.phase == machine.SUBMITTED:
        found.append((Began(0.0, 1), world))
    if not world.asked:
        asked = world._replace(asked=True)
        found.append((StopAsked(0.0, machine.CANCELLED, "enough", 1.0), asked))
    if world.starts:
        found += _first_start(world)
    for i in world.up:
        attempt, less = world.state.replicas[i].attempt, world._replace(up=world.up - {i})
        found += [(Exited(0.0, i, attempt, code, None), less) for code in (0, 1)]
        found.append((Exited(0.0, i, attempt, None, "SIGKILL"), less))
    if world.alarm:
        found.append((GraceOver(0.0), world._replace(alarm=False)))
    if world.sweep and not world.up:
        found.append((Swept(0.0), world._replace(sweep=False)))
    return found


def _first_start(world: World) -> list[tuple[Event, World]]:
    start, *rest = world.starts
    world = world._replace(starts=tuple(rest))
    i, attempt = start.replica, start.attempt
    return [
        (Started(0.0, i, attempt, 1), world._replace(up=world.up | {i})),
        (StartFailed(0.0, i, attempt, "no", fatal=False), world),
        (StartFailed(0.0, i, attempt, "never", fatal=True), world._replace(fatal=True)),
    ]


def judge_end(world: World) -> None:
    """Assert that an ended app tells the true cause."""
    state = world.state
    assert not world.starts
    assert world.lost or not world.up, "a process outlives its app"
    failed = [r for r in state.replicas if r.phase == machine.FAILED and r.attempt >= r.max_retries]
    match state.outcome:
        case machine.SUCCEEDED:
            assert all(r.phase == machine.SUCCEEDED for r in state.replicas)
        case machine.CANCELLED:
            assert world.asked
        case machine.FAILED:
            assert failed or world.fatal or world.lost
        case other:
            raise AssertionError(f"an app ended as {other!r}")


@pytest.mark.parametrize(
    "app", apps(), ids=lambda app: "-".join(f"{r.role}{r.max_retries}{r.policy}" for r in app.replicas)
)
def test_every_order_of_events_keeps_the_promises(app: State) -> None:
    """From each state that can come about the app can end, as what really happened, with nothing running."""
    first = World(app)
    known: dict[World, list[World]] = {}
    todo = [first]
    while todo:
        world = todo.pop()
        if world in known:
            continue
        known[world] = [after(memory, event) for event, memory in events(world)]
        todo += known[world]
        if world.state.phase == machine.ENDED:
            judge_end(world)
        assert world.lost or world.state.phase == machine.ENDED or len(known[world]) > 1, f"stuck: {world}"
    _assert_all_can_end(known)


def _assert_all_can_end(known: dict[World, list[World]]) -> None:
    """Without losing the supervisor, and without anybody asking again, an end is always ahead."""
    good = ahead_of(
        [world for world in known if world.state.phase == machine.ENDED and not world.lost],
        (
            (world, following)
            for world, nexts in known.items()
            for following in nexts
            if not following.lost and following.asked == world.asked
        ),
    )
    assert [world for world in known if world not in good and not world.lost] == []
