"""What schedulers answer, and what they can do, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Self

from torchx_core.specs import NONE, AppDef, AppState, AppStatus, Role, RoleStatus

__all__ = [
    "CancelOutcome",
    "Capabilities",
    "DescribeAppResponse",
    "Finding",
    "FollowOptions",
    "ListAppResponse",
    "Stream",
    "Verdict",
]


class Stream(str, Enum):
    """Which output of a replica to read."""

    STDOUT = "stdout"
    STDERR = "stderr"
    COMBINED = "combined"


class CancelOutcome(Enum):
    """What a cancel request came to."""

    REQUESTED = "requested"
    """The request is recorded and the scheduler is serving it."""
    ALREADY_TERMINAL = "already terminal"
    NOT_OWNER = "not owner"
    """``if_owner`` named somebody who no longer owns the app; nothing was done."""
    UNKNOWN_APP = "unknown app"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a scheduler can do; the runner, the docs and the contract tests all read it."""

    tail: bool = False
    """Log lines arrive while the app runs."""
    survives_submitter: bool = False
    """The app goes on when the submitting process dies, and any process can use the handle."""
    submit_once: bool = False
    """A chosen app id is an idempotency key."""
    retries: bool = False
    gang: bool = False
    """One replica failed for good stops the others."""
    deadline: bool = False
    """``timeout_s`` is enforced where the app runs."""
    lease: bool = False
    mounts: bool = False
    resource_limits: bool = False
    reports: bool = False
    workspaces: bool = False
    """A local directory can be laid over a role's image."""
    cancelled_state: bool = False
    """A cancelled app ends CANCELLED for every observer; its stream says before that it is stopping."""
    usage: bool = False
    """What replicas use of their hosts is told, as far as these say."""
    exec: bool = False
    """A command can be run inside a replica."""

    # What is so natural that a scheduler says when it lacks it:
    exit_codes: bool = True
    """The exit code or signal of every replica is told."""
    separate_streams: bool = True
    """stdout and stderr are kept apart."""
    log_times: bool = True
    """Each line bears the time when it was written."""
    grace_period: bool = True
    """The grace period given to `cancel` is kept; otherwise the backend has its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowOptions:
    """What to include in a stream of events."""

    logs: bool = True
    roles: frozenset[str] | None = None
    """Only these roles' lines, changes and reports; None for all."""
    streams: Stream = Stream.COMBINED
    batch_bytes: int = 1 << 20
    """About how much log text one batch may hold: smaller for those who show it slowly."""
    renew: bool = True
    """Whether following renews the app's lease; not for those who only look."""

    def wants_role(self, role: str) -> bool:
        """Return whether the role is one of `roles`."""
        return self.roles is None or role in self.roles


@dataclass
class DescribeAppResponse:
    """Status and description of one app, as the scheduler knows it (fields as in TorchX)."""

    app_id: str = "<NOT_SET>"
    state: AppState = AppState.UNSUBMITTED
    num_restarts: int = -1
    msg: str = NONE
    structured_error_msg: str = NONE
    ui_url: str | None = None
    metadata: dict[str, str] = field(default_factory=dict[str, str])
    roles_statuses: list[RoleStatus] = field(default_factory=list[RoleStatus])
    roles: list[Role] = field(default_factory=list[Role])
    name: str = ""
    result: object = None
    """The last JSON value that the app reported as its result."""

    @classmethod
    def of(cls, app_id: str, app: AppDef, status: AppStatus) -> Self:
        """Return what an app and its status come to."""
        return cls(
            app_id=app_id,
            state=status.state,
            num_restarts=status.num_restarts,
            msg=status.msg,
            structured_error_msg=status.structured_error_msg,
            ui_url=status.ui_url,
            metadata=app.metadata,
            roles_statuses=status.roles,
            roles=app.roles,
            name=app.name,
            result=status.result,
        )

    @property
    def status(self) -> AppStatus:
        """The status alone."""
        return AppStatus(
            state=self.state,
            num_restarts=self.num_restarts,
            msg=self.msg,
            structured_error_msg=self.structured_error_msg,
            ui_url=self.ui_url,
            roles=self.roles_statuses,
            result=self.result,
        )


@dataclass
class ListAppResponse:
    """One line of a scheduler's list of apps (fields as in TorchX)."""

    app_id: str
    state: AppState
    app_handle: str = "<NOT_SET>"
    name: str = ""
    submitted_at: float | None = None
    """Seconds since the epoch."""
    error: str = ""
    """Why the app's record cannot be used, if it cannot; its state is then UNKNOWN."""


class Verdict(str, Enum):
    """What a finding means for whoever wants to run apps here."""

    OK = "ok"
    ABSENT = "absent"
    """Not here, and nobody needs to mind."""
    WARNING = "warning"
    """Apps run, and something about them is worse than it could be."""
    PROBLEM = "problem"
    """Apps do not run, or will fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at on this host (`Scheduler.diagnose`)."""

    subject: str
    """What was looked at, in a word or two."""
    verdict: Verdict
    text: str
    """What was found, on one line."""
    advice: str = ""
    """What to do about it; empty when all is well."""
