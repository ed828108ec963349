"""What processes of this host do with its GPUs, as NVML tells where it is installed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from importlib import import_module
from typing import NamedTuple, Protocol, cast

__all__ = ["BusyGpu", "Nvml", "busy_gpus", "find_nvml", "share"]


class _Rates(Protocol):
    @property
    def gpu(self) -> int: ...


class _Process(Protocol):
    @property
    def pid(self) -> int: ...

    @property
    def usedGpuMemory(self) -> int | None: ...  # noqa: N802  # NVML's name


class Nvml(Protocol):
    """What of the module ``pynvml`` is used."""

    @property
    def NVMLError(self) -> type[Exception]:  # noqa: N802  # NVML's name
        """What everything here raises."""
        ...

    def nvmlInit(self) -> None:  # noqa: N802  # likewise
        """Connect to the driver."""

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802  # likewise
        """Return how many GPUs there are."""
        ...

    def nvmlDeviceGetHandleByIndex(self, index: int) -> object:  # noqa: N802  # likewise
        """Return what names a GPU."""
        ...

    def nvmlDeviceGetUtilizationRates(self, handle: object) -> _Rates:  # noqa: N802  # likewise
        """Return how busy it was lately."""
        ...

    def nvmlDeviceGetComputeRunningProcesses(self, handle: object) -> Sequence[_Process]:  # noqa: N802  # likewise
        """Return who uses it."""
        ...


class BusyGpu(NamedTuple):
    """A GPU that somebody uses."""

    percent: float | None
    memory: dict[int, int | None]
    """By process: how many bytes it has there, if the driver says."""


@cache
def find_nvml() -> Nvml | None:
    """Return NVML, connected to the driver; None where it, or the driver, is not installed."""
    try:
        nvml = cast("Nvml", import_module("pynvml"))
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None
    return nvml


def busy_gpus(nvml: Nvml | None) -> list[BusyGpu]:
    """Return the GPUs that somebody uses; none where nobody can tell."""
    if nvml is None:
        return []
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        found = [(handle, nvml.nvmlDeviceGetComputeRunningProcesses(handle)) for handle in handles]
    except nvml.NVMLError:
        return []
    return [
        BusyGpu(_percent(nvml, handle), {p.pid: p.usedGpuMemory for p in processes})
        for handle, processes in found
        if processes
    ]


def _percent(nvml: Nvml, handle: object) -> float | None:
    try:
        return float(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    except nvml.NVMLError:  # a part of a GPU (MIG) has none
        return None


def share(gpus: Sequence[BusyGpu], pids: Collection[int]) -> tuple[float | None, int | None]:
    """Return how busy the GPUs are that these processes use, added up, and how much memory they have there.

    None and None where they use no GPU that anybody knows of: the driver may not see who they are.
    """
    used = [gpu for gpu in gpus if not gpu.memory.keys().isdisjoint(pids)]
    percents = [gpu.percent for gpu in used]
    sizes = [size for gpu in used for pid, size in gpu.memory.items() if pid in pids]
    known = [size for size in sizes if size is not None]
    return (
        sum(p for p in percents if p is not None) if used and None not in percents else None,
        sum(known) if used and len(known) == len(sizes) else None,
    )
