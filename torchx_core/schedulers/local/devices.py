"""Which GPUs this host has, and whether an app's request for some can be served."""

from __future__ import annotations

from torchx_core.errors import InvalidAppError
from torchx_core.specs import AppDef

__all__ = ["host_gpus", "reserve_plan"]


def reserve_plan(app: AppDef, *, enabled: bool, ids: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the devices to reserve from, or none when the app wants none or nobody asked for it.

    Raises:
        InvalidAppError: The host does not have that many.
    """
    wanted = sum(max(0, role.resource.gpu) * role.num_replicas for role in app.roles)
    if not enabled or not wanted:
        return ()
    found = host_gpus() if ids is None else ids
    if len(found) < wanted:
        raise InvalidAppError(
            "roles",
            f"ask for {wanted} GPUs, this host has {len(found)};"
            " unset auto_set_cuda_visible_devices to share them",
        )
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
