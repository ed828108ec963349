"""How what a replica uses is written for people."""

from __future__ import annotations

from torchx_core.specs import Usage

__all__ = ["memory_text", "peak_text", "usage_text"]

_UNITS = ("KB", "MB", "GB", "TB")
_STEP = 1024
_TENTHS_BELOW = 10


def memory_text(size_bytes: int | None) -> str:
    """Return an amount of memory in units of 1024, as ``memMB`` counts it; nothing for one that is unknown.

    Example:
        >>> [memory_text(n) for n in (None, 0, 300 << 10, 512 << 20, 1536 << 20, 64 << 30)]
        ['', '0 KB', '300 KB', '512 MB', '1.5 GB', '64 GB']
    """
    if size_bytes is None:
        return ""
    size = size_bytes / _STEP
    for unit in _UNITS:
        if round(size) < _STEP or unit == _UNITS[-1]:
            tenths = unit not in ("KB", "MB") and size < _TENTHS_BELOW
            return f"{size:.1f} {unit}" if tenths else f"{size:.0f} {unit}"
        size /= _STEP
    raise AssertionError("unreachable")


def peak_text(usage: Usage) -> str:
    """Return the most memory that it had, and what it may have, where that is known.

    Example:
        >>> peak_text(Usage(memory_peak_bytes=480 << 20, memory_limit_bytes=512 << 20))
        '480 MB of 512 MB'
    """
    peak, limit = memory_text(usage.memory_peak_bytes), memory_text(usage.memory_limit_bytes)
    return f"{peak} of {limit}" if peak and limit else peak


def usage_text(usage: Usage) -> str:
    """Return what a replica uses just now, as far as it is known.

    Example:
        >>> usage_text(Usage(cpu_percent=180.4, memory_bytes=480 << 20, processes=3, cpu_s=12.3))
        '180 % CPU, 480 MB, 3 processes'
    """
    parts = [
        None if usage.cpu_percent is None else f"{usage.cpu_percent:.0f} % CPU",
        memory_text(usage.memory_bytes),
        None if usage.processes is None else f"{usage.processes} process{'es' * (usage.processes != 1)}",
        None if usage.gpu_percent is None else f"{usage.gpu_percent:.0f} % GPU",
        f"{memory_text(usage.gpu_memory_bytes)} of GPUs" if usage.gpu_memory_bytes else None,
    ]
    return ", ".join(part for part in parts if part) or "an unknown amount"
