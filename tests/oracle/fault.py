"""The faults by name, and what several of them are made of."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trial import Trial
from truth import Copy

__all__ = [
    "DOCKER",
    "EVERYWHERE",
    "FAULTS",
    "LOCAL",
    "OURS",
    "Fault",
    "at_some_moment",
    "cancel_as",
    "disturbs",
    "end_zygotes",
    "lose",
    "may_be_unstarted",
    "parent_of",
    "send",
    "submits",
    "supervisor_of",
    "victim_of",
    "zygote_of",
]

EVERYWHERE = frozenset({"local_cwd", "local_docker", "slurm", "torchx:local_cwd"})
OURS = EVERYWHERE - {"torchx:local_cwd"}
LOCAL = frozenset({"local_cwd"})
DOCKER = frozenset({"local_docker"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One kind of disturbance."""

    name: str
    backends: frozenset[str] = EVERYWHERE
    holds: bool = False
    """The app runs until the disturbance ends it."""
    submit: Callable[[Trial], None] | None = None
    disturb: Callable[[Trial], None] | None = None


FAULTS: dict[str, Fault] = {}


def submits(
    backends: frozenset[str] = OURS, *, holds: bool = False
) -> Callable[[Callable[[Trial], None]], Callable[[Trial], None]]:
    """Register what submits, in its own way, as a fault of its name."""
    return _register(lambda name, act: Fault(name=name, backends=backends, holds=holds, submit=act))


def disturbs(
    backends: frozenset[str] = OURS,
    *,
    holds: bool = True,
    submit: Callable[[Trial], None] | None = None,
) -> Callable[[Callable[[Trial], None]], Callable[[Trial], None]]:
    """Register what disturbs a submitted app as a fault of its name."""
    return _register(
        lambda name, act: Fault(name=name, backends=backends, holds=holds, submit=submit, disturb=act)
    )


def _register(
    make: Callable[[str, Callable[[Trial], None]], Fault],
) -> Callable[[Callable[[Trial], None]], Callable[[Trial], None]]:
    def add(act: Callable[[Trial], None]) -> Callable[[Trial], None]:
        fault = make(act.__name__.strip("_").replace("_", "-"), act)
        FAULTS[fault.name] = fault
        return act

    return add


def may_be_unstarted(trial: Trial) -> None:
    """An app whose submitter died before it could start it may be ended by a reader that comes between."""
    trial.excuse("FAILED", "never started")


def cancel_as(trial: Trial, reason: str, **arguments: object) -> None:
    """Cancel, and let the app end so if that was taken."""
    outcome = trial.cancel(reason=reason, **arguments)
    if outcome == "REQUESTED":
        trial.excuse("CANCELLED", reason)


def at_some_moment(trial: Trial) -> None:
    """Wait for the app's start, or not even that, and a random time."""
    if trial.rng.random() < 0.7:
        trial.started()
    trial.pause(0.4)


def lose(trial: Trial) -> None:
    """Let output be lost with the supervisor, and the app fail by it."""
    trial.promises.may_lose = True
    trial.excuse("FAILED", "supervisor")


def supervisor_of(trial: Trial) -> int:
    """Return the process that started the replicas; 0 for none."""
    copies = trial.started()
    trial.pause(0.4)
    return copies[0].parent if copies else 0


def parent_of(pid: int) -> int:
    """Return the parent of a process; 0 when it is gone."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def zygote_of(idle_s: str) -> int:
    """Return the process that starts supervisors for those who have it wait so long; 0 for none."""
    own = f"TORCHX_ZYGOTE_IDLE_S={idle_s}\0".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            is_zygote = (process / "cmdline").read_bytes().startswith(b"torchx-zygote")
            if is_zygote and own in (process / "environ").read_bytes():
                return int(process.name)
    return 0


def end_zygotes(idle_s: str) -> None:
    """SIGKILL every such process: a submit that finds none leaves another behind."""
    while pid := zygote_of(idle_s):
        send(pid, signal.SIGKILL)


def send(pid: int, number: int) -> None:
    """Send a signal, if there is such a process."""
    if pid > 1:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def victim_of(trial: Trial) -> Copy | None:
    """Return a replica that has started."""
    trial.pause(0.3)
    running = trial.started()
    return trial.rng.choice(running) if running else None
