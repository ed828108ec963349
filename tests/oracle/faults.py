"""What is done to an app while it is submitted and runs, and what that excuses."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import faults_docker  # noqa: F401  # its faults come along
import faults_host  # noqa: F401  # likewise
from fault import (
    EVERYWHERE,
    FAULTS,
    LOCAL,
    OURS,
    Fault,
    at_some_moment,
    cancel_as,
    disturbs,
    end_zygotes,
    lose,
    may_be_unstarted,
    parent_of,
    send,
    submits,
    supervisor_of,
    victim_of,
    zygote_of,
)
from trial import Trial
from truth import living
from witness import signal_number

from torchx_core.errors import AppNotTerminalError, TorchXError
from torchx_core.testing import wait_until

__all__ = ["FAULTS", "Fault"]


@disturbs(EVERYWHERE, holds=False)
def nothing(_trial: Trial) -> None:
    """Let the app run to its end."""


# --- submitting


@submits()
def submit_twice(trial: Trial) -> None:
    """Submit one id by several processes at once, and once more."""
    racers = [trial.start_submit() for _ in range(trial.rng.choice((1, 2, 4)))]
    for racer in racers:
        trial.finish_submit(racer)
    trial.submit()


@submits()
def submit_from_elsewhere(trial: Trial) -> None:
    """Submit one id from surroundings as different as two users' shells are."""
    trial.submit()
    mine = trial.env
    trial.env = {**mine, "TORCHX_PARENT_RUN_ID": "other", "LANG": "C", "SHELL": "/bin/other", "TERM": "dumb"}
    trial.submit()
    trial.env = mine


@submits()
def submitter_killed(trial: Trial) -> None:
    """SIGKILL a submitter at a random moment, and submit again."""
    for _ in range(trial.rng.choice((1, 1, 3))):
        process = trial.start_submit()
        trial.pause(0.06)
        process.kill()
        trial.finish_submit(process, may_fail=True)
    trial.submit()
    may_be_unstarted(trial)


@submits()
def submitter_stopped(trial: Trial) -> None:
    """SIGSTOP a submitter at a random moment, submit by another, and thaw the first."""
    frozen = trial.start_submit()
    trial.pause(0.06)
    frozen.send_signal(signal.SIGSTOP)
    other = trial.start_submit()
    trial.pause(0.5)
    frozen.send_signal(signal.SIGCONT)
    trial.finish_submit(other)
    trial.finish_submit(frozen)


@submits(LOCAL)
def zygote_struck(trial: Trial) -> None:
    """SIGKILL, or SIGSTOP for a while, the process that starts supervisors, while it is asked for one."""
    trial.env["TORCHX_ZYGOTE_IDLE_S"] = str(trial.rng.uniform(100, 1000))  # one of the trial's own
    words = [sys.executable, "-m", "torchx_core", "run", "--wait", "utils.sh", "true"]
    subprocess.run(
        words,
        env={**trial.env, "TORCHX_STATE_DIR": str(trial.root / "other")},
        check=True,
        capture_output=True,
    )
    zygote = wait_until(lambda: zygote_of(trial.env["TORCHX_ZYGOTE_IDLE_S"]), trial.backend.limit_s)
    trial.at_end(lambda: end_zygotes(trial.env["TORCHX_ZYGOTE_IDLE_S"]))
    is_stopped = trial.rng.random() < 0.5
    process = trial.start_submit()
    trial.pause(0.06)
    send(zygote, signal.SIGSTOP if is_stopped else signal.SIGKILL)
    trial.finish_submit(process)
    send(zygote, signal.SIGCONT)
    trial.submit()
    may_be_unstarted(trial)


@submits(OURS - {"slurm"})
def few_descriptors(trial: Trial) -> None:
    """Submit with hardly any descriptors, which may fail with a clear error, and then with enough.

    Not on Slurm, which gives the limits of whoever submits to the job.
    """
    short = trial.start_submit(descriptors=trial.rng.randrange(4, 40))
    trial.finish_submit(short, may_fail=True)
    trial.submit()
    may_be_unstarted(trial)


# --- reading


