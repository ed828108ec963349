"""The task of a replica: one attempt after the other."""

from __future__ import annotations

import os
import signal

from torchx_core.schedulers.slurm.node.files import read_json
from torchx_core.schedulers.slurm.node.program import RESTART, SIGNAL, STOP, SUPERSEDED, Program
from torchx_core.schedulers.slurm.node.replica import Replica, Superseded
from torchx_core.schedulers.slurm.node.signals import Signals


def play(directory: str) -> int:
    """Run a replica until nothing starts it any more; return the exit code of the task."""
    signals = Signals()
    replica = Replica(directory, read_json(os.path.join(directory, "plan.json")) or {})
    try:
        code = run_attempts(replica, signals)
    except Superseded:
        return SUPERSEDED
    replica.leave()
    return code


def run_attempts(replica: Replica, signals: Signals) -> int:
    """Run one attempt after the other; return the exit code of the task."""
    if replica.stop() is not None:
        return 0  # ended before it began
    while True:
        program = Program(replica, signals)
        code = after(replica, program.follow(), program.told, signals)
        if code is not None:
            return code


def after(replica: Replica, code: int, told: str, signals: Signals) -> int | None:
    """Return the task's exit code, or None when another attempt is to start."""
    if told == RESTART:
        return None
    if told == STOP:
        return 0
    if told == SIGNAL:
        return 128 + signal.SIGTERM
    if code != 0:
        if replica.may_restart():
            return None
        replica.end_app("FAILED", "", replica.index)
        return code
    return wait_for_others(replica, signals)


def wait_for_others(replica: Replica, signals: Signals) -> int | None:
    """Stay as long as somebody's failure could start this replica, which has succeeded, again."""
    while True:
        if replica.restarted():
            return None
        over = replica.all_succeeded() or not replica.waits_for_others()
        if over or replica.stop() is not None or signal.SIGTERM in signals.seen:
            return 0
        signals.sleep()
