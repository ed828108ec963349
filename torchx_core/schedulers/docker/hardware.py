"""What a replica needs from the engine's host: limits, GPUs, devices, mounts, ports."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Final, cast

from torchx_core.errors import InvalidAppError, InvalidRunConfigException
from torchx_core.schedulers.devices import NAMED_DEVICES, get_device_mounts
from torchx_core.schedulers.option_values import count
from torchx_core.specs import AppDef, BindMount, CfgVal, DeviceMount, Role, VolumeMount

__all__ = ["GpuDealer", "check_hardware", "devices", "limits", "mounts", "ports"]

logger: Final = logging.getLogger(__name__)

_MB = 1024 * 1024
_LEAST_MB = 6
"""What the engine demands (since 20.10; before, 4)."""
_SHM_MB = 1024
"""Of a replica without a memory limit: data loaders of PyTorch need more than the engine's 64 MB."""


class GpuDealer:
    """Deals the GPUs that ``gpu_ids`` names out to the replicas, in order."""

    def __init__(self, cfg: Mapping[str, CfgVal]) -> None:
        self._cfg = cfg
        ids = cast("list[str] | None", cfg.get("gpu_ids"))
        self._left = None if ids is None else list(ids)

    def request(self, role: Role) -> list[dict[str, object]]:
        """Return the device requests of the next replica, which is one of this role.

        Raises:
            InvalidRunConfigException: There are not that many.
        """
        wanted = role.resource.gpu
        if wanted <= 0:
            return []
        which: dict[str, object] = {"Count": wanted}
        if self._left is not None:
            mine, self._left = self._left[:wanted], self._left[wanted:]
            if len(mine) < wanted:
                raise InvalidRunConfigException(
                    f"gpu_ids names too few GPUs for the replicas of role {role.name!r}", "gpu_ids", self._cfg
                )
            which = {"DeviceIDs": mine}
        return [{"Driver": "", **which, "Capabilities": [["compute", "utility"]]}]


def check_hardware(app: AppDef) -> None:
    """Refuse what no engine can give.

    Raises:
        InvalidAppError: Too little memory.
    """
    for i, role in enumerate(app.roles):
        if 0 < role.resource.memMB < _LEAST_MB:
            raise InvalidAppError(
                f"roles[{i}].resource.memMB",
                f"Docker gives a container at least {_LEAST_MB} MB: {role.resource.memMB};"
                " use more, or -1 for no limit",
            )


def limits(role: Role, cfg: Mapping[str, CfgVal], dealer: GpuDealer) -> dict[str, object]:
    """Return the limits of one replica, as parts of a ``HostConfig``."""
    resource = role.resource
    shm_mb = count(cfg, "shm_mb") or (resource.memMB if resource.memMB > 0 else _SHM_MB)
    given: dict[str, object] = {"DeviceRequests": dealer.request(role), "ShmSize": shm_mb * _MB}
    if resource.cpu > 0:
        given["NanoCpus"] = resource.cpu * 1_000_000_000
    if resource.memMB > 0:
        given["Memory"] = resource.memMB * _MB
    return given


def mounts(role: Role) -> list[dict[str, object]]:
    """Return the role's bind and volume mounts."""
    return [
        {
            "Type": "bind" if isinstance(mount, BindMount) else "volume",
            "Source": _on_host(mount) if isinstance(mount, BindMount) else mount.src,
            "Target": mount.dst_path,
            "ReadOnly": mount.read_only,
        }
        for mount in role.mounts
        if isinstance(mount, BindMount | VolumeMount)
    ]


def _on_host(mount: BindMount) -> str:
    return os.path.expanduser(mount.src_path)  # noqa: PTH111  # Path's raises for an unknown user


def devices(role: Role) -> list[dict[str, object]]:
    """Return the role's device mounts, and the devices that its resource names."""
    asked = [mount for mount in role.mounts if isinstance(mount, DeviceMount)]
    return [
        {
            "PathOnHost": mount.src_path,
            "PathInContainer": mount.dst_path,
            "CgroupPermissions": mount.permissions,
        }
        for mount in (*asked, *_named(role))
    ]


def ports(role: Role, host_ip: str, *, publishes: bool) -> tuple[dict[str, object], dict[str, object]]:
    """Return the ports that the role's replicas open, and where the engine's host publishes them.

    Only one process can have a port of the host: where a role has several replicas the engine chooses free
    ones (``docker port`` tells which).

    Args:
        role: The role.
        host_ip: The address of the engine's host on which they are published.
        publishes: Whether they are.
    """
    opened = [f"{port}/tcp" for port in sorted(role.port_map.values())]
    if not publishes:
        return {port: {} for port in opened}, {}
    alone = role.num_replicas == 1
    numbers = {port: port.partition("/")[0] if alone else "" for port in opened}
    published = {port: [{"HostIp": host_ip, "HostPort": number}] for port, number in numbers.items()}
    return {port: {} for port in opened}, dict(published)


def _named(role: Role) -> list[DeviceMount]:
    for name in role.resource.devices.keys() - NAMED_DEVICES.keys():
        known = ", ".join(NAMED_DEVICES)
        logger.warning("role %s: unknown device %r is left out; known: %s", role.name, name, known)
    devices = role.resource.devices.items()
    return get_device_mounts({name: number for name, number in devices if name in NAMED_DEVICES})
