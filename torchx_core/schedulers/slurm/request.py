"""Renders an app into what sbatch is given: a pure function of the app and its options.

No value of the app or of an option is ever seen by a shell: the batch script is a fixed text, what a replica
runs is read from ``plan.json`` by our own program, and options are words of sbatch's command line.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil

from torchx_core.schedulers.option_values import count, seconds
from torchx_core.schedulers.options.slurm import SBATCH_TEXTS
from torchx_core.schedulers.paths import file_name
from torchx_core.schedulers.secrets import mask_env
from torchx_core.schedulers.slurm.node.plan import Plan, PlannedReplica, PlannedRole
from torchx_core.schedulers.slurm.record import PLAN, SCRIPT, SHIM, SLURM_LOG, Planned
from torchx_core.settings import ENV_TORCHX_JOB_ID
from torchx_core.specs import AppDef, CfgVal, InvalidRunConfigException, Role, macros, make_app_handle

__all__ = ["SlurmRequest", "render"]

RANK0_ENV = "TORCHX_RANK0_HOST"


@dataclass
class SlurmRequest:
    """What is submitted; may be changed before it is scheduled."""

    app_id: str
    app_dir: str
    """The app's record, on a file system that submitter and nodes share."""
    app: AppDef
    cfg: Mapping[str, CfgVal]
    incarnation: str
    comment: str
    sbatch: list[str]
    """The command line."""
    script: str
    plan: Plan
    """What the nodes run."""

    @property
    def replicas(self) -> list[Planned]:
        """All replicas, in the order of the roles."""
        return [Planned(each["role"], each["replica"], each["log_dir"]) for each in self.plan["replicas"]]

    def __str__(self) -> str:
        """Show it for people; values that look secret are masked."""
        masked = [{**each, "env": mask_env(each["env"])} for each in self.plan["replicas"]]
        plan = {**self.plan, "replicas": masked}
        return "\n".join([shlex.join(self.sbatch), "", self.script, f"# {PLAN}", json.dumps(plan, indent=2)])


def render(
    app: AppDef,
    cfg: Mapping[str, CfgVal],
    *,
    app_id: str,
    app_dir: str,
    session: str,
    cwd: str,
    absolute: Callable[[str], str],
) -> SlurmRequest:
    """Return the request.

    Args:
        app: The app.
        cfg: Resolved options.
        app_id: Its id.
        app_dir: Where its record will lie.
        session: Its session.
        cwd: Where the submitter is.
        absolute: Returns the absolute path of what an option names, on the host where Slurm's commands run.

    Raises:
        InvalidRunConfigException: An option's value is not allowed.
    """
    for name, value in cfg.items():
        if isinstance(value, str) and any(ord(letter) < ord(" ") for letter in value):
            raise InvalidRunConfigException(f"{name} must be one line of plain text: {value!r}", name, cfg)
    incarnation = os.urandom(8).hex()
    log_root = os.path.join(app_dir, "log")
    if cfg.get("log_dir"):
        # Logs of an app whose record is gone may lie there still: they would be this one's earlier attempts.
        own = f"{file_name(app_id)}.{incarnation}"
        log_root = os.path.join(absolute(str(cfg["log_dir"])), file_name(session), own)
    directory = absolute(str(cfg["job_dir"])) if cfg.get("job_dir") else cwd
    comment = f"torchx:{session}/{app_id}:{incarnation}"
    components = [_component(role, cfg) for role in app.roles]
    sbatch = ["sbatch", "--parsable", *_common(app_id, app_dir, comment, cfg), *components[0]]
    for component in components[1:]:
        sbatch += [":", *component]
    sbatch.append(os.path.join(app_dir, SCRIPT))
    return SlurmRequest(
        app_id=app_id,
        app_dir=app_dir,
        app=app,
        cfg=cfg,
        incarnation=incarnation,
        comment=comment,
        sbatch=sbatch,
        script=_script(app_dir, cfg),
        plan=_plan(app, cfg, app_id=app_id, log_root=log_root, session=session, cwd=directory),
    )


