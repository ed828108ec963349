"""Slurm's `decide`, explored: every order of what nodes and controller do to small apps, and views too old.

The files are modelled at the grain of `Facts`: a task begins an attempt, notes its end, starts again alone
while it may, ends the app when it may not, and leaves. Whoever looks reads files and asks Slurm, in either
order, and anything may happen in between and before he writes the end down.

Not explored: orders to start several replicas again together.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from types import SimpleNamespace
from typing import NamedTuple, cast

import pytest
from reachable import ahead_of

from torchx_core.schedulers.slurm.decide import decide
from torchx_core.schedulers.slurm.facts import Attempt, Facts, Run, Stop
from torchx_core.schedulers.slurm.job import UNLISTED, Job
from torchx_core.schedulers.slurm.record import AppRecord
from torchx_core.specs import is_terminal


class Said(NamedTuple):
    """What Slurm says of the job."""

    state: str = "PENDING"
    restarts: int = 0


class Files(NamedTuple):
    """What lies in the app's directory."""

    runs: int = 0
    attempts: tuple[tuple[tuple[int, int | None, bool], ...], ...] = ()
    """Run, exit code and whether it was told to end, of each attempt of each replica."""
    left: frozenset[int] = frozenset()
    """Who has left the latest run."""
    stop: tuple[str, int] | None = None


class World(NamedTuple):
    """Everything that decides what can come next."""

    files: Files
    job: Said = Said()
    up: frozenset[int] = frozenset()
    """Replicas whose program runs."""
    ended_by: str = ""
    """What Slurm does to the job by itself, or for a user: NODE_FAIL, CANCELLED, or a requeue."""
    looks: tuple[Files | Said | str, ...] = ()
    """What has been read by those who look: files, Slurm's word, or the end that they are about to write."""
    final: str = ""


GOOD = (0, False)
OVER = frozenset({"CANCELLED", "COMPLETED", "FAILED", "NODE_FAIL", UNLISTED})


@cache
def verdict(files: Files, said: Said | None) -> str:
    """Return the end that `decide` comes to, if it is one for good."""
    facts = Facts(
        job_id="1",
        submitted_at=1.0,
        submitting=False,
        runs=[Run(started_at=1.0, nodes="n")] * files.runs,
        attempts=[
            [
                Attempt(number=n, run=run, host="n", started_at=1.0, code=code, told=told)
                for n, (run, code, told) in enumerate(rows)
            ]
            for rows in files.attempts
        ],
        restarts=0,
        stop=Stop(outcome=files.stop[0], msg="", index=files.stop[1]) if files.stop else None,
        all_left=bool(files.runs) and len(files.left) == len(files.attempts),
    )
    job = said and Job(job_id="1", state=said.state, restarts=said.restarts)
    replicas = [SimpleNamespace(role="a", replica=i) for i in range(len(files.attempts))]
    record = cast("AppRecord", SimpleNamespace(replicas=replicas, path=str))
    found = decide(record, facts, job or None)
    return found.state.name if is_terminal(found.state) and found.for_good else ""


def nexts(world: World, retries: int, lookers: int) -> Iterator[World]:
    """Yield every world that can come next."""
    for i in range(len(world.files.attempts)):
        yield from _of_task(world, i, retries)
    yield from _of_slurm(world)
    files = world.files
    if not world.final and files.stop is None:
        yield world._replace(files=files._replace(stop=("CANCELLED", -1)))
    if not world.final:
        yield from _of_lookers(world, lookers)


def _of_lookers(world: World, lookers: int) -> Iterator[World]:
    if len(world.looks) < lookers:
        yield _looking(world, (*world.looks, world.files))
        yield _looking(world, (*world.looks, world.job))
    for n, seen in enumerate(world.looks):
        others = (*world.looks[:n], *world.looks[n + 1 :])
        yield _looking(world, others)  # who looked was killed
        if isinstance(seen, str):
            yield world._replace(final=seen, looks=())
            continue
        files, said = (seen, world.job) if isinstance(seen, Files) else (world.files, seen)
        by_files = verdict(files, None)
        if by_files or verdict(files, said):  # once Slurm says that it is over, the files are read once more
            end = by_files or verdict(world.files, said)
            yield _looking(world, (*others, end) if end else others)


def _looking(world: World, looks: tuple[Files | Said | str, ...]) -> World:
    return world._replace(looks=tuple(sorted(looks, key=repr)))


