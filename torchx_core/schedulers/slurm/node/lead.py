"""The batch script: sees to it that this job is the app's only one, and starts a task per replica."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Callable, Iterator, cast  # noqa: UP035  (Python 3.7)

from torchx_core.schedulers.slurm.node.files import done_name, read_json, refresh, this_run, write_once
from torchx_core.schedulers.slurm.node.signals import outlive_signals

if TYPE_CHECKING:
    from torchx_core.schedulers.slurm.node.plan import Plan

NOT_LAUNCHED = b"Application launch failed"
LAUNCHES = 3
NOTE_S = 10.0
"""How long a task's note that it has ended may take to be seen on this node."""
NOTE_LOOK_S = 0.5
DEATH = re.compile(rb"^srun: error: \S+: tasks? (\d+(?:[-,]\d+)*): ")


def lead(directory: str) -> int:
    """Start the replicas; return the exit code of srun."""
    outlive_signals()
    plan = cast("Plan | None", read_json(os.path.join(directory, "plan.json")))
    job_id = os.environ.get("SLURM_HET_JOB_ID") or os.environ["SLURM_JOB_ID"]
    job = os.path.join(directory, "job.json")
    if not os.path.exists(job):  # its submitter has died, or is slower than Slurm
        write_once(job, {"job_id": job_id, "time": time.time()})
    claimed = read_json(job) or {}
    if (
        plan is None
        or claimed.get("job_id") != job_id
        or os.path.exists(os.path.join(directory, "final.json"))
        or has_succeeded(directory)
    ):
        print(f"job {job_id} is not the job of this app, or too late: it does nothing", file=sys.stderr)
        return 0
    nodes = os.environ.get("SLURM_JOB_NODELIST_HET_GROUP_0") or os.environ.get("SLURM_JOB_NODELIST", "")
    run = {"job_id": job_id, "time": time.time(), "nodes": nodes}
    for number in range(this_run() + 1):  # earlier ones as well: a node may be lost before we begin there
        write_once(os.path.join(directory, f"run.{number}.json"), run)
    os.environ[plan["rank0_env"]] = first_address(nodes)
    code, launched = launch(srun(plan, directory), lambda line: mind_deaths(line, plan, directory))
    if not launched and this_run() < LAUNCHES and not os.path.exists(os.path.join(directory, "stop.json")):
        subprocess.call(["scontrol", "requeue", job_id])  # refused where the job is not to be requeued
    return code


def has_succeeded(directory: str) -> bool:
    """Return whether every replica had succeeded before Slurm started the job again.

    Only what the latest run says counts: a task on a node that was cut off may say so of an earlier one.
    """
    begun = 0
    while os.path.exists(os.path.join(directory, f"run.{begun}.json")):
        begun += 1
    return os.path.exists(os.path.join(directory, done_name(begun - 1)))


def launch(command: list[str], mind: Callable[[bytes], None]) -> tuple[int, bool]:
    """Run srun; return its exit code, and whether it got as far as to start all tasks.

    What it says of the end of tasks is shown to `mind`, in a thread of its own: srun must not wait for us.

    It does not when a node was lost so recently that Slurm does not know. Then the job ends as if it had
    failed by itself, and Slurm would not start it again.
    """
    launched = True
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        for line in process.stderr or []:
            launched = launched and NOT_LAUNCHED not in line
            sys.stderr.buffer.write(line)
            sys.stderr.buffer.flush()
            if DEATH.search(line):
                threading.Thread(target=mind, args=(line,), daemon=True).start()
    return process.wait(), launched


def mind_deaths(line: bytes, plan: Plan, directory: str) -> None:
    """End the app if srun says that a task has ended which could not say so itself.

    A task leaves a note when it ends. It cannot on a node without Python or without the shared directory, nor
    when its guard is killed with it; the other replicas would wait for it until Slurm's time limit.

    Of an app of several roles srun counts the tasks of each by itself, and does not say which it means: then
    it must be that no task of that number has left a note.
    """
    found = DEATH.search(line)
    if found is None:
        return
    run, said = this_run(), line.decode("utf-8", "replace").strip()
    for number in _numbers(found[1].decode()):
        meant = _replicas(number, plan)
        notes = [os.path.join(directory, f"left/{run}.{index}") for index in meant]
        until = time.monotonic() + NOTE_S
        while not any(map(os.path.exists, notes)):
            if os.path.exists(os.path.join(directory, f"run.{run + 1}.json")):
                return  # Slurm has started the job again: what has ended is a task of the run before
            if time.monotonic() >= until:
                msg = f"a task ended on its node without a word: {said}"
                index = meant[0] if len(meant) == 1 else -1
                stop = {"outcome": "FAILED", "msg": msg, "grace_s": None, "time": time.time(), "index": index}
                write_once(os.path.join(directory, "stop.json"), stop)
                return
            time.sleep(NOTE_LOOK_S)  # noqa: TID251  (nothing tells of files on a shared file system)
            refresh(directory)
            refresh(os.path.join(directory, "left"))


def _numbers(text: str) -> Iterator[int]:
    """Yield the numbers that srun means by `0,2-4`."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _replicas(number: int, plan: Plan) -> list[int]:
    """Return the indices of the replicas that may be the task of that number."""
    first = 0
    meant: list[int] = []
    for role in plan["roles"]:
        if number < role["replicas"]:
            meant.append(first + number)
        first += role["replicas"]
    return meant


def srun(plan: Plan, directory: str) -> list[str]:
    """Return the command that starts a task per replica, on all components of the job at once."""
    command = ["srun", "--kill-on-bad-exit=0", "--wait=0", "--export=ALL"]
    several = len(plan["roles"]) > 1
    for number, role in enumerate(plan["roles"]):
        if number:
            command.append(":")
        if several:
            command.append(f"--het-group={number}")
        command += [f"--ntasks={role['replicas']}", f"--cpus-per-task={role['cpus']}"]
        if role["gpus_each"]:
            command.append(f"--gpu-bind=per_task:{role['gpus_each']}")
        command += [*plan["python"], os.path.join(directory, "shim.pyz"), "replica", directory]
    return command


def first_address(nodes: str) -> str:
    """Return where the first node is reached: Slurm may know another address than the name's."""
    try:
        name = _scontrol("show", "hostnames", nodes)[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "localhost"
    try:
        shown = _scontrol("--oneliner", "show", "node", name)
    except (OSError, subprocess.CalledProcessError):
        return name  # the controller is away
    for word in shown:
        key, _, value = word.partition("=")
        if key == "NodeAddr" and value:
            return value
    return name


def _scontrol(*words: str) -> list[str]:
    return subprocess.check_output(["scontrol", *words]).decode().split()
