"""What a replica uses of the host that it runs on, or has used when it has ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from torchx_core.specs.checks import want_float, want_int, want_map

__all__ = ["Usage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one replica uses, or has used, with all of its processes; what is not known is None, never 0.

    In the status of an app the figures are of all attempts that have ended: times are summed up, and the peak
    is that of the greatest. A sample (`torchx_core.schedulers.UsageSample`) is of the attempt that runs.

    Args:
        cpu_percent: CPU time per time since the sample before, where one core kept busy is 100.
        cpu_s: CPU time in seconds.
        wall_s: How long it has run, in seconds.
        memory_bytes: Memory that it has now, without what the system only caches for it.
        memory_peak_bytes: The most memory that it had.
        memory_limit_bytes: How much memory it may have, where that is enforced.
        processes: How many processes it has now.
        read_bytes: Read from disks.
        write_bytes: Written to disks.
        gpu_percent: How busy the GPUs are that its processes use; one that is always busy is 100.
        gpu_memory_bytes: Memory that its processes have on GPUs now.
    """

    cpu_percent: float | None = None
    cpu_s: float | None = None
    wall_s: float | None = None
    memory_bytes: int | None = None
    memory_peak_bytes: int | None = None
    memory_limit_bytes: int | None = None
    processes: int | None = None
    read_bytes: int | None = None
    write_bytes: int | None = None
    gpu_percent: float | None = None
    gpu_memory_bytes: int | None = None

    def to_json(self) -> dict[str, object]:
        """Return what is known, as plain JSON values.

        Example:
            >>> Usage(cpu_s=1.5).to_json()
            {'cpu_s': 1.5}
        """
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    @staticmethod
    def from_json(data: Mapping[str, object], path: str = "usage") -> Usage:
        """Read what `to_json` gives; unknown fields (of a newer version) are ignored.

        Raises:
            InvalidAppError: A figure is no number.
        """
        given = want_map(data, path)

        def number(name: str) -> float | None:
            return None if given.get(name) is None else want_float(given[name], f"{path}.{name}")

        def count(name: str) -> int | None:
            return None if given.get(name) is None else want_int(given[name], f"{path}.{name}")

        return Usage(
            cpu_percent=number("cpu_percent"),
            cpu_s=number("cpu_s"),
            wall_s=number("wall_s"),
            memory_bytes=count("memory_bytes"),
            memory_peak_bytes=count("memory_peak_bytes"),
            memory_limit_bytes=count("memory_limit_bytes"),
            processes=count("processes"),
            read_bytes=count("read_bytes"),
            write_bytes=count("write_bytes"),
            gpu_percent=number("gpu_percent"),
            gpu_memory_bytes=count("gpu_memory_bytes"),
        )