def _common(app_id: str, app_dir: str, comment: str, cfg: Mapping[str, CfgVal]) -> list[str]:
    return [
        f"--job-name={app_id}",
        f"--comment={comment} {cfg['comment']}" if cfg.get("comment") else f"--comment={comment}",
        f"--output={_pattern(os.path.join(app_dir, SLURM_LOG))}",
        "--open-mode=append",
        "--requeue" if cfg["requeue"] else "--no-requeue",
        f"--export={cfg['export']}",
    ]


def _pattern(path: str) -> str:
    """Return what stands for the path among sbatch's options, where ``%`` means something.

    A backslash cannot be told to every Slurm: 22.05 and 24.11 want it doubled, 26.05 drops it (seen).
    """
    return os.devnull if "\\" in path else path.replace("%", "%%")


def _component(role: Role, cfg: Mapping[str, CfgVal]) -> list[str]:
    """Return the options of a role's component of the job."""
    per_node = _per_node(role, cfg)
    resource = role.resource
    options = [
        f"--nodes={ceil(role.num_replicas / per_node)}",
        f"--ntasks={role.num_replicas}",
        f"--ntasks-per-node={per_node}",
        f"--cpus-per-task={max(1, resource.cpu)}",
    ]
    if resource.memMB > 0 and not cfg["nomem"]:
        options.append(f"--mem={resource.memMB * per_node}M")
    if resource.gpu > 0:
        options.append(f"--gres=gpu:{resource.gpu * per_node}")
    return options + [f"--{name}={cfg[name]}" for name in SBATCH_TEXTS if cfg.get(name)]


def _per_node(role: Role, cfg: Mapping[str, CfgVal]) -> int:
    return min(role.num_replicas, max(1, count(cfg, "replicas_per_node") or 1))


def _script(app_dir: str, cfg: Mapping[str, CfgVal]) -> str:
    lead = shlex.join([*_python(cfg), os.path.join(app_dir, SHIM), "lead", app_dir])
    log = os.path.join(app_dir, SLURM_LOG)
    own_log = f" >>{shlex.quote(log)} 2>&1" if _pattern(log) == os.devnull else ""
    return f"#!/bin/sh\nexec {lead}{own_log}\n"


def _python(cfg: Mapping[str, CfgVal]) -> list[str]:
    """Return what runs our program: nothing that the user's variables or packages name gets into it."""
    return [str(cfg["python"]), "-I", "-S"]


def _plan(
    app: AppDef, cfg: Mapping[str, CfgVal], *, app_id: str, log_root: str, session: str, cwd: str
) -> Plan:
    handle = make_app_handle("slurm", session, app_id)
    replicas = [
        _replica(role, k, app_id=app_id, handle=handle, log_root=log_root, cwd=cwd)
        for role in app.roles
        for k in range(role.num_replicas)
    ]
    plan: Plan = {
        "python": _python(cfg),
        "rank0_env": RANK0_ENV,
        "grace_s": seconds(cfg, "grace_s") or 0.0,
        "timeout_s": seconds(cfg, "timeout_s"),
        "deadline": seconds(cfg, "deadline"),
        "lease_s": seconds(cfg, "lease_s"),
        "roles": [_step(role, cfg) for role in app.roles],
        "replicas": replicas,
    }
    most_mb = count(cfg, "log_max_mb")
    if most_mb is not None:
        plan["log_max_mb"] = most_mb
    return plan


def _step(role: Role, cfg: Mapping[str, CfgVal]) -> PlannedRole:
    """Return what srun has to know: replicas that share a node's GPUs would all see all of them."""
    gpus_each = max(0, role.resource.gpu) if _per_node(role, cfg) > 1 else 0
    return {"replicas": role.num_replicas, "cpus": max(1, role.resource.cpu), "gpus_each": gpus_each}


def _replica(role: Role, k: int, *, app_id: str, handle: str, log_root: str, cwd: str) -> PlannedReplica:
    values = macros.Values(img_root=role.image or cwd, app_id=app_id, replica_id=str(k), rank0_env=RANK0_ENV)
    rendered = values.apply(role)
    return {
        "role": role.name,
        "replica": k,
        "argv": [rendered.entrypoint, *rendered.args],
        "env": {"PYTHONUNBUFFERED": "x", ENV_TORCHX_JOB_ID: handle, **rendered.env},
        "cwd": cwd,
        "log_dir": os.path.join(log_root, file_name(role.name), str(k)),
        "policy": role.retry_policy.value,
        "max_retries": role.max_retries,
    }
