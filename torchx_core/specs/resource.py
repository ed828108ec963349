"""What one replica needs from its host."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

__all__ = ["IS_FRACTIONAL_TAG", "NULL_RESOURCE", "RESOURCE_NAME_TAG", "GiB", "Resource", "null_resource"]

GiB: Final = 1024
"""MiB in a GiB, for ``Resource.memMB``."""
RESOURCE_NAME_TAG: Final = "torchx/named_resources.name"
IS_FRACTIONAL_TAG: Final = "torchx/named_resources.is_fractional"


@dataclass
class Resource:
    """Hardware for one replica; a scheduler treats it as a minimum, and as a limit where it can.

    Args:
        cpu: Logical cores; zero or less for "do not care".
        gpu: Devices; zero or less for none.
        memMB: Memory in MB; zero or less for "do not care".
        capabilities: Facts about the hardware that the scheduler interprets.
        devices: Named devices and how many of each, for example ``{"vpc.amazonaws.com/efa": 4}``.
        tags: Facts about this object itself, such as the name it was looked up by; not a requirement.
    """

    cpu: int
    gpu: int
    memMB: int  # noqa: N815  (TorchX's name)
    capabilities: dict[str, object] = field(default_factory=dict[str, object])
    devices: dict[str, int] = field(default_factory=dict[str, int])
    tags: dict[str, object] = field(default_factory=dict[str, object])

    def get_resource_name(self) -> str | None:
        """Return the name it was looked up by, as registered, or None."""
        name = self.tags.get(RESOURCE_NAME_TAG)
        return None if name is None else str(name)

    def is_fractional(self) -> bool:
        """Return whether the factory of a named resource marked it as a part of a larger one."""
        return bool(self.tags.get(IS_FRACTIONAL_TAG))

    @staticmethod
    def copy(original: Resource, **capabilities: object) -> Resource:
        """Return a copy of ``original`` with capabilities added or replaced.

        Example:
            >>> Resource.copy(Resource(cpu=1, gpu=0, memMB=64, capabilities={"a": 1}), a=2).capabilities
            {'a': 2}
        """
        return Resource(
            cpu=original.cpu,
            gpu=original.gpu,
            memMB=original.memMB,
            capabilities={**original.capabilities, **capabilities},
            devices=dict(original.devices),
            tags=dict(original.tags),
        )


def null_resource() -> Resource:
    """Return a new resource that asks for nothing in particular.

    New each time, because resources are mutable: one shared default would spread an assignment to one role
    to all of them. Compare with ``== NULL_RESOURCE``.
    """
    return Resource(cpu=-1, gpu=-1, memMB=-1)


NULL_RESOURCE: Final = null_resource()
"""Asks for nothing in particular; the default of ``Role.resource`` equals it."""