@disturbs(EVERYWHERE, holds=False)
def status_storm(trial: Trial) -> None:
    """Ask for everything at once until the app is over."""
    role = trial.scenario.roles[0].name
    while not trial.is_over():
        trial.call("list", lambda: trial.runner.list(trial.backend.scheduler))
        trial.call("describe", lambda: trial.runner.describe(trial.handle))
        trial.call("log_lines", lambda: list(trial.runner.log_lines(trial.handle, role)))
        trial.call("owner", lambda: trial.runner.owner(trial.handle))


@disturbs(EVERYWHERE, holds=False)
def delete_and_prune_too_early(trial: Trial) -> None:
    """Delete and prune while the app runs, which leave it alone."""
    while trial.expects_app and not trial.is_over():
        trial.call("prune", lambda: trial.runner.prune(trial.backend.scheduler, max_age_s=1e9))
        trial.call("delete", lambda: _delete_running(trial), AppNotTerminalError)


def _delete_running(trial: Trial) -> None:
    """Delete the app only while one of its witnesses is known to run."""
    if trial.rng.random() < 0.2 and living(trial.truth_dir):
        trial.runner.delete(trial.handle)
        trial.expects_app = False  # it ended just then
        if left := living(trial.truth_dir):
            trial.note("delete", "deleted an app that runs", ours=False, detail=str(left))


@submits()
def submit_another(trial: Trial) -> None:
    """Submit something else under the same id, which is refused and changes nothing."""
    trial.submit()
    trial.submit_another()


@submits()
def slow_consumer(trial: Trial) -> None:
    """Follow by somebody who takes his time."""
    trial.set_request(follow={"pause_s": 0.02, "batch_bytes": 2000})
    trial.submit()


@disturbs(holds=False)
def follower_stopped(trial: Trial) -> None:
    """SIGSTOP the follower for a while."""
    wait_until(lambda: len(trial.neighbours) > 1 or trial.is_over(), 240)
    trial.pause(0.5)
    follower = trial.neighbours[-1]
    follower.send_signal(signal.SIGSTOP)
    trial.pause(1.0)
    follower.send_signal(signal.SIGCONT)


# --- ending


@disturbs()
def cancel(trial: Trial) -> None:
    """Cancel at a random moment, also before anything runs."""
    at_some_moment(trial)
    cancel_as(trial, "because of the oracle")


@disturbs()
def cancel_again_sooner(trial: Trial) -> None:
    """Cancel with much time, and again with little: the second must shorten the first."""
    trial.started()
    cancel_as(trial, "slowly", grace_s=1000.0)
    trial.pause(0.3)
    if not trial.is_over():
        trial.cancel(grace_s=0.2, reason="at once")


@disturbs()
def cancel_by_owner(trial: Trial) -> None:
    """Take over, cancel as somebody else, which does nothing, and as the owner."""
    trial.started()
    trial.call("take over", lambda: trial.runner.take_over(trial.handle, "me"))
    outcome = trial.cancel(if_owner="somebody else", reason="not mine")
    if outcome not in {"NOT_OWNER", "ALREADY_TERMINAL"}:
        trial.note("cancel if_owner", outcome, ours=False)
    at_some_moment(trial)
    cancel_as(trial, "by its owner", if_owner="me")


@disturbs()
def cancel_storm(trial: Trial) -> None:
    """Cancel many times."""
    at_some_moment(trial)
    for _ in range(5):
        cancel_as(trial, "all of us")


@submits(holds=True)
def deadline(trial: Trial) -> None:
    """Let the app's own deadline end it."""
    trial.set_request(cfg={"timeout_s": round(trial.rng.uniform(0.2, 2.0), 3)})
    trial.submit()
    trial.excuse("CANCELLED", "deadline")


@submits(holds=True)
def lease(trial: Trial) -> None:
    """Follow nothing, so that the lease runs out."""
    trial.set_request(cfg={"lease_s": round(trial.rng.uniform(0.5, 1.5), 3)})
    trial.follows = False
    trial.submit()
    trial.excuse("CANCELLED", "lease")


# --- killing


@disturbs(OURS, holds=False)
def replica_killed(trial: Trial) -> None:
    """Send a replica a deadly signal from outside."""
    victim = victim_of(trial)
    name = trial.rng.choice(("SIGKILL", "SIGSEGV", "SIGUSR2", "SIGRTMIN+1"))
    trial.promises.outside |= {name}
    send(trial.backend.pid_of(victim, trial.root) if victim else 0, signal_number(name))


