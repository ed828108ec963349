"""Parts of a host that are named resources of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Protocol

__all__ = [
    "EIGHTH",
    "HALF",
    "QUARTER",
    "SIXTEENTH",
    "WHOLE",
    "SomeResource",
    "halve_mem_down_to",
    "powers_of_two_gpus",
]

WHOLE: Final = 1.0
"""The whole host, as a share of it."""
HALF: Final = 0.5
"""Half of the host."""
QUARTER: Final = 0.25
"""A quarter of the host."""
EIGHTH: Final = 0.125
"""An eighth of the host."""
SIXTEENTH: Final = 0.0625
"""A sixteenth of the host."""

_MIB_PER_GIB: Final = 1024


class SomeResource(Protocol):
    """A resource of this package, or of TorchX."""

    gpu: int
    memMB: int  # noqa: N815  # TorchX's name
    tags: dict[str, object]


def powers_of_two_gpus(resource: SomeResource) -> dict[float, str]:
    """Return share -> number of GPUs, for all of them, half of them, and so on down to one.

    Raises:
        ValueError: Their number is no power of two.

    Example:
        >>> from torchx_core.specs import Resource
        >>> powers_of_two_gpus(Resource(cpu=8, gpu=4, memMB=1024))
        {1.0: '4', 0.5: '2', 0.25: '1'}
    """
    gpus = resource.gpu
    if gpus < 1 or gpus & (gpus - 1):
        raise ValueError(f"cannot halve {gpus} GPUs down to one; expected a power of two")
    return dict(_halved(gpus, 1))


def halve_mem_down_to(*, minGiB: int) -> Callable[[SomeResource], dict[float, str]]:  # noqa: N803  # TorchX's name
    """Return what gives share -> GiB of memory, for all of it, half of it, and so on down to the least.

    Args:
        minGiB: The least.

    Raises (what is returned):
        ValueError: The memory is no whole number of GiB, or is not one any more before it is the least.

    Example:
        >>> from torchx_core.specs import Resource
        >>> halve_mem_down_to(minGiB=16)(Resource(cpu=8, gpu=0, memMB=48 * 1024))
        {1.0: '48', 0.5: '24'}
    """

    def halve(resource: SomeResource) -> dict[float, str]:
        gib, rest = divmod(resource.memMB, _MIB_PER_GIB)
        odd = gib // (gib & -gib) if gib > 0 else 0
        if rest or gib < 1 or minGiB < odd:
            raise ValueError(
                f"cannot halve {resource.memMB} MB down to {minGiB} GiB; expected whole GiB,"
                f" and to stop at {odd} or more"
            )
        return dict(_halved(gib, minGiB))

    return halve


def _halved(amount: int, least: int) -> Iterator[tuple[float, str]]:
    share = WHOLE
    while (part := int(amount * share)) >= max(least, 1):
        yield share, str(part)
        share /= 2
