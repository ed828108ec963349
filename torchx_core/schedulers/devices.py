"""Devices that a resource asks for by name, as the files that a container needs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Final

from torchx_core.specs import DeviceMount

__all__ = ["NAMED_DEVICES", "get_device_mounts"]

NAMED_DEVICES: Final[Mapping[str, str]] = {
    "vpc.amazonaws.com/efa": "/dev/infiniband/uverbs",
    "aws.amazon.com/neurondevice": "/dev/neuron",
}
"""Name of a kind of device (`Resource.devices`) -> the path of its files, without their number."""


def get_device_mounts(devices: Mapping[str, int]) -> list[DeviceMount]:
    """Return a mount for each device: so many of each name, counted from 0.

    A name that is not in `NAMED_DEVICES` is left out, with a warning.
    """
    mounts: list[DeviceMount] = []
    for name, number in devices.items():
        path = NAMED_DEVICES.get(name)
        if path is None:
            warnings.warn(f"unknown device {name!r}; known: {', '.join(NAMED_DEVICES)}", stacklevel=2)
            continue
        mounts += [DeviceMount(f"{path}{i}", f"{path}{i}") for i in range(number)]
    return mounts
