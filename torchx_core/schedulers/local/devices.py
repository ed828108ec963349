"""Which GPUs this host has, and whether an app's request for some can be served."""

from __future__ import annotations

from collections.abc import Mapping

from torchx_core.schedulers.unsupported import leave_out
from torchx_core.specs import AppDef, CfgVal

__all__ = ["host_gpus", "reserve_plan"]


def reserve_plan(app: AppDef, cfg: Mapping[str, CfgVal], ids: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the devices to reserve from; none when the app wants none, or nobody asked for it.

    Where the host has fewer than the app wants, none is reserved either: all replicas see all that there are.

    Args:
        app: The app.
        cfg: Resolved options.
        ids: The host's GPUs; None to ask the driver when they matter.

    Raises:
        InvalidAppError: The host does not have that many, and ``unsupported`` is ``refuse``.
    """
    wanted = sum(max(0, role.resource.gpu) * role.num_replicas for role in app.roles)
    if not cfg.get("auto_set_cuda_visible_devices") or not wanted:
        return ()
    found = host_gpus() if ids is None else ids
    if len(found) < wanted:
        problem = f"ask for {wanted} GPUs, this host has {len(found)}; CUDA_VISIBLE_DEVICES is left alone"
        leave_out(cfg, "roles", problem)
        return ()
    return found


def host_gpus() -> tuple[str, ...]:
    """Return the indices of the GPUs that the NVIDIA driver lists; none when there is no driver."""
    import subprocess  # imported here: only an app that wants GPUs pays for it

    command = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
    try:
        listing = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(listing.split())
