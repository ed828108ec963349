"""Docker's `decide`, explored: every order of what engine, scripts and two who look can do to small apps.

Whoever looks decides at once and acts step by step, so that each step may be stale, and may never come. The
containers do what their script (`shim`) does; `test_shim.py` runs the script itself.

Not explored, because an engine cannot tell the attempts of a container apart: that who stops one for a
restart, or kills one that was told to end, is so slow that he strikes the attempt after it. And who is killed
between a start and the look that follows it may leave a program to an app that has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import cache
from itertools import product, starmap
from typing import Any, NamedTuple

import pytest
from reachable import ahead_of

from torchx_core import AppDef, Role
from torchx_core.schedulers.docker.answers import Container, Inspection
from torchx_core.schedulers.docker.decide import Decision, End, Finish, Halt, Launch, Order, decide
from torchx_core.schedulers.docker.labels import INDEX
from torchx_core.schedulers.docker.records import AppRecord, Planned, Records, Restart, Stop
from torchx_core.schedulers.docker.view import AppView, Phase, unexplained, view_of
from torchx_core.schedulers.docker.volume_state import Attempt, Over, VolumeState

KILLED = 137
TOLD = 143
Step = tuple[Any, ...]
"""One request to the engine: what, and of whom."""
STOP_ALL: Step = ("stop all",)
"""Whoever writes that the app is to end looks afterwards for what runs."""
CONFIRM: Step = ("confirm",)
"""Whoever starts something looks afterwards whether the app is to end (`stop_what_was_started`)."""


class Box(NamedTuple):
    """One replica's container, and what its script has written."""

    state: str = "created"
    code: int = 0
    """Its exit code, when it has ended."""
    journal: tuple[tuple[int, int | None, bool], ...] = ()
    """Number, exit code, and whether it was told to end, of each attempt."""
    order: int = 0
    asked: bool = False
    """The engine was asked to stop it since it started."""
    restarts: int = 0
    """How often the engine has started it again by itself."""


class World(NamedTuple):
    """Everything that decides what can come next."""

    boxes: tuple[Box, ...]
    stop: tuple[str, int | None] | None = None
    """Outcome, and who caused it."""
    restarts: tuple[tuple[tuple[int, int], ...], ...] = ()
    final: str = ""
    over: int | None = None
    """The replica whose script wrote that it failed for good."""
    plans: tuple[tuple[Step, ...], ...] = ()
    """What those who have looked have still to do."""
    asked: bool = False
    """Somebody has cancelled the app."""
    killed: bool = False
    """Somebody has killed a program from outside."""
    died: bool = False
    """Who started something was killed before it could look whether the app was to end."""


Looks = Callable[[World], frozenset[tuple[Step, ...]]]


class App(NamedTuple):
    """What was submitted."""

    roles: tuple[str, ...]
    policy: str
    retries: int

    def planned(self) -> tuple[Planned, ...]:
        """Its replicas; one that starts again alone is the engine's to start."""
        by_engine = self.retries > 0 and (self.policy == "REPLICA" or len(self.roles) == 1)
        return tuple(
            Planned(
                index=i,
                role=role,
                replica=i,
                container=f"c{i}",
                policy=self.policy,
                max_retries=self.retries,
                by_engine=by_engine,
            )
            for i, role in enumerate(self.roles)
        )

    def record(self) -> AppRecord:
        """Its record."""
        app = AppDef("app", [Role(name, "image", entrypoint="x") for name in sorted(set(self.roles))])
        asked = {"app": app.to_dict(), "cfg": {"grace_s": 1.0, "shim": "sh"}}
        rows = [asdict(planned) for planned in self.planned()]
        return AppRecord("s", "a", {"nonce": "n", "asked": asked, "replicas": rows})


APPS = [
    pytest.param(app, marks=pytest.mark.slow if len(app.roles) > 1 and app.retries else ())
    for app in starmap(
        App, product((("a",), ("a", "a"), ("a", "b")), ("REPLICA", "ROLE", "APPLICATION"), (0, 1))
    )
]


def seen(record: AppRecord, world: World) -> AppView:
    """Return what somebody sees who looks now."""
    containers = [
        Container(id=f"id{i}", name="", state=box.state, status="", labels={INDEX: str(i)})
        for i, box in enumerate(world.boxes)
    ]
    attempts = {i: tuple(map(_attempt, box.journal)) for i, box in enumerate(world.boxes) if box.journal}
    volume_state = VolumeState(
        attempts=attempts, over=None if world.over is None else Over(why="failed", index=world.over)
    )
    zero = "1970-01-01T00:00:00Z"
    inspections = {
        (i := int(container.labels[INDEX])): Inspection(
            running=False,
            exit_code=world.boxes[i].code,
            started_at=zero,
            finished_at=zero,
            oom_killed=False,
            error="",
            restarts=world.boxes[i].restarts,
        )
        for container in unexplained(containers, volume_state)
    }
    stop = (
        Stop(outcome=world.stop[0], msg="", grace_s=1.0, time=0.0, cause=world.stop[1])
        if world.stop
        else None
    )
    restarts = tuple(
        Restart(number=n, targets=dict(targets), cause="", time=0.0)
        for n, targets in enumerate(world.restarts, 1)
    )
    return view_of(
        Records(app=record, begun_at=0.1, stop=stop, restarts=restarts), containers, volume_state, inspections
    )


