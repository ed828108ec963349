"""The scheduler interface and what travels over it."""

from torchx_core.schedulers.events import (
    AppEvent,
    Batch,
    LogLine,
    LogLines,
    LogsLost,
    Metric,
    Progress,
    ReplicaChanged,
    Result,
    StateChanged,
)
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
from torchx_core.schedulers.scheduler import EventFeed, Scheduler

__all__ = [
    "AppEvent",
    "Batch",
    "CancelOutcome",
    "Capabilities",
    "DescribeAppResponse",
    "EventFeed",
    "Finding",
    "FollowOptions",
    "ListAppResponse",
    "LogLine",
    "LogLines",
    "LogsLost",
    "Metric",
    "Progress",
    "ReplicaChanged",
    "Result",
    "Scheduler",
    "StateChanged",
    "Stream",
    "Verdict",
]
