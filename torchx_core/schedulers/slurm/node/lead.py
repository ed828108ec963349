"""The batch script: sees to it that this job is the app's only one, and starts a task per replica."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

from torchx_core.schedulers.slurm.node.files import read_json, this_run, write_once


def lead(directory: str) -> int:
    """Start the replicas; return the exit code of srun."""
    plan = read_json(os.path.join(directory, "plan.json"))
    job_id = os.environ.get("SLURM_HET_JOB_ID") or os.environ["SLURM_JOB_ID"]
    job = os.path.join(directory, "job.json")
    write_once(job, {"job_id": job_id})
    claimed = read_json(job) or {}
    if (
        plan is None
        or claimed.get("job_id") != job_id
        or os.path.exists(os.path.join(directory, "final.json"))
    ):
        print(f"job {job_id} is not the job of this app, or too late: it does nothing", file=sys.stderr)
        return 0
    nodes = os.environ.get("SLURM_JOB_NODELIST_HET_GROUP_0") or os.environ.get("SLURM_JOB_NODELIST", "")
    run = {"job_id": job_id, "time": time.time(), "nodes": nodes}
    write_once(os.path.join(directory, f"run.{this_run()}.json"), run)
    os.environ[plan["rank0_env"]] = first_address(nodes)
    return subprocess.call(srun(plan, directory))


def srun(plan: dict[str, Any], directory: str) -> list[str]:
    """Return the command that starts a task per replica, on all components of the job at once."""
    command = ["srun", "--kill-on-bad-exit=0", "--wait=0"]
    several = len(plan["roles"]) > 1
    for number, role in enumerate(plan["roles"]):
        if number:
            command.append(":")
        if several:
            command.append(f"--het-group={number}")
        command += [f"--ntasks={role['replicas']}", f"--cpus-per-task={role['cpus']}"]
        command += [plan["python"], os.path.join(directory, "shim.pyz"), "replica", directory]
    return command


def first_address(nodes: str) -> str:
    """Return where the first node is reached: Slurm may know another address than the name's."""
    try:
        name = subprocess.check_output(["scontrol", "show", "hostnames", nodes]).decode().split()[0]
        shown = subprocess.check_output(["scontrol", "--oneliner", "show", "node", name]).decode()
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "localhost"
    for word in shown.split():
        key, _, value = word.partition("=")
        if key == "NodeAddr" and value:
            return value
    return name
