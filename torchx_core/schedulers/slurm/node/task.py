"""The task of a replica: one attempt after the other."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from torchx_core.schedulers.slurm.node.files import read_json
from torchx_core.schedulers.slurm.node.guard import Guard
from torchx_core.schedulers.slurm.node.program import RESTART, SIGNAL, STOP, SUPERSEDED, Program
from torchx_core.schedulers.slurm.node.replica import Replica, Superseded
from torchx_core.schedulers.slurm.node.signals import Signals, outlive_signals

if TYPE_CHECKING:
    from torchx_core.schedulers.slurm.node.plan import Plan

PEERS_S = 15.0
"""How long, after their grace period, the end of those that start again together is waited for."""


def run_task(directory: str) -> int:
    """Run a replica until nothing starts it any more; return the exit code of the task."""
    outlive_signals()
    plan = cast("Plan", read_json(os.path.join(directory, "plan.json")) or {})
    replica = Replica(directory, plan)
    guard = Guard()
    slurmstepd = os.getppid()

    def note_death(code: int) -> None:
        with suppress(Superseded):
            replica.note_death(code)

    return guard.run(lambda: work(replica, Signals(slurmstepd), guard), note_death)


def work(replica: Replica, signals: Signals, guard: Guard) -> int:
    """Do what `run_task` does, in the process that the guard stands beside."""
    try:
        code = run_attempts(replica, signals, guard)
    except Superseded:
        return SUPERSEDED
    replica.leave()
    return code


def run_attempts(replica: Replica, signals: Signals, guard: Guard) -> int:
    """Run one attempt after the other; return the exit code of the task."""
    if replica.stop() is not None:
        return 0  # ended before it began
    while True:
        program = Program(replica, signals, guard)
        code = after(replica, program.follow(), program.told, signals)
        if code is not None:
            return code
        wait_for_peers(replica, signals)


def after(replica: Replica, code: int, told: str, signals: Signals) -> int | None:
    """Return the task's exit code, or None when another attempt is to start."""
    stop = replica.stop()  # raises if a later run of the job has begun, which is not ours to decide upon
    if told == RESTART and stop is None:
        return None
    if told in (STOP, RESTART):
        return 0
    if told == SIGNAL:
        return 128 + signal.SIGTERM
    if code != 0:
        if stop is None and replica.may_restart():
            return None
        replica.end_app("FAILED", "", replica.index)
        return code
    return wait_for_others(replica, signals)


def wait_for_peers(replica: Replica, signals: Signals) -> None:
    """Stay until all that start again together are down: a new attempt never meets the last one of a peer.

    A peer that cannot say that it has ended, because its node is out of reach, is not waited for in vain.
    Whatever ends the app meanwhile is seen to by the next attempt, as if it had begun a moment before.
    """
    until = time.monotonic() + replica.plan["grace_s"] + PEERS_S
    while time.monotonic() < until and not replica.peers_are_down():
        if replica.stop() is not None or signal.SIGTERM in signals.seen:
            return
        signals.sleep()


def wait_for_others(replica: Replica, signals: Signals) -> int | None:
    """Stay as long as somebody's failure could start this replica, which has succeeded, again."""
    while True:
        if replica.restarted():
            return None
        over = replica.all_succeeded() or not replica.waits_for_others()
        if over or replica.stop() is not None or signal.SIGTERM in signals.seen:
            return 0
        signals.sleep()
