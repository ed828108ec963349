"""Named resources of no particular machine: t-shirt sizes for defaults and examples.

What a size stands for may change. Name your own hardware for anything that depends on the figures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from torchx_core.specs.resource import GiB, Resource

__all__ = ["NAMED_RESOURCES"]

_SIZES: Final = {  # cores, devices, memory in MiB
    "gpu.small": (8, 1, 32 * GiB),
    "gpu.medium": (16, 2, 64 * GiB),
    "gpu.large": (32, 4, 128 * GiB),
    "gpu.xlarge": (64, 8, 256 * GiB),
    "cpu.nano": (1, 0, 512),
    "cpu.micro": (1, 0, 1 * GiB),
    "cpu.small": (1, 0, 2 * GiB),
    "cpu.medium": (2, 0, 4 * GiB),
    "cpu.large": (2, 0, 8 * GiB),
    "cpu.xlarge": (8, 0, 32 * GiB),
}

NAMED_RESOURCES: Final[Mapping[str, Callable[[], Resource]]] = {
    name: partial(Resource, *size) for name, size in _SIZES.items()
}
"""Name -> factory; each call makes a new Resource."""