def _of_task(world: World, i: int, retries: int) -> Iterator[World]:
    files = world.files
    rows = files.attempts[i]
    if i in world.up:
        less = world._replace(up=world.up - {i})
        for code in (0, 1):
            yield less._replace(files=_with(files, i, (*rows[:-1], (rows[-1][0], code, False))))
        if files.stop is not None or world.ended_by == "CANCELLED" or world.final:
            for code in (0, 143):
                yield less._replace(files=_with(files, i, (*rows[:-1], (rows[-1][0], code, True))))
        if world.ended_by:  # it did not end in time, or its node was lost
            yield less
        return
    if world.job.state != "RUNNING" or i in files.left or (rows and rows[-1][1] is None):
        return
    _, ended, told = rows[-1] if rows else (0, 0, True)
    if ended == 0 or told or files.stop is not None:
        yield world._replace(files=files._replace(left=files.left | {i}))
    elif sum(bool(row[1]) and not row[2] for row in rows) <= retries:
        assert not world.final, f"{i} starts after the end"
        again = (*rows, (files.runs - 1, None, False))
        yield world._replace(files=_with(files, i, again), up=world.up | {i})
    else:
        yield world._replace(files=files._replace(stop=("FAILED", i)))


def _with(files: Files, i: int, rows: tuple[tuple[int, int | None, bool], ...]) -> Files:
    return files._replace(attempts=(*files.attempts[:i], rows, *files.attempts[i + 1 :]))


def _of_slurm(world: World) -> Iterator[World]:
    match world.job.state:
        case "PENDING":
            yield from _of_start(world)
        case "RUNNING":
            yield from _of_running(world)
        case state if state != UNLISTED:
            yield world._replace(job=world.job._replace(state=UNLISTED))
        case _:
            pass


def _of_start(world: World) -> Iterator[World]:
    files, job = world.files, world.job
    if world.final or (files.runs and all(rows and rows[-1][1:] == GOOD for rows in files.attempts)):
        yield world._replace(job=job._replace(state="COMPLETED"))  # the batch script does nothing
        return
    begun = files._replace(runs=files.runs + 1, left=frozenset())
    if files.stop is None:
        attempts = tuple((*rows, (files.runs, None, False)) for rows in files.attempts)
        begun = begun._replace(attempts=attempts)
    up = _everybody(world) if files.stop is None else frozenset[int]()
    yield world._replace(files=begun, up=up, job=job._replace(state="RUNNING"), ended_by="")
    if files.stop is not None:
        yield world._replace(job=job._replace(state="CANCELLED"), ended_by="CANCELLED")


def _of_running(world: World) -> Iterator[World]:
    files, job = world.files, world.job
    if not world.ended_by:
        yield world._replace(ended_by="CANCELLED")
        yield world._replace(ended_by="NODE_FAIL")
        if job.restarts == 0:
            yield world._replace(ended_by="REQUEUE")
    if not world.up and world.ended_by == "REQUEUE":
        yield world._replace(job=Said("PENDING", job.restarts + 1))
    elif not world.up and world.ended_by:
        yield world._replace(job=job._replace(state=world.ended_by))
    elif files.left == _everybody(world):
        state = "FAILED" if any(not rows or rows[-1][1] for rows in files.attempts) else "COMPLETED"
        yield world._replace(job=job._replace(state=state))


def _everybody(world: World) -> frozenset[int]:
    return frozenset(range(len(world.files.attempts)))


def judge_end(world: World, retries: int) -> None:
    """Assert that the one end names what happened, and comes when nothing runs any more."""
    attempts = world.files.attempts
    assert not world.up or world.files.runs > 1, f"{world.final}, and programs run"
    for rows in attempts:
        assert sum(bool(code) and not told for _, code, told in rows) <= retries + world.files.runs
    match world.final:
        case "SUCCEEDED":
            assert all(any(row[1:] == GOOD for row in rows) for rows in attempts)
        case "CANCELLED":
            assert world.ended_by == "CANCELLED" or world.files.stop == ("CANCELLED", -1)
        case _:
            failed = world.files.stop is not None and world.files.stop[0] == "FAILED"
            lost = any(not rows or rows[-1][1:] != GOOD for rows in attempts)
            assert failed or world.ended_by == "NODE_FAIL" or (world.job.state == UNLISTED and lost)


@pytest.mark.parametrize(
    ("replicas", "retries", "lookers"),
    [(1, 0, 1), (1, 1, 1), *(pytest.param(*slow, marks=pytest.mark.slow) for slow in ((2, 0, 1), (1, 1, 2)))],
)
def test_every_order_keeps_the_promises(replicas: int, retries: int, lookers: int) -> None:
    """The one end names what happened, nothing runs then, and an end is always ahead."""
    known: dict[World, set[World]] = {}
    todo = [World(Files(attempts=((),) * replicas))]
    while todo:
        world = todo.pop()
        if world not in known:
            known[world] = set(nexts(world, retries, lookers))
            todo += known[world]
            for each in known[world]:
                if each.final and not world.final:
                    judge_end(each, retries)
    good = ahead_of(
        [world for world in known if world.final],
        (
            (world, each)
            for world, following in known.items()
            for each in following
            if each.files.stop != ("CANCELLED", -1) or world.files.stop == each.files.stop
        ),
    )
    stuck = [world for world in known if world not in good]
    assert not stuck, f"no end is ahead of {stuck[0]}"
