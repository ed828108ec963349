"""What processes do with GPUs, told by an NVML that keeps the real one's contract, on a host without any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import pytest

from torchx_core.schedulers.local.gpus import BusyGpu, busy_gpus, share

GB = 1 << 30


class Trouble(Exception):
    """NVML's error."""


class Rates(NamedTuple):
    """How busy a GPU was."""

    gpu: int


class Process(NamedTuple):
    """Who uses a GPU."""

    pid: int
    usedGpuMemory: int | None  # noqa: N815  # NVML's name


class FakeNvml:
    """Some GPUs, each with its percentage (None: not supported) and its processes; or a driver in trouble."""

    NVMLError = Trouble

    def __init__(self, *gpus: tuple[int | None, Sequence[Process]], broken: bool = False) -> None:
        self._gpus = gpus
        self._broken = broken

    def nvmlInit(self) -> None:  # noqa: N802  # NVML's name
        """Connect."""

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802  # likewise
        """Return how many there are."""
        return len(self._gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> object:  # noqa: N802  # likewise
        """Name one."""
        return index

    def nvmlDeviceGetUtilizationRates(self, handle: object) -> Rates:  # noqa: N802  # likewise
        """Return how busy it was."""
        percent = self._gpus[cast("int", handle)][0]
        if percent is None:
            raise Trouble("not supported")
        return Rates(percent)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: object) -> Sequence[Process]:  # noqa: N802
        """Return who uses it."""
        if self._broken:
            raise Trouble("GPU is lost")
        return self._gpus[cast("int", handle)][1]


def test_gpus_are_those_that_a_replicas_processes_use() -> None:
    """Their percentages and its own memory there are added up; what others use is theirs."""
    nvml = FakeNvml(
        (90, [Process(10, 3 * GB), Process(99, 5 * GB)]),
        (40, [Process(11, GB)]),
        (70, [Process(99, GB)]),
        (0, []),
    )
    gpus = busy_gpus(nvml)
    assert len(gpus) == 3
    assert share(gpus, {10, 11, 12}) == (130.0, 4 * GB)
    assert share(gpus, {12}) == (None, None)


def test_what_the_driver_does_not_tell_is_not_known() -> None:
    """The memory of a process in another namespace, how busy a part of a GPU is: each alone."""
    gpus = busy_gpus(FakeNvml((None, [Process(10, GB)]), (50, [Process(10, None), Process(11, GB)])))
    assert share(gpus, {10}) == (None, None)
    assert share(gpus, {11}) == (50.0, GB)
    assert share([BusyGpu(None, {10: GB})], {10}) == (None, GB)


@pytest.mark.parametrize("nvml", [None, FakeNvml(), FakeNvml((9, [Process(10, GB)]), broken=True)])
def test_without_a_driver_that_answers_nothing_is_known(nvml: FakeNvml | None) -> None:
    """No NVML, no GPU, or one that has fallen off the bus."""
    assert busy_gpus(nvml) == []
