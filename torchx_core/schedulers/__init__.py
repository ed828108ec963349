"""The scheduler interface and what travels over it.

Importing this package loads none of its modules: each public name is fetched when it is first used. So a DAG
file, which needs the options of a scheduler alone, is parsed faster.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from torchx_core.schedulers.events import (
        AppEvent,
        Batch,
        Link,
        LogLine,
        LogLines,
        LogsLost,
        Metric,
        Progress,
        ReplicaChanged,
        Result,
        StateChanged,
        UsageSample,
    )
    from torchx_core.schedulers.feed import EventFeed
    from torchx_core.schedulers.responses import (
        CancelOutcome,
        Capabilities,
        DescribeAppResponse,
        Finding,
        FollowOptions,
        ListAppResponse,
        Stream,
        Verdict,
    )
    from torchx_core.schedulers.scheduler import Scheduler, SchedulerFactory

__all__ = [
    "AppEvent",
    "Batch",
    "CancelOutcome",
    "Capabilities",
    "DescribeAppResponse",
    "EventFeed",
    "Finding",
    "FollowOptions",
    "Link",
    "ListAppResponse",
    "LogLine",
    "LogLines",
    "LogsLost",
    "Metric",
    "Progress",
    "ReplicaChanged",
    "Result",
    "Scheduler",
    "SchedulerFactory",
    "StateChanged",
    "Stream",
    "UsageSample",
    "Verdict",
    "get_default_scheduler_name",
    "get_scheduler_factories",
]


_HOMES = {
    **dict.fromkeys(
        (
            "AppEvent",
            "Batch",
            "Link",
            "LogLine",
            "LogLines",
            "LogsLost",
            "Metric",
            "Progress",
            "ReplicaChanged",
            "Result",
            "StateChanged",
            "UsageSample",
        ),
        "events",
    ),
    "EventFeed": "feed",
    **dict.fromkeys(("Scheduler", "SchedulerFactory"), "scheduler"),
}


def __getattr__(name: str) -> object:
    """Import the name's home when it is first used (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module 'torchx_core.schedulers' has no attribute {name!r}")
    return getattr(import_module(f"torchx_core.schedulers.{_HOMES.get(name, 'responses')}"), name)


def get_scheduler_factories() -> Mapping[str, SchedulerFactory]:
    """Return every known scheduler's factory: `torchx_core.registry.scheduler_factories` by TorchX's name."""
    registry = import_module(
        "torchx_core.registry"
    )  # by name: the registry knows the schedulers, not they it
    return cast("Mapping[str, SchedulerFactory]", registry.scheduler_factories())


def get_default_scheduler_name() -> str:
    """Return the name of the scheduler that is used when none is named."""
    return next(iter(get_scheduler_factories()))
