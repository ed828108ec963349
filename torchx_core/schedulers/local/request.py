"""Renders an app into what the supervisor is told to run: a pure function of the app and this host."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from torchx_core.schedulers.local.devices import reserve_plan
from torchx_core.schedulers.local.images import ImageProvider, ReplicaParam, working_directory
from torchx_core.schedulers.option_values import count, one_of, seconds
from torchx_core.schedulers.paths import file_name
from torchx_core.schedulers.secrets import mask_env
from torchx_core.specs import AppDef, CfgVal, Role, macros
from torchx_core.supervisor.plan import LimitMode, LogMode, Plan, ReplicaPlan, encode_plan

__all__ = ["LocalRequest", "PopenRequest", "render", "shown", "submitters_path"]

RANK0_ENV = "TORCHX_RANK0_HOST"


@dataclass
class PopenRequest:
    """What is started for each replica of each role; may be changed before it is scheduled.

    Attributes:
        app_id: The app's id.
        log_dir: The directory of the app's log files.
        role_params: Role -> how each of its replicas is started, by number.
        role_log_dirs: Role -> the directory of each replica's attempts, by number.
    """

    app_id: str
    log_dir: str
    role_params: dict[str, list[ReplicaParam]]
    role_log_dirs: dict[str, list[str]]


@dataclass(kw_only=True)
class LocalRequest(PopenRequest):
    """What a local scheduler submits; may be changed before it is scheduled."""

    app_dir: str
    """The app's record."""
    app: AppDef
    cfg: Mapping[str, CfgVal]
    terms: Plan
    """What holds for the whole app; its replicas are those of `role_params`."""

    @property
    def plan(self) -> Plan:
        """What the supervisor is told."""
        replicas = [
            _replica_plan(role, k, param, self.role_log_dirs[role.name][k], gpus=bool(self.terms.gpu_ids))
            for role in self.app.roles
            for k, param in enumerate(self.role_params[role.name])
        ]
        return self.terms._replace(replicas=replicas)

    def __str__(self) -> str:
        """Show it for people; values that look secret are masked."""
        return json.dumps(shown(self.app_id, self.plan), indent=2)


def _replica_plan(role: Role, k: int, param: ReplicaParam, log_dir: str, *, gpus: bool) -> ReplicaPlan:
    return ReplicaPlan(
        role.name,
        k,
        argv=param.args,
        env=param.env,
        cwd=param.cwd or working_directory(),
        log_dir=log_dir,
        policy=role.retry_policy.value,
        max_retries=role.max_retries,
        cpu=max(0, role.resource.cpu),
        mem_mb=max(0, role.resource.memMB),
        gpus=max(0, role.resource.gpu) if gpus else 0,
    )


def shown(app_id: str, plan: Plan) -> dict[str, object]:
    """Return the plan as JSON values for people; those that look secret are masked."""
    encoded = encode_plan(plan)
    for replica in cast("list[dict[str, object]]", encoded["replicas"]):
        replica["env"] = mask_env(cast("dict[str, str]", replica["env"]))
    return {"app_id": app_id, **encoded}


def render(
    app: AppDef,
    cfg: Mapping[str, CfgVal],
    *,
    app_id: str,
    app_dir: str,
    session: str,
    images: ImageProvider,
    gpu_ids: tuple[str, ...] | None,
    extra_paths: Sequence[str] = (),
) -> LocalRequest:
    """Return the request.

    Args:
        app: The app.
        cfg: Resolved options.
        app_id: Its id.
        app_dir: Where its record will lie.
        session: The session, a part of the log path under ``log_dir``.
        images: What images mean here.
        gpu_ids: This host's GPUs; None to ask the driver when the app wants some.
        extra_paths: Directories that come before a role's own ``PATH``.

    Raises:
        InvalidAppError: An image does not exist, or the host has too few GPUs and that is to be refused.
        InvalidRunConfigException: An option's value is not allowed.
    """
    log_root = os.path.join(app_dir, "log")
    if cfg.get("log_dir"):
        log_dir = os.path.abspath(os.path.expanduser(str(cfg["log_dir"])))
        log_root = os.path.join(log_dir, file_name(session), file_name(app_id))
    log_dirs = {
        role.name: [os.path.join(log_root, file_name(role.name), str(k)) for k in range(role.num_replicas)]
        for role in app.roles
    }
    terms = Plan(
        [],
        grace_s=seconds(cfg, "grace_s") or 0.0,
        timeout_s=seconds(cfg, "timeout_s"),
        deadline=seconds(cfg, "deadline"),
        lease_s=seconds(cfg, "lease_s"),
        log_mode=cast("LogMode", one_of(cfg, "log_mode", ("exact", "pipe"))),
        limits=cast("LimitMode", one_of(cfg, "limits", ("auto", "require", "off"))),
        gpu_ids=reserve_plan(app, cfg, gpu_ids),
        log_max_mb=count(cfg, "log_max_mb"),
    )
    params = {
        role.name: _params(role, app_id, images, log_dirs[role.name], extra_paths, cfg) for role in app.roles
    }
    return LocalRequest(app_id, log_root, params, log_dirs, app_dir=app_dir, app=app, cfg=cfg, terms=terms)


def _params(
    role: Role,
    app_id: str,
    images: ImageProvider,
    log_dirs: Sequence[str],
    extra_paths: Sequence[str],
    cfg: Mapping[str, CfgVal],
) -> list[ReplicaParam]:
    img_root = images.fetch_role(role)
    params: list[ReplicaParam] = []
    for k, log_dir in enumerate(log_dirs):
        values = macros.Values(img_root=img_root, app_id=app_id, replica_id=str(k), rank0_env=RANK0_ENV)
        rendered = values.apply(role)
        rendered.env = _environment(rendered, img_root, extra_paths, cfg)
        files = [os.path.join(log_dir, "0", f"{stream}.log") for stream in ("stdout", "stderr", "combined")]
        params.append(images.get_replica_param(img_root, rendered, *files))
    return params


def submitters_path() -> str:
    """Return the PATH that an app gets from this process.

    Where it has not the directory of this process's Python, that comes first: a service is often started by
    an absolute path, and its `python` and `torchrun` are those beside its own Python.
    """
    path = os.environ.get("PATH", os.defpath)
    beside = os.path.dirname(os.path.abspath(sys.executable)) if sys.executable else ""
    return path if not beside or beside in path.split(os.pathsep) else os.pathsep.join([beside, path])


def _environment(
    role: Role, img_root: str, extra_paths: Sequence[str], cfg: Mapping[str, CfgVal]
) -> dict[str, str]:
    """Return what a replica gets on top of the submitter's environment."""
    env = {"PYTHONUNBUFFERED": "x", RANK0_ENV: "localhost", **role.env}
    first = [img_root] if cfg.get("prepend_cwd") else []
    path = os.pathsep.join(filter(None, [*first, *extra_paths, env.get("PATH")]))
    return {**env, "PATH": path} if path else env