def _attempt(noted: tuple[int, int | None, bool]) -> Attempt:
    number, code, told = noted
    return Attempt(
        number=number, started_at=0.0, ended_at=None if code is None else 0.0, code=code, told=told
    )


def steps(decision: Decision, view: AppView) -> tuple[Step, ...]:
    """Return what carrying the decision out does, one after the other (`reconcile`)."""
    up = [r.planned.index for r in view.in_phase(Phase.UP, Phase.AGAIN)]
    match decision:
        case End(stop):
            return (("stop", stop.outcome, stop.cause), STOP_ALL)
        case Order(restart):
            targets = tuple(sorted(restart.targets.items()))
            return (("restart", restart.number, targets, tuple(i for i in up if i in restart.targets)),)
        case Halt(replicas):
            return tuple(("kill", r.planned.index, r.next_attempt) for r in replicas)
        case Launch(replicas, attempts):
            orders = (("order", tuple(sorted(attempts.items()))),) if attempts else ()
            return (*orders, *(("start", r.planned.index) for r in replicas), CONFIRM)
        case Finish(outcome):
            return (("final", outcome),)


def act(app: App, world: World, step: Step) -> World:
    """Return the world after one step of somebody."""
    match step:
        case ("order", orders):
            for i, number in orders:
                world = _with(world, i, order=number)
        case ("start", i) if world.boxes[i].state != "running":
            return _begin(app, _with(world, i, asked=False), i)
        case ("kill", i, attempt) if _next(world.boxes[i]) == attempt:
            return _stop(app, world, (i,), kill=True)
        case ("stop all",):
            return _stop(app, world, range(len(world.boxes)))
        case ("confirm",) if world.stop:
            return act(app, world, STOP_ALL)
        case _:
            return _write(app, world, step)
    return world


def _write(app: App, world: World, step: Step) -> World:
    """Write a record, unless it is there: the first one wins."""
    match step:
        case ("stop", outcome, cause) if not world.stop:
            return world._replace(stop=(outcome, cause))
        case ("restart", number, targets, up) if len(world.restarts) < number:
            return _stop(app, world._replace(restarts=(*world.restarts, targets)), up)
        case ("final", outcome) if not world.final:
            return world._replace(final=outcome)
        case _:
            return world


def _stop(app: App, world: World, which: Iterable[int], *, kill: bool = False) -> World:
    """Have the engine stop what runs of these, with or without a grace period."""
    for i in which:
        if world.boxes[i].state == "restarting":
            world = _with(world, i, state="exited", asked=True)
        elif world.boxes[i].state == "running":
            world = _with(world, i, asked=True)
            world = _end(app, world, i, KILLED) if kill else world
    return world


def _next(box: Box) -> int:
    return box.journal[-1][0] + 1 if box.journal else 0


def _begin(app: App, world: World, i: int) -> World:
    """Do what the script does when its container starts."""
    box, engine = world.boxes[i], app.planned()[i].max_retries if app.planned()[i].by_engine else 0
    last = box.journal[-1] if box.journal else (-1, 0, False)
    code = KILLED if last[1] is None else last[1]
    if world.over is not None:
        return _end(app, world, i, code if last[0] >= 0 and not engine else 0)
    number, ordered = last[0] + 1, last[0] + 1 <= box.order
    if number and not ordered and not (number <= engine and code):
        return _end(app, world, i, code)
    journal = (*box.journal[:-1], (last[0], code, ordered)) if last[1] is None else box.journal
    assert world.final in {"", "CANCELLED", "FAILED"}, f"an attempt of {i} begins after the app's success"
    assert number <= (engine or len(world.restarts)), f"attempt {number} of {i} begins, which nobody ordered"
    failed = sum(1 for _, ended, told in journal if ended and not told)
    assert failed <= app.retries, f"{i} begins again after {failed} failures"
    return _with(world, i, state="running", journal=(*journal, (number, None, False)))


def _end(app: App, world: World, i: int, code: int) -> World:
    box, planned = world.boxes[i], app.planned()[i]
    again = planned.by_engine and code and not box.asked and box.restarts < planned.max_retries
    return _with(world, i, state="restarting" if again else "exited", code=code)


