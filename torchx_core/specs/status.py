"""How an app, its roles and its replicas are doing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from torchx_core.errors import AppStatusError
from torchx_core.specs.sentinels import NONE
from torchx_core.specs.state import AppState, ReplicaState, is_terminal
from torchx_core.specs.usage import Usage

__all__ = ["AppStatus", "LastLines", "ReplicaStatus", "RoleStatus"]


@dataclass
class ReplicaStatus:
    """The latest attempt of one replica.

    Args:
        id: 0-based number in its role.
        state: Where the attempt is.
        role: Name of the role.
        hostname: Where it runs.
        structured_error_msg: The error file (JSON) that the program wrote, as text.
        hostaddr: Address that other replicas reach it at; empty for ``hostname``.
        exit_code: Of the attempt, when it exited by itself.
        signal: What killed it, for example ``SIGKILL``.
        attempt: 0-based number of the attempt.
        started_at: Seconds since the epoch.
        ended_at: Seconds since the epoch.
        msg: What the scheduler has to say, for example ``out of memory``.
        log_dir: Where its log files are, or empty.
        usage: What it has used, over all attempts that have ended.
    """

    id: int
    state: ReplicaState
    role: str
    hostname: str
    structured_error_msg: str = NONE
    hostaddr: str = ""
    exit_code: int | None = None
    signal: str | None = None
    attempt: int = 0
    started_at: float | None = None
    ended_at: float | None = None
    msg: str = ""
    log_dir: str = ""
    usage: Usage = Usage()  # noqa: RUF009  # it is frozen

    def __post_init__(self) -> None:
        """Default the address to the host name."""
        self.hostaddr = self.hostaddr or self.hostname


class LastLines(NamedTuple):
    """What a replica printed last, oldest first."""

    both: Sequence[str]
    stderr: Sequence[str]


@dataclass
class RoleStatus:
    """The replicas of one role."""

    role: str
    replicas: list[ReplicaStatus]

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        from torchx_core.specs.status_json import role_to_json

        return role_to_json(self)


@dataclass(repr=False)
class AppStatus:
    """The whole app.

    Args:
        state: Where the app is.
        num_restarts: How many times it was started again; -1 when the backend cannot tell.
        msg: What the scheduler has to say, for example who cancelled it.
        structured_error_msg: An error (JSON) that belongs to no replica, as text.
        ui_url: Where to look at the app in a browser.
        roles: The latest attempt of every replica.
        result: The JSON value that the app reported as its result.
        last_lines: Reads what a replica printed last, to tell why the app failed; None where nobody can. No
            part of the status as a value: it is not compared, not written, not pickled.
    """

    state: AppState
    num_restarts: int = 0
    msg: str = ""
    structured_error_msg: str = NONE
    ui_url: str | None = None
    roles: list[RoleStatus] = field(default_factory=list[RoleStatus])
    result: object = None
    last_lines: Callable[[ReplicaStatus], LastLines] | None = field(
        default=None, init=False, repr=False, compare=False
    )

    def __getstate__(self) -> dict[str, object]:
        """Leave behind what reads last lines, which is this process's."""
        return {**vars(self), "last_lines": None}

    def is_terminal(self) -> bool:
        """Return whether the app is over."""
        return is_terminal(self.state)

    def raise_for_status(self) -> None:
        """Do nothing for an app that SUCCEEDED.

        Raises:
            AppStatusError: In any other state; the message is `failure_summary`.
        """
        if self.state is not AppState.SUCCEEDED:
            raise AppStatusError(self, self.failure_summary())

    def failure_summary(self) -> str:
        """Return why the app did not succeed, most telling facts first; empty when it did.

        Leads with the replica, and the rank in it, that failed first: its exit code or signal, its exception
        and where that was raised. Then come the traceback, the scheduler's message, the log directory, the
        other failed replicas, and the last lines of the first, which are read now, if they can be.
        """
        from torchx_core.specs.failure_summary import failure_summary

        return failure_summary(self)

    def failed_replicas(self) -> list[ReplicaStatus]:
        """Return the FAILED replicas, the one that failed first before the others.

        Those whose error is that a peer was gone come after all that have one of their own.
        """
        from torchx_core.specs.failure import by_failure

        failed = [r for role in self.roles for r in role.replicas if r.state is AppState.FAILED]
        return by_failure(failed) if len(failed) > 1 else failed

    def format(self, filter_roles: Collection[str] | None = None) -> str:
        """Return a text for people; ``filter_roles`` limits it to these roles."""
        from torchx_core.specs.status_format import format_status

        return format_status(self, filter_roles)

    def to_json(self, filter_roles: Collection[str] | None = None) -> dict[str, object]:
        """Return plain JSON values that `from_json` reads back (if ``result`` is a JSON value).

        ``ui_url`` is there as ``url`` too, which is TorchX's name for it. No role to filter by is every role.
        """
        from torchx_core.specs.status_json import to_json

        return to_json(self, filter_roles)

    @staticmethod
    def from_json(data: Mapping[str, object]) -> AppStatus:
        """Read what `to_json` gives, or TorchX's; unknown fields (of a newer version) are ignored.

        Raises:
            InvalidInputError: It is no such thing.
        """
        from torchx_core.specs.status_json import from_json

        return from_json(data)

    def __repr__(self) -> str:
        """Return the whole status as YAML."""
        from torchx_core.specs.status_format import as_yaml

        return as_yaml(self)
