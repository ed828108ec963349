"""Which GPUs this host has, and whether an app's request for some can be served."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Final

from torchx_core.schedulers.unsupported import leave_out
from torchx_core.specs import AppDef, CfgVal

__all__ = ["VISIBLE", "host_gpus", "reserve_plan"]

VISIBLE: Final = "CUDA_VISIBLE_DEVICES"


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
        asked = f"{wanted} GPU{'s' * (wanted != 1)}"
        there = f"{len(found)} in {VISIBLE}" if ids is None and VISIBLE in os.environ else f"{len(found)}"
        leave_out(cfg, "roles", f"ask for {asked}, this host has {there}; {VISIBLE} is left alone")
        return ()
    return found


def host_gpus() -> tuple[str, ...]:
    """Return the indices of this host's GPUs; none when there is no NVIDIA driver.

    Where ``CUDA_VISIBLE_DEVICES`` is set, as for a worker that has one GPU of several, only of those that it
    names. It is read as CUDA does: by index or UUID, and nothing after a name that no GPU has.
    """
    import subprocess  # imported here: only an app that wants GPUs pays for it

    command = ["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"]
    try:
        listing = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    rows = (row.partition(",") for row in listing.splitlines())
    gpus = [(index.strip(), uuid.strip()) for index, _, uuid in rows]
    visible = os.environ.get(VISIBLE)
    if visible is None:
        return tuple(index for index, _ in gpus)
    return tuple(takewhile(bool, (_index_of(name.strip(), gpus) for name in visible.split(","))))


def _index_of(name: str, gpus: Sequence[tuple[str, str]]) -> str:
    """Return the index of the GPU that has it, or whose UUID alone begins with the name; else nothing.

    A part of a GPU (MIG) stays what it is called.
    """
    if re.fullmatch(r"MIG-[0-9a-f-]+", name):
        return name
    found = [index for index, uuid in gpus if name == index or (name[:4] == "GPU-" and uuid.startswith(name))]
    return found[0] if len(found) == 1 else ""
