"""Renders an app into what the supervisor is told to run: a pure function of the app and this host."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from torchx_core.schedulers.local.devices import reserve_plan
from torchx_core.schedulers.local.images import ImageProvider
from torchx_core.schedulers.option_values import one_of, seconds
from torchx_core.schedulers.paths import file_name
from torchx_core.schedulers.secrets import mask_env
from torchx_core.specs import AppDef, CfgVal, Role, macros
from torchx_core.supervisor.plan import LimitMode, LogMode, Plan, ReplicaPlan, encode_plan

__all__ = ["LocalRequest", "render", "shown"]

RANK0_ENV = "TORCHX_RANK0_HOST"


@dataclass
class LocalRequest:
    """What a local scheduler submits; may be changed before it is scheduled."""

    app_id: str
    app_dir: str
    """The app's record."""
    app: AppDef
    cfg: Mapping[str, CfgVal]
    plan: Plan

    def __str__(self) -> str:
        """Show it for people; values that look secret are masked."""
        return json.dumps(shown(self.app_id, self.plan), indent=2)


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
    gpu_dir: str,
    gpu_ids: tuple[str, ...] | None,
) -> LocalRequest:
    """Return the request.

    Args:
        app: The app.
        cfg: Resolved options.
        app_id: Its id.
        app_dir: Where its record will lie.
        session: The session, a part of the log path under ``log_dir``.
        images: What images mean here.
        gpu_dir: Lock files of this host's GPUs.
        gpu_ids: This host's GPUs; None to ask the driver when the app wants some.

    Raises:
        InvalidAppError: An image does not exist.
        InvalidRunConfigException: An option's value is not allowed.
    """
    log_root = os.path.join(app_dir, "log")
    if cfg.get("log_dir"):
        log_dir = os.path.abspath(os.path.expanduser(str(cfg["log_dir"])))
        log_root = os.path.join(log_dir, file_name(session), file_name(app_id))
    reserve = reserve_plan(app, enabled=bool(cfg.get("auto_set_cuda_visible_devices")), ids=gpu_ids)
    replicas: list[ReplicaPlan] = []
    for role in app.roles:
        img_root = images.fetch_role(role)
        replicas += [
            _replica(role, k, app_id, img_root, images, log_root, cfg, gpus=bool(reserve))
            for k in range(role.num_replicas)
        ]
    plan = Plan(
        replicas,
        grace_s=seconds(cfg, "grace_s") or 0.0,
        timeout_s=seconds(cfg, "timeout_s"),
        deadline=seconds(cfg, "deadline"),
        lease_s=seconds(cfg, "lease_s"),
        log_mode=cast("LogMode", one_of(cfg, "log_mode", ("exact", "pipe"))),
        limits=cast("LimitMode", one_of(cfg, "limits", ("auto", "require", "off"))),
        gpu_dir=gpu_dir,
        gpu_ids=reserve,
    )
    return LocalRequest(app_id, app_dir, app, cfg, plan)


def _replica(
    role: Role,
    k: int,
    app_id: str,
    img_root: str,
    images: ImageProvider,
    log_root: str,
    cfg: Mapping[str, CfgVal],
    *,
    gpus: bool,
) -> ReplicaPlan:
    values = macros.Values(img_root=img_root, app_id=app_id, replica_id=str(k), rank0_env=RANK0_ENV)
    rendered = values.apply(role)
    return ReplicaPlan(
        role.name,
        k,
        argv=[images.entrypoint(img_root, rendered), *rendered.args],
        env=_environment(rendered, img_root, cfg),
        cwd=images.cwd(img_root),
        log_dir=os.path.join(log_root, file_name(role.name), str(k)),
        policy=role.retry_policy.value,
        max_retries=role.max_retries,
        cpu=max(0, role.resource.cpu),
        mem_mb=max(0, role.resource.memMB),
        gpus=max(0, role.resource.gpu) if gpus else 0,
    )


def _environment(role: Role, img_root: str, cfg: Mapping[str, CfgVal]) -> dict[str, str]:
    """Return what a replica gets on top of the submitter's environment."""
    env = {"PYTHONUNBUFFERED": "x", RANK0_ENV: "localhost", **role.env}
    if cfg.get("prepend_cwd"):
        env["PATH"] = f"{img_root}{os.pathsep}{env.get('PATH') or os.environ.get('PATH', os.defpath)}"
    return env