@disturbs(LOCAL)
def supervisor_killed(trial: Trial) -> None:
    """SIGKILL the supervisor."""
    lose(trial)
    send(supervisor_of(trial), signal.SIGKILL)


@disturbs(LOCAL, holds=False)
def guardian_killed(trial: Trial) -> None:
    """SIGKILL the guardian, which changes nothing."""
    send(parent_of(supervisor_of(trial)), signal.SIGKILL)


@disturbs(LOCAL)
def both_killed(trial: Trial) -> None:
    """SIGKILL guardian and supervisor; a reader ends what is left."""
    lose(trial)
    supervisor = supervisor_of(trial)
    send(parent_of(supervisor), signal.SIGKILL)
    send(supervisor, signal.SIGKILL)


@disturbs(LOCAL, holds=False)
def supervisor_stopped(trial: Trial) -> None:
    """SIGSTOP the supervisor for a while."""
    supervisor = supervisor_of(trial)
    send(supervisor, signal.SIGSTOP)
    trial.pause(1.0)
    send(supervisor, signal.SIGCONT)


@disturbs(LOCAL)
def supervisor_stopped_for_good(trial: Trial) -> None:
    """SIGSTOP the supervisor, perhaps the guardian too, and cancel: a reader carries the cancel out."""
    lose(trial)
    supervisor = supervisor_of(trial)
    if trial.rng.random() < 0.3:
        send(parent_of(supervisor), signal.SIGSTOP)
    send(supervisor, signal.SIGSTOP)
    cancel_as(trial, "although it hangs", grace_s=0.5)
    trial.eventually(trial.is_over, "end")


# --- records


@disturbs(LOCAL)
def record_removed(trial: Trial) -> None:
    """Remove the state directory under a running app: it ends, and its id can be used again."""
    trial.started()
    trial.expects_app = False
    shutil.rmtree(trial.root / "state", ignore_errors=True)
    if not trial.eventually(lambda: not living(trial.truth_dir), "end of an app without its record"):
        return
    trial.finish_submit(trial.start_submit(), may_fail=True)
    trial.call("list", lambda: trial.runner.list(trial.backend.scheduler))
    trial.cancel(grace_s=0.1)
    trial.eventually(lambda: trial.status() is None or trial.is_over(), "end")


@disturbs(LOCAL, holds=False)
def record_damaged(trial: Trial) -> None:
    """Damage a file of an ended app: only our own errors, and nothing hangs."""
    trial.eventually(trial.is_over, "end")
    trial.expects_app = False
    files = [p for p in (trial.root / "state").rglob("*") if trial.app_id in str(p) and p.is_file()]
    if files:
        _damage(trial.rng.choice(sorted(files)), trial.rng)
    scheduler = trial.backend.scheduler
    calls: dict[str, Callable[[], object]] = {
        "status": lambda: trial.runner.status(trial.handle),
        "list": lambda: trial.runner.list(scheduler),
        "follow": lambda: list(trial.runner.follow(trial.handle)),
        "cancel": lambda: trial.runner.cancel(trial.handle),
        "prune": lambda: trial.runner.prune(scheduler, max_count=0),
        "delete": lambda: trial.runner.delete(trial.handle),
    }
    for name, act in calls.items():
        trial.call(name, act, TorchXError)


def _damage(path: Path, rng: random.Random) -> None:
    data = path.read_bytes()
    path.unlink()
    kind = rng.choice(("truncated", "flipped", "garbage", "deep", "empty", "folder", "loop", "fifo", "keys"))
    match kind:
        case "folder":
            path.mkdir()
        case "loop":
            path.symlink_to(path)
        case "fifo":
            os.mkfifo(path)
        case "truncated":
            path.write_bytes(data[: rng.randrange(len(data) + 1)])
        case "flipped":
            place = rng.randrange(len(data) + 1)
            path.write_bytes(data[:place] + bytes([rng.randrange(256)]) + data[place + 1 :])
        case "deep":
            path.write_bytes(b"[" * 100_000)
        case "keys":
            path.write_text(json.dumps({"version": 1, "what": [1, 2, 3]}))
        case _:
            path.write_bytes(rng.randbytes(200) if kind == "garbage" else b"")
