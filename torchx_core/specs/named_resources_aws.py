"""Named resources for the instance types of AWS, as ``aws_<instance type>``.

Each is a function of this module too, with ``_`` for what no name has: ``aws_p5_48xlarge()``.
Source: https://aws.amazon.com/ec2/instance-types/, and TorchX's table of the same names.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from torchx_core.specs.resource import GiB, Resource

__all__ = [
    "EFA_DEVICE",
    "K8S_ITYPE",
    "MEM_TAX",
    "NAMED_RESOURCES",
    "NEURON_DEVICE",
    "GiB",
    "instance_type_from_resource",
]

EFA_DEVICE: Final = "vpc.amazonaws.com/efa"
"""In `Resource.devices`: network adapters that bypass the operating system."""
NEURON_DEVICE: Final = "aws.amazon.com/neurondevice"
"""In `Resource.devices`: Trainium and Inferentia accelerators."""
K8S_ITYPE: Final = "node.kubernetes.io/instance-type"
"""In `Resource.capabilities`: the instance type, as Kubernetes labels its nodes."""

MEM_TAX: Final = 0.96
"""The part of the memory that a job can have: one that asks for what the system needs is never placed."""
_USABLE_MIB: Final = int(GiB * MEM_TAX)


class _Instance(NamedTuple):
    cpu: int
    gpu: int
    gib: int
    efa: int = 0
    neuron: int = 0


_INSTANCES: Final = {
    "t3.medium": _Instance(2, 0, 4),
    "m5.large": _Instance(2, 0, 8),
    "m5.xlarge": _Instance(4, 0, 16),
    "m5.2xlarge": _Instance(8, 0, 32),
    "m5.4xlarge": _Instance(16, 0, 64),
    "m5.8xlarge": _Instance(32, 0, 128),
    "m5.12xlarge": _Instance(48, 0, 192),
    "m5.16xlarge": _Instance(64, 0, 256),
    "m5.24xlarge": _Instance(96, 0, 384),
    "m5.metal": _Instance(96, 0, 384),
    "m5d.large": _Instance(2, 0, 8),
    "m5d.xlarge": _Instance(4, 0, 16),
    "m5d.2xlarge": _Instance(8, 0, 32),
    "m5d.4xlarge": _Instance(16, 0, 64),
    "m5d.8xlarge": _Instance(32, 0, 128),
    "m5d.12xlarge": _Instance(48, 0, 192),
    "m5d.16xlarge": _Instance(64, 0, 256),
    "m5d.24xlarge": _Instance(96, 0, 384),
    "m5d.metal": _Instance(96, 0, 384),
    "c5.18xlarge": _Instance(72, 0, 142),  # has 144 GiB, of which even 96 % are too much
    "p3.2xlarge": _Instance(8, 1, 61),
    "p3.8xlarge": _Instance(32, 4, 244),
    "p3.16xlarge": _Instance(64, 8, 488),
    "p3dn.24xlarge": _Instance(96, 8, 768, efa=1),
    "p4d.24xlarge": _Instance(96, 8, 1152, efa=4),
    "p4de.24xlarge": _Instance(96, 8, 1152, efa=4),
    "p5.48xlarge": _Instance(192, 8, 2048, efa=32),
    "p5e.48xlarge": _Instance(192, 8, 2048, efa=32),
    "p5en.48xlarge": _Instance(192, 8, 2048, efa=16),
    "p6-b200.48xlarge": _Instance(192, 8, 2048, efa=8),
    "p6-b300.48xlarge": _Instance(192, 8, 4096, efa=16),
    "p6e-gb200.36xlarge": _Instance(144, 4, 960, efa=16),
    "g4dn.xlarge": _Instance(4, 1, 16),
    "g4dn.2xlarge": _Instance(8, 1, 32),
    "g4dn.4xlarge": _Instance(16, 1, 64),
    "g4dn.8xlarge": _Instance(32, 1, 128, efa=1),
    "g4dn.16xlarge": _Instance(64, 1, 256, efa=1),
    "g4dn.12xlarge": _Instance(48, 4, 192, efa=1),
    "g4dn.metal": _Instance(96, 8, 384, efa=1),
    "g5.xlarge": _Instance(4, 1, 16),
    "g5.2xlarge": _Instance(8, 1, 32),
    "g5.4xlarge": _Instance(16, 1, 64),
    "g5.8xlarge": _Instance(32, 1, 128, efa=1),
    "g5.16xlarge": _Instance(64, 1, 256, efa=1),
    "g5.12xlarge": _Instance(48, 4, 192, efa=1),
    "g5.24xlarge": _Instance(96, 4, 384, efa=1),
    "g5.48xlarge": _Instance(192, 8, 768, efa=1),
    "g6e.xlarge": _Instance(4, 1, 32),
    "g6e.2xlarge": _Instance(8, 1, 64),
    "g6e.4xlarge": _Instance(16, 1, 128),
    "g6e.8xlarge": _Instance(32, 1, 256),
    "g6e.16xlarge": _Instance(64, 1, 512),
    "g6e.12xlarge": _Instance(48, 4, 384),
    "g6e.24xlarge": _Instance(96, 4, 768, efa=2),
    "g6e.48xlarge": _Instance(192, 8, 1536, efa=4),
    "trn1.2xlarge": _Instance(8, 0, 32, neuron=1),
    "trn1.32xlarge": _Instance(128, 0, 512, efa=8, neuron=16),
    "inf2.xlarge": _Instance(4, 0, 16, neuron=1),
    "inf2.8xlarge": _Instance(32, 0, 128, neuron=1),
    "inf2.24xlarge": _Instance(96, 0, 384, neuron=6),
    "inf2.48xlarge": _Instance(192, 0, 768, neuron=12),
}


def _resource(instance_type: str) -> Resource:
    cpu, gpu, gib, efa, neuron = _INSTANCES[instance_type]
    counts = {EFA_DEVICE: efa, NEURON_DEVICE: neuron}
    return Resource(
        cpu=cpu,
        gpu=gpu,
        memMB=gib * _USABLE_MIB,
        capabilities={K8S_ITYPE: instance_type},
        devices={device: count for device, count in counts.items() if count},
    )


NAMED_RESOURCES: Final[Mapping[str, Callable[[], Resource]]] = {
    f"aws_{instance_type}": partial(_resource, instance_type) for instance_type in _INSTANCES
}
"""Name -> factory; each call makes a new Resource."""
_FUNCTIONS: Final = {name.replace(".", "_").replace("-", "_"): make for name, make in NAMED_RESOURCES.items()}


def __getattr__(name: str) -> Callable[[], Resource]:
    """Return the factory, as ``aws_p5_48xlarge``."""
    if name not in _FUNCTIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _FUNCTIONS[name]


def instance_type_from_resource(resource: Resource) -> str | None:
    """Return the instance type that the resource is of; None, with a warning, for one that names none."""
    found = resource.capabilities.get(K8S_ITYPE)
    if found is None:
        warnings.warn(f"the resource has no capability K8S_ITYPE ({K8S_ITYPE!r})", stacklevel=2)
        return None
    return str(found)
