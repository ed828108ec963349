"""Airflow's own metrics, for whoever looks at them: what `torchx_core` counts and measures goes there too."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Final, Protocol, cast

from torchx_core.runner.telemetry import record_metrics

__all__ = ["airflow_stats", "use_airflow_metrics"]

_MODULES: Final = ("airflow.sdk.observability.stats", "airflow.stats")
"""Where `Stats` is: in 3.2 and later, and before."""
_DISTINCT: Final = ("outcome", "state")
"""Attributes that become a part of the name, as plain StatsD has no tags."""


class _Stats(Protocol):
    def incr(self, stat: str, count: int, *, tags: dict[str, str]) -> None: ...
    def timing(self, stat: str, dt: float, *, tags: dict[str, str]) -> None: ...


class _AirflowMetrics:
    def __init__(self, stats: _Stats) -> None:
        self._stats = stats

    def count(self, name: str, number: int, attributes: Mapping[str, str]) -> None:
        """Add to the counter, whose name tells what became of the app or the request."""
        distinct = [attributes[key] for key in _DISTINCT if key in attributes]
        self._stats.incr(".".join([name, *distinct]), number, tags=dict(attributes))

    def measure(self, name: str, seconds: float, attributes: Mapping[str, str]) -> None:
        """Record it in milliseconds, as Airflow does."""
        self._stats.timing(name, seconds * 1000, tags=dict(attributes))


@cache
def use_airflow_metrics() -> None:
    """Have Airflow's metrics count and measure, from now on, what this process does with apps."""
    if (stats := airflow_stats()) is not None:
        record_metrics(_AirflowMetrics(stats))


def airflow_stats() -> _Stats | None:
    """Return what Airflow counts and measures with, None where this Airflow has it elsewhere."""
    for name in _MODULES:
        with suppress(ImportError):
            return cast("_Stats", import_module(name).Stats)
    return None