def _leave(app: App, world: World, i: int, code: int, *, told: bool) -> World:
    """Have a program end, and its script note that."""
    box = world.boxes[i]
    number = box.journal[-1][0]
    if code and not told and number >= app.retries and world.over is None:
        world = world._replace(over=i)
    return _end(app, _with(world, i, journal=(*box.journal[:-1], (number, code, told))), i, code)


def _with(world: World, i: int, **changes: Any) -> World:
    box = world.boxes[i]._replace(**changes)
    return world._replace(boxes=(*world.boxes[:i], box, *world.boxes[i + 1 :]))


def nexts(app: App, world: World, looks: Looks, lookers: int, *, calm: bool) -> Iterator[World]:
    """Yield every world that can come next; when it is calm nobody who has a plan is killed."""
    for i, box in enumerate(world.boxes):
        if box.state == "restarting":
            yield _begin(app, _with(world, i, restarts=box.restarts + 1), i)
        elif box.state == "running":
            yield from _ends(app, world, i)
    for n, plan in enumerate(world.plans):
        others = (*world.plans[:n], *world.plans[n + 1 :])
        yield act(app, world._replace(plans=_plans(*others, plan[1:])), plan[0])
        if not calm:  # who had it was killed
            yield world._replace(plans=others, died=world.died or CONFIRM in plan)
    if world.final:
        return
    if len(world.plans) < lookers:
        for plan in looks(world):
            yield world._replace(plans=_plans(*world.plans, plan))
    if not world.asked:
        plan = (("stop", "CANCELLED", None), STOP_ALL)
        yield world._replace(plans=_plans(*world.plans, plan), asked=True)


def _ends(app: App, world: World, i: int) -> Iterator[World]:
    """Yield the ways in which a program that runs can end."""
    asked = world.boxes[i].asked
    for code in (0, 1):
        yield _leave(app, world, i, code, told=False)
    if asked or world.over is not None:
        for code in (0, TOLD):
            yield _leave(app, world, i, code, told=True)
    if asked or not world.killed:
        yield _end(app, world if asked else world._replace(killed=True), i, KILLED)


def _plans(*plans: tuple[Step, ...]) -> tuple[tuple[Step, ...], ...]:
    return tuple(sorted(filter(None, plans), key=repr))


def judge_end(app: App, world: World) -> None:
    """Assert that the outcome is what happened, and that what still runs was, or will be, told to end."""
    if not any(CONFIRM in plan for plan in world.plans) and not world.died:
        lives = [box for box in world.boxes if box.state in {"running", "restarting"} and not box.asked]
        assert not lives, "a program outlives its app, and nobody is about to end it"
    match world.final:
        case "SUCCEEDED":
            assert all(box.journal[-1][1:] == (0, False) for box in world.boxes)
        case "CANCELLED":
            assert world.asked
        case _:
            assert world.killed or any(
                code and not told and number >= app.retries
                for b in world.boxes
                for number, code, told in b.journal[-1:]
            )


@pytest.mark.parametrize("lookers", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("app", APPS, ids=lambda app: "-".join([*app.roles, app.policy, str(app.retries)]))
def test_every_order_keeps_the_promises(app: App, lookers: int) -> None:
    """No attempt too many begins, the outcome is what happened, and an end is always ahead."""
    record = app.record()

    @cache
    def decided(world: World) -> frozenset[tuple[Step, ...]]:
        view = seen(record, world)
        decisions = (decide(view, now) for now in (0.5, 1000.0))
        return frozenset(steps(decision, view) for decision in decisions if decision is not None)

    def looks(world: World) -> frozenset[tuple[Step, ...]]:
        return decided(world._replace(plans=(), asked=False, killed=False, died=False))

    submitter = (*(("start", i) for i in range(len(app.roles))), CONFIRM)
    calm = lookers > 1 and len(app.roles) > 1 and app.retries > 0  # else there are millions of worlds
    first = World((Box(),) * len(app.roles), plans=(submitter,), asked=calm, killed=calm)
    known: dict[World, set[World]] = {}
    todo = [first]
    while todo:
        world = todo.pop()
        if world not in known:
            known[world] = set(nexts(app, world, looks, lookers, calm=calm))
            todo += known[world]
            if world.final:
                judge_end(app, world)
    _assert_an_end_is_ahead(known)


def _assert_an_end_is_ahead(known: dict[World, set[World]]) -> None:
    """Without anybody cancelling, killing, or being killed, the app can always come to its end."""
    good = ahead_of(
        [world for world in known if world.final],
        (
            (world, each)
            for world, following in known.items()
            for each in following
            if (each.asked, each.killed, each.died) == (world.asked, world.killed, world.died)
        ),
    )
    stuck = [world for world in known if world not in good]
    assert not stuck, f"no end is ahead of {stuck[0]}"
