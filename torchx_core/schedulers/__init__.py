"""The scheduler interface and what travels over it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import cast

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


def get_scheduler_factories() -> Mapping[str, SchedulerFactory]:
    """Return every known scheduler's factory: `torchx_core.registry.scheduler_factories` by TorchX's name."""
    registry = import_module(
        "torchx_core.registry"
    )  # by name: the registry knows the schedulers, not they it
    return cast("Mapping[str, SchedulerFactory]", registry.scheduler_factories())


def get_default_scheduler_name() -> str:
    """Return the name of the scheduler that is used when none is named."""
    return next(iter(get_scheduler_factories()))
